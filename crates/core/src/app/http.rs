//! HTTP/1.x (RFC 9112): pipelined requests, responses matched first in, first out.
//!
//! Read first: RFC 9112 §6.3 (message body length) and RFC 9110 §15.2 (interim responses).

use super::exchanges::{Feed, Lost, RequestFlags};
use super::framer::Next;
use super::http_header::{Field, Header, chunk_size, is_method_byte, request_line, status_line};
use super::kind::http_kind;
use super::lines::Lines;
use super::mark::Side;

/// Both directions of a connection that speaks HTTP/1.x.
#[derive(Default)]
pub(super) struct Http {
    halves: [Half; 2],
}

/// One direction.
#[derive(Default)]
struct Half {
    state: State,
    lines: Lines,
    header: Header,
}

/// What comes next in a direction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    StartLine,
    Fields,
    /// A body of known length, which the framer skips, has passed.
    Body,
    ChunkSize,
    /// A chunk and its line end, which the framer skips, have passed.
    Chunk,
    Trailers,
}

impl Http {
    /// Takes what `feed` has from one side.
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let half = &mut self.halves[from as usize];
        loop {
            let next = match half.state {
                State::Body => half.message_end(from, feed),
                State::Chunk => {
                    half.lines.begin();
                    half.state = State::ChunkSize;
                    Next::More
                }
                _ if feed.rest().is_empty() => return Ok(Next::More),
                State::Start => half.start(from, feed)?,
                _ => half.line(from, feed)?,
            };
            if !matches!(next, Next::More) {
                return Ok(next);
            }
        }
    }
}

impl Half {
    /// Marks the first byte of a message. Empty lines before it are tolerated (RFC 9112 §2.2).
    fn start(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let first = feed.rest().first().copied().unwrap_or_default();
        match (first, from) {
            (b'\r' | b'\n', _) => {
                feed.pos += 1;
                return Ok(Next::More);
            }
            (byte, Side::Client) if is_method_byte(byte) => feed.request_start(),
            (b'H', Side::Server) => feed.response_start(),
            _ => return Err(Lost),
        }
        self.header = Header::default();
        self.lines.begin();
        self.state = State::StartLine;
        Ok(Next::More)
    }

    fn line(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let line = self.lines.next(feed.rest(), &mut feed.pos)?;
        let Some(line) = line else {
            return Ok(Next::More);
        };
        match self.state {
            State::StartLine => {
                self.header.status = start_line(from, line, feed)?;
                self.state = State::Fields;
            }
            State::Fields if line.is_empty() => return Ok(self.header_end(from, feed)),
            State::Fields => {
                if let Field::Software(software) = self.header.field(line) {
                    feed.software(from, software);
                }
            }
            State::ChunkSize => match chunk_size(line).ok_or(Lost)? {
                0 => self.state = State::Trailers,
                size => {
                    self.state = State::Chunk;
                    return Ok(Next::Skip(size + 2));
                }
            },
            State::Trailers if line.is_empty() => return Ok(self.message_end(from, feed)),
            _ => {}
        }
        Ok(Next::More)
    }

    /// Decides the body's length (RFC 9112 §6.3, in its order).
    fn header_end(&mut self, from: Side, feed: &mut Feed<'_>) -> Next {
        let header = self.header;
        let length = match from {
            Side::Client => {
                feed.request_header_end(header.expects_continue);
                Some(header.content_length.unwrap_or(0))
            }
            Side::Server => {
                if header.status != 101 && header.status < 200 {
                    feed.interim(header.status);
                    self.state = State::Start;
                    return Next::More;
                }
                feed.response_header_end(header.status);
                let tunnel = feed.answering() == RequestFlags::CONNECT && header.status < 300;
                if tunnel || header.status == 101 {
                    feed.response_end();
                    return if tunnel { Next::Tunnel } else { Next::Turns };
                }
                let head = feed.answering() == RequestFlags::HEAD;
                if head || matches!(header.status, 204 | 304) {
                    return self.message_end(from, feed);
                }
                header.content_length.filter(|_| !header.other_coding)
            }
        };
        if header.chunked {
            self.state = State::ChunkSize;
            self.lines.begin();
            return Next::More;
        }
        self.state = State::Body;
        match length {
            Some(0) => self.message_end(from, feed),
            Some(length) => Next::Skip(length),
            None => Next::Skip(u64::MAX),
        }
    }

    fn message_end(&mut self, from: Side, feed: &mut Feed<'_>) -> Next {
        match from {
            Side::Client => feed.request_end(),
            Side::Server => feed.response_end(),
        }
        self.state = State::Start;
        Next::More
    }
}

/// Reads a start line; returns the status of a response.
fn start_line(from: Side, line: &[u8], feed: &mut Feed<'_>) -> Result<u16, Lost> {
    if from == Side::Server {
        return status_line(line).ok_or(Lost);
    }
    let (method, target) = request_line(line).ok_or(Lost)?;
    match method {
        b"HEAD" => feed.request_flags(RequestFlags::HEAD),
        b"CONNECT" => feed.request_flags(RequestFlags::CONNECT),
        _ => {}
    }
    let values = feed.exchanges.shows_values;
    feed.kind(http_kind(method, target, values).as_str());
    Ok(0)
}
