//! Labels of requests: the kind of request, without its values.

use super::listed::METHODS;
use super::words::{ends_at, is_plain};
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

    /// Returns a hash of the text.
    pub fn digest(&self) -> u64 {
        digest(self.as_bytes())
    }

    /// Returns the text as bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Returns a hash of `text` (FNV-1a).
pub(super) fn digest(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
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

impl serde::Serialize for Label {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Label {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self::from(text.as_str()))
    }
}

impl Hash for Label {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// Shown in place of a method, a command or a verb that is not listed.
pub(super) const OTHER: &[u8] = b"{other}";
/// Shown in place of a part of a path that is a value.
const VALUE: &[u8] = b"{id}";
/// Shown in place of the host in a request target that names one.
const HOST: &[u8] = b"{host}";

/// Returns the label `GET /items/{id}` for a method and a request target (RFC 9112 §3.2), with
/// `{host}` before the path if the target names a host; the complete target if `values` is set.
pub(super) fn http_kind(method: &[u8], target: &[u8], values: bool) -> Label {
    let mut kind = Label::default();
    kind.push(if values || METHODS.has(method) { method } else { OTHER });
    if values {
        kind.push(b" ");
        kind.push(target);
        return kind;
    }
    kind.push(b" ");
    // A target in authority form names a host, which is a value.
    if method == b"CONNECT" {
        kind.push(HOST);
        return kind;
    }
    if is_absolute(target) {
        kind.push(HOST);
    }
    push_path(&mut kind, path_of(target));
    kind
}

/// Returns the label `gRPC /shop.Cart/AddItem` for the path of a call: names of packages, services and
/// methods are joined by dots.
pub(super) fn grpc_kind(path: &[u8]) -> Label {
    let mut kind = Label::default();
    kind.push(b"gRPC ");
    let mut begin = 0;
    for end in memchr::memchr2_iter(b'/', b'.', path).chain([path.len()]) {
        let part = &path[begin..end];
        kind.push(if part.is_empty() || is_plain(part) { part } else { VALUE });
        kind.push(path.get(end..end + 1).unwrap_or_default());
        begin = end + 1;
    }
    kind
}

/// Returns whether a target has the absolute form, with scheme and host (RFC 9112 §3.2.2).
fn is_absolute(target: &[u8]) -> bool {
    let end = memchr::memchr3(b'/', b'?', b'#', target).unwrap_or(target.len());
    target[..end].ends_with(b":") && target[end..].starts_with(b"//")
}

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

/// Appends the path at the beginning of `target`, with its values replaced.
fn push_path(kind: &mut Label, target: &[u8]) {
    let end = memchr::memchr3(b'?', b';', b'#', target).unwrap_or(target.len());
    let path = &target[..end];
    // `OPTIONS *` asks for no path.
    if path == b"*" {
        kind.push(path);
        return;
    }
    for (number, part) in path.split(|&byte| byte == b'/').enumerate() {
        if number > 0 {
            kind.push(b"/");
        }
        if is_plain(part) {
            kind.push(part);
        } else {
            kind.push(VALUE);
            kind.push(&part[ends_at(part)..]);
        }
    }
}

/// Maximum length of a host with its port: a name (RFC 1035 §2.3.4), a colon, and a number.
const HOST_BYTES_MAX: usize = 261;

/// Returns where a redirect leads (`Location`, RFC 9110 §10.2.2) as it is shown: the host, and the
/// path with its values replaced. User, password, query and fragment are not shown.
pub fn redirect(location: &[u8]) -> String {
    let end = memchr::memchr3(b'?', b';', b'#', location).unwrap_or(location.len());
    let target = &location[..end];
    let scheme = target.windows(3).position(|window| window == b"://");
    let authority = scheme.map(|at| at + 3).or(target.starts_with(b"//").then_some(2));
    let mut shown = String::new();
    let Some(begin) = authority else {
        push_shown_path(&mut shown, target);
        return shown;
    };
    let is_of_http =
        |it: &[u8]| [&b"http"[..], b"https"].iter().any(|one| it.eq_ignore_ascii_case(one));
    match scheme.map(|at| &target[..at]) {
        Some(scheme) if is_of_http(scheme) => {
            shown.push_str(&String::from_utf8_lossy(scheme).to_ascii_lowercase());
            shown.push(':');
        }
        Some(_) => shown.push_str("{other}:"),
        None => {}
    }
    let rest = &target[begin..];
    let slash = memchr::memchr(b'/', rest).unwrap_or(rest.len());
    let host = &rest[..slash];
    let host = memchr::memrchr(b'@', host).map_or(host, |at| &host[at + 1..]);
    let is_of_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(byte);
    let host = Some(host).filter(|it| it.len() <= HOST_BYTES_MAX && it.iter().all(is_of_host));
    shown.push_str("//");
    shown.push_str(&String::from_utf8_lossy(host.unwrap_or(VALUE)));
    push_shown_path(&mut shown, &rest[slash..]);
    shown
}

/// Appends a path with its values replaced.
fn push_shown_path(shown: &mut String, path: &[u8]) {
    let mut label = Label::default();
    push_path(&mut label, path);
    shown.push_str(&label);
}

#[cfg(test)]
mod tests {
    use super::redirect;

    #[test]
    fn a_redirect_shows_its_host_and_the_words_of_its_path() {
        for (location, shown) in [
            ("/login", "/login"),
            ("/login/4711?next=%2Fsecret#there", "/login/{id}"),
            (
                "HTTPS://user:word@login.example:8443/v1/zQ9x7/start",
                "https://login.example:8443/v1/{id}/start",
            ),
            ("https://[2001:db8::1]/", "https://[2001:db8::1]/"),
            ("http://host.example?token=x", "http://host.example"),
            ("//host.example/login", "//host.example/login"),
            ("zQ9x7://zQ9x7 k/login", "{other}://{id}/login"),
            ("zQ9x7", "{id}"),
            ("//", "//"),
            ("", ""),
        ] {
            assert_eq!(redirect(location.as_bytes()), shown, "{location}");
        }
        let long = format!("http://{}/", "a".repeat(300));
        assert_eq!(redirect(long.as_bytes()), "http://{id}/");
    }
}
