//! Streams of HTTP/2 (RFC 9113 §5): which frames of a server answer a waiting client. Requests
//! share a connection, and only turns are distinguished: a response is over when all streams for
//! which the client waits are over. On a stream of events or messages, only the first answers the
//! request; the client does not wait for each of the others.
//!
//! The states of a stream (RFC 9113 §5.1) as far as they matter here:
//!
//! ```text
//! idle ── HEADERS of the client, odd number ─► waited for ─┬─ END_STREAM of the server ──► closed
//!                                                          ├─ RST_STREAM of either side ─► closed
//!                                                          ├─ GOAWAY with an error ──────► closed
//!                                                          └─ first message or event ────► streaming
//! streaming ── DATA of the client: the next message ─► waited for
//! ```
//! Streams with even numbers are pushed (§8.4): the client has not asked for them. A frame on a
//! stream that is not waited for changes nothing, so no stream ends twice.

use super::error_code::ErrorCode;
use super::exchanges::Feed;
use super::hpack::{Content, ResponseHeaders};
use super::kind::Label;
use super::request_headers::RequestHeaders;
use crate::wire::Side;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const PUSH_PROMISE: u8 = 5;
pub(super) const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// Bytes of the priority before a header block (RFC 9113 §6.2).
const PRIORITY_BYTES: usize = 5;

/// Bytes of an error code, and those of GOAWAY up to its end (RFC 9113 §6.4, §6.8).
const RST_STREAM_BYTES: u32 = 4;
const GOAWAY_BYTES: u32 = 8;
/// Code of an error without a known code (RFC 9113 §7).
const INTERNAL_ERROR: u8 = 2;

/// Bytes before each gRPC message: a compression flag and the length.
const PREFIX_BYTES: u32 = 5;

/// Maximum length of a header block that is read, bytes.
const BLOCK_MAX: u32 = 4096;

/// Maximum number of streams that are waited for at a time. Beyond it the oldest is forgotten;
/// common servers allow 100 to 256 (RFC 9113 §6.5.2 advises at least 100).
const WAITED_MAX: usize = 256;

/// Maximum number of streamed responses that are followed at a time. Beyond it the oldest is
/// treated like other responses.
const ANSWERS_MAX: usize = 64;

/// Header of a frame.
#[derive(Clone, Copy, Default)]
pub(super) struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload_bytes: u32,
}

impl Frame {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether the sender's part of the stream ends with this frame.
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.has(END_STREAM)
    }
}

/// Progress of a streamed response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// The first message has not begun.
    Before,
    /// This number of bytes of the first message is still missing.
    First { left: u64 },
    /// The first message is complete: the client does not wait for the rest.
    Later,
}

/// The streams of a connection.
#[derive(Clone, Default)]
pub(super) struct Streams {
    /// The greatest stream identifier of the client.
    last: u32,
    /// Streams on which the client waits for the end of a response, in ascending order.
    waited: Vec<u32>,
    headers: ResponseHeaders,
    requests: RequestHeaders,
    /// The client waits for one stream, and waited for no other in this turn.
    is_alone: bool,
    /// Streams may have ended in frames that were not captured.
    may_have_ended: bool,
    answers: Vec<(u32, Piece)>,
}

impl Streams {
    /// The streams of a connection whose first request was an upgrade from HTTP/1.1: it is stream 1,
    /// which the client has ended (RFC 7540 §3.2).
    pub fn upgraded() -> Self {
        Self { last: 1, waited: vec![1], is_alone: true, ..Self::default() }
    }

    /// Processes a frame of the client. Returns whether the response for which the client waits
    /// ends with it.
    pub fn take_client_frame(&mut self, frame: &Frame, feed: &mut Feed<'_>) -> bool {
        if !matches!(frame.kind, DATA | HEADERS | CONTINUATION) {
            feed.aside();
            return frame.kind == RST_STREAM && self.end(frame.stream);
        }
        let was_waiting = feed.is_waiting();
        feed.turn(Side::Client);
        if frame.kind == HEADERS && frame.stream > self.last && frame.stream % 2 == 1 {
            self.last = frame.stream;
            if std::mem::take(&mut self.may_have_ended) {
                self.waited.clear();
                self.answers.clear();
            }
            self.is_alone = self.waited.is_empty();
            self.wait_for(frame.stream);
        } else if !was_waiting && feed.is_waiting() {
            self.await_next_message(frame.stream);
        }
        false
    }

    /// Records that headers of frames of `from` were not captured.
    pub fn lose(&mut self, from: Side) {
        match from {
            Side::Client => self.requests.lose(),
            Side::Server => {
                self.headers.lose();
                self.may_have_ended = true;
            }
        }
    }

    /// Returns whether `stream` is one that the client has begun.
    pub fn has_begun(&self, stream: u32) -> bool {
        stream % 2 == 1 && stream <= self.last
    }

    /// Returns whether a header block of `bytes` of `from` may be that of `stream`. Of a client it
    /// begins the stream: identifiers are increasing, and few are left out (RFC 9113 §5.1.1).
    pub fn may_head(&self, from: Side, stream: u32, bytes: u32) -> bool {
        let is_next = || {
            let beyond = stream.saturating_sub(self.last);
            stream % 2 == 1 && beyond > 0 && beyond as usize <= 2 * WAITED_MAX
        };
        bytes <= BLOCK_MAX && (self.has_begun(stream) || from == Side::Client && is_next())
    }

    /// Begins to wait for another message after a client's message on an open stream.
    fn await_next_message(&mut self, stream: u32) {
        let Some(piece) = self.answer(stream) else { return };
        let was_over = *piece == Piece::Later;
        *piece = Piece::Before;
        if was_over {
            self.wait_for(stream);
        }
    }

    fn wait_for(&mut self, stream: u32) {
        if self.waited.len() == WAITED_MAX {
            self.waited.remove(0);
        }
        if let Err(place) = self.waited.binary_search(&stream) {
            self.waited.insert(place, stream);
        }
    }

    /// Processes a frame of the server. Returns whether the response for which the client waits
    /// ends with it.
    pub fn take_server_frame(&mut self, frame: &Frame, feed: &mut Feed<'_>) -> bool {
        match frame.kind {
            DATA | HEADERS | CONTINUATION if self.is_awaited(frame) => feed.turn(Side::Server),
            // The code follows: `read` ends the stream.
            RST_STREAM if self.is_waited(frame.stream) => {
                feed.turn(Side::Server);
                return false;
            }
            _ => feed.aside(),
        }
        (frame.ends_stream() || frame.kind == RST_STREAM) && self.end(frame.stream)
    }

    fn is_waited(&self, stream: u32) -> bool {
        self.waited.binary_search(&stream).is_ok()
    }

    /// Returns whether the server's `frame` carries data for which the client waits.
    fn is_awaited(&mut self, frame: &Frame) -> bool {
        if !self.is_waited(frame.stream) {
            return false;
        }
        let Some(piece) = self.answer(frame.stream) else { return true };
        match (*piece, frame.kind) {
            (Piece::First { left: 0 }, DATA) if frame.payload_bytes > 0 => {
                *piece = Piece::Later;
                // The wait ended with the first message.
                self.close(frame.stream);
                false
            }
            (Piece::First { left }, DATA) => {
                let left = left.saturating_sub(frame.payload_bytes.into());
                *piece = Piece::First { left };
                true
            }
            (piece, _) => piece != Piece::Later,
        }
    }

    fn answer(&mut self, stream: u32) -> Option<&mut Piece> {
        self.answers.iter_mut().find(|(of, _)| *of == stream).map(|(_, piece)| piece)
    }

    /// Ends `stream`. Returns whether the wait of the client ends with it.
    fn end(&mut self, stream: u32) -> bool {
        self.answers.retain(|(of, _)| *of != stream);
        self.close(stream)
    }

    /// Ends the wait for `stream`. Returns whether it was waited for, and as the last one.
    fn close(&mut self, stream: u32) -> bool {
        let Ok(place) = self.waited.binary_search(&stream) else { return false };
        self.waited.remove(place);
        self.waited.is_empty()
    }

    /// Returns the bytes of heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.answers.capacity() * size_of::<(u32, Piece)>()
            + self.waited.capacity() * size_of::<u32>()
            + self.headers.heap_bytes()
            + self.requests.heap_bytes()
    }

    /// Returns whether a response continues after the part for which the client waits.
    pub fn has_unsolicited(&self) -> bool {
        let continues = |piece: &Piece| matches!(piece, Piece::First { left: 0 } | Piece::Later);
        self.answers.iter().any(|(_, piece)| continues(piece))
    }

    /// Returns how many payload bytes of the client's `frame` have to be read.
    pub fn wanted_of_client(&mut self, frame: &Frame) -> u32 {
        match frame.kind {
            HEADERS if frame.has(END_HEADERS) && frame.payload_bytes <= BLOCK_MAX => {
                frame.payload_bytes
            }
            HEADERS | CONTINUATION => {
                self.requests.lose();
                0
            }
            _ => 0,
        }
    }

    /// Reads the header block of the client's `frame`. Returns the kind of the request, with its values
    /// if `values` is set.
    pub fn read_request(&mut self, frame: &Frame, payload: &[u8], values: bool) -> Label {
        self.requests.read(block(frame, payload).unwrap_or_default(), values)
    }

    /// Returns how many payload bytes of the server's `frame` have to be read.
    pub fn wanted(&mut self, frame: &Frame) -> u32 {
        let begins_message = self.answer(frame.stream) == Some(&mut Piece::Before);
        match frame.kind {
            HEADERS if frame.has(END_HEADERS) && frame.payload_bytes <= BLOCK_MAX => {
                frame.payload_bytes
            }
            HEADERS | CONTINUATION | PUSH_PROMISE => {
                self.headers.lose();
                0
            }
            DATA if begins_message => frame.payload_bytes.min(PREFIX_BYTES),
            RST_STREAM if self.is_waited(frame.stream) => frame.payload_bytes.min(RST_STREAM_BYTES),
            GOAWAY if !self.waited.is_empty() => frame.payload_bytes.min(GOAWAY_BYTES),
            _ => 0,
        }
    }

    /// Reads the wanted bytes of `frame`; `payload` is `None` if they were not captured. Returns
    /// whether the response for which the client waits ends with the frame. `on_error` receives the
    /// error of a turn with one stream, or of all streams.
    pub fn read(
        &mut self,
        frame: &Frame,
        payload: Option<&[u8]>,
        on_error: &mut dyn FnMut(ErrorCode),
    ) -> bool {
        match (frame.kind, payload) {
            (HEADERS, Some(payload)) => {
                let announced = self.headers.read(block(frame, payload).unwrap_or_default());
                if let Some(code) = announced.error.filter(|_| self.is_alone) {
                    on_error(code);
                }
                return self.announce(frame, announced.content);
            }
            (HEADERS, None) => self.headers.lose(),
            (RST_STREAM, payload) => {
                if let Some(code) = payload.and_then(error_code).filter(|_| self.is_alone) {
                    on_error(code);
                }
                return self.end(frame.stream);
            }
            // Without an error this is a graceful end: the streams below the last one go on (§6.8).
            (GOAWAY, payload) => {
                let Some(code) = payload.and_then(|it| error_code(it.get(4..)?)) else {
                    return false;
                };
                on_error(code);
                self.answers.clear();
                self.waited.clear();
                return true;
            }
            (_, Some(&[0 | 1, l1, l2, l3, l4])) if !frame.has(PADDED) => {
                let message = u64::from(u32::from_be_bytes([l1, l2, l3, l4]));
                let all = message + u64::from(PREFIX_BYTES);
                let left = all.saturating_sub(frame.payload_bytes.into());
                if let Some(piece) = self.answer(frame.stream) {
                    *piece = Piece::First { left };
                }
            }
            _ => self.answers.retain(|(stream, _)| *stream != frame.stream),
        }
        false
    }

    /// Begins a response with `content`. For events, the announcement itself is the response.
    fn announce(&mut self, frame: &Frame, content: Content) -> bool {
        let piece = match content {
            Content::Events => Piece::Later,
            Content::Messages => Piece::Before,
            Content::Whole => return false,
        };
        if frame.ends_stream() || self.answer(frame.stream).is_some() {
            return false;
        }
        if self.answers.len() == ANSWERS_MAX {
            self.answers.remove(0);
        }
        self.answers.push((frame.stream, piece));
        piece == Piece::Later && self.close(frame.stream)
    }
}

/// Returns the error at the beginning of `payload`, unless it is NO_ERROR.
fn error_code(payload: &[u8]) -> Option<ErrorCode> {
    let code = payload.first_chunk().map(|it| u32::from_be_bytes(*it))?;
    (code != 0).then(|| ErrorCode::Http2(u8::try_from(code).unwrap_or(INTERNAL_ERROR)))
}

/// Returns the header block in the payload of `frame`.
fn block<'a>(frame: &Frame, payload: &'a [u8]) -> Option<&'a [u8]> {
    let mut begin = 0;
    let mut end = payload.len();
    if frame.has(PADDED) {
        end = end.checked_sub(usize::from(*payload.first()?))?;
        begin += 1;
    }
    if frame.has(PRIORITY) {
        begin += PRIORITY_BYTES;
    }
    payload.get(begin..end)
}
