//! PostgreSQL frontend/backend protocol, version 3.
//!
//! Read first: PostgreSQL documentation, chapter "Frontend/Backend Protocol", "Message Flow".
//! A request is a simple query, or the messages of the extended protocol up to Sync; its response
//! ends with ReadyForQuery. Start-up with its authentication is one exchange:
//!
//! ```text
//! response     = *message ReadyForQuery         ("Message Flow", "Simple Query")
//! asynchronous = NoticeResponse | NotificationResponse | ParameterStatus
//! ```
//!
//! An asynchronous message may come at any time ("Asynchronous Operations"): it begins no response,
//! and without a request it belongs to no exchange. After CopyBothResponse both sides stream
//! ("Streaming Replication Protocol"), and nothing is a request any more.

use super::error_code::ErrorCode;
use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::packets::{Rules, Shape};
use super::sql::verb;
use crate::wire::{BySide, Side};

/// Types of messages that a server may send at any time ("Asynchronous Operations"): NoticeResponse,
/// NotificationResponse and ParameterStatus.
const ASYNCHRONOUS: [u8; 3] = [b'N', b'A', b'S'];

/// Number of bytes of a statement in which the verb is searched for.
const STATEMENT_PEEK: usize = 192;
/// Number of bytes of an ErrorResponse in which the SQLSTATE is searched for: severities come
/// before it, the message after it.
const ERROR_PEEK: usize = 64;
const MESSAGE_MAX: u32 = 1 << 30;

const PROTOCOL_3: u32 = 3 << 16;
const CANCEL_REQUEST: u32 = 1234 << 16 | 5678;
const SSL_REQUEST: u32 = 1234 << 16 | 5679;
const GSSENC_REQUEST: u32 = 1234 << 16 | 5680;

/// Kind of a request to cancel another one: the server closes without a reply.
pub const CANCEL: &str = "cancel";

/// Kind of the exchange that begins a session, with its authentication (PostgreSQL, "Message Flow").
pub const STARTUP: &str = "startup";

/// Returns whether the code of a start-up packet is a version of the protocol.
pub(super) fn is_version_3(code: u32) -> bool {
    code & 0xffff_0000 == PROTOCOL_3
}

/// Returns whether the code of a start-up packet exists; minor versions vary.
pub(super) fn is_startup_code(code: u32) -> bool {
    is_version_3(code) || (CANCEL_REQUEST..=GSSENC_REQUEST).contains(&code)
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// The client's next message is a start-up packet.
    #[default]
    Startup,
    /// The server's next message is one byte, which states whether it encrypts.
    Encryption,
    Messages,
}

/// Returns whether `bytes`, with which a message of the server begins, are complete asynchronous
/// messages.
pub(super) fn only_asynchronous(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let [kind, tail @ ..] = rest {
        let length = tail.first_chunk().map(|it| u32::from_be_bytes(*it) as usize);
        let next = length.filter(|length| *length >= 4).and_then(|length| tail.get(length..));
        match next {
            Some(next) if ASYNCHRONOUS.contains(kind) => rest = next,
            _ => return false,
        }
    }
    !bytes.is_empty()
}

/// State of one connection.
#[derive(Clone, Default)]
pub(super) struct Postgres {
    phase: Phase,
    /// Type of the current message of each side.
    types: BySide<u8>,
    /// In the extended protocol: the request has not yet ended with Sync.
    in_batch: bool,
    /// The batch contained Flush, so that its response may begin.
    flushed: bool,
    /// The server receives COPY data. The Sync of that batch was ignored: the one that counts
    /// follows the data ("COPY operations").
    copies_in: bool,
    /// The server's current message reports an error that ends the session: no ReadyForQuery follows.
    is_fatal: bool,
}

impl Postgres {
    /// Creates the state. With `mid_stream` the start-up is already over.
    pub fn new(mid_stream: bool) -> Self {
        let phase = if mid_stream { Phase::Messages } else { Phase::Startup };
        Self { phase, ..Self::default() }
    }

    fn startup(&mut self, length: u32, code: u32) -> Result<Shape, Lost> {
        if !(8..=MESSAGE_MAX).contains(&length) || !is_startup_code(code) {
            return Err(Lost);
        }
        self.phase = match code {
            SSL_REQUEST | GSSENC_REQUEST => Phase::Encryption,
            _ => Phase::Messages,
        };
        Ok(Shape { length: u64::from(length - 8), peek: 0 })
    }

    fn client_begin(&mut self, first: u8, feed: &mut Feed<'_>) {
        match first {
            b'Q' | b'F' => feed.request_start(),
            b'S' if self.copies_in && !self.in_batch => {}
            // Flush alone is no new request.
            b'P' | b'B' | b'D' | b'E' | b'C' | b'S' if !self.in_batch => {
                self.in_batch = true;
                self.flushed = false;
                feed.request_start();
            }
            _ => {}
        }
    }

    fn server_begin(&mut self, first: u8, feed: &mut Feed<'_>) {
        // NoticeResponse, NotificationResponse and ParameterStatus may come at any time.
        if feed.is_responding() {
            return;
        }
        if ASYNCHRONOUS.contains(&first) {
            return feed.aside();
        }
        if self.flushed {
            feed.request_end();
        }
        feed.response_start();
    }
}

impl Rules for Postgres {
    fn header_bytes(&self, from: Side, _: &[u8]) -> usize {
        match (self.phase, from) {
            (Phase::Startup, Side::Client) => 8,
            (Phase::Encryption, Side::Server) => 1,
            _ => 5,
        }
    }

    fn begin(&mut self, from: Side, first: u8, feed: &mut Feed<'_>) {
        self.types[from] = first;
        match (from, self.phase) {
            (Side::Client, Phase::Startup) => feed.request_start(),
            (Side::Client, _) => self.client_begin(first, feed),
            (Side::Server, Phase::Encryption) => feed.response_start(),
            (Side::Server, _) => self.server_begin(first, feed),
        }
    }

    fn header(&mut self, from: Side, header: &[u8], feed: &mut Feed<'_>) -> Result<Shape, Lost> {
        match *header {
            [l1, l2, l3, l4, c1, c2, c3, c4] => {
                self.types[from] = 0;
                let code = u32::from_be_bytes([c1, c2, c3, c4]);
                feed.kind(&if code == CANCEL_REQUEST { CANCEL } else { STARTUP }.into());
                self.startup(u32::from_be_bytes([l1, l2, l3, l4]), code)
            }
            [kind, l1, l2, l3, l4] => {
                let length = u32::from_be_bytes([l1, l2, l3, l4]);
                if !kind.is_ascii_alphanumeric() || !(4..=MESSAGE_MAX).contains(&length) {
                    return Err(Lost);
                }
                let peek = match (from, kind) {
                    (Side::Client, b'Q' | b'P') => STATEMENT_PEEK,
                    (Side::Server, b'E') => ERROR_PEEK,
                    _ => 0,
                };
                Ok(Shape { length: u64::from(length - 4), peek })
            }
            _ => Ok(Shape { length: 0, peek: 0 }),
        }
    }

    fn head(&mut self, from: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        if from == Side::Server {
            feed.error(ErrorCode::of_postgres(head));
            self.is_fatal = ErrorCode::ends_postgres(head);
            return Ok(());
        }
        let statement = match self.types[from] {
            // Parse begins with the name of the prepared statement.
            b'P' => head.splitn(2, |&byte| byte == 0).nth(1).unwrap_or_default(),
            _ => head,
        };
        feed.kind(&verb(statement));
        Ok(())
    }

    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        match (from, self.types[from]) {
            (Side::Server, b'S') if self.phase == Phase::Encryption => {
                feed.response_end();
                return Ok(Next::Tunnel);
            }
            (Side::Server, _) if self.phase == Phase::Encryption => {
                feed.response_end();
                self.phase = Phase::Startup;
            }
            (Side::Server, b'E') if std::mem::take(&mut self.is_fatal) => feed.response_end(),
            (Side::Server, b'G') => self.copies_in = true,
            (Side::Server, b'W') => {
                feed.response_end();
                return Ok(Next::Aside);
            }
            (Side::Server, b'Z') => {
                self.copies_in = false;
                feed.response_end();
            }
            (Side::Client, 0 | b'Q') => feed.request_end(),
            (Side::Client, b'F') => {
                feed.kind(&"FUNCTION".into());
                feed.request_end();
            }
            (Side::Client, b'B') => feed.kind(&"EXECUTE".into()),
            // Without Bind it goes on with the rows of an open portal.
            (Side::Client, b'E') => feed.kind(&"FETCH".into()),
            (Side::Client, b'H') => self.flushed = true,
            (Side::Client, b'S') => {
                self.in_batch = false;
                self.flushed = false;
                feed.request_end();
            }
            _ => {}
        }
        Ok(Next::More)
    }
}
