//! HTTP/1.x (RFC 9112): pipelined requests, responses matched first in, first out.
//!
//! Read first: RFC 9112 §6.3 (message body length) and RFC 9110 §15.2 (interim responses).
//!
//! ```text
//! Start ─► StartLine ─► Fields ─┬─► Body ──────────────────────────────┬─► Start
//!                               ├─► ChunkSize ⇄ Chunk, then Trailers ──┤
//!                               └─► (no body: RFC 9112 §6.3) ──────────┤
//!           a request that expects 100 Continue, and whose body has    │
//!           not begun when its final response comes (RFC 9110 §10.1.1) │
//!             Body, ChunkSize ─► Refused ─┬─ a request follows ────────┘
//!                                         └─ other bytes: the body after all
//! ```
//! 101 Switching Protocols ends HTTP/1.x in both directions (RFC 9110 §15.2.2), as does a 2xx
//! response to CONNECT (§9.3.6). No message of the other direction changes any other state.

use super::exchanges::{Exchanges, Feed, Lost, RequestFlags};
use super::framer::Next;
use super::http_header::{Field, Header, chunk_size, is_method_byte, request_line, status_line};
use super::kind::http_kind;
use super::known::{KnownHeader, KnownHeaders, Slot, StartLine};
use super::line_ends::LineEnds;
use super::lines::{Lines, without_return};
use super::mark::{Extent, Mark, Stated};
use super::sniff::{begins_http, may_begin_request};
use super::software::name_of;
use crate::wire::{BySide, Side};
use std::ops::Range;

/// Both directions of a connection that speaks HTTP/1.x.
#[derive(Clone)]
pub(super) struct Http {
    readers: BySide<MessageReader>,
}

/// Reads the messages of one direction.
#[derive(Clone, Default)]
struct MessageReader {
    state: HttpState,
    last: Slot,
    /// A header in progress; between pushes most connections have none.
    unfinished: Option<Box<Unfinished>>,
}

/// A header, chunk size or trailer that continues in the next push.
#[derive(Clone, Default)]
struct Unfinished {
    lines: Lines,
    header: Header,
}

/// The part of a message expected next in a direction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HttpState {
    #[default]
    Start,
    StartLine,
    Fields,
    /// The end of a body of known length, which the framer skips.
    Body,
    ChunkSize,
    /// The end of a chunk and its line end, which the framer skips.
    Chunk,
    Trailers,
    /// The next request, or a body that the server did not ask for.
    Refused,
}

impl Http {
    /// Creates a parser that expects the headers seen last on another connection.
    pub fn after(known: &KnownHeaders) -> Self {
        let reader = |from| MessageReader { last: known.last(from), ..MessageReader::default() };
        Self { readers: Side::ALL.map(reader) }
    }

    /// Creates a parser that expects of `from` the header in `slot`, and of its peer the one seen last
    /// on another connection.
    pub fn beginning(known: &KnownHeaders, from: Side, slot: Slot) -> Self {
        let mut http = Self::after(known);
        http.readers[from].last = slot;
        http
    }

    /// Returns whether the last chunk of the response in progress has come, and not yet the end of the
    /// trailer section.
    pub fn has_last_chunk(&self) -> bool {
        self.readers[Side::Server].state == HttpState::Trailers
    }

    /// Returns the bytes of heap memory in use, without lines in pieces.
    pub fn heap_bytes(&self) -> usize {
        let unfinished = self.readers.iter().flat_map(|reader| &reader.unfinished);
        unfinished.map(|unfinished| size_of_val(&**unfinished)).sum()
    }

    /// Processes a push that is one complete simple message whose header repeats the last one,
    /// which is the normal case for clients that poll. Its mark replaces those of [`Self::feed`].
    #[inline]
    pub fn whole<'k>(
        &self,
        from: Side,
        bytes: &[u8],
        exchanges: &mut Exchanges,
        known: &'k KnownHeaders,
    ) -> Option<Mark<'k>> {
        let (known, extent) = self.known(from, bytes, known)?;
        if known.software.is_some() && !exchanges.knows_software(from) {
            return None;
        }
        known.mark(from, extent, None, exchanges)
    }

    /// Returns the known header with which `bytes` begin, and the ends of the message's parts;
    /// `None` if the header is new or the message incomplete.
    #[inline]
    fn known<'k>(
        &self,
        from: Side,
        bytes: &[u8],
        known: &'k KnownHeaders,
    ) -> Option<(&'k KnownHeader, Extent)> {
        let reader = &self.readers[from];
        if reader.state != HttpState::Start {
            return None;
        }
        known.whole(known.find(reader.last, from, bytes), from, bytes)
    }

    /// Like [`Self::whole`], for a message in which the side states its software, as in most first
    /// messages of a connection.
    #[inline(never)]
    pub fn whole_naming<'k>(
        &self,
        from: Side,
        bytes: &[u8],
        exchanges: &mut Exchanges,
        known: &'k KnownHeaders,
    ) -> Option<Mark<'k>> {
        let (known, extent) = self.known(from, bytes, known)?;
        let software = known.stated.as_ref();
        let states = software.is_some() && !exchanges.knows_software(from);
        let mark = states.then(|| known.mark(from, extent, software, exchanges)).flatten()?;
        exchanges.know_software(from);
        Some(mark)
    }

    /// Processes the final response to a request that expects 100 Continue. Returns whether no byte
    /// of the request's body has come, of which `owed` bytes are still missing: the client need not
    /// send it (RFC 9110 §10.1.1).
    pub fn refuses_body(&mut self, owed: u64, exchanges: &Exchanges) -> bool {
        let client = &mut self.readers[Side::Client];
        let Some(Unfinished { lines, header }) = client.unfinished.as_deref() else { return false };
        let untouched = match client.state {
            HttpState::Body => header.content_length.known() == Some(owed),
            HttpState::ChunkSize => !lines.is_in_pieces(),
            _ => false,
        };
        if !(untouched && header.expects_continue && exchanges.is_finally_answered()) {
            return false;
        }
        client.state = HttpState::Refused;
        true
    }

    /// Returns whether the response in progress is sent in chunks, of which the last has not come.
    pub fn lacks_last_chunk(&self) -> bool {
        matches!(self.readers[Side::Server].state, HttpState::Chunk | HttpState::ChunkSize)
    }

    /// Processes missing bytes within a message. A status line before them tells how a request was answered,
    /// though not where the response ends (RFC 9112 §4).
    pub fn gap(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from];
        let is_in_fields = from == Side::Server && reader.state == HttpState::Fields;
        let Some(unfinished) = reader.unfinished.take().filter(|_| is_in_fields) else {
            return Err(Lost);
        };
        match unfinished.header.status {
            // Nothing follows the fields until the other protocol has something to send.
            101 if unfinished.header.is_web_socket => {
                feed.pos = feed.bytes.len() + feed.missing as usize;
                Ok(reader.header_end(&unfinished.header, from, feed))
            }
            status @ 200.. => {
                feed.response_header_end(status);
                Err(Lost)
            }
            _ => Err(Lost),
        }
    }

    /// Parses the bytes of `feed` from one side.
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from];
        loop {
            let next = match reader.state {
                HttpState::Body => reader.message_end(from, feed),
                HttpState::Chunk => {
                    reader.unfinished.iter_mut().for_each(|unfinished| unfinished.lines.begin());
                    reader.state = HttpState::ChunkSize;
                    Next::More
                }
                _ if feed.rest().is_empty() => return Ok(Next::More),
                HttpState::Refused => reader.after_refusal(from, feed),
                HttpState::Start => match reader.repeated(from, feed) {
                    Some(next) => next,
                    None => reader.start(from, feed)?,
                },
                HttpState::StartLine | HttpState::Fields if !reader.is_in_pieces() => {
                    reader.header_lines(from, feed)?
                }
                _ => reader.line(from, feed)?,
            };
            match next {
                Next::More => {}
                Next::Skip(bytes) if bytes <= feed.rest().len() as u64 => {
                    feed.pos += bytes as usize;
                }
                _ => return Ok(next),
            }
        }
    }
}

impl KnownHeader {
    /// Returns the mark of the complete message that `from` sends with this header; returns `None`
    /// and changes nothing if one mark is not enough.
    #[inline(always)]
    fn mark<'k>(
        &'k self,
        from: Side,
        extent: Extent,
        software: Option<&'k Stated>,
        exchanges: &mut Exchanges,
    ) -> Option<Mark<'k>> {
        let StartLine { status, flags, kind, .. } = &self.start;
        match from {
            Side::Client => {
                let mark = Mark::Request { kind, extent, software };
                let is_added = exchanges.add_whole_request(*flags);
                if is_added && self.header.ends_connection() {
                    exchanges.end_with_request();
                }
                is_added.then_some(mark)
            }
            Side::Server => {
                let mark = Mark::Response { status: *status, extent, software };
                let closes = self.header.closes == Some(true);
                exchanges.add_whole_response(closes).then_some(mark)
            }
        }
    }
}

impl MessageReader {
    /// Marks the first byte of a message. Empty lines before it are tolerated (RFC 9112 §2.2).
    fn start(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let first = feed.rest().first().copied().unwrap_or_default();
        match (first, from) {
            (b'\r' | b'\n', _) => {
                feed.pos += 1;
                return Ok(Next::More);
            }
            (byte, Side::Client) if is_method_byte(byte) => message_start(from, feed),
            (b'H', Side::Server) => message_start(from, feed),
            _ => return Err(Lost),
        }
        self.unfinished = None;
        self.state = HttpState::StartLine;
        Ok(Next::More)
    }

    /// Decides what follows a request whose body the server did not ask for.
    fn after_refusal(&mut self, from: Side, feed: &mut Feed<'_>) -> Next {
        if may_begin_request(feed.rest()) {
            return self.message_end(from, feed);
        }
        let header = self.unfinished.as_ref().map(|unfinished| unfinished.header);
        self.body(&header.unwrap_or_default())
    }

    /// Begins the body of a request, which is not empty.
    fn body(&mut self, header: &Header) -> Next {
        if header.chunked {
            self.state = HttpState::ChunkSize;
            return Next::More;
        }
        self.state = HttpState::Body;
        Next::Skip(header.content_length.known().unwrap_or(0))
    }

    /// Returns whether a line began in an earlier push.
    #[inline]
    fn is_in_pieces(&self) -> bool {
        self.unfinished.as_ref().is_some_and(|unfinished| unfinished.lines.is_in_pieces())
    }

    /// Processes a header that is known.
    #[inline]
    fn repeated(&mut self, from: Side, feed: &mut Feed<'_>) -> Option<Next> {
        let slot = feed.known.find(self.last, from, feed.rest());
        let known = feed.known.take(slot, from, feed.rest())?;
        self.last = slot;
        let begin = feed.pos;
        message_start(from, feed);
        feed.pos = begin + known.start_end;
        known.start.mark(from, feed);
        if let Some(line) = known.software.clone().filter(|_| !feed.exchanges.knows_software(from))
        {
            feed.pos = begin + line.end;
            let line = known.bytes.get(line).unwrap_or_default().trim_ascii_end();
            field_line(&mut Header::default(), from, line, feed);
        }
        feed.pos = begin + known.bytes.len();
        let header = known.header;
        feed.known.put(self.last, known);
        Some(self.header_end(&header, from, feed))
    }

    /// Processes the header lines that are complete in this push, which usually are all of them.
    fn header_lines(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let (rest, base) = (feed.rest(), feed.pos);
        let Unfinished { mut lines, mut header } =
            self.unfinished.take().map_or_else(Unfinished::default, |unfinished| *unfinished);
        let window = &rest[..rest.len().min(lines.room())];
        let (mut begin, mut start, mut software) = (0, None, None);
        for end in LineEnds::new(window) {
            let (line_begin, line) = (begin, without_return(&window[begin..end]));
            begin = end + 1;
            feed.pos = base + begin;
            match self.state {
                HttpState::StartLine => {
                    let start_line = StartLine::take(from, line, feed)?;
                    self.state = HttpState::Fields;
                    header.begin(&start_line);
                    start = Some((start_line, begin));
                }
                _ if !line.is_empty() => {
                    if field_line(&mut header, from, line, feed) {
                        software.get_or_insert(line_begin..begin);
                    }
                }
                _ => {
                    if let Some((start, start_end)) = start {
                        let bytes = &window[..begin];
                        self.last = feed.known.keep(from, bytes, || KnownHeader {
                            from,
                            bytes: bytes.into(),
                            start,
                            start_end,
                            stated: software.clone().and_then(|line| stated_in(bytes, line)),
                            software,
                            header,
                            identifies_http: begins_http(from, bytes),
                            plain: header.extent(from, start_end, bytes.len()),
                        });
                    }
                    return Ok(self.header_end(&header, from, feed));
                }
            }
        }
        lines.pass(begin);
        self.unfinished = Some(Box::new(Unfinished { lines, header }));
        if feed.rest().is_empty() { Ok(Next::More) } else { self.line(from, feed) }
    }

    fn line(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let Unfinished { lines, header } = &mut **self.unfinished.get_or_insert_default();
        let Some(line) = lines.next(feed.rest(), &mut feed.pos)? else {
            return Ok(Next::More);
        };
        match self.state {
            HttpState::StartLine => {
                let start_line = StartLine::take(from, line, feed)?;
                self.state = HttpState::Fields;
                header.begin(&start_line);
            }
            HttpState::Fields if line.is_empty() => {
                let header = *header;
                return Ok(self.header_end(&header, from, feed));
            }
            HttpState::Fields => {
                field_line(header, from, line, feed);
            }
            HttpState::ChunkSize => match chunk_size(line).ok_or(Lost)? {
                0 => self.state = HttpState::Trailers,
                size => {
                    header.expects_continue = false;
                    self.state = HttpState::Chunk;
                    return Ok(Next::Skip(size + 2));
                }
            },
            HttpState::Trailers if line.is_empty() => return Ok(self.message_end(from, feed)),
            _ => {}
        }
        Ok(Next::More)
    }

    /// Determines the length of the body (RFC 9112 §6.3, in its order).
    fn header_end(&mut self, header: &Header, from: Side, feed: &mut Feed<'_>) -> Next {
        self.unfinished = None;
        let length = match from {
            Side::Client => {
                feed.request_header_end(header.expects_continue);
                if header.ends_connection() {
                    feed.exchanges.end_with_request();
                }
                let length = header.content_length.known().unwrap_or(0);
                if header.expects_continue && (length > 0 || header.chunked) {
                    let header = *header;
                    feed.request_expects();
                    let unfinished = Unfinished { header, ..Unfinished::default() };
                    self.unfinished = Some(Box::new(unfinished));
                    return self.body(&header);
                }
                Some(length)
            }
            Side::Server => {
                if header.status == 101 && header.is_h2c {
                    // The request is answered on stream 1 (RFC 7540 §3.2).
                    feed.interim(header.status);
                    return Next::Http2;
                }
                if header.status != 101 && header.status < 200 {
                    feed.interim(header.status);
                    self.state = HttpState::Start;
                    return Next::More;
                }
                feed.response_header_end(header.status);
                // RFC 9110 §15.6.4, RFC 6585 §4: other statuses with this field are no refusals.
                if let Some(seconds) = header.retry_after_s
                    && matches!(header.status, 429 | 503)
                {
                    feed.retry_after(seconds);
                }
                let tunnel = feed.answering() == RequestFlags::CONNECT && header.status < 300;
                if tunnel || header.status == 101 {
                    feed.response_end();
                    return match (tunnel, header.is_web_socket) {
                        (true, _) => Next::Tunnel,
                        (false, true) => Next::WebSocket,
                        (false, false) => Next::Turns,
                    };
                }
                if header.closes == Some(true) {
                    feed.answer_no_more();
                }
                if header.is_event_stream {
                    feed.stream_of_events();
                }
                let head = feed.answering() == RequestFlags::HEAD;
                if head || matches!(header.status, 204 | 304) {
                    return self.message_end(from, feed);
                }
                header.content_length.known().filter(|_| !header.other_coding)
            }
        };
        if header.chunked {
            self.state = HttpState::ChunkSize;
            return Next::More;
        }
        self.state = HttpState::Body;
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
        self.unfinished = None;
        self.state = HttpState::Start;
        Next::More
    }
}

fn message_start(from: Side, feed: &mut Feed<'_>) {
    match from {
        Side::Client => feed.request_start(),
        Side::Server => feed.response_start(),
    }
}

/// Returns the software that a line of a message states, if the line is text.
fn stated_in(bytes: &[u8], line: Range<usize>) -> Option<Stated> {
    let end = u32::try_from(line.end).ok()?;
    match Header::default().field(bytes.get(line)?.trim_ascii_end()) {
        Field::Software(software) => Some(Stated { name: name_of(software)?.into(), end }),
        Field::Other => None,
    }
}

/// Processes a field line. Returns whether the software of the sender is known after it.
fn field_line(header: &mut Header, from: Side, line: &[u8], feed: &mut Feed<'_>) -> bool {
    let Field::Software(software) = header.field(line) else { return false };
    feed.software(from, software);
    feed.exchanges.knows_software(from)
}

impl Header {
    /// Sets what the start line shows.
    fn begin(&mut self, start: &StartLine) {
        (self.status, self.is_http10) = (start.status, start.is_http10);
    }
}

impl StartLine {
    fn take(from: Side, line: &[u8], feed: &mut Feed<'_>) -> Result<Self, Lost> {
        let start = Self::parse(from, line, feed.exchanges.shows_values).ok_or(Lost)?;
        start.mark(from, feed);
        Ok(start)
    }

    fn parse(from: Side, line: &[u8], shows_values: bool) -> Option<Self> {
        if from == Side::Server {
            return Some(Self { status: status_line(line)?, ..Self::default() });
        }
        let (method, target) = request_line(line)?;
        let flags = match method {
            b"HEAD" => RequestFlags::HEAD,
            b"CONNECT" => RequestFlags::CONNECT,
            _ => RequestFlags::default(),
        };
        let is_http10 = line.ends_with(b"HTTP/1.0");
        Some(Self { status: 0, is_http10, flags, kind: http_kind(method, target, shows_values) })
    }

    /// Marks the kind of a request.
    fn mark(&self, from: Side, feed: &mut Feed<'_>) {
        if from == Side::Client {
            feed.request_flags(self.flags);
            feed.kind(&self.kind);
        }
    }
}
