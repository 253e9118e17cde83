//! Labels of requests: what was asked for, without the values that were asked with.

use super::exchanges::LABEL_BYTES;

/// A label under construction: at most [`LABEL_BYTES`] of printable ASCII.
pub(super) struct Label {
    bytes: [u8; LABEL_BYTES],
    len: usize,
}

impl Label {
    pub fn new() -> Self {
        Self { bytes: [0; LABEL_BYTES], len: 0 }
    }

    pub fn push(&mut self, text: &[u8]) {
        let room = &mut self.bytes[self.len..];
        let taken = room.len().min(text.len());
        for (slot, &byte) in room.iter_mut().zip(text) {
            *slot = if matches!(byte, b' '..=b'~') { byte } else { b'?' };
        }
        self.len += taken;
    }

    /// Appends in upper case.
    pub fn push_upper(&mut self, text: &[u8]) {
        let from = self.len;
        self.push(text);
        self.bytes[from..self.len].make_ascii_uppercase();
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

/// `GET /items/{id}` from a method and a request target (RFC 9112 §3.2); the target as it stands
/// where `values` may be shown.
pub(super) fn http_kind(method: &[u8], target: &[u8], values: bool) -> Label {
    let mut kind = Label::new();
    kind.push(method);
    if values {
        kind.push(b" ");
        kind.push(target);
        return kind;
    }
    // The authority form names a host, which is a value.
    if method == b"CONNECT" {
        return kind;
    }
    kind.push(b" ");
    let path = path_of(target);
    for (at, part) in path.split(|&byte| byte == b'/').enumerate() {
        if at > 0 {
            kind.push(b"/");
        }
        push_part(&mut kind, part);
    }
    kind
}

/// The path without scheme, authority, query, parameters and fragment.
fn path_of(target: &[u8]) -> &[u8] {
    let end = memchr::memchr3(b'?', b';', b'#', target).unwrap_or(target.len());
    let target = &target[..end];
    if target.first() == Some(&b'/') {
        return target;
    }
    let Some(scheme) = target.windows(3).position(|window| window == b"://") else {
        return target;
    };
    let rest = &target[scheme + 3..];
    rest.iter().position(|&byte| byte == b'/').map_or(b"/", |slash| &rest[slash..])
}

fn push_part(kind: &mut Label, part: &[u8]) {
    let dot = memchr::memrchr(b'.', part).filter(|&dot| dot > 0);
    let (stem, extension) = part.split_at(dot.unwrap_or(part.len()));
    let names_a_type = (2..=6).contains(&extension.len());
    if is_value(part) {
        kind.push(b"{id}");
    } else if names_a_type && is_value(stem) {
        kind.push(b"{id}");
        kind.push(extension);
    } else {
        kind.push(part);
    }
}

/// Whether a path part is a value rather than a word: a number, a UUID, 8 or more hexadecimal
/// digits, a long token with digits in it, or an address.
fn is_value(part: &[u8]) -> bool {
    const TOKEN_MIN: usize = 20;
    const WORDS_MAX: usize = 40;
    let (mut digits, mut hexadecimal, mut dashes, mut is_address) = (0, 0, 0, false);
    for byte in part {
        digits += usize::from(byte.is_ascii_digit());
        hexadecimal += usize::from(byte.is_ascii_hexdigit());
        dashes += usize::from(*byte == b'-');
        is_address |= *byte == b'@';
    }
    let number = digits > 0 && digits == part.len();
    let uuid = part.len() == 36 && dashes == 4 && hexadecimal == 32;
    let hash = part.len() >= 8 && hexadecimal == part.len();
    let token = part.len() >= TOKEN_MIN && digits >= 2 || part.len() >= WORDS_MAX;
    number || uuid || hash || token || is_address
}
