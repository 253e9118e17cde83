//! Frames of HTTP/2 (RFC 9113 §4.1) and WebSocket (RFC 6455 §5.2), and packets of MQTT (§2 of its
//! standard). Requests and responses alternate in turns; frames that only keep a connection open
//! (SETTINGS, WINDOW_UPDATE, PING, pong), and messages that a broker delivers, belong to no
//! exchange.
//!
//! Of compressed headers (RFC 7541), the kind of request is read in `request_headers.rs`, and the error of
//! a response in `hpack.rs`. Windows are followed in `flow_control.rs`.

use super::error_code::ErrorCode;
use super::exchanges::{Feed, Lost};
use super::flow_control::{Credit, FlowControl, Passing};
use super::framer::Next;
use super::streams::{DATA, Frame, GOAWAY, HEADERS, RST_STREAM, Streams};
use crate::wire::{BySide, Side};

/// `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n` (RFC 9113 §3.4).
const PREFACE_BYTES: u64 = 24;
/// The longest header: a masked WebSocket frame with an extended length.
const HEADER_MAX: usize = 14;
/// The header of an HTTP/2 frame.
const HTTP2_HEADER_BYTES: usize = 9;

/// Greatest frame type in use.
const TYPE_MAX: u8 = 0x20;

/// Types of frames that keep a connection open (RFC 9113 §6.3, §6.5, §6.7, §6.9).
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// Greatest part of a SETTINGS frame that is read, bytes; no common program sends more settings.
const WINDOWS_BYTES_MAX: u32 = 192;
/// Flags that a DATA frame may have: END_STREAM and PADDED (RFC 9113 §6.1).
const DATA_FLAGS: u8 = 0x9;
/// Flags that a HEADERS frame may have: END_STREAM, END_HEADERS, PADDED and PRIORITY (RFC 9113 §6.2).
const HEADERS_FLAGS: u8 = 0x2d;

/// Type of the WebSocket frame that announces the end of a connection (RFC 6455 §5.5.1).
const CLOSE: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Http2,
    WebSocket,
    Mqtt,
}

/// Both directions of a connection that uses frames.
#[derive(Clone)]
pub(super) struct Frames {
    format: Format,
    readers: BySide<FrameReader>,
    /// The client's preface has passed.
    begun: bool,
    /// A Close frame of WebSocket has passed (RFC 6455 §5.5.1).
    closes: bool,
    /// The streams of HTTP/2.
    streams: Streams,
    /// The windows of HTTP/2.
    flow: FlowControl,
    /// When the pushed bytes passed the vantage.
    pub passing: Passing,
    /// The part of the current frame of each side that has to be read.
    reading: BySide<Option<Reading>>,
}

/// An HTTP/2 frame, or a packet of MQTT, whose first bytes have to be read.
#[derive(Clone)]
struct Reading {
    frame: Frame,
    bytes: Vec<u8>,
    wanted: usize,
}

/// Reads the frames of one direction.
#[derive(Clone, Default)]
struct FrameReader {
    header: [u8; HEADER_MAX],
    have: u8,
    /// `true` if the request ends with the current frame.
    ends_request: bool,
    /// `true` if the response that the client waits for ends with the current frame.
    ends_response: bool,
    /// The place of the next header is unknown, since one was not captured.
    is_lost: bool,
}

impl FrameReader {
    fn header(&self) -> &[u8] {
        self.header.get(..usize::from(self.have)).unwrap_or_default()
    }
}

impl Frames {
    fn new(format: Format) -> Self {
        Self {
            format,
            readers: Default::default(),
            begun: false,
            closes: false,
            streams: Streams::default(),
            flow: FlowControl::default(),
            passing: Passing::default(),
            reading: Default::default(),
        }
    }

    /// Begins with the client's preface.
    pub fn http2() -> Self {
        Self::new(Format::Http2)
    }

    /// Begins after the server's `101 Switching Protocols`; the client's preface follows, and its
    /// request is stream 1 (RFC 7540 §3.2).
    pub fn upgraded_http2() -> Self {
        Self { streams: Streams::upgraded(), ..Self::new(Format::Http2) }
    }

    /// Begins after the server's `101 Switching Protocols`.
    pub fn web_socket() -> Self {
        Self { begun: true, ..Self::new(Format::WebSocket) }
    }

    /// Begins with the client's CONNECT.
    pub fn mqtt() -> Self {
        Self { begun: true, ..Self::new(Format::Mqtt) }
    }

    /// Returns whether the end of a response is known only from the next request.
    pub fn is_open_ended(&self) -> bool {
        self.format != Format::Mqtt
    }

    /// Returns whether either side sends messages when it has some (RFC 6455 §1.2).
    pub fn has_events(&self) -> bool {
        self.format == Format::WebSocket
    }

    /// Returns whether this is a WebSocket connection on which no Close frame has passed.
    pub fn lacks_close_frame(&self) -> bool {
        self.format == Format::WebSocket && !self.closes
    }

    /// Returns the bytes of heap memory in use, without a frame that is being read.
    pub fn heap_bytes(&self) -> usize {
        self.streams.heap_bytes() + self.flow.heap_bytes()
    }

    /// Returns the window that held `from` back, see [`Framer::credit`](super::Framer::credit).
    pub fn credit(&self, from: Side) -> Option<Credit> {
        let is_between = self.format == Format::Http2 && self.readers[from].have == 0;
        if is_between { self.flow.credit(from) } else { None }
    }

    /// Returns whether the server continues a stream of messages for which the client does not
    /// wait.
    pub fn has_unsolicited(&self) -> bool {
        self.streams.has_unsolicited()
    }

    /// Returns whether `bytes`, the next of `from`, are complete HTTP/2 frames that only keep the
    /// connection open: no response that is waited for begins or ends with them.
    pub fn only_keeps_alive(&self, from: Side, bytes: &[u8]) -> bool {
        let reader = &self.readers[from];
        let between = reader.have == 0 && !reader.is_lost && self.reading[from].is_none();
        if self.format != Format::Http2 || !self.begun || !between || bytes.is_empty() {
            return false;
        }
        let mut rest = bytes;
        while let [l1, l2, l3, kind, _, _, _, _, _, payload @ ..] = rest {
            let payload_bytes = u32::from_be_bytes([0, *l1, *l2, *l3]) as usize;
            let Some(next) = payload.get(payload_bytes..) else { return false };
            if !matches!(*kind, PRIORITY | SETTINGS | PING | WINDOW_UPDATE) {
                return false;
            }
            rest = next;
        }
        rest.is_empty()
    }

    /// Returns whether the next byte of `from` is read although it is not part of a header.
    pub fn is_reading(&self, from: Side) -> bool {
        self.reading[from].is_some()
    }

    /// Parses the bytes of `feed` from one side.
    #[inline(never)]
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        if from == Side::Client && !self.begun {
            self.begun = true;
            feed.exchanges.forget_anticipated();
            return Ok(Next::Skip(PREFACE_BYTES));
        }
        if self.readers[from].is_lost && !self.finds_header(from, feed) {
            return Ok(self.pass_unframed(from, feed));
        }
        loop {
            if self.reading[from].is_some() {
                match self.read(from, feed) {
                    None => return Ok(Next::More),
                    Some(0) => {}
                    Some(rest) => return Ok(Next::Skip(rest)),
                }
            }
            let reader = &mut self.readers[from];
            if std::mem::take(&mut reader.ends_request) {
                feed.request_end();
            }
            if std::mem::take(&mut reader.ends_response) {
                feed.response_end();
            }
            while reader.header().len() < self.format.header_bytes(reader.header()) {
                let (Some(byte), Some(slot)) =
                    (feed.byte(), reader.header.get_mut(usize::from(reader.have)))
                else {
                    return Ok(Next::More);
                };
                *slot = byte;
                reader.have += 1;
            }
            let (header, have) = (reader.header, usize::from(reader.have));
            reader.have = 0;
            let payload_bytes = match self.format {
                Format::Http2 => self.http2_frame(from, &header, feed)?,
                Format::WebSocket => self.web_socket_frame(from, &header[..have], feed)?,
                Format::Mqtt => self.mqtt_packet(from, &header[..have], feed)?,
            };
            // A message that ends with this frame ends with the frame's payload.
            if payload_bytes > 0 && self.reading[from].is_none() {
                return Ok(Next::Skip(payload_bytes));
            }
        }
    }

    fn http2_frame(
        &mut self,
        from: Side,
        header: &[u8; HEADER_MAX],
        feed: &mut Feed<'_>,
    ) -> Result<u64, Lost> {
        let [l1, l2, l3, kind, flags, s1, s2, s3, s4, ..] = *header;
        let stream = u32::from_be_bytes([s1, s2, s3, s4]);
        // The highest bit of the stream identifier is reserved.
        if stream >> 31 != 0 || kind > TYPE_MAX {
            return Err(Lost);
        }
        let payload_bytes = u32::from_be_bytes([0, l1, l2, l3]);
        let frame = Frame { kind, flags, stream, payload_bytes };
        let wanted = match (from, kind) {
            (_, SETTINGS | WINDOW_UPDATE) => payload_bytes.min(WINDOWS_BYTES_MAX) as usize,
            (Side::Client, _) => self.streams.wanted_of_client(&frame) as usize,
            (Side::Server, _) => self.streams.wanted(&frame) as usize,
        };
        let reading = Reading { frame, bytes: Vec::new(), wanted };
        self.reading[from] = (wanted > 0).then_some(reading);
        self.follow_windows(from, &frame);
        let ends_response = match from {
            Side::Client => {
                self.readers[from].ends_request = frame.ends_stream();
                self.streams.take_client_frame(&frame, feed)
            }
            Side::Server => self.streams.take_server_frame(&frame, feed),
        };
        self.readers[from].ends_response = ends_response;
        Ok(payload_bytes.into())
    }

    /// Follows what `frame` of `from` uses of the windows, by its header.
    fn follow_windows(&mut self, from: Side, frame: &Frame) {
        match frame.kind {
            DATA => {
                self.flow.send(from, frame.stream, frame.payload_bytes, frame.ends_stream());
            }
            RST_STREAM => {
                for side in Side::ALL {
                    self.flow.end(side, frame.stream);
                }
            }
            _ if frame.ends_stream() => self.flow.end(from, frame.stream),
            _ => {}
        }
    }

    /// Reads the wanted part of the current frame of `from`; once complete, returns the number of
    /// bytes that remain.
    fn read(&mut self, from: Side, feed: &mut Feed<'_>) -> Option<u64> {
        let reading = self.reading[from].as_mut()?;
        let lacks = reading.wanted - reading.bytes.len();
        let taken = feed.rest();
        let taken = &taken[..taken.len().min(lacks)];
        reading.bytes.extend_from_slice(taken);
        feed.pos += taken.len();
        if taken.len() < lacks {
            return None;
        }
        if from == Side::Client && reading.frame.kind == HEADERS {
            let values = feed.exchanges.shows_values;
            feed.kind(&self.streams.read_request(&reading.frame, &reading.bytes, values));
        }
        let ends_all = self.format == Format::Http2 && reading.frame.kind == GOAWAY;
        self.finish_reading(from, true, &mut |code| {
            if ends_all {
                feed.turn(Side::Server);
            }
            feed.error(code);
        })
    }

    /// Evaluates the gathered bytes, if they are complete. Returns the number of bytes of the frame
    /// after the wanted part.
    fn finish_reading(
        &mut self,
        from: Side,
        is_whole: bool,
        on_error: &mut dyn FnMut(ErrorCode),
    ) -> Option<u64> {
        let Reading { frame, bytes, wanted } = self.reading[from].take()?;
        let rest = u64::from(frame.payload_bytes) - wanted as u64;
        let payload = Some(&bytes[..]).filter(|_| is_whole);
        if self.format == Format::Mqtt {
            payload.and_then(|payload| mqtt_error(frame.kind, payload)).map(on_error);
            return Some(rest);
        }
        match frame.kind {
            SETTINGS | WINDOW_UPDATE if !is_whole => {}
            SETTINGS => self.flow.set(from, &bytes, self.passing),
            WINDOW_UPDATE => self.flow.grant(from, frame.stream, &bytes, self.passing),
            HEADERS if from == Side::Client && !is_whole => self.streams.lose(from),
            _ if from == Side::Client => {}
            _ => {
                let ends = self.streams.read(&frame, payload, on_error);
                self.readers[Side::Server].ends_response |= ends;
            }
        }
        Some(rest)
    }

    /// Processes missing bytes. The part of a frame that was to be read is dispensable. Where a header
    /// of HTTP/2 is missing, the next that is found is at the beginning of a segment.
    #[cold]
    #[inline(never)]
    pub fn gap(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        if let Some(reading) = &self.reading[from] {
            let lacks = (reading.wanted - reading.bytes.len()) as u64;
            let rest = self.finish_reading(from, false, &mut |_| {}).ok_or(Lost)?;
            return Ok(Next::Skip(lacks + rest));
        }
        if self.format != Format::Http2 || !self.begun {
            return Err(Lost);
        }
        let reader = &mut self.readers[from];
        let have = std::mem::take(&mut reader.have);
        if !std::mem::replace(&mut reader.is_lost, true) {
            self.streams.lose(from);
            self.flow.send_unframed(from, have.into());
        }
        Ok(self.pass_unframed(from, feed))
    }

    /// Passes over the rest of the push of `from`, in which the headers of frames are unknown.
    fn pass_unframed(&mut self, from: Side, feed: &mut Feed<'_>) -> Next {
        let rest = feed.bytes.len() + feed.missing as usize - feed.pos;
        if rest == 0 {
            return Next::More;
        }
        feed.turn(from);
        self.flow.send_unframed(from, rest as u64);
        Next::Skip(rest as u64)
    }

    /// Returns whether the push of `from` begins with a frame header, of which the place was unknown: a
    /// sender that has waited begins a segment with a frame.
    fn finds_header(&mut self, from: Side, feed: &Feed<'_>) -> bool {
        let is_header = feed.pos == 0
            && feed.bytes.first_chunk().is_some_and(|header| self.may_be_header(from, header));
        if is_header {
            self.flow.find_header(from);
            self.readers[from].is_lost = false;
        }
        is_header
    }

    /// Returns whether `bytes` are the header of a frame that `from` may send: of DATA on an open
    /// stream, of a message's HEADERS, or of a frame whose length its type determines.
    fn may_be_header(&self, from: Side, bytes: &[u8; HTTP2_HEADER_BYTES]) -> bool {
        let &[l1, l2, l3, kind, flags, s1, s2, s3, s4] = bytes;
        let stream = u32::from_be_bytes([s1, s2, s3, s4]);
        let payload_bytes = u32::from_be_bytes([0, l1, l2, l3]);
        match (kind, payload_bytes) {
            (DATA, _) => {
                let is_fitting = u64::from(payload_bytes) <= self.flow.frame_max(from);
                is_fitting && flags & !DATA_FLAGS == 0 && self.flow.is_open(from, stream)
            }
            (HEADERS, _) => {
                flags & !HEADERS_FLAGS == 0 && self.streams.may_head(from, stream, payload_bytes)
            }
            (PING, 8) => stream == 0 && flags <= 1,
            (WINDOW_UPDATE, 4) => flags == 0 && (stream == 0 || self.streams.has_begun(stream)),
            (RST_STREAM, 4) => flags == 0 && self.streams.has_begun(stream),
            _ => false,
        }
    }
}

/// Control packet types (MQTT 5.0 §2.1.2) of a client that are requests, with their names.
const REQUESTS: [(u8, &str); 5] =
    [(1, "CONNECT"), (3, "PUBLISH"), (8, "SUBSCRIBE"), (10, "UNSUBSCRIBE"), (12, "PINGREQ")];
const PUBLISH: u8 = 3;
/// Control packet types of a broker that answer requests: CONNACK, PUBACK, PUBREC, SUBACK,
/// UNSUBACK, PINGRESP.
const ANSWERS: [u8; 6] = [2, 4, 5, 9, 11, 13];

/// Packets of a broker that state a code (MQTT 3.1.1 §3.2.2.3, §3.9.3; MQTT 5.0 §3.2.2.2, §3.4.2.1,
/// §3.5.2.1, §3.9.3, §3.14.2.1).
const CONNACK: u8 = 2;
const PUBACK: u8 = 4;
const PUBREC: u8 = 5;
const SUBACK: u8 = 9;
const DISCONNECT: u8 = 14;
/// The least reason code that is an error (MQTT 5.0 §2.4), and the only one of a SUBACK of 3.1.1.
const ERROR_MIN: u8 = 0x80;

/// Returns the number of bytes up to the code that a packet of a broker states, after its header; 0 if
/// it states none. A SUBACK is read if it is about one subscription: then the code is its last byte, in
/// either version.
fn mqtt_wanted(kind: u8, payload_bytes: u32) -> usize {
    match (kind, payload_bytes) {
        (CONNACK, 2..) => 2,
        (PUBACK | PUBREC, 3..) => 3,
        (SUBACK, 3) => 3,
        (SUBACK, 4) => 4,
        (DISCONNECT, 1..) => 1,
        _ => 0,
    }
}

/// Returns the error that a packet of a broker reports, of which `payload` is the part up to the code.
fn mqtt_error(kind: u8, payload: &[u8]) -> Option<ErrorCode> {
    let code = *payload.last()?;
    let is_error = if kind == CONNACK { code != 0 } else { code >= ERROR_MIN };
    is_error.then_some(ErrorCode::Mqtt(code))
}

/// Returns whether `bytes` are a ping or a pong of WebSocket (RFC 6455 §5.5) that keeps a
/// connection open: complete, without payload, and masked if a client sent it.
pub(super) fn is_keepalive(from: Side, bytes: &[u8]) -> bool {
    match (from, bytes) {
        (Side::Server, [0x89 | 0x8a, 0]) => true,
        (Side::Client, [0x89 | 0x8a, 0x80, mask @ ..]) => mask.len() == 4,
        _ => false,
    }
}

impl Frames {
    /// Processes a frame header; the server's next message answers the client's last one.
    fn web_socket_frame(
        &mut self,
        from: Side,
        header: &[u8],
        feed: &mut Feed<'_>,
    ) -> Result<u64, Lost> {
        let &[first, second, ref rest @ ..] = header else { return Err(Lost) };
        // A client masks its frames, a server never does (RFC 6455 §5.1).
        if (second & 0x80 != 0) != (from == Side::Client) {
            return Err(Lost);
        }
        let kind = first & 0x0f;
        self.closes |= kind == CLOSE;
        match kind {
            0..=2 => feed.turn(from),
            8..=10 => feed.aside(),
            _ => return Err(Lost),
        }
        let is_last = first & 0x88 == 0x80;
        self.readers[from].ends_response = from == Side::Server && is_last;
        let extended = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        Ok(match second & 0x7f {
            126 => extended(rest.get(..2).unwrap_or_default()),
            127 => extended(rest.get(..8).unwrap_or_default()),
            length => u64::from(length),
        })
    }

    fn mqtt_packet(&mut self, from: Side, header: &[u8], feed: &mut Feed<'_>) -> Result<u64, Lost> {
        let &[first, ref length @ ..] = header else { return Err(Lost) };
        let kind = first >> 4;
        let asked = REQUESTS.iter().find(|(asking, _)| *asking == kind);
        match (from, asked) {
            // Quality of service 0 is not acknowledged.
            (Side::Client, Some(_)) if kind == PUBLISH && first & 6 == 0 => feed.aside(),
            (Side::Client, Some((_, name))) => {
                feed.request_start();
                feed.kind(&(*name).into());
                self.readers[from].ends_request = true;
            }
            (Side::Server, _)
                if ANSWERS.contains(&kind) || kind == DISCONNECT && feed.is_waiting() =>
            {
                feed.request_end();
                feed.response_start();
                self.readers[from].ends_response = true;
            }
            (_, _) if kind == 0 => return Err(Lost),
            _ => feed.aside(),
        }
        let parts = length.iter().rev();
        let payload_bytes = parts.fold(0, |sum, byte| sum << 7 | u32::from(byte & 0x7f));
        let wanted = mqtt_wanted(kind, payload_bytes);
        if self.readers[from].ends_response && wanted > 0 {
            let frame = Frame { kind, payload_bytes, ..Frame::default() };
            self.reading[from] = Some(Reading { frame, bytes: Vec::new(), wanted });
        }
        Ok(payload_bytes.into())
    }
}

impl Format {
    /// Returns the length of the frame header that begins with `header`, as far as known from these
    /// bytes.
    fn header_bytes(self, header: &[u8]) -> usize {
        match (self, header) {
            (Self::Http2, _) => HTTP2_HEADER_BYTES,
            (Self::WebSocket, [_, second, ..]) => {
                let extended = match second & 0x7f {
                    126 => 2,
                    127 => 8,
                    _ => 0,
                };
                2 + extended + if second & 0x80 == 0 { 0 } else { 4 }
            }
            (Self::WebSocket, _) => 2,
            // Seven bits of the length in each byte; the highest bit is clear in the last.
            (Self::Mqtt, [_, length @ ..]) if length.len() < 4 => {
                let last = length.iter().position(|byte| byte & 0x80 == 0);
                2 + last.unwrap_or(length.len())
            }
            (Self::Mqtt, [_, ..]) => 5,
            (Self::Mqtt, []) => 2,
        }
    }
}
