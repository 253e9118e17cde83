//! The header lines of HTTP/1.x that determine where a message ends (RFC 9112 §2–§6).

use super::mark::Extent;

use crate::wire::Side;

/// The relevant values of the start line and the fields seen so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Header {
    /// Status code of a response, 0 for a request.
    pub status: u16,
    /// The last `Content-Length`.
    pub content_length: Length,
    /// `true` if `Transfer-Encoding` ends in `chunked`.
    pub chunked: bool,
    /// `Transfer-Encoding` is set and does not end in `chunked`.
    pub other_coding: bool,
    /// `true` for `Expect: 100-continue`.
    pub expects_continue: bool,
    /// `true` if the body is a stream of events (`text/event-stream`), each sent when it happens.
    pub is_event_stream: bool,
    /// `true` for `Upgrade: websocket`.
    pub is_web_socket: bool,
    /// `true` for `Upgrade: h2c` (RFC 7540 §3.2).
    pub is_h2c: bool,
    /// The version is HTTP/1.0.
    pub is_http10: bool,
    /// `Connection: close` (`Some(true)`) or `Connection: keep-alive` (`Some(false)`).
    pub closes: Option<bool>,
    /// The delay that `Retry-After` states, seconds; one that is stated as a date is not read.
    pub retry_after_s: Option<u32>,
}

/// An optional length in the space of a `u64`: there are two for every open connection.
#[derive(Clone, Copy)]
pub(super) struct Length(u64);

impl Length {
    /// The value for no length.
    const NONE: u64 = u64::MAX;

    pub fn known(self) -> Option<u64> {
        (self.0 != Self::NONE).then_some(self.0)
    }
}

impl Default for Length {
    fn default() -> Self {
        Self(Self::NONE)
    }
}

impl From<Option<u64>> for Length {
    fn from(length: Option<u64>) -> Self {
        Self(length.unwrap_or(Self::NONE))
    }
}

/// A field that is relevant for the framer.
pub(super) enum Field<'a> {
    /// The software that the sender states.
    Software(&'a [u8]),
    /// Any other field; the [`Header`] contains what matters for the framing.
    Other,
}

impl Header {
    /// Returns whether the connection ends with this message and its response (RFC 9112 §9.3, §9.6).
    pub fn ends_connection(&self) -> bool {
        self.closes.unwrap_or(self.is_http10)
    }

    /// Returns the ends of the parts of a message that `from` sends with this header; `None` for
    /// the special cases of RFC 9112 §6.3 and for messages too long for one packet.
    pub fn extent(&self, from: Side, start_line: usize, header: usize) -> Option<Extent> {
        let length = self.content_length.known();
        let body = match from {
            Side::Client => length.unwrap_or(0),
            Side::Server => length?,
        };
        let interim = from == Side::Server && self.status < 200;
        let bodiless = from == Side::Server && matches!(self.status, 204 | 304);
        let special = interim
            || bodiless
            || self.chunked
            || self.other_coding
            || self.expects_continue
            || self.is_event_stream
            || self.retry_after_s.is_some();
        if special {
            return None;
        }
        let ends = [start_line as u64, header as u64, (header as u64).checked_add(body)?];
        let [start_line, header, message] = ends.map(u32::try_from);
        Some(Extent { start_line: start_line.ok()?, header: header.ok()?, message: message.ok()? })
    }

    /// Processes a field line; invalid lines are ignored.
    #[inline]
    pub fn field<'a>(&mut self, line: &'a [u8]) -> Field<'a> {
        // The first letter excludes most lines, and the position of the colon the rest.
        let value = |name: usize| line[name + 1..].trim_ascii();
        match line.first().map(u8::to_ascii_lowercase) {
            Some(b's') if is(line, b"Server") => Field::Software(value(6)),
            Some(b'u') if is(line, b"User-Agent") => Field::Software(value(10)),
            Some(b'e') if is(line, b"Expect") => {
                self.expects_continue = value(6).eq_ignore_ascii_case(b"100-continue");
                Field::Other
            }
            Some(b'c') if is(line, b"Content-Length") => {
                self.content_length = decimal(value(14)).into();
                Field::Other
            }
            Some(b'c') if is(line, b"Connection") => {
                let mut options = value(10).split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                self.closes = options.find_map(|option| match option {
                    _ if option.eq_ignore_ascii_case(b"close") => Some(true),
                    _ if option.eq_ignore_ascii_case(b"keep-alive") => Some(false),
                    _ => None,
                });
                Field::Other
            }
            Some(b'c') if is(line, b"Content-Type") => {
                const EVENTS: &[u8] = b"text/event-stream";
                let begins = value(12).get(..EVENTS.len());
                self.is_event_stream = begins.is_some_and(|it| it.eq_ignore_ascii_case(EVENTS));
                Field::Other
            }
            Some(b'u') if is(line, b"Upgrade") => {
                self.is_web_socket = value(7).eq_ignore_ascii_case(b"websocket");
                self.is_h2c = value(7).eq_ignore_ascii_case(b"h2c");
                Field::Other
            }
            // RFC 9110 §10.2.3.
            Some(b'r') if is(line, b"Retry-After") => {
                self.retry_after_s = decimal(value(11)).and_then(|it| u32::try_from(it).ok());
                Field::Other
            }
            Some(b't') if is(line, b"Transfer-Encoding") => {
                let last = value(17).rsplit(|&byte| byte == b',').next().unwrap_or_default();
                self.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
                self.other_coding = !self.chunked;
                Field::Other
            }
            _ => Field::Other,
        }
    }
}

/// Returns whether a field has the name `name`, in any case; most programs use the case given.
#[inline]
fn is<const N: usize>(line: &[u8], name: &[u8; N]) -> bool {
    let written = line.first_chunk::<N>().filter(|_| line.get(N) == Some(&b':'));
    written.is_some_and(|written| written == name || written.eq_ignore_ascii_case(name))
}

/// Splits a request line into method and target (RFC 9112 §3): a recipient may take several spaces for one.
#[inline]
pub(super) fn request_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let method_len = line.iter().position(|&byte| !is_method_byte(byte))?;
    let (method, rest) = line.split_at(method_len);
    let rest = rest.strip_prefix(b" ")?;
    // If the version is a current one, no search is needed.
    let target = match rest.split_last_chunk() {
        Some((target, b" HTTP/1.0" | b" HTTP/1.1")) => target,
        _ => {
            let last = rest.iter().rposition(|&byte| byte == b' ')?;
            rest[last + 1..].starts_with(b"HTTP/1.").then_some(&rest[..last])?
        }
    };
    (!method.is_empty()).then_some((method, target.trim_ascii()))
}

/// Returns the status code of a status line (RFC 9112 §4).
#[inline]
pub(crate) fn status_line(line: &[u8]) -> Option<u16> {
    // Any digit is a minor version (§2.3); another byte is damage.
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9', b' ', digits @ ..] = line else {
        return None;
    };
    let status = digits.first_chunk::<3>().filter(|it| it.iter().all(u8::is_ascii_digit))?;
    let status = status.iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
    (status >= 100).then_some(status)
}

/// Returns whether a byte may be part of a method: upper-case words, some with a dash (`M-SEARCH`).
pub(crate) fn is_method_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'-' || byte == b'_'
}

/// Parses the size of a chunk from its size line (RFC 9112 §7.1); extensions are ignored.
pub(crate) fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|&byte| byte == b';').unwrap_or(line.len());
    let digits = line[..end].trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value * 10 + u64::from(digit))
    })
}
