//! Streams of HTTP/2 (RFC 9113 §5): which of a server's frames answer what is waited for. Requests share a
//! connection, and only turns are told apart: one is over when all streams are that somebody waits for. Of a
//! stream of events, or messages, nobody waits for each: the first answers what was asked.

use super::exchanges::Feed;
use super::hpack::{Content, ContentTypes};
use super::mark::Side;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// Bytes of a priority in front of a header block (RFC 9113 §6.2).
const PRIORITY_BYTES: usize = 5;

/// In front of each message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: u32 = 5;

/// Longer header blocks are not read.
const BLOCK_MAX: u32 = 4096;

/// Answers in pieces followed at a time; of more, the oldest is an answer like others.
const ANSWERS_MAX: usize = 64;

/// A frame's header.
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

    /// Whether what its sender has to say on its stream ends with it.
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.has(END_STREAM)
    }
}

/// How far an answer in pieces has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// Before its first message.
    Before,
    /// So many bytes are left of the first message.
    First { left: u64 },
    /// Behind it: what comes is waited for by nobody.
    Later,
}

/// The streams of a connection.
#[derive(Clone, Default)]
pub(super) struct Streams {
    /// The client's last one.
    last: u32,
    /// Those that the server has not answered to the end, as far as somebody waits for that.
    open: u32,
    contents: ContentTypes,
    answers: Vec<(u32, Piece)>,
}

impl Streams {
    /// The client sends `frame`. Answers whether what is waited for ends with it.
    pub fn ask(&mut self, frame: &Frame, feed: &mut Feed<'_>) -> bool {
        if !matches!(frame.kind, DATA | HEADERS | CONTINUATION) {
            feed.aside();
            return frame.kind == RST_STREAM && self.end(frame.stream);
        }
        let was_waiting = feed.is_waiting();
        feed.turn(Side::Client);
        if frame.kind == HEADERS && frame.stream > self.last {
            self.last = frame.stream;
            self.open += 1;
        } else if !was_waiting && feed.is_waiting() {
            self.ask_again(frame.stream);
        }
        false
    }

    /// A word on a stream under way asks for another message.
    fn ask_again(&mut self, stream: u32) {
        let Some(piece) = self.answer(stream) else { return };
        let was_over = *piece == Piece::Later;
        *piece = Piece::Before;
        self.open += u32::from(was_over);
    }

    /// The server sends `frame`. Answers whether what is waited for ends with it.
    pub fn tell(&mut self, frame: &Frame, feed: &mut Feed<'_>) -> bool {
        match frame.kind {
            DATA | HEADERS | CONTINUATION if !self.is_unasked(frame) => feed.turn(Side::Server),
            _ => feed.aside(),
        }
        (frame.ends_stream() || frame.kind == RST_STREAM) && self.end(frame.stream)
    }

    /// Whether nobody waits for what `frame` of the server brings.
    fn is_unasked(&mut self, frame: &Frame) -> bool {
        let Some(piece) = self.answer(frame.stream) else { return false };
        match (*piece, frame.kind) {
            (Piece::First { left: 0 }, DATA) if frame.payload_bytes > 0 => {
                *piece = Piece::Later;
                // What was waited for was over with the first.
                self.close_one();
                true
            }
            (Piece::First { left }, DATA) => {
                let left = left.saturating_sub(frame.payload_bytes.into());
                *piece = Piece::First { left };
                false
            }
            (piece, _) => piece == Piece::Later,
        }
    }

    fn answer(&mut self, stream: u32) -> Option<&mut Piece> {
        self.answers.iter_mut().find(|(of, _)| *of == stream).map(|(_, piece)| piece)
    }

    /// `stream` is over. Answers whether what is waited for is.
    fn end(&mut self, stream: u32) -> bool {
        let place = self.answers.iter().position(|(of, _)| *of == stream);
        let piece = place.map(|place| self.answers.remove(place).1);
        piece != Some(Piece::Later) && self.close_one()
    }

    /// One less is waited for; answers whether it was the last.
    fn close_one(&mut self) -> bool {
        self.open = self.open.saturating_sub(1);
        self.open == 0
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.answers.capacity() * size_of::<(u32, Piece)>() + self.contents.heap_bytes()
    }

    /// Whether something that was asked for goes on beyond its answer.
    pub fn has_unasked(&self) -> bool {
        let goes_on = |piece: &Piece| matches!(piece, Piece::First { left: 0 } | Piece::Later);
        self.answers.iter().any(|(_, piece)| goes_on(piece))
    }

    /// How many bytes of the payload of the server's `frame` tell what it is.
    pub fn wanted(&mut self, frame: &Frame) -> u32 {
        let begins_message = self.answer(frame.stream) == Some(&mut Piece::Before);
        match frame.kind {
            HEADERS if frame.has(END_HEADERS) && frame.payload_bytes <= BLOCK_MAX => {
                frame.payload_bytes
            }
            HEADERS | CONTINUATION | PUSH_PROMISE => {
                self.contents.lose();
                0
            }
            DATA if begins_message => frame.payload_bytes.min(PREFIX_BYTES),
            _ => 0,
        }
    }

    /// Takes what was wanted of `frame`, or `None` where it was not captured. Answers whether what is waited for
    /// ends with the frame.
    pub fn read(&mut self, frame: &Frame, payload: Option<&[u8]>) -> bool {
        match (frame.kind, payload) {
            (HEADERS, Some(payload)) => {
                let content = self.contents.read(block(frame, payload).unwrap_or_default());
                return self.announce(frame, content);
            }
            (HEADERS, None) => self.contents.lose(),
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

    /// A response begins with `content`. That there will be events is the answer.
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
        piece == Piece::Later && self.close_one()
    }
}

/// The header block in the payload of `frame`.
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
