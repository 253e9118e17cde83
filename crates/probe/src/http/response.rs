//! Finds the begin and the end of each response in the received bytes.

use std::fmt;
use std::mem::MaybeUninit;

use tcpwhy_core::app;

use super::{Health, http2, websocket};

/// Greatest number of bytes of a header section.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Greatest number of header fields.
const FIELDS_MAX: usize = 128;
/// Greatest number of bytes of a chunk's size line, including its extensions.
const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;

/// A complete response, without its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Number of bytes on the wire, including the header section and the framing of chunks.
    pub wire_bytes: u64,
    /// `true` if the connection accepts another request (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// Where the `Location` field leads, without its values, if the response has one.
    pub location: Option<String>,
    /// The `Location` field as it was received, of a redirect; `None` from a terse reader.
    pub redirect: Option<String>,
    /// The delay for which a response with status 429 or 503 asks, if it states one.
    pub retry_after: Option<RetryAfter>,
    /// The known programs that the `Server` field states.
    pub server: Option<String>,
    /// The answer to a health check of gRPC; `None` if none was asked for, or if the status is not 200.
    pub health: Option<Health>,
}

/// The delay that a `Retry-After` field states (RFC 9110 §10.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// A number of seconds.
    Seconds(u32),
    /// A date.
    Date,
}

impl RetryAfter {
    /// Reads the field: seconds, or else a date.
    pub(super) fn read(value: &[u8]) -> RetryAfter {
        let seconds = std::str::from_utf8(value).ok().and_then(|it| it.parse().ok());
        seconds.map_or(RetryAfter::Date, RetryAfter::Seconds)
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetryAfter::Seconds(seconds) => write!(to, "{seconds} s"),
            RetryAfter::Date => write!(to, "until a date"),
        }
    }
}

impl Response {
    /// Returns whether the response asks its client to send fewer requests: with status 429 (RFC
    /// 6585 §4), or with 503 and a delay (RFC 9110 §15.6.4).
    pub fn asks_for_fewer(&self) -> bool {
        self.status == 429 || self.status == 503 && self.retry_after.is_some()
    }

    /// Notes where a `Location` field leads; also the field itself if `keeps_all`.
    pub(super) fn lead_to(&mut self, value: &[u8], keeps_all: bool) {
        self.location = Some(app::redirect(value));
        self.redirect = keeps_all.then(|| String::from_utf8_lossy(value).into_owned());
    }
}

/// The result of [`ResponseReader::push`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes belong to a response that is not complete yet.
    Incomplete,
    /// The response is complete.
    Complete {
        /// Number of bytes of this call that belong to the response.
        used: usize,
        /// The response.
        response: Response,
    },
}

/// The reason why bytes are not a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The bytes are not HTTP/1.
    #[error("the answer is not HTTP/1.1: {0}")]
    NotHttp(String),
    /// The bytes are HTTP/2.
    #[error("the server answers in HTTP/2 and not in HTTP/1.1; use --http2")]
    Http2,
    /// An answer with status 101 opens no WebSocket.
    #[error("the answer with status 101 is no handshake of a WebSocket: {0} (RFC 6455 §4.1)")]
    Upgrade(&'static str),
    /// A header section does not end.
    #[error("the header section of the answer is longer than 64 KiB")]
    HeaderTooLong,
    /// The length is invalid.
    #[error("the length of the answer cannot be determined: {0}")]
    Length(&'static str),
    /// The connection was closed before the response was complete.
    #[error("the connection was closed before the answer was complete")]
    Truncated,
}

/// Reads the responses in the bytes of a connection one after the other, from pieces of any size.
/// Bodies are counted and discarded.
#[derive(Debug)]
pub struct ResponseReader {
    /// The request was HEAD: the response states a length and has no body (RFC 9110 §9.3.2).
    to_head: bool,
    /// Leaves out `server` after the first response, and `location` unless the response is a
    /// redirect.
    is_terse: bool,
    /// The value of `Sec-WebSocket-Accept` that an answer with status 101 needs.
    accept: Option<String>,
    has_read_one: bool,
    state: ResponseState,
    /// Bytes of a header section or of a chunk's line whose end has not arrived.
    partial: Vec<u8>,
    response: Response,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseState {
    Header,
    /// Number of bytes of the body that have not arrived.
    Body(u64),
    ChunkSize,
    /// Number of bytes of a chunk and its line end that have not arrived.
    Chunk(u64),
    Trailer,
    UntilClose,
}

impl ResponseReader {
    /// Creates a reader at the start of a connection; `to_head` if every request on it is a HEAD.
    pub fn new(to_head: bool) -> ResponseReader {
        let (partial, response) = (Vec::new(), Response::default());
        let (is_terse, has_read_one, state) = (false, false, ResponseState::Header);
        let accept = None;
        ResponseReader { to_head, is_terse, accept, has_read_one, state, partial, response }
    }

    /// Requires that an answer with status 101 has this value of `Sec-WebSocket-Accept`.
    #[must_use]
    pub fn accepting(self, accept: Option<String>) -> ResponseReader {
        ResponseReader { accept, ..self }
    }

    /// Creates a reader for many responses, which keeps `server` only of the first and `location`
    /// only of redirects. Reading the others allocates nothing.
    pub fn terse(to_head: bool) -> ResponseReader {
        ResponseReader { is_terse: true, ..ResponseReader::new(to_head) }
    }

    /// Returns whether a response has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.state != ResponseState::Header || !self.partial.is_empty()
    }

    /// Reads the next bytes of the connection, up to the end of a response.
    ///
    /// # Errors
    /// The bytes are no HTTP/1.1 response.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress, ResponseError> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let ended = match self.state {
                ResponseState::Header => {
                    let (taken, ended) = self.header(rest)?;
                    used += taken;
                    ended
                }
                ResponseState::Body(left) => {
                    let taken = left.min(rest.len() as u64);
                    used += self.take(taken);
                    self.state = ResponseState::Body(left - taken);
                    left == taken
                }
                ResponseState::Chunk(left) => {
                    let taken = left.min(rest.len() as u64);
                    used += self.take(taken);
                    self.state = if left == taken {
                        ResponseState::ChunkSize
                    } else {
                        ResponseState::Chunk(left - taken)
                    };
                    false
                }
                ResponseState::ChunkSize => {
                    let Some(line) = self.line(rest, &mut used)? else { continue };
                    self.state = match chunk_bytes(&line)? {
                        0 => ResponseState::Trailer,
                        size => ResponseState::Chunk(size + 2),
                    };
                    false
                }
                ResponseState::Trailer => match self.line(rest, &mut used)? {
                    Some(line) => line.is_empty(),
                    None => continue,
                },
                ResponseState::UntilClose => {
                    used += self.take(rest.len() as u64);
                    false
                }
            };
            if ended {
                return Ok(Progress::Complete { used, response: self.finish() });
            }
        }
        Ok(Progress::Incomplete)
    }

    /// Records that the connection was closed. Returns the response that ends with it, or `None` if
    /// none had begun.
    ///
    /// # Errors
    /// A response had begun that does not end with the connection.
    pub fn close(&mut self) -> Result<Option<Response>, ResponseError> {
        match self.state {
            ResponseState::UntilClose => Ok(Some(self.finish())),
            _ if self.is_inside() => Err(ResponseError::Truncated),
            _ => Ok(None),
        }
    }

    fn take(&mut self, taken: u64) -> usize {
        self.response.wire_bytes += taken;
        // A part of a slice is no longer than the slice.
        usize::try_from(taken).unwrap_or(usize::MAX)
    }

    fn finish(&mut self) -> Response {
        self.state = ResponseState::Header;
        std::mem::take(&mut self.response)
    }

    /// Reads a header section. Returns how many of the bytes belong to it, and whether the response
    /// ends with it.
    fn header(&mut self, rest: &[u8]) -> Result<(usize, bool), ResponseError> {
        // Usually nothing has to be copied, because `rest` contains the whole section.
        if self.partial.is_empty() {
            if let Some(section) = self.parse(rest)? {
                return Ok((self.take(section.bytes as u64), section.ended));
            }
            self.partial.extend_from_slice(rest);
            return Ok((rest.len(), false));
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(rest);
        let whole = std::mem::take(&mut self.partial);
        match self.parse(&whole)? {
            Some(section) => {
                self.take(section.bytes as u64);
                Ok((section.bytes - before, section.ended))
            }
            None => {
                self.partial = whole;
                Ok((rest.len(), false))
            }
        }
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<Option<Section>, ResponseError> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut []);
        let parser = httparse::ParserConfig::default();
        let parsed = parser.parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
        let section_bytes = match parsed {
            Ok(httparse::Status::Complete(section_bytes)) => section_bytes,
            Ok(httparse::Status::Partial) if bytes.len() > HEADER_BYTES_MAX => {
                return Err(ResponseError::HeaderTooLong);
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) if http2::begins(bytes) => return Err(ResponseError::Http2),
            Err(error) => return Err(ResponseError::NotHttp(error.to_string())),
        };
        let status = head.code.unwrap_or(0);
        // An interim response precedes the final one (RFC 9110 §15.2).
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(Section { bytes: section_bytes, ended: false }));
        }
        if let (Some(accept), 101) = (&self.accept, status) {
            let named = |name: &str| {
                let mut fields = head.headers.iter();
                let field = fields.find(|it| it.name.eq_ignore_ascii_case(name))?;
                Some(field.value.trim_ascii())
            };
            websocket::check(accept, named)?;
        }
        let wanted = Wanted {
            location: !self.is_terse || (300..400).contains(&status),
            redirect: !self.is_terse && (300..400).contains(&status),
            server: !self.is_terse || !self.has_read_one,
            retry_after: matches!(status, 429 | 503),
        };
        let framing = Framing::of(&head, wanted)?;
        self.has_read_one = true;
        self.response.status = status;
        // After 101 the connection speaks another protocol.
        self.response.keep_alive = framing.keep_alive && status != 101;
        self.response.location = framing.location;
        self.response.redirect = framing.redirect;
        self.response.retry_after = framing.retry_after;
        self.response.server = framing.server;
        let no_body = self.to_head || matches!(status, 101 | 204 | 304);
        self.state = match (no_body, framing.chunked, framing.content_bytes) {
            (true, ..) => ResponseState::Body(0),
            (_, true, _) => ResponseState::ChunkSize,
            (_, _, Some(left)) => ResponseState::Body(left),
            (_, _, None) => {
                self.response.keep_alive = false;
                ResponseState::UntilClose
            }
        };
        Ok(Some(Section { bytes: section_bytes, ended: self.state == ResponseState::Body(0) }))
    }

    /// Returns the next line without its end, or `None` if its end has not arrived.
    fn line(&mut self, rest: &[u8], used: &mut usize) -> Result<Option<Vec<u8>>, ResponseError> {
        let end = rest.iter().position(|&byte| byte == b'\n');
        let taken = end.map_or(rest.len(), |at| at + 1);
        self.partial.extend_from_slice(&rest[..taken]);
        *used += self.take(taken as u64);
        if self.partial.len() > CHUNK_LINE_BYTES_MAX {
            return Err(ResponseError::Length("a line between chunks is too long"));
        }
        if end.is_none() {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.partial);
        line.truncate(line.trim_ascii_end().len());
        Ok(Some(line))
    }
}

/// A header section after parsing.
struct Section {
    /// Length of the section, including the blank line.
    bytes: usize,
    /// `true` if the response has no body.
    ended: bool,
}

/// The length of the body (RFC 9112 §6.3) and the persistence of the connection (§9.3), according
/// to the header fields.
struct Framing {
    chunked: bool,
    content_bytes: Option<u64>,
    keep_alive: bool,
    location: Option<String>,
    redirect: Option<String>,
    server: Option<String>,
    retry_after: Option<RetryAfter>,
}

/// The header fields that are kept.
#[derive(Clone, Copy)]
struct Wanted {
    location: bool,
    redirect: bool,
    server: bool,
    retry_after: bool,
}

impl Framing {
    fn of(head: &httparse::Response, wanted: Wanted) -> Result<Framing, ResponseError> {
        let mut it = Framing {
            chunked: false,
            content_bytes: None,
            keep_alive: head.version == Some(1),
            location: None,
            redirect: None,
            server: None,
            retry_after: None,
        };
        for field in head.headers.iter() {
            let value = field.value.trim_ascii();
            if field.name.eq_ignore_ascii_case("content-length") {
                let length = std::str::from_utf8(value).ok().and_then(|it| it.parse().ok());
                let length = length.ok_or(ResponseError::Length("Content-Length is no number"))?;
                if it.content_bytes.is_some_and(|before| before != length) {
                    return Err(ResponseError::Length("two lengths that differ"));
                }
                it.content_bytes = Some(length);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                it.chunked |= names(value, b"chunked");
            } else if field.name.eq_ignore_ascii_case("connection") {
                it.keep_alive &= !names(value, b"close");
                it.keep_alive |= names(value, b"keep-alive");
            } else if wanted.location && field.name.eq_ignore_ascii_case("location") {
                it.location = Some(app::redirect(value));
                it.redirect = wanted.redirect.then(|| String::from_utf8_lossy(value).into_owned());
            } else if wanted.server && field.name.eq_ignore_ascii_case("server") {
                it.server = app::software_name(value).map(str::to_owned);
            } else if wanted.retry_after && field.name.eq_ignore_ascii_case("retry-after") {
                it.retry_after = Some(RetryAfter::read(value));
            }
        }
        Ok(it)
    }
}

/// Returns whether a list of words contains `word`.
pub(super) fn names(list: &[u8], word: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|it| it.trim_ascii().eq_ignore_ascii_case(word))
}

fn chunk_bytes(line: &[u8]) -> Result<u64, ResponseError> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let size = std::str::from_utf8(digits).ok().and_then(|it| u64::from_str_radix(it, 16).ok());
    // The line end after the chunk is counted with it.
    size.filter(|&it| it < u64::MAX - 2)
        .ok_or(ResponseError::Length("the size of a chunk is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all responses in `wire`, which the reader receives in pieces of `step` bytes.
    fn read(wire: &[u8], step: usize) -> Vec<Response> {
        let (mut reader, mut all) = (ResponseReader::new(false), Vec::new());
        for piece in wire.chunks(step) {
            let mut at = 0;
            while at < piece.len() {
                match reader.push(&piece[at..]).unwrap() {
                    Progress::Incomplete => break,
                    Progress::Complete { used, response } => {
                        at += used;
                        all.push(response);
                    }
                }
            }
        }
        all.extend(reader.close().unwrap());
        all
    }

    #[test]
    fn responses_end_where_they_end_whatever_the_pieces() {
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nServer: x\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: 1\r\n\r\n\
            HTTP/1.1 301 Moved\r\nLocation: /there\r\nConnection: close\r\n\r\nrest";
        let whole = read(wire, wire.len());
        assert_eq!(whole.iter().map(|it| it.status).collect::<Vec<_>>(), [200, 204, 200, 301]);
        let bytes: u64 = whole.iter().map(|it| it.wire_bytes).sum();
        assert_eq!(bytes, wire.len() as u64);
        assert_eq!(whole[3].location.as_deref(), Some("/there"));
        assert_eq!(whole[3].redirect.as_deref(), Some("/there"));
        assert!(whole[0].keep_alive && !whole[3].keep_alive);
        for step in 1..wire.len() {
            assert_eq!(read(wire, step), whole, "in pieces of {step}");
        }
    }

    #[test]
    fn garbage_is_no_response() {
        for (wire, what) in [
            (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "not HTTP"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "a negative length"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two lengths"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "no chunk"),
        ] {
            assert!(ResponseReader::new(false).push(wire).is_err(), "{what}");
        }
        let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        endless.resize(HEADER_BYTES_MAX + 100, b'a');
        let error = ResponseReader::new(false).push(&endless);
        assert_eq!(error, Err(ResponseError::HeaderTooLong));
    }

    #[test]
    fn a_response_cut_off_is_an_error() {
        let mut reader = ResponseReader::new(false);
        let begun = reader.push(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel").unwrap();
        assert_eq!(begun, Progress::Incomplete);
        assert_eq!(reader.close(), Err(ResponseError::Truncated));
    }

    #[test]
    fn a_terse_reader_keeps_the_first_server_and_the_targets_of_redirects() {
        let ok =
            "HTTP/1.1 200 OK\r\nServer: nginx (x)\r\nLocation: /a\r\nContent-Length: 0\r\n\r\n";
        let moved = ok.replace("200", "302");
        let mut reader = ResponseReader::terse(false);
        let mut read = |wire: &str| match reader.push(wire.as_bytes()).unwrap() {
            Progress::Complete { response, .. } => (response.server, response.location),
            Progress::Incomplete => panic!("the response is whole"),
        };
        assert_eq!(read(ok), (Some("nginx".into()), None));
        assert_eq!(read(ok), (None, None));
        assert_eq!(read(&moved), (None, Some("/a".into())));
    }

    #[test]
    fn a_refusal_states_its_delay() {
        for (status, field, refuses, delay) in [
            (429, "", true, None),
            (429, "Retry-After: 30\r\n", true, Some(RetryAfter::Seconds(30))),
            (503, "", false, None),
            (503, "retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n", true, Some(RetryAfter::Date)),
            (500, "Retry-After: 30\r\n", false, None),
        ] {
            let wire = format!("HTTP/1.1 {status} X\r\n{field}Content-Length: 0\r\n\r\n");
            let response = &read(wire.as_bytes(), wire.len())[0];
            assert_eq!((response.asks_for_fewer(), response.retry_after), (refuses, delay));
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let read = ResponseReader::new(true).push(wire).unwrap();
        assert!(matches!(read, Progress::Complete { used, .. } if used == wire.len()));
    }
}
