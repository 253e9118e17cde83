//! The kind of a request, read from its compressed headers (RFC 7541): the method, and the words of the
//! path. Of the dynamic table only the entries with one of these fields are remembered.

use super::hpack::{Content, content, integer, string};
use super::huffman;
use super::kind::{Label, grpc_kind, http_kind};

/// Number of entries of the static table; the dynamic table follows, its newest entry first.
const STATIC_ENTRIES: u32 = 61;
/// Entries of the static table with the fields in question (RFC 7541 Appendix A).
const METHODS: [(u32, &[u8]); 2] = [(2, b"GET"), (3, b"POST")];
const PATHS: [(u32, &[u8]); 2] = [(4, b"/"), (5, b"/index.html")];
const CONTENT_TYPE: u32 = 31;

/// Maximum length of a path that is read, bytes: a label has no room for more.
const PATH_BYTES_MAX: usize = 256;
/// Maximum number of remembered entries of one connection; a client that asks for more paths than that
/// repeats few of them.
const ENTRIES_MAX: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Method,
    Path,
    ContentType,
}

/// A relevant field; a value that cannot be read is empty.
#[derive(Clone)]
enum Field {
    Method(Box<[u8]>),
    Path(Box<[u8]>),
    Grpc(bool),
}

impl Field {
    fn of(name: Name, (value, is_coded): (&[u8], bool)) -> Self {
        let text = || {
            let text = match is_coded {
                true => huffman::decode(value, PATH_BYTES_MAX),
                false => Some(value.to_vec()).filter(|it| it.len() <= PATH_BYTES_MAX),
            };
            text.unwrap_or_default().into_boxed_slice()
        };
        match name {
            Name::Method => Self::Method(text()),
            Name::Path => Self::Path(text()),
            Name::ContentType => Self::Grpc(content(value, is_coded) == Content::Messages),
        }
    }

    fn name(&self) -> Name {
        match self {
            Self::Method(_) => Name::Method,
            Self::Path(_) => Name::Path,
            Self::Grpc(_) => Name::ContentType,
        }
    }
}

/// The entries of a client's header table that its header blocks have shown so far.
#[derive(Clone, Default)]
pub(super) struct RequestHeaders {
    /// Number of entries inserted into the dynamic table.
    inserted: u32,
    /// Relevant entries, each with the number of entries inserted before it.
    entries: Vec<(u32, Field)>,
    /// A block was not read: the content of the dynamic table is unknown from then on.
    lost: bool,
}

impl RequestHeaders {
    /// Records a header block that cannot be read.
    pub fn lose(&mut self) {
        self.lost = true;
        self.entries = Vec::new();
    }

    /// Returns the bytes of heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        let text = |field: &Field| match field {
            Field::Method(text) | Field::Path(text) => text.len(),
            Field::Grpc(_) => 0,
        };
        let texts: usize = self.entries.iter().map(|(_, field)| text(field)).sum();
        self.entries.capacity() * size_of::<(u32, Field)>() + texts
    }

    /// Reads a complete header block; returns the kind of its request, empty if it shows none. `values`
    /// as in [`http_kind`].
    pub fn read(&mut self, block: &[u8], values: bool) -> Label {
        let mut rest = block;
        let (mut method, mut path, mut is_grpc) = (None, None, false);
        while !rest.is_empty() && !self.lost {
            match self.field(&mut rest) {
                None => self.lose(),
                Some(None) => {}
                Some(Some(Field::Method(text))) => method = Some(text),
                Some(Some(Field::Path(text))) => path = Some(text),
                Some(Some(Field::Grpc(is))) => is_grpc = is,
            }
        }
        match method.zip(path).filter(|(method, _)| !method.is_empty() && !self.lost) {
            Some((_, path)) if is_grpc && !values => grpc_kind(&path),
            Some((method, path)) => http_kind(&method, &path, values),
            None => Label::default(),
        }
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
            // Programs take these names from the static table.
            0 => string(rest).map(|_| None)?,
            CONTENT_TYPE => Some(Name::ContentType),
            index => self.known(index).map(|field| field.name()),
        };
        let value = string(rest)?;
        let field = name.map(|name| Field::of(name, value));
        if is_kept {
            if let Some(field) = &field {
                if self.entries.len() == ENTRIES_MAX {
                    self.entries.remove(0);
                }
                self.entries.push((self.inserted, field.clone()));
            }
            self.inserted = self.inserted.wrapping_add(1);
        }
        Some(field)
    }

    /// Returns the relevant field of a table entry.
    fn known(&self, index: u32) -> Option<Field> {
        let of = |table: &[(u32, &[u8])]| {
            table.iter().find(|(entry, _)| *entry == index).map(|(_, text)| Box::from(*text))
        };
        if let Some(back) = index.checked_sub(STATIC_ENTRIES).filter(|&back| back > 0) {
            let place = self.inserted.wrapping_sub(back);
            return self.entries.iter().find(|(at, _)| *at == place).map(|(_, it)| it.clone());
        }
        of(&METHODS).map(Field::Method).or_else(|| of(&PATHS).map(Field::Path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(headers: &mut RequestHeaders, block: &[u8]) -> String {
        headers.read(block, false).to_string()
    }

    #[test]
    fn methods_and_paths_come_from_both_tables_and_from_literals() {
        let mut headers = RequestHeaders::default();
        // `:method: GET`, `:scheme: http`, `:path: /`.
        assert_eq!(kind(&mut headers, b"\x82\x86\x84"), "GET /");
        // `:path: /sample/path` kept, an authority kept, then both by their indexes.
        assert_eq!(
            kind(&mut headers, b"\x83\x86\x44\x0c/sample/path\x41\x01a"),
            "POST /sample/path"
        );
        assert_eq!(kind(&mut headers, b"\x83\xbf\xbe"), "POST /sample/path");
        // The name of a kept path with another value, which is not kept.
        assert_eq!(kind(&mut headers, b"\x82\x0f\x30\x0b/items/4711"), "GET /items/{id}");
        // `:method: PUT`, and the path Huffman-coded: `/index`.
        assert_eq!(kind(&mut headers, b"\x02\x03PUT\x04\x85\x60\xd5\x48\x5f\x3f"), "PUT /index");
    }

    #[test]
    fn a_call_of_grpc_is_its_service_and_method() {
        let mut headers = RequestHeaders::default();
        let block = b"\x83\x86\x44\x1b/helloworld.Greeter/GetUser\x5f\x10application/grpc";
        assert_eq!(kind(&mut headers, block), "gRPC /helloworld.Greeter/GetUser");
        let values = b"\x83\x04\x0f/shop.zQ9x7/zQ9\x0f\x10\x10application/grpc";
        assert_eq!(kind(&mut headers, values), "gRPC /shop.{id}/{id}");
        assert_eq!(kind(&mut headers, b"\x83\xbf\xbe"), "gRPC /helloworld.Greeter/GetUser");
    }

    #[test]
    fn after_a_block_that_was_not_read_no_kind_is_known() {
        let mut headers = RequestHeaders::default();
        kind(&mut headers, b"\x82\x44\x05/path");
        headers.lose();
        assert_eq!(kind(&mut headers, b"\x82\xbe"), "");
        for block in [&b"\x44"[..], b"\x44\x20/path", b"\xff\xff\xff\xff\xff\xff"] {
            assert_eq!(kind(&mut RequestHeaders::default(), block), "");
        }
    }
}
