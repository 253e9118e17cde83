//! Frames of HTTP/2 (RFC 9113 §4.1) and WebSocket (RFC 6455 §5.2), packets of MQTT (§2 of its
//! standard). Those that ask or answer make turns; those that only keep a connection going
//! (SETTINGS, WINDOW_UPDATE, PING, pong), and what a broker delivers, belong to no exchange.
//!
//! Headers are not decompressed (RFC 7541): what is asked stays unknown.

use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::mark::Side;
use super::streams::{Frame, Streams};

/// `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n` (RFC 9113 §3.4).
const PREFACE_BYTES: u64 = 24;
/// The longest header: of a masked WebSocket frame with an extended length.
const HEADER_MAX: usize = 14;
/// An HTTP/2 frame's.
const HTTP2_HEADER_BYTES: usize = 9;

/// Greater types are not assigned.
const TYPE_MAX: u8 = 0x20;

/// Types of frames that keep a connection going (RFC 9113 §6.3, §6.5, §6.7, §6.9).
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Http2,
    WebSocket,
    Mqtt,
}

/// Both directions of a connection that speaks in frames.
#[derive(Clone)]
pub(super) struct Frames {
    format: Format,
    readers: [FrameReader; 2],
    /// The client's preface has passed.
    begun: bool,
    /// Of HTTP/2.
    streams: Streams,
    /// What is to be read of the server's frame under way.
    reading: Option<Reading>,
}

/// A frame of HTTP/2 of which the first bytes are to be read.
#[derive(Clone)]
struct Reading {
    frame: Frame,
    bytes: Vec<u8>,
    wanted: usize,
}

/// One direction.
#[derive(Clone, Default)]
struct FrameReader {
    header: [u8; HEADER_MAX],
    have: u8,
    /// With the frame under way ends what the client asks.
    ends_request: bool,
    /// With the frame under way ends what the client waits for.
    ends_response: bool,
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
            streams: Streams::default(),
            reading: None,
        }
    }

    /// From the client's preface on.
    pub fn http2() -> Self {
        Self::new(Format::Http2)
    }

    /// From the end of the server's `101 Switching Protocols` on.
    pub fn web_socket() -> Self {
        Self { begun: true, ..Self::new(Format::WebSocket) }
    }

    /// From the client's CONNECT on.
    pub fn mqtt() -> Self {
        Self { begun: true, ..Self::new(Format::Mqtt) }
    }

    /// Whether what answers a request has an end only with the next.
    pub fn is_open_ended(&self) -> bool {
        self.format != Format::Mqtt
    }

    /// Bytes of memory beside the struct itself, but for a frame that is being read.
    pub fn heap_bytes(&self) -> usize {
        self.streams.heap_bytes()
    }

    /// Whether a stream of messages goes on that nobody waits for.
    pub fn has_unasked(&self) -> bool {
        self.streams.has_unasked()
    }

    /// Whether `bytes`, the next of `from`, are whole frames of HTTP/2 that only keep the connection going: what is
    /// waited for neither begins nor ends with them.
    pub fn keeps_going(&self, from: Side, bytes: &[u8]) -> bool {
        let between = self.readers[from as usize].have == 0
            && (from == Side::Client || self.reading.is_none());
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

    /// Whether the next byte of `from` is read beyond a header.
    pub fn is_reading(&self, from: Side) -> bool {
        from == Side::Server && self.reading.is_some()
    }

    /// Takes what `feed` has from one side.
    #[inline(never)]
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        if from == Side::Client && !self.begun {
            self.begun = true;
            feed.exchanges.forget_anticipated();
            return Ok(Next::Skip(PREFACE_BYTES));
        }
        loop {
            if from == Side::Server && self.reading.is_some() {
                match self.read(feed) {
                    None => return Ok(Next::More),
                    Some(0) => {}
                    Some(rest) => return Ok(Next::Skip(rest)),
                }
            }
            let reader = &mut self.readers[from as usize];
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
            // What the frame ends, ends with its payload.
            if payload_bytes > 0 && (from == Side::Client || self.reading.is_none()) {
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
        // The highest bit is reserved.
        if stream >> 31 != 0 || kind > TYPE_MAX {
            return Err(Lost);
        }
        let payload_bytes = u32::from_be_bytes([0, l1, l2, l3]);
        let frame = Frame { kind, flags, stream, payload_bytes };
        let ends_response = match from {
            Side::Client => {
                self.readers[from as usize].ends_request = frame.ends_stream();
                self.streams.ask(&frame, feed)
            }
            Side::Server => {
                let wanted = self.streams.wanted(&frame) as usize;
                let reading = Reading { frame, bytes: Vec::new(), wanted };
                self.reading = (wanted > 0).then_some(reading);
                self.streams.tell(&frame, feed)
            }
        };
        self.readers[from as usize].ends_response = ends_response;
        Ok(payload_bytes.into())
    }

    /// Takes what is to be read of the server's frame under way; answers how much of it is left once that is done.
    fn read(&mut self, feed: &mut Feed<'_>) -> Option<u64> {
        let reading = self.reading.as_mut()?;
        let lacks = reading.wanted - reading.bytes.len();
        let taken = feed.rest();
        let taken = &taken[..taken.len().min(lacks)];
        reading.bytes.extend_from_slice(taken);
        feed.pos += taken.len();
        if taken.len() < lacks {
            return None;
        }
        self.finish_reading(true)
    }

    /// Reads what was gathered, if that is all; answers how much of the frame is left behind what was wanted.
    fn finish_reading(&mut self, is_whole: bool) -> Option<u64> {
        let Reading { frame, bytes, wanted } = self.reading.take()?;
        let payload = Some(&bytes[..]).filter(|_| is_whole);
        self.readers[Side::Server as usize].ends_response |= self.streams.read(&frame, payload);
        Some(u64::from(frame.payload_bytes) - wanted as u64)
    }

    /// Bytes are missing. What was to be read of a frame can be done without.
    #[cold]
    #[inline(never)]
    pub fn gap(&mut self, from: Side) -> Result<Next, Lost> {
        let reading = self.reading.as_ref().filter(|_| from == Side::Server).ok_or(Lost)?;
        let lacks = (reading.wanted - reading.bytes.len()) as u64;
        let rest = self.finish_reading(false).ok_or(Lost)?;
        Ok(Next::Skip(lacks + rest))
    }
}

/// Control packet types (MQTT 5.0 §2.1.2) that a client sends: which of them ask, and how they
/// are called.
const ASKING: [(u8, &str); 5] =
    [(1, "CONNECT"), (3, "PUBLISH"), (8, "SUBSCRIBE"), (10, "UNSUBSCRIBE"), (12, "PINGREQ")];
const PUBLISH: u8 = 3;
/// CONNACK, PUBACK, PUBREC, SUBACK, UNSUBACK, PINGRESP.
const ANSWERS: [u8; 6] = [2, 4, 5, 9, 11, 13];

/// Whether these are a ping or a pong of WebSocket (RFC 6455 §5.5) as a connection under way sends it
/// to keep itself open: whole, of a server without a word, of a client masked.
pub(super) fn begins_with_beat(from: Side, bytes: &[u8]) -> bool {
    match (from, bytes) {
        (Side::Server, [0x89 | 0x8a, 0]) => true,
        (Side::Client, [0x89 | 0x8a, 0x80, mask @ ..]) => mask.len() == 4,
        _ => false,
    }
}

impl Frames {
    /// The server's next message is what answers the client's last.
    fn web_socket_frame(
        &mut self,
        from: Side,
        header: &[u8],
        feed: &mut Feed<'_>,
    ) -> Result<u64, Lost> {
        let &[first, second, ref rest @ ..] = header else { return Err(Lost) };
        // A client masks what it sends, a server never does (RFC 6455 §5.1).
        if (second & 0x80 != 0) != (from == Side::Client) {
            return Err(Lost);
        }
        match first & 0x0f {
            0..=2 => feed.turn(from),
            8..=10 => feed.aside(),
            _ => return Err(Lost),
        }
        let is_last = first & 0x88 == 0x80;
        self.readers[from as usize].ends_response = from == Side::Server && is_last;
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
        let asked = ASKING.iter().find(|(asking, _)| *asking == kind);
        match (from, asked) {
            // Quality of service 0 is not acknowledged.
            (Side::Client, Some(_)) if kind == PUBLISH && first & 6 == 0 => feed.aside(),
            (Side::Client, Some((_, name))) => {
                feed.request_start();
                feed.kind(&(*name).into());
                self.readers[from as usize].ends_request = true;
            }
            (Side::Server, _) if ANSWERS.contains(&kind) => {
                feed.request_end();
                feed.response_start();
                self.readers[from as usize].ends_response = true;
            }
            (_, _) if kind == 0 => return Err(Lost),
            _ => feed.aside(),
        }
        let parts = length.iter().rev();
        Ok(parts.fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f)))
    }
}

impl Format {
    /// How long the frame header is that begins with `header`, as far as that tells.
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
            // Seven bits of the length a byte, the last without the highest bit.
            (Self::Mqtt, [_, length @ ..]) if length.len() < 4 => {
                let last = length.iter().position(|byte| byte & 0x80 == 0);
                2 + last.unwrap_or(length.len())
            }
            (Self::Mqtt, [_, ..]) => 5,
            (Self::Mqtt, []) => 2,
        }
    }
}
