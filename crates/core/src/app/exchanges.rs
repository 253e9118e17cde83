//! Puts the marks that parsers report into a well-formed order.

use super::error_code::ErrorCode;
use super::kind::Label;
use super::known::KnownHeaders;
use super::mark::Mark;
use super::sniff::begins_amqp_method;
use super::software::name_of;
use super::tls;
use crate::queue::Queue;
use crate::wire::{BySide, Side};

/// Maximum number of unanswered requests; with more, the protocol was probably misrecognised.
const WAITING_MAX: usize = 4096;

/// First byte of a TLS handshake record; no request of another protocol begins with it.
const CLIENT_HELLO_RECORD: u8 = 22;

/// First bytes of a ClientHello in the format of SSL 2.0 (RFC 5246 §E.2), shorter than 256 bytes or
/// not. Whether it is one shows later.
const OLD_HELLO: u8 = 0x80;
const LONG_OLD_HELLO: u8 = 0x81;

/// First byte of a command of Redis, which may get no response.
const COMMAND_ARRAY: u8 = b'*';

/// First byte of a heartbeat of AMQP.
const HEARTBEAT_FRAME: u8 = 8;

/// First byte of a short HTTP/2 frame; few other greetings begin with it.
const SETTINGS_FRAME: u8 = 0;

/// The parser cannot interpret the bytes any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// Facts about a request that its response's framing needs (RFC 9112 §6.3).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct RequestFlags(pub u8);

impl RequestFlags {
    /// The response has no body, whatever its header says.
    pub const HEAD: Self = Self(1);
    /// A successful response turns the connection into a tunnel.
    pub const CONNECT: Self = Self(2);
    /// The request expects 100 Continue before its body.
    pub const EXPECT: Self = Self(4);
}

/// Progress of a TLS handshake as reported in marks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Handshake {
    #[default]
    Unseen,
    Started,
    Ended,
}

/// Facts about the request in progress, the current push and the end of the connection, one bit each.
#[derive(Clone, Copy, Default)]
struct Noted(u8);

impl Noted {
    /// The kind of the request was marked.
    const KIND: u8 = 1 << 0;
    /// The end of its header was marked.
    const REQUEST_HEADER: u8 = 1 << 1;
    /// A request has passed behind which its client sends no other.
    const LAST_ASKED: u8 = 1 << 2;
    /// The newest request is answered by a stream of events, which nobody waits for.
    const STREAMS_EVENTS: u8 = 1 << 3;
    /// The current push of the server continues a reply to a command, behind which others may wait.
    const AMID_REPLY: u8 = 1 << 4;
    /// A request began in the current push by a change of direction.
    const TURNED: u8 = 1 << 5;

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    fn set(&mut self, bits: u8, value: bool) {
        self.0 = if value { self.0 | bits } else { self.0 & !bits };
    }
}

/// The open requests and the response in progress.
#[derive(Clone, Default)]
pub(super) struct Exchanges {
    /// Requests that have begun and whose response has not, oldest first.
    waiting: Queue<RequestFlags>,
    /// The request that the response in progress answers, if any.
    answering: Option<RequestFlags>,
    /// The side whose next message start was already marked while its protocol was not yet known.
    anticipated: Option<Side>,
    handshake: Handshake,
    /// `true` if kinds may contain literal values.
    pub shows_values: bool,
    sending: bool,
    noted: Noted,
    responding: bool,
    response_header_given: bool,
    software_given: BySide<bool>,
    /// The pushed bytes come in the middle of a message of the other side, see
    /// [`super::Framer::set_overlapping`].
    pub overlapping: bool,
    /// The pushed bytes come too late to be sent for what was received last, see
    /// [`super::Framer::set_late`].
    pub late: bool,
    /// About the current push: `is_in_exchange` if a part of it belongs to an exchange, `set_aside`
    /// if a part belongs to none.
    pub is_in_exchange: bool,
    pub set_aside: bool,
}

/// The bytes of one push, for a parser, and the receiver of the parser's marks.
pub(super) struct Feed<'a> {
    /// The captured bytes of the push.
    pub bytes: &'a [u8],
    /// Number of bytes behind them that were not captured.
    pub missing: u32,
    /// Number of bytes consumed; beyond their length if missing bytes were skipped.
    pub pos: usize,
    /// Position of all marks while a prefix of earlier pushes, which the sniffer had held back, is
    /// replayed.
    pub pinned: Option<u32>,
    pub exchanges: &'a mut Exchanges,
    /// Headers that were parsed before.
    pub known: &'a mut KnownHeaders,
    pub on: &'a mut (dyn FnMut(u32, Mark<'_>) + 'a),
}

impl Exchanges {
    /// Records that `from` is in the middle of a message.
    pub fn begin_mid_message(&mut self, from: Side) {
        match from {
            Side::Client => self.waiting.push_back(RequestFlags::default()),
            Side::Server => self.responding = true,
        }
    }

    /// Returns whether the start of the message of `from` was marked before its protocol is known.
    pub fn has_anticipated(&self, from: Side) -> bool {
        self.anticipated == Some(from)
    }

    /// Drops the anticipated start: the message belongs to no known protocol.
    pub fn forget_anticipated(&mut self) {
        self.anticipated = None;
    }

    /// Returns whether the header of the final response to the newest request has come.
    pub fn is_finally_answered(&self) -> bool {
        self.waiting.is_empty() && (!self.responding || self.response_header_given)
    }

    /// Returns whether a response is in progress, and nothing else is known of what follows.
    #[inline]
    pub fn is_only_responding(&self) -> bool {
        self.responding && self.waiting.is_empty() && self.anticipated.is_none()
    }

    /// Returns the bytes of heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.waiting.heap_bytes()
    }

    /// Returns whether the software of `from` is known.
    #[inline]
    pub fn knows_software(&self, from: Side) -> bool {
        self.software_given[from]
    }

    /// Records that the software of `from` is known.
    pub fn know_software(&mut self, from: Side) {
        self.software_given[from] = true;
    }

    /// Returns whether no request is in progress or waiting, and the next one would not come in the
    /// middle of a response to another.
    pub fn is_at_rest(&self) -> bool {
        !self.overlapping && !self.sending && self.anticipated.is_none() && self.waiting.is_empty()
    }

    /// Begins and ends a request whose kind is known. Returns `false` and changes nothing if the
    /// state is not simple enough.
    #[inline]
    pub fn add_whole_request(&mut self, flags: RequestFlags) -> bool {
        if self.anticipated.is_some()
            || self.sending
            || self.waiting.len() >= WAITING_MAX
            || self.noted.has(Noted::LAST_ASKED)
        {
            return false;
        }
        (self.is_in_exchange, self.set_aside) = (true, false);
        self.waiting.push_back(flags);
        self.noted.set(Noted::KIND | Noted::REQUEST_HEADER, true);
        self.noted.set(Noted::STREAMS_EVENTS, false);
        true
    }

    /// Begins and ends the response to a request without flags, behind which the server `closes`. Returns `false` and changes nothing
    /// if the state is not simple enough.
    #[inline]
    pub fn add_whole_response(&mut self, closes: bool) -> bool {
        let plain = self.waiting.front() == Some(&RequestFlags::default());
        if !plain || self.anticipated.is_some() || closes && self.waiting.len() > 1 {
            return false;
        }
        (self.is_in_exchange, self.set_aside) = (true, false);
        self.answering = self.waiting.pop_front();
        (self.responding, self.response_header_given) = (false, true);
        true
    }

    /// Records that the newest request ends the connection with its response (RFC 9112 §9.6), unless that
    /// may make it a tunnel.
    pub fn end_with_request(&mut self) {
        if self.waiting.back() != Some(&RequestFlags::CONNECT) {
            self.noted.set(Noted::LAST_ASKED, true);
        }
    }

    /// Returns whether a request ended the connection with its response.
    pub fn has_asked_last(&self) -> bool {
        self.noted.has(Noted::LAST_ASKED)
    }

    fn drop_all_but_newest(&mut self) {
        self.anticipated = None;
        while self.waiting.len() > 1 {
            self.waiting.pop_front();
        }
    }

    /// Sets whether the next push of the server continues a reply to a command, behind which others may wait.
    pub fn set_amid_reply(&mut self, is_amid: bool) {
        self.noted.set(Noted::AMID_REPLY, is_amid);
    }

    /// Returns whether the newest request is answered by a stream of events.
    pub fn streams_events(&self) -> bool {
        self.noted.has(Noted::STREAMS_EVENTS)
    }

    /// Returns whether the TLS handshake has ended.
    pub fn is_handshake_over(&self) -> bool {
        self.handshake == Handshake::Ended
    }
}

impl<'a> Feed<'a> {
    /// Returns the captured bytes not yet consumed.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    /// Consumes and returns the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.pos)?;
        self.pos += 1;
        Some(byte)
    }

    fn mark(&mut self, mark: Mark<'_>) {
        let at = self.pinned.unwrap_or_else(|| u32::try_from(self.pos).unwrap_or(u32::MAX));
        (self.on)(at, mark);
    }

    /// Marks the start of a message before its protocol is known; the parser's own mark is then
    /// suppressed.
    pub fn anticipate(&mut self, from: Side) {
        match (from, self.rest()) {
            (Side::Client, [CLIENT_HELLO_RECORD, ..]) => self.handshake_start(),
            // This is a message, or data for which nothing waits: the sniffer decides.
            (Side::Server, [SETTINGS_FRAME, ..]) | (Side::Client, [COMMAND_ARRAY, ..]) => {}
            (_, [HEARTBEAT_FRAME, ..]) => {}
            (Side::Client, [OLD_HELLO | LONG_OLD_HELLO, ..]) => {}
            (_, bytes) if tls::begins_with_alert(bytes) || begins_amqp_method(bytes) => {}
            _ => {
                self.turn(from);
                self.exchanges.anticipated = Some(from);
            }
        }
    }

    /// Returns whether the start of the next message was marked before its protocol was known.
    pub fn is_anticipated(&self) -> bool {
        self.exchanges.anticipated.is_some()
    }

    fn was_anticipated(&mut self, from: Side) -> bool {
        let hit = self.exchanges.anticipated == Some(from);
        if hit {
            self.exchanges.anticipated = None;
        }
        hit
    }

    /// Processes bytes of an unknown protocol: a change of direction begins a request or a
    /// response.
    pub fn turn(&mut self, from: Side) {
        self.exchanges.is_in_exchange = true;
        self.exchanges.noted.set(Noted::TURNED, false);
        // The start was marked; the next bytes of this side begin another message.
        if self.was_anticipated(from) || self.exchanges.overlapping {
            return;
        }
        let waiting = !self.exchanges.waiting.is_empty();
        self.exchanges.noted.set(Noted::TURNED, from == Side::Client && !waiting);
        match from {
            Side::Client if !waiting => self.request_start(),
            Side::Server if waiting && !self.exchanges.noted.has(Noted::AMID_REPLY) => {
                self.request_end();
                self.response_start();
            }
            Side::Server if !self.exchanges.responding => self.response_start(),
            _ => {}
        }
    }

    /// Begins a request for a command that is sent before the one in front has its reply. The first in a
    /// push may have begun by the change of direction.
    pub fn next_command(&mut self) {
        if self.pos > 0 || !self.exchanges.noted.has(Noted::TURNED) {
            self.request_start();
        }
    }

    /// Ends the reply to a command, behind which the server works on the next one.
    pub fn response_end_before_next(&mut self) {
        self.response_end();
        if !self.exchanges.waiting.is_empty() {
            self.mark(Mark::Proceeds);
        }
    }

    /// Records that the client sends the newest request again, if that is still unanswered.
    pub fn expect_repetition(&mut self) {
        self.request_end();
        if !self.exchanges.waiting.is_empty() {
            self.exchanges.anticipated = Some(Side::Client);
        }
    }

    /// Records data that keeps the connection open or ends it, and belongs to no exchange.
    pub fn aside(&mut self) {
        self.exchanges.anticipated = None;
        self.exchanges.set_aside = true;
    }

    /// Ends the response, which announces a stream of events: the client does not wait for the last of
    /// them.
    pub fn stream_of_events(&mut self) {
        self.response_end();
        self.exchanges.noted.set(Noted::STREAMS_EVENTS, true);
    }

    pub fn request_start(&mut self) {
        self.exchanges.is_in_exchange = true;
        if self.was_anticipated(Side::Client) {
            return;
        }
        self.request_end();
        if self.exchanges.waiting.len() >= WAITING_MAX {
            self.desync();
        }
        let exchanges = &mut *self.exchanges;
        let is_behind_other = exchanges.responding || !exchanges.waiting.is_empty();
        let is_behind_end = exchanges.noted.has(Noted::LAST_ASKED) && is_behind_other;
        exchanges.waiting.push_back(RequestFlags::default());
        exchanges.sending = true;
        exchanges.noted.set(Noted::KIND | Noted::REQUEST_HEADER | Noted::STREAMS_EVENTS, false);
        self.mark(Mark::RequestStart);
        if is_behind_end {
            self.mark(Mark::NotDue);
        }
    }

    /// Sets the flags of the newest request, which the framing of its response depends on.
    pub fn request_flags(&mut self, flags: RequestFlags) {
        if let Some(newest) = self.exchanges.waiting.back_mut() {
            *newest = flags;
        }
    }

    /// Adds to the flags of the newest request that it expects 100 Continue.
    pub fn request_expects(&mut self) {
        let newest = self.exchanges.waiting.back_mut();
        if let Some(plain) = newest.filter(|flags| **flags == RequestFlags::default()) {
            *plain = RequestFlags::EXPECT;
        }
    }

    pub fn kind(&mut self, kind: &Label) {
        if self.exchanges.sending && !self.exchanges.noted.has(Noted::KIND) && !kind.is_empty() {
            self.exchanges.noted.set(Noted::KIND, true);
            self.mark(Mark::Kind(kind));
        }
    }

    pub fn request_header_end(&mut self, expects_continue: bool) {
        if self.exchanges.sending && !self.exchanges.noted.has(Noted::REQUEST_HEADER) {
            self.exchanges.noted.set(Noted::REQUEST_HEADER, true);
            self.mark(Mark::RequestHeaderEnd { expects_continue });
        }
    }

    pub fn request_end(&mut self) {
        if self.exchanges.sending {
            self.exchanges.sending = false;
            self.mark(Mark::RequestEnd);
        }
    }

    pub fn response_start(&mut self) {
        self.exchanges.is_in_exchange = true;
        if self.was_anticipated(Side::Server) {
            return;
        }
        let exchanges = &mut *self.exchanges;
        exchanges.answering = exchanges.waiting.pop_front();
        exchanges.responding = true;
        exchanges.response_header_given = false;
        self.mark(Mark::ResponseStart);
    }

    /// Returns the flags of the request that the response in progress answers.
    pub fn answering(&self) -> RequestFlags {
        self.exchanges.answering.unwrap_or_default()
    }

    /// Returns whether a response is in progress.
    pub fn is_responding(&self) -> bool {
        self.exchanges.responding
    }

    /// Returns whether a request waits for its response.
    pub fn is_waiting(&self) -> bool {
        !self.exchanges.waiting.is_empty()
    }

    /// Returns whether a request waits for its response or a response is in progress.
    pub fn has_begun(&self) -> bool {
        self.exchanges.responding || !self.exchanges.waiting.is_empty()
    }

    pub fn interim(&mut self, status: u16) {
        if self.exchanges.responding {
            self.exchanges.responding = false;
            if let Some(flags) = self.exchanges.answering.take() {
                self.exchanges.waiting.push_front(flags);
            }
            self.mark(Mark::Interim { status });
        }
    }

    /// Marks that the server closes the connection behind the response in progress.
    pub fn answer_no_more(&mut self) {
        if self.exchanges.responding && !self.exchanges.waiting.is_empty() {
            self.mark(Mark::LastResponse);
        }
    }

    pub fn response_header_end(&mut self, status: u16) {
        if self.exchanges.responding && !self.exchanges.response_header_given {
            self.exchanges.response_header_given = true;
            self.mark(Mark::ResponseHeaderEnd { status });
        }
    }

    /// Marks an error that the response in progress reports.
    pub fn error(&mut self, code: ErrorCode) {
        if self.exchanges.responding {
            self.mark(Mark::Error(code));
        }
    }

    /// Marks the delay, seconds, after which the response in progress asks the client to try again.
    pub fn retry_after(&mut self, seconds: u32) {
        if self.exchanges.responding {
            self.mark(Mark::RetryAfter { seconds });
        }
    }

    /// Marks an error that ends the TLS handshake.
    pub fn handshake_error(&mut self, code: ErrorCode) {
        if self.exchanges.handshake == Handshake::Started {
            self.mark(Mark::Error(code));
        }
    }

    pub fn response_end(&mut self) {
        if self.exchanges.responding {
            self.exchanges.responding = false;
            self.mark(Mark::ResponseEnd);
        }
    }

    /// Marks the software of a side, once per side: it does not change during a connection.
    pub fn software(&mut self, from: Side, software: &[u8]) {
        let given = &mut self.exchanges.software_given[from];
        if *given {
            return;
        }
        if let Some(name) = name_of(software) {
            *given = true;
            self.mark(Mark::Software(name));
        }
    }

    pub fn handshake_start(&mut self) {
        if self.exchanges.handshake == Handshake::Unseen {
            self.exchanges.handshake = Handshake::Started;
            self.mark(Mark::HandshakeStart);
        }
    }

    /// Marks the ClientHello that a HelloRetryRequest asked for.
    pub fn hello_again(&mut self) {
        if self.exchanges.handshake == Handshake::Started {
            self.mark(Mark::HelloAgain);
        }
    }

    pub fn handshake_end(&mut self, resumed: bool, certificate_bytes: u32, is_tls13: bool) {
        if self.exchanges.handshake == Handshake::Started {
            self.exchanges.handshake = Handshake::Ended;
            self.mark(Mark::HandshakeEnd { resumed, certificate_bytes, is_tls13 });
        }
    }

    pub fn desync(&mut self) {
        self.exchanges.drop_all_but_newest();
        self.mark(Mark::Desync);
    }

    /// Marks that only the newest of the requests is followed.
    pub fn overtake(&mut self) {
        self.exchanges.drop_all_but_newest();
        self.mark(Mark::Overtaken);
    }
}
