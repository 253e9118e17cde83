//! PostgreSQL frontend/backend protocol, version 3.
//!
//! Read first: PostgreSQL documentation, chapter "Frontend/Backend Protocol", "Message Flow".
//! A request is a simple query, or the messages of the extended protocol up to Sync; its response
//! ends with ReadyForQuery. Start-up with its authentication is one exchange.

use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::mark::Side;
use super::packets::{Rules, Shape};
use super::sql::verb;

/// Number of bytes of a statement in which the verb is searched for.
const STATEMENT_PEEK: usize = 192;
const MESSAGE_MAX: u32 = 1 << 30;

const PROTOCOL_3: u32 = 3 << 16;
const CANCEL_REQUEST: u32 = 1234 << 16 | 5678;
const SSL_REQUEST: u32 = 1234 << 16 | 5679;
const GSSENC_REQUEST: u32 = 1234 << 16 | 5680;

/// Returns whether the code of a start-up packet exists; minor versions vary.
pub(super) fn is_startup_code(code: u32) -> bool {
    code & 0xffff_0000 == PROTOCOL_3 || (CANCEL_REQUEST..=GSSENC_REQUEST).contains(&code)
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

/// State of one connection.
#[derive(Clone, Default)]
pub(super) struct Postgres {
    phase: Phase,
    /// Type of the current message of each side.
    types: [u8; 2],
    /// In the extended protocol: the request has not yet ended with Sync.
    in_batch: bool,
    /// The batch contained Flush, so that its response may begin.
    flushed: bool,
    /// The server receives COPY data. The Sync of that batch was ignored: the one that counts
    /// follows the data ("COPY operations").
    copies_in: bool,
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
        if !matches!(first, b'N' | b'A' | b'S') && !feed.is_responding() {
            if self.flushed {
                feed.request_end();
            }
            feed.response_start();
        }
    }
}

impl Rules for Postgres {
    fn header_bytes(&self, from: Side) -> usize {
        match (self.phase, from) {
            (Phase::Startup, Side::Client) => 8,
            (Phase::Encryption, Side::Server) => 1,
            _ => 5,
        }
    }

    fn begin(&mut self, from: Side, first: u8, feed: &mut Feed<'_>) {
        self.types[from as usize] = first;
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
                self.types[from as usize] = 0;
                feed.kind(&"startup".into());
                let code = u32::from_be_bytes([c1, c2, c3, c4]);
                self.startup(u32::from_be_bytes([l1, l2, l3, l4]), code)
            }
            [kind, l1, l2, l3, l4] => {
                let length = u32::from_be_bytes([l1, l2, l3, l4]);
                if !kind.is_ascii_alphanumeric() || !(4..=MESSAGE_MAX).contains(&length) {
                    return Err(Lost);
                }
                let has_statement = from == Side::Client && matches!(kind, b'Q' | b'P');
                let peek = if has_statement { STATEMENT_PEEK } else { 0 };
                Ok(Shape { length: u64::from(length - 4), peek })
            }
            _ => Ok(Shape { length: 0, peek: 0 }),
        }
    }

    fn head(&mut self, from: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let statement = match self.types[from as usize] {
            // Parse begins with the name of the prepared statement.
            b'P' => head.splitn(2, |&byte| byte == 0).nth(1).unwrap_or_default(),
            _ => head,
        };
        feed.kind(&verb(statement));
        Ok(())
    }

    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        match (from, self.types[from as usize]) {
            (Side::Server, b'S') if self.phase == Phase::Encryption => {
                feed.response_end();
                return Ok(Next::Tunnel);
            }
            (Side::Server, _) if self.phase == Phase::Encryption => {
                feed.response_end();
                self.phase = Phase::Startup;
            }
            (Side::Server, b'G') => self.copies_in = true,
            (Side::Server, b'Z') => {
                self.copies_in = false;
                feed.response_end();
            }
            (Side::Client, 0 | b'Q') => feed.request_end(),
            (Side::Client, b'F') => {
                feed.kind(&"FUNCTION".into());
                feed.request_end();
            }
            (Side::Client, b'B' | b'E') => feed.kind(&"EXECUTE".into()),
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
