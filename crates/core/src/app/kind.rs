//! Labels of requests: the kind of request, without its values.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Maximum length of a label, bytes.
pub const LABEL_BYTES: usize = 64;

/// A kind of request, or the name of a side's software: at most [`LABEL_BYTES`] of printable ASCII,
/// stored in place, because every request has one.
#[derive(Clone, Copy)]
pub struct Label {
    bytes: [u8; LABEL_BYTES],
    len: u8,
}

impl Default for Label {
    fn default() -> Self {
        Self { bytes: [0; LABEL_BYTES], len: 0 }
    }
}

impl Label {
    /// Appends as much of `text` as fits; other characters than printable ASCII become `?`.
    pub(super) fn push(&mut self, text: &[u8]) {
        let room = &mut self.bytes[usize::from(self.len)..];
        let taken = room.len().min(text.len());
        for (slot, &byte) in room.iter_mut().zip(text) {
            *slot = if matches!(byte, b' '..=b'~') { byte } else { b'?' };
        }
        self.len += taken as u8;
    }

    /// Appends `text` in upper case.
    pub(super) fn push_upper(&mut self, text: &[u8]) {
        let from = usize::from(self.len);
        self.push(text);
        self.bytes[from..usize::from(self.len)].make_ascii_uppercase();
    }

    /// Makes the label empty.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns whether the label is empty, which means unknown.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a hash of a few bits, from the positions where kinds differ: the ends and the
    /// middle.
    #[inline]
    pub fn mixed(&self) -> u8 {
        let [first, middle, last] = match self.as_bytes() {
            [] => return 0,
            bytes @ [first, ..] => [*first, bytes[bytes.len() / 2], bytes[bytes.len() - 1]],
        };
        (self.len ^ first).wrapping_mul(7) ^ middle.wrapping_mul(3) ^ last
    }

    /// Returns a hash of the text (FNV-1a).
    pub fn digest(&self) -> u64 {
        self.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |digest, &byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    }

    /// Returns the text as bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        let mut label = Self::default();
        label.push(text.as_bytes());
        label
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl PartialEq for Label {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Label {}

impl PartialOrd for Label {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Label {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Label {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// Returns the label `GET /items/{id}` for a method and a request target (RFC 9112 §3.2); the
/// complete target if `values` is set.
pub(super) fn http_kind(method: &[u8], target: &[u8], values: bool) -> Label {
    let mut kind = Label::default();
    kind.push(method);
    if values {
        kind.push(b" ");
        kind.push(target);
        return kind;
    }
    // A target in authority form names a host, which is a value.
    if method == b"CONNECT" {
        return kind;
    }
    kind.push(b" ");
    push_path(&mut kind, path_of(target));
    kind
}

/// Classes of bytes in a path.
mod class {
    /// `0` to `9`.
    pub const DIGIT: u8 = 1;
    /// `@`.
    pub const AT: u8 = 2;
    /// `/`.
    pub const SLASH: u8 = 4;
    /// The end of the path: query, parameters, fragment.
    pub const END: u8 = 8;
}

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut digit = b'0';
    while digit <= b'9' {
        classes[digit as usize] = class::DIGIT;
        digit += 1;
    }
    classes[b'@' as usize] = class::AT;
    classes[b'/' as usize] = class::SLASH;
    classes[b'?' as usize] = class::END;
    classes[b';' as usize] = class::END;
    classes[b'#' as usize] = class::END;
    classes
};

/// Returns the target from its path on, including what follows the path, without scheme and
/// authority.
fn path_of(target: &[u8]) -> &[u8] {
    if target.first() == Some(&b'/') {
        return target;
    }
    let end = memchr::memchr3(b'?', b';', b'#', target).unwrap_or(target.len());
    let target = &target[..end];
    let Some(scheme) = target.windows(3).position(|window| window == b"://") else {
        return target;
    };
    let rest = &target[scheme + 3..];
    rest.iter().position(|&byte| byte == b'/').map_or(b"/", |slash| &rest[slash..])
}

/// Appends the path at the beginning of `target`. Words are copied in one piece, values replaced
/// one by one.
fn push_path(kind: &mut Label, target: &[u8]) {
    let (mut words_at, mut part_at, mut seen) = (0, 0, 0);
    for at in 0..=target.len() {
        let class = target.get(at).map_or(class::END, |&byte| CLASSES[usize::from(byte)]);
        seen |= class;
        if class & (class::SLASH | class::END) == 0 {
            continue;
        }
        let part = &target[part_at..at];
        if may_be_value(seen, part) {
            kind.push(&target[words_at..part_at]);
            push_part(kind, part);
            words_at = at;
        }
        if class & class::END != 0 {
            kind.push(&target[words_at..at]);
            return;
        }
        (part_at, seen) = (at + 1, 0);
    }
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

/// Number of hexadecimal digits from which on a part is a value.
const HASH_MIN: usize = 8;

/// Returns whether [`is_value`] can be true of a part that contains the classes `seen`, with or
/// without its extension.
#[inline]
fn may_be_value(seen: u8, part: &[u8]) -> bool {
    seen & (class::DIGIT | class::AT) != 0 || part.len() >= HASH_MIN
}

/// Returns whether a path part is a value, not a word: a number, a UUID, 8 or more hexadecimal
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
    let hash = part.len() >= HASH_MIN && hexadecimal == part.len();
    let token = part.len() >= TOKEN_MIN && digits >= 2 || part.len() >= WORDS_MAX;
    number || uuid || hash || token || is_address
}
