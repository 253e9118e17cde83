//! The type of content that responses announce, and the errors that they report, read from
//! compressed headers (RFC 7541). Of the dynamic table only the entries with a relevant field are
//! remembered; nothing is decompressed but digits.

use super::error_code::ErrorCode;

/// Index of `content-type` in the static table (RFC 7541 Appendix A).
const CONTENT_TYPE: u32 = 31;

/// Entries of the static table with `:status`, and their values.
const STATUSES: [(u32, u16); 7] =
    [(8, 200), (9, 204), (10, 206), (11, 304), (12, 400), (13, 404), (14, 500)];

/// The relevant names as literals, plain and Huffman-coded (RFC 7541 Appendix B).
const NAMES: [(&[u8], &[u8], Name); 2] = [
    (b"content-type", b"\x21\xea\x49\x6a\x4a\xc9\xf5\x59\x7f", Name::ContentType),
    (b"grpc-status", b"\x9a\xca\xc8\xb2\x12\x34\xda\x8f", Name::GrpcStatus),
];

/// Number of entries of the static table; the dynamic table follows, its newest entry first.
const STATIC_ENTRIES: u32 = 61;

/// Maximum number of remembered entries of one connection; a server has few.
const ANNOUNCED_MAX: usize = 16;

/// The way in which a response body is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// The body is delivered as a whole, as far as known.
    #[default]
    Whole,
    /// The body consists of events, each sent when it happens.
    Events,
    /// The body consists of gRPC messages, each preceded by its length.
    Messages,
}

/// The relevant types, plain and Huffman-coded (RFC 7541 Appendix B), without the bits that share a
/// byte with what may follow.
const TYPES: [(&[u8], &[u8], Content); 2] = [
    (b"text/event-stream", b"\x49\x7c\xa5\x82\xf7\x2d\x49\x59\x09\xb0\xa3", Content::Events),
    (b"application/grpc", b"\x1d\x75\xd0\x62\x0d\x26\x3d\x4c\x4d\x65\x64", Content::Messages),
];

/// The name of a relevant field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    ContentType,
    Status,
    GrpcStatus,
}

/// A relevant field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Type(Content),
    Status(u16),
    GrpcStatus(u16),
}

impl Field {
    fn name(self) -> Name {
        match self {
            Self::Type(_) => Name::ContentType,
            Self::Status(_) => Name::Status,
            Self::GrpcStatus(_) => Name::GrpcStatus,
        }
    }

    /// Reads the value of a field.
    fn of(name: Name, (value, is_coded): (&[u8], bool)) -> Option<Self> {
        let number = || if is_coded { coded_number(value) } else { plain_number(value) };
        Some(match name {
            Name::ContentType => Self::Type(content(value, is_coded)),
            Name::Status => Self::Status(number()?),
            Name::GrpcStatus => Self::GrpcStatus(number()?),
        })
    }
}

/// The facts in a header block that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Announced {
    pub content: Content,
    pub error: Option<ErrorCode>,
}

impl Announced {
    fn take(&mut self, field: Field) {
        match field {
            Field::Type(Content::Whole) => {}
            Field::Type(content) => self.content = content,
            Field::Status(status) => self.error = self.error.or(ErrorCode::of_http(status)),
            Field::GrpcStatus(status) => self.error = ErrorCode::of_grpc(status).or(self.error),
        }
    }
}

/// Relevant fields learnt from a server's header blocks so far.
#[derive(Clone, Default)]
pub(super) struct ResponseHeaders {
    /// Number of entries inserted into the dynamic table.
    inserted: u32,
    /// Relevant entries, each with the number of entries inserted before it.
    announced: Vec<(u32, Field)>,
    /// A block was not read: the content of the dynamic table is unknown from then on.
    lost: bool,
}

impl ResponseHeaders {
    /// Records a header block that cannot be read.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns the bytes of heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.announced.capacity() * size_of::<(u32, Field)>()
    }

    /// Reads a complete header block; returns what it states.
    pub fn read(&mut self, block: &[u8]) -> Announced {
        let mut rest = block;
        let mut announced = Announced::default();
        while !rest.is_empty() && !self.lost {
            match self.field(&mut rest) {
                Some(field) => field.into_iter().for_each(|field| announced.take(field)),
                None => self.lost = true,
            }
        }
        if self.lost { Announced::default() } else { announced }
    }

    /// Reads one field (RFC 7541 §6); the inner `None` is one that is not relevant.
    fn field(&mut self, rest: &mut &[u8]) -> Option<Option<Field>> {
        let first = *rest.first()?;
        if first & 0x80 != 0 {
            return Some(self.known(integer(rest, 7)?));
        }
        if first & 0xe0 == 0x20 {
            integer(rest, 5)?;
            return Some(None);
        }
        let is_kept = first & 0x40 != 0;
        let name = match integer(rest, if is_kept { 6 } else { 4 })? {
            0 => name_of(string(rest)?),
            CONTENT_TYPE => Some(Name::ContentType),
            index => self.known(index).map(Field::name),
        };
        let value = string(rest)?;
        let field = name.and_then(|name| Field::of(name, value));
        if is_kept {
            if let Some(field) = field {
                if self.announced.len() == ANNOUNCED_MAX {
                    self.announced.remove(0);
                }
                self.announced.push((self.inserted, field));
            }
            self.inserted = self.inserted.wrapping_add(1);
        }
        Some(field)
    }

    /// Returns the relevant field of a table entry.
    fn known(&self, index: u32) -> Option<Field> {
        let Some(back) = index.checked_sub(STATIC_ENTRIES).filter(|&back| back > 0) else {
            let status = STATUSES.iter().find(|(entry, _)| *entry == index);
            return status.map(|(_, status)| Field::Status(*status));
        };
        let place = self.inserted.wrapping_sub(back);
        let announced = self.announced.iter().find(|(entry, _)| *entry == place);
        announced.map(|(_, field)| *field)
    }
}

fn name_of((name, is_coded): (&[u8], bool)) -> Option<Name> {
    let is =
        |(plain, coded, _): &&(&[u8], &[u8], Name)| name == if is_coded { *coded } else { *plain };
    NAMES.iter().find(is).map(|(_, _, name)| *name)
}

pub(super) fn content(value: &[u8], is_coded: bool) -> Content {
    let is = |(plain, coded, _): &&(&[u8], &[u8], Content)| match is_coded {
        true => value.starts_with(coded),
        false => value.get(..plain.len()).is_some_and(|it| it.eq_ignore_ascii_case(plain)),
    };
    TYPES.iter().find(is).map_or(Content::Whole, |(_, _, content)| *content)
}

/// Maximum number of digits of a status.
const DIGITS_MAX: usize = 3;

fn plain_number(digits: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(digits).ok()?;
    text.parse().ok().filter(|_| digits.len() <= DIGITS_MAX)
}

/// Reads a number with Huffman-coded digits (RFC 7541 Appendix B): 0 to 2 have the codes 0 to 2 of
/// five bits, 3 to 9 the codes 25 to 31 of six. The bits after them are ones.
fn coded_number(coded: &[u8]) -> Option<u16> {
    if coded.len() > DIGITS_MAX {
        return None;
    }
    let mut bits = 8 * coded.len() as u32;
    let all = coded.iter().fold(0, |all: u32, &byte| all << 8 | u32::from(byte));
    let mut value = None;
    // No digit begins with a one.
    while bits >= 5 && all >> (bits - 1) & 1 == 0 {
        let five = all >> (bits - 5) & 0x1f;
        let digit = if five <= 2 {
            bits -= 5;
            five
        } else {
            let Some(after) = bits.checked_sub(6) else { break };
            bits = after;
            (all >> bits & 0x3f).checked_sub(22).filter(|digit| (3..=9).contains(digit))?
        };
        value = Some(value.unwrap_or(0) * 10 + digit as u16);
    }
    value
}

/// Reads an integer with a prefix of `bits` bits (RFC 7541 §5.1).
pub(super) fn integer(rest: &mut &[u8], bits: u32) -> Option<u32> {
    let (&first, mut bytes) = rest.split_first()?;
    let most = (1 << bits) - 1;
    let mut value = u32::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, next) = bytes.split_first()?;
            bytes = next;
            let part = u32::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 28)?;
            value = value.checked_add(part)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = bytes;
    Some(value)
}

/// Reads a string; the flag is `true` if it is Huffman-coded (RFC 7541 §5.2).
pub(super) fn string<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
    let is_coded = rest.first()? & 0x80 != 0;
    let len = integer(rest, 7)? as usize;
    let (value, next) = rest.split_at_checked(len)?;
    *rest = next;
    Some((value, is_coded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_is_recognised_by_its_index_in_the_table() {
        let mut types = ResponseHeaders::default();
        // `:status: 200`, `content-type: text/event-stream`, `server: a`, added to the dynamic
        // table.
        let coded = b"\x88\x5f\x8c\x49\x7c\xa5\x82\xf7\x2d\x49\x59\x09\xb0\xa3\xa7\x76\x01a";
        assert_eq!(types.read(coded).content, Content::Events);
        assert_eq!(types.read(b"\x88\xbf\xbe").content, Content::Events);
        assert_eq!(types.read(b"\x88\xbe").content, Content::Whole);
        assert_eq!(types.read(b"\x88\x5f\x16application/grpc+proto").content, Content::Messages);
        assert_eq!(types.read(b"\x88\xbe").content, Content::Messages);
        assert_eq!(types.read(b"\x88\xc0").content, Content::Events);
    }

    #[test]
    fn name_may_be_written_out() {
        let mut types = ResponseHeaders::default();
        let block = b"\x88\x40\x0ccontent-type\x10application/grpc\x40\x01a\x01b";
        assert_eq!(types.read(block).content, Content::Messages);
        assert_eq!(types.read(b"\x88\xbf").content, Content::Messages);
        let coded = b"\x00\x89\x21\xea\x49\x6a\x4a\xc9\xf5\x59\x7f\x11text/event-stream";
        assert_eq!(types.read(coded).content, Content::Events);
    }

    #[test]
    fn fields_outside_the_table_shift_no_index() {
        let mut types = ResponseHeaders::default();
        assert_eq!(types.read(b"\x5f\x11text/event-stream").content, Content::Events);
        // A field never indexed, a new name, and a table size update.
        let block = b"\x3f\xe1\x1f\x10\x01a\x01b\x0f\x10\x09text/html\xbe";
        assert_eq!(types.read(block).content, Content::Events);
    }

    #[test]
    fn after_a_truncated_or_missing_block_no_type_is_known() {
        for block in [&b"\x5f"[..], b"\x5f\x11text", b"\xff\xff\xff\xff\xff\xff", b"\x40\x7f"] {
            let mut types = ResponseHeaders::default();
            assert_eq!(types.read(b"\x5f\x11text/event-stream").content, Content::Events);
            assert_eq!(types.read(block).content, Content::Whole);
            assert_eq!(types.read(b"\xbe").content, Content::Whole);
        }
    }

    #[test]
    fn errors_are_read_from_static_and_dynamic_entries_and_literals() {
        let mut types = ResponseHeaders::default();
        assert_eq!(types.read(b"\x88").error, None);
        assert_eq!(types.read(b"\x8e").error, Some(ErrorCode::Http(500)));
        // `:status: 503`, Huffman-coded and added to the dynamic table, then by its index; then
        // `:status: 429` as a literal.
        assert_eq!(types.read(b"\x48\x83\x6c\x0c\xff").error, Some(ErrorCode::Http(503)));
        assert_eq!(types.read(b"\xbe").error, Some(ErrorCode::Http(503)));
        assert_eq!(types.read(b"\x08\x03429").error, Some(ErrorCode::Http(429)));
    }

    #[test]
    fn trailers_of_grpc_report_its_status() {
        let mut types = ResponseHeaders::default();
        let coded = b"\x40\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x0214";
        assert_eq!(types.read(coded).error, Some(ErrorCode::Grpc(14)));
        // The name by its index, with the value 0, which replaces it; then all by index.
        assert_eq!(types.read(b"\x7e\x010").error, None);
        assert_eq!(types.read(b"\xbe").error, None);
        assert_eq!(types.read(b"\xbf").error, Some(ErrorCode::Grpc(14)));
    }
}
