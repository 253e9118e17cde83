//! The type of content that responses announce, read from compressed headers (RFC 7541). Of the
//! dynamic table only the entries with a relevant type are remembered; nothing is decompressed.

/// Index of `content-type` in the static table (RFC 7541 Appendix A).
const CONTENT_TYPE: u32 = 31;

/// The name `content-type` as a literal, plain and Huffman-coded (RFC 7541 Appendix B).
const NAME: [&[u8]; 2] = [b"content-type", b"\x21\xea\x49\x6a\x4a\xc9\xf5\x59\x7f"];

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

/// Content types learnt from a server's header blocks so far.
#[derive(Clone, Default)]
pub(super) struct ContentTypes {
    /// Number of entries inserted into the dynamic table.
    inserted: u32,
    /// Entries with a relevant type, each with the number of entries inserted before it.
    announced: Vec<(u32, Content)>,
    /// A block was not read: the content of the dynamic table is unknown from then on.
    lost: bool,
}

impl ContentTypes {
    /// Records a header block that cannot be read.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns the bytes of heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.announced.capacity() * size_of::<(u32, Content)>()
    }

    /// Reads a complete header block; returns the content that it announces.
    pub fn read(&mut self, block: &[u8]) -> Content {
        let mut rest = block;
        let mut announced = Content::Whole;
        while !rest.is_empty() && !self.lost {
            match self.field(&mut rest) {
                Some(Content::Whole) => {}
                Some(content) => announced = content,
                None => self.lost = true,
            }
        }
        if self.lost { Content::Whole } else { announced }
    }

    /// Reads one field (RFC 7541 §6).
    fn field(&mut self, rest: &mut &[u8]) -> Option<Content> {
        let first = *rest.first()?;
        if first & 0x80 != 0 {
            return Some(self.known(integer(rest, 7)?));
        }
        if first & 0xe0 == 0x20 {
            integer(rest, 5)?;
            return Some(Content::Whole);
        }
        let is_kept = first & 0x40 != 0;
        let is_content_type = match integer(rest, if is_kept { 6 } else { 4 })? {
            0 => NAME.contains(&string(rest)?.0),
            name => name == CONTENT_TYPE,
        };
        let (value, is_coded) = string(rest)?;
        let content = if is_content_type { content(value, is_coded) } else { Content::Whole };
        if is_kept {
            if content != Content::Whole {
                if self.announced.len() == ANNOUNCED_MAX {
                    self.announced.remove(0);
                }
                self.announced.push((self.inserted, content));
            }
            self.inserted = self.inserted.wrapping_add(1);
        }
        Some(content)
    }

    /// Returns the content announced by a table entry.
    fn known(&self, index: u32) -> Content {
        let Some(back) = index.checked_sub(STATIC_ENTRIES) else { return Content::Whole };
        let place = self.inserted.wrapping_sub(back);
        let announced = self.announced.iter().find(|(entry, _)| back > 0 && *entry == place);
        announced.map_or(Content::Whole, |(_, content)| *content)
    }
}

fn content(value: &[u8], is_coded: bool) -> Content {
    let is = |(plain, coded, _): &&(&[u8], &[u8], Content)| match is_coded {
        true => value.starts_with(coded),
        false => value.get(..plain.len()).is_some_and(|it| it.eq_ignore_ascii_case(plain)),
    };
    TYPES.iter().find(is).map_or(Content::Whole, |(_, _, content)| *content)
}

/// Reads an integer with a prefix of `bits` bits (RFC 7541 §5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Option<u32> {
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
fn string<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
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
        let mut types = ContentTypes::default();
        // `:status: 200`, `content-type: text/event-stream`, `server: a`, added to the dynamic
        // table.
        let coded = b"\x88\x5f\x8c\x49\x7c\xa5\x82\xf7\x2d\x49\x59\x09\xb0\xa3\xa7\x76\x01a";
        assert_eq!(types.read(coded), Content::Events);
        assert_eq!(types.read(b"\x88\xbf\xbe"), Content::Events);
        assert_eq!(types.read(b"\x88\xbe"), Content::Whole);
        assert_eq!(types.read(b"\x88\x5f\x16application/grpc+proto"), Content::Messages);
        assert_eq!(types.read(b"\x88\xbe"), Content::Messages);
        assert_eq!(types.read(b"\x88\xc0"), Content::Events);
    }

    #[test]
    fn name_may_be_written_out() {
        let mut types = ContentTypes::default();
        let block = b"\x88\x40\x0ccontent-type\x10application/grpc\x40\x01a\x01b";
        assert_eq!(types.read(block), Content::Messages);
        assert_eq!(types.read(b"\x88\xbf"), Content::Messages);
        let coded = b"\x00\x89\x21\xea\x49\x6a\x4a\xc9\xf5\x59\x7f\x11text/event-stream";
        assert_eq!(types.read(coded), Content::Events);
    }

    #[test]
    fn fields_outside_the_table_shift_no_index() {
        let mut types = ContentTypes::default();
        assert_eq!(types.read(b"\x5f\x11text/event-stream"), Content::Events);
        // A field never indexed, a new name, and a table size update.
        assert_eq!(
            types.read(b"\x3f\xe1\x1f\x10\x01a\x01b\x0f\x10\x09text/html\xbe"),
            Content::Events
        );
    }

    #[test]
    fn after_a_truncated_or_missing_block_no_type_is_known() {
        for block in [&b"\x5f"[..], b"\x5f\x11text", b"\xff\xff\xff\xff\xff\xff", b"\x40\x7f"] {
            let mut types = ContentTypes::default();
            assert_eq!(types.read(b"\x5f\x11text/event-stream"), Content::Events);
            assert_eq!(types.read(block), Content::Whole);
            assert_eq!(types.read(b"\xbe"), Content::Whole);
        }
    }
}
