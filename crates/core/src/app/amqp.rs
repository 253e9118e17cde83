//! AMQP 0-9-1 (RabbitMQ and others).
//!
//! Read first: "AMQP Advanced Message Queuing Protocol, Protocol Specification 0-9-1", §2.3.5 frames,
//! §4.2.3 to §4.2.7, and the grammar of each class. A method of the client that has a reply is a
//! request, and so is the protocol header; their replies end them:
//!
//! ```text
//! protocol-header   connection.start              queue.declare      queue.declare-ok
//! connection.start-ok, secure-ok                  basic.get          basic.get-ok content
//!                   connection.secure or tune                        or basic.get-empty
//! connection.open   connection.open-ok            any of a channel   channel.close
//! channel.open      channel.open-ok …             any                connection.close
//! ```
//!
//! Everything else is part of no exchange: heartbeats, which both sides send by timers of their
//! own (§4.2.7); deliveries and their acknowledgements; publications, which are confirmed many at a
//! time and in any order, if at all; methods with no-wait; and what the server asks of the client.
//! Channels are independent of each other, so that a request is followed only while no other waits.

use super::error_code::ErrorCode;
use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::packets::{Rules, Shape};
use crate::wire::{BySide, Side};

/// `AMQP`, 0, and the version 0-9-1.
pub(super) const PROTOCOL_HEADER: &[u8] = b"AMQP\0\0\x09\x01";
/// Type, channel and size of a frame (§4.2.3).
const FRAME_HEADER_BYTES: usize = 7;
/// Greatest size of a frame's payload; brokers offer 128 KiB, the standard sets no limit.
const FRAME_MAX: u32 = 1 << 27;
/// Number of bytes of a method in which its bits are looked for.
const METHOD_PEEK: usize = 600;
/// Class, weight, and body size of a content header (§4.2.6.1).
const CONTENT_PEEK: usize = 12;

/// Types of frames (§4.2.3).
mod frame {
    pub const METHOD: u8 = 1;
    pub const CONTENT_HEADER: u8 = 2;
    pub const BODY: u8 = 3;
    pub const HEARTBEAT: u8 = 8;
}

/// A class and a method of it.
type Method = (u16, u16);

const CONNECTION_START: Method = (10, 10);
const CONNECTION_SECURE: Method = (10, 20);
const CONNECTION_TUNE: Method = (10, 30);
const CONNECTION_CLOSE: Method = (10, 50);
const CHANNEL_CLOSE: Method = (20, 40);
/// Bytes of a reply code.
const REPLY_CODE_BYTES: usize = 2;
/// The least reply code that is an error (§1.2): 200 is success.
const ERROR_MIN: u16 = 300;
const BASIC_GET_OK: Method = (60, 71);
const BASIC_GET_EMPTY: Method = (60, 72);

/// A method of the client that is a request.
struct Request {
    method: Method,
    name: &'static str,
    /// Place of the bit no-wait: number of bytes before the strings, number of strings, mask.
    no_wait: Option<(usize, usize, u8)>,
}

const fn request(
    method: Method,
    name: &'static str,
    no_wait: Option<(usize, usize, u8)>,
) -> Request {
    Request { method, name, no_wait }
}

const REQUESTS: [Request; 24] = [
    request((10, 11), "connection.start-ok", None),
    request((10, 21), "connection.secure-ok", None),
    request((10, 40), "connection.open", None),
    request((10, 50), "connection.close", None),
    request((20, 10), "channel.open", None),
    request((20, 20), "channel.flow", None),
    request((20, 40), "channel.close", None),
    request((40, 10), "exchange.declare", Some((2, 2, 1 << 4))),
    request((40, 20), "exchange.delete", Some((2, 1, 1 << 1))),
    request((40, 30), "exchange.bind", Some((2, 3, 1))),
    request((40, 40), "exchange.unbind", Some((2, 3, 1))),
    request((50, 10), "queue.declare", Some((2, 1, 1 << 4))),
    request((50, 20), "queue.bind", Some((2, 3, 1))),
    request((50, 30), "queue.purge", Some((2, 1, 1))),
    request((50, 40), "queue.delete", Some((2, 1, 1 << 2))),
    request((50, 50), "queue.unbind", None),
    request((60, 10), "basic.qos", None),
    request((60, 20), "basic.consume", Some((2, 2, 1 << 3))),
    request((60, 30), "basic.cancel", Some((0, 1, 1))),
    request((60, 70), "basic.get", None),
    request((60, 110), "basic.recover", None),
    request((85, 10), "confirm.select", Some((0, 0, 1))),
    request((90, 20), "tx.commit", None),
    request((90, 30), "tx.rollback", None),
];

/// State of one connection.
#[derive(Clone, Default)]
pub(super) struct Amqp {
    frames: BySide<Frame>,
    /// The request without a reply: its channel and method, (0, 0) for the protocol header.
    waiting: Option<(u16, Method)>,
    /// The message that the server sends as a reply.
    content: Option<Content>,
}

#[derive(Clone, Copy, Default)]
struct Frame {
    kind: u8,
    channel: u16,
    size: u32,
    /// The exchange's message of this side ends with the frame.
    ends: bool,
}

#[derive(Clone, Copy)]
struct Content {
    channel: u16,
    /// Bytes of the body that have not come; `None` before the content header.
    left: Option<u64>,
}

/// Returns whether `reply` may be the reply to `asked`.
fn replies(asked: Method, reply: Method) -> bool {
    match asked {
        (0, 0) => reply == CONNECTION_START,
        (10, 11 | 21) => matches!(reply, CONNECTION_SECURE | CONNECTION_TUNE),
        (60, 70) => matches!(reply, BASIC_GET_OK | BASIC_GET_EMPTY),
        (class, method) => reply == (class, method + 1),
    }
}

/// Returns the class and the method at the beginning of a method frame, and its arguments.
fn method(head: &[u8]) -> Result<(Method, &[u8]), Lost> {
    let [c1, c2, m1, m2, arguments @ ..] = head else { return Err(Lost) };
    Ok(((u16::from_be_bytes([*c1, *c2]), u16::from_be_bytes([*m1, *m2])), arguments))
}

/// Returns whether the bit at `place` of `arguments` is set; if it is beyond what was read, it is
/// taken for clear.
fn is_set(arguments: &[u8], place: (usize, usize, u8)) -> bool {
    let (before, strings, mask) = place;
    let mut rest = arguments.get(before..);
    for _ in 0..strings {
        rest = rest.and_then(|rest| rest.get(1 + usize::from(*rest.first()?)..));
    }
    rest.and_then(<[u8]>::first).is_some_and(|bits| bits & mask != 0)
}

/// Sets to zero everything that the framer does not read in `head`, the beginning of a frame's
/// payload; lengths before the bit no-wait remain.
pub(crate) fn skeleton(side: Side, framing: &[u8], head: &mut [u8]) {
    let Some(kind) = kind_of(framing, head.len()) else { return head.fill(0) };
    let asked = method(head).map(|(asked, _)| asked);
    let request = REQUESTS.iter().find(|it| side == Side::Client && Ok(it.method) == asked);
    let mut at = 4.min(head.len());
    let Some(&Request { no_wait: Some((before, strings, _)), .. }) = request else {
        // A content header has the size of its body, a close of the server a reply code.
        let is_close = matches!(asked, Ok(CONNECTION_CLOSE | CHANNEL_CLOSE));
        let kept = match (kind, side) {
            (frame::CONTENT_HEADER, _) => CONTENT_PEEK.min(head.len()),
            (_, Side::Server) if is_close => (at + REPLY_CODE_BYTES).min(head.len()),
            _ => at,
        };
        return head[kept..].fill(0);
    };
    let mut blank = |from: usize, to: usize| {
        let to = to.min(head.len());
        if from < to {
            head[from..to].fill(0);
        }
        head.get(to).copied()
    };
    let mut next = blank(at, at + before);
    at += before;
    for _ in 0..strings {
        let end = at + 1 + usize::from(next.unwrap_or_default());
        next = blank(at + 1, end);
        at = end;
    }
    blank(at + 1, usize::MAX);
}

/// Returns the type of the frame whose header ends `framing`, and of whose payload `payload_bytes` are
/// read; `None` if `framing` does not end with such a header, as in the first message of a capture that
/// begins in the middle of a connection.
fn kind_of(framing: &[u8], payload_bytes: usize) -> Option<u8> {
    let &[.., kind, _, _, a, b, c, d] = framing else { return None };
    let most = match kind {
        frame::METHOD => METHOD_PEEK,
        frame::CONTENT_HEADER => CONTENT_PEEK,
        _ => return None,
    };
    let stated = u32::from_be_bytes([a, b, c, d]) as usize;
    (payload_bytes == stated.min(most)).then_some(kind)
}

impl Amqp {
    fn client_method(&mut self, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let (asked, arguments) = method(head)?;
        let request = REQUESTS.iter().find(|it| it.method == asked);
        let request = request.filter(|it| !it.no_wait.is_some_and(|at| is_set(arguments, at)));
        let Some(request) = request.filter(|_| self.waiting.is_none() && self.content.is_none())
        else {
            feed.aside();
            return Ok(());
        };
        feed.request_start();
        feed.kind(&request.name.into());
        self.waiting = Some((self.frames[0].channel, asked));
        self.frames[0].ends = true;
        Ok(())
    }

    fn server_method(&mut self, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let (reply, arguments) = method(head)?;
        let frame = &mut self.frames[1];
        let answers = self.waiting.is_some_and(|(channel, asked)| match reply {
            CONNECTION_CLOSE => true,
            CHANNEL_CLOSE => channel == frame.channel,
            _ => channel == frame.channel && replies(asked, reply),
        });
        if !answers {
            feed.aside();
            return Ok(());
        }
        self.waiting = None;
        feed.response_start();
        if matches!(reply, CONNECTION_CLOSE | CHANNEL_CLOSE)
            && let Some(code) = arguments.first_chunk().map(|it| u16::from_be_bytes(*it))
            && code >= ERROR_MIN
        {
            feed.error(ErrorCode::Amqp(code));
        }
        if reply == BASIC_GET_OK {
            self.content = Some(Content { channel: frame.channel, left: None });
        } else {
            frame.ends = true;
        }
        Ok(())
    }

    /// Processes a frame of a message of the server: the reply in progress, or a delivery.
    fn server_content(&mut self, head: &[u8], feed: &mut Feed<'_>) {
        let frame = &mut self.frames[1];
        let Some(content) = self.content.as_mut().filter(|it| it.channel == frame.channel) else {
            return feed.aside();
        };
        let left = match content.left {
            None => head.get(4..).and_then(<[u8]>::first_chunk).map(|it| u64::from_be_bytes(*it)),
            Some(left) => Some(left.saturating_sub(frame.size.into())),
        };
        content.left = Some(left.unwrap_or(0));
        if content.left == Some(0) {
            self.content = None;
            frame.ends = true;
        }
    }
}

impl Rules for Amqp {
    fn header_bytes(&self, from: Side, _: &[u8]) -> usize {
        match self.frames[from].kind {
            b'A' => PROTOCOL_HEADER.len(),
            _ => FRAME_HEADER_BYTES,
        }
    }

    fn begin(&mut self, from: Side, first: u8, feed: &mut Feed<'_>) {
        self.frames[from] = Frame { kind: first, ..Frame::default() };
        if first == b'A' && from == Side::Client {
            feed.request_start();
            feed.kind(&"protocol header".into());
        }
    }

    fn header(&mut self, from: Side, header: &[u8], feed: &mut Feed<'_>) -> Result<Shape, Lost> {
        let frame = &mut self.frames[from];
        let &[kind, c1, c2, s1, s2, s3, s4] = header else {
            // A server that speaks another version answers with its header, and closes.
            if header != PROTOCOL_HEADER && from == Side::Client {
                return Err(Lost);
            }
            match from {
                Side::Client => self.waiting = Some((0, (0, 0))),
                Side::Server if self.waiting.take().is_some() => feed.response_start(),
                Side::Server => feed.aside(),
            }
            frame.ends = true;
            return Ok(Shape { length: 0, peek: 0 });
        };
        frame.channel = u16::from_be_bytes([c1, c2]);
        frame.size = u32::from_be_bytes([s1, s2, s3, s4]);
        if frame.size > FRAME_MAX {
            return Err(Lost);
        }
        let peek = match (from, kind) {
            (_, frame::METHOD) => METHOD_PEEK,
            (Side::Server, frame::CONTENT_HEADER) => CONTENT_PEEK,
            (Side::Server, frame::BODY) => 1,
            (Side::Client, frame::CONTENT_HEADER | frame::BODY) | (_, frame::HEARTBEAT) => {
                feed.aside();
                0
            }
            _ => return Err(Lost),
        };
        // The frame ends with 0xce.
        Ok(Shape { length: u64::from(frame.size) + 1, peek })
    }

    fn head(&mut self, from: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        match (from, self.frames[from].kind) {
            (Side::Client, _) => self.client_method(head, feed),
            (Side::Server, frame::METHOD) => self.server_method(head, feed),
            (Side::Server, _) => {
                self.server_content(head, feed);
                Ok(())
            }
        }
    }

    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        if std::mem::take(&mut self.frames[from].ends) {
            match from {
                Side::Client => feed.request_end(),
                Side::Server => feed.response_end(),
            }
        }
        Ok(Next::More)
    }
}
