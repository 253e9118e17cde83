//! The lines of an HTTP/1.x header that decide where a message ends (RFC 9112 §2–§6).

/// What the start line and the fields seen so far say.
#[derive(Clone, Copy, Default)]
pub(super) struct Header {
    /// Status code of a response, 0 for a request.
    pub status: u16,
    /// `Content-Length`, the last one given.
    pub content_length: Option<u64>,
    /// `Transfer-Encoding` ends in `chunked`.
    pub chunked: bool,
    /// `Transfer-Encoding` without `chunked` at its end.
    pub other_coding: bool,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
}

/// A field that means something to the framer.
pub(super) enum Field<'a> {
    /// The product that a side says it is.
    Software(&'a [u8]),
    /// All that concerned the framing was taken into the [`Header`].
    Other,
}

impl Header {
    /// Takes in one field line; lines that are none are ignored.
    pub fn field<'a>(&mut self, line: &'a [u8]) -> Field<'a> {
        let Some(colon) = memchr::memchr(b':', line) else {
            return Field::Other;
        };
        let value = line[colon + 1..].trim_ascii();
        let is = |name: &[u8]| line[..colon].eq_ignore_ascii_case(name);
        match colon {
            6 if is(b"server") => return Field::Software(value),
            10 if is(b"user-agent") => return Field::Software(value),
            6 if is(b"expect") => {
                self.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
            }
            14 if is(b"content-length") => self.content_length = decimal(value),
            17 if is(b"transfer-encoding") => {
                let last = value
                    .rsplit(|&byte| byte == b',')
                    .next()
                    .unwrap_or_default();
                self.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
                self.other_coding = !self.chunked;
            }
            _ => {}
        }
        Field::Other
    }
}

/// Method and target of a request line (RFC 9112 §3).
pub(super) fn request_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = line.splitn(2, |&byte| byte == b' ');
    let method = words.next()?;
    let rest = words.next()?;
    let last = rest.iter().rposition(|&byte| byte == b' ')?;
    let version = &rest[last + 1..];
    let valid = !method.is_empty() && method.iter().all(|&byte| is_method_byte(byte));
    (valid && version.starts_with(b"HTTP/1.")).then_some((method, &rest[..last]))
}

/// Status code of a status line (RFC 9112 §4).
pub(super) fn status_line(line: &[u8]) -> Option<u16> {
    let rest = line
        .strip_prefix(b"HTTP/1.")?
        .get(1..)?
        .strip_prefix(b" ")?;
    let status = decimal(rest.get(..3)?)?;
    u16::try_from(status)
        .ok()
        .filter(|status| (100..1000).contains(status))
}

/// Methods in use are upper-case words, some with a dash (`M-SEARCH`).
pub(super) fn is_method_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'-' || byte == b'_'
}

/// Size of a chunk from its size line (RFC 9112 §7.1); extensions are ignored.
pub(super) fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line
        .iter()
        .position(|&byte| byte == b';')
        .unwrap_or(line.len());
    let digits = line[..end].trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        text.iter()
            .fold(0, |value, digit| value * 10 + u64::from(digit - b'0')),
    )
}
