//! The framer of one connection: skips known bodies and passes the other bytes to its parser.

mod carried;
mod credit;
mod machines;
mod more;
mod spoken;

use super::dialogue::Dialogue;
use super::exchanges::{Exchanges, Feed, Lost};
use super::frames::{Frames, is_keepalive};
use super::http::Http;
use super::known::KnownHeaders;
use super::machine::Machine;
use super::mark::Mark;
use super::protocol::Protocol;
use super::sniff::{Hint, Sniffer, asks_nothing, proxy_header};
use super::tls::{self, Opening};
use super::{calls, memcached};
use crate::wire::{BySide, Side};
use spoken::Spoken;

/// A parser's instruction for the bytes after those that it has examined.
pub(super) enum Next {
    /// All captured bytes are consumed.
    More,
    /// A number of bytes to skip; the parser is called again right after them, perhaps without
    /// bytes.
    Skip(u64),
    /// The connection changes to a protocol that is not followed.
    Turns,
    /// The connection changes to WebSocket.
    WebSocket,
    /// No byte after the message in progress belongs to an exchange.
    Aside,
    /// The connection changes to HTTP/2, whose stream 1 is the request.
    Http2,
    /// The connection becomes a tunnel: the protocol of the following bytes has to be recognised
    /// anew.
    Tunnel,
}

/// The meaning of the next byte of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A byte of no known protocol.
    Unknown,
    /// A byte held back until the protocol is recognised.
    Undecided,
    /// A byte of a body; the value is the number of bytes that no parser looks at.
    Body(u64),
    /// A byte of a fixed header: lengths, types, flags.
    Framing,
    /// A byte at the beginning of a message, which is read for the kind of request.
    Head,
    /// A byte of a line.
    Line,
}

/// Finds requests and responses in the bytes of one TCP connection.
///
/// It has to receive every byte of both directions in order, by [`push`](Self::push), and calls
/// back with [`Mark`]s. The rules that the marks obey are in the [module's documentation](super).
#[derive(Clone)]
pub struct Framer {
    /// Number of bytes per side to be skipped without a parser.
    skip: BySide<u64>,
    exchanges: Exchanges,
    machine: Machine,
    server_port: u16,
    protocol: Protocol,
    /// Every change of direction in an unknown protocol is checked for the start of a known one.
    hunting: bool,
    /// The side that sent the last bytes, while no protocol is known.
    last: Option<Side>,
    /// Commands and replies, if the server greets like a server of them.
    dialogue: Option<Box<Dialogue>>,
    /// What both sides have sent last.
    spoken: Spoken,
    /// Why TLS that was carried is not read any more, or never was.
    opening: Opening,
    /// It is SSH (RFC 4253 §4.2), whose programs set `TCP_NODELAY` when the handshake is over.
    pub is_ssh: bool,
}

impl Framer {
    /// Creates a framer for a connection to `server_port`, which serves as a hint only.
    /// `mid_stream` means that the connection's first bytes were not captured.
    pub fn new(server_port: u16, mid_stream: bool) -> Self {
        Self {
            skip: [0; 2],
            exchanges: Exchanges::default(),
            machine: Machine::Turns,
            server_port,
            protocol: Protocol::Turns,
            hunting: mid_stream,
            last: None,
            dialogue: None,
            spoken: Spoken::default(),
            opening: Opening::NotTried,
            is_ssh: false,
        }
    }

    /// Resets the framer because `server_port` has turned out to be the server's port.
    pub fn begin_again(&mut self, server_port: u16) {
        let shows_values = self.exchanges.shows_values;
        *self = Self::new(server_port, true);
        self.exchanges.shows_values = shows_values;
    }

    /// Resets the framer because the connection is set up again.
    pub fn restart(&mut self) {
        let shows_values = self.exchanges.shows_values;
        *self = Self::new(self.server_port, false);
        self.exchanges.shows_values = shows_values;
    }

    /// Makes kinds of requests contain literal values (complete paths).
    pub fn show_values(&mut self) {
        self.exchanges.shows_values = true;
    }

    /// Returns the bytes of heap memory in use, without parts of messages that are being assembled,
    /// whose size is bounded.
    pub fn heap_bytes(&self) -> usize {
        let dialogue = self.dialogue.as_ref().map_or(0, |it| it.bytes());
        self.machine.heap_bytes() + self.exchanges.heap_bytes() + dialogue
    }

    /// Records that `from` is in the middle of a message that began before the capture.
    pub fn begin_mid_message(&mut self, from: Side) {
        self.exchanges.begin_mid_message(from);
    }

    /// Returns the meaning of the next byte of `from`. The answer is exact if bytes are pushed one
    /// at a time.
    pub(crate) fn part(&self, from: Side) -> Part {
        let is_head = match &self.machine {
            _ if self.skip[from] > 0 => return Part::Body(self.skip[from]),
            Machine::Sniff(_) => return Part::Undecided,
            Machine::Turns | Machine::Aside => return Part::Unknown,
            Machine::Http(_) | Machine::Redis(_) => return Part::Line,
            Machine::Tls(it) => it.is_reading(from),
            Machine::Frames(it) => it.is_reading(from),
            Machine::Postgres(it) => it.is_in_head(from),
            Machine::Mysql(it) => it.is_in_head(from),
            Machine::Dns(it) => it.is_in_head(from),
            Machine::Amqp(it) => it.is_in_head(from),
            Machine::Calls(it) => it.is_in_head(from),
        };
        if is_head { Part::Head } else { Part::Framing }
    }

    /// Returns whether the end of the response in progress is known from the response, not from the
    /// end of the connection.
    pub fn announces_end(&self) -> bool {
        self.is_http() && !self.skips_to_end() && !self.has_last_chunk()
    }

    /// Returns whether the response in progress ends with the connection.
    pub fn ends_with_connection(&self) -> bool {
        self.is_http() && self.skips_to_end()
    }

    /// Returns whether messages of HTTP/1 pass, which show where a request ends.
    pub fn is_http(&self) -> bool {
        let it = self.spoken_by();
        it.protocol == Protocol::Http1 && matches!(it.machine, Machine::Http(_))
    }

    /// Returns whether a body is skipped that ends with the connection (RFC 9112 §6.3).
    fn skips_to_end(&self) -> bool {
        self.spoken_by().skip[Side::Server] >= u64::MAX / 2
    }

    /// Returns whether `side` has begun a message and has announced more bytes of it than it has
    /// sent.
    pub fn owes(&self, side: Side) -> bool {
        self.lacking_bytes(side) > 0
    }

    /// Number of bytes that `side` has announced of the message in progress and not sent, as far as it
    /// is known.
    pub fn lacking_bytes(&self, side: Side) -> u64 {
        match self.spoken_by().skip[side] {
            bytes if bytes < u64::MAX / 2 => bytes,
            _ => 0,
        }
    }

    /// Returns whether nothing in the content shows which messages are requests, and which of the other
    /// messages answer them: it is encrypted, or of an unknown protocol.
    pub fn hides_dialogue(&self) -> bool {
        let it = self.spoken_by();
        matches!(it.protocol, Protocol::Turns | Protocol::Tls) && it.dialogue.is_none()
    }

    /// Returns whether exchanges end only with the next request, as far as can be known.
    pub fn is_open_ended(&self) -> bool {
        match &self.spoken_by().machine {
            Machine::Sniff(_) | Machine::Turns | Machine::Tls(_) => true,
            Machine::Frames(frames) => frames.is_open_ended(),
            _ => false,
        }
    }

    /// Returns whether the server sends messages that nothing requests, which the client may
    /// acknowledge by messages that get no response.
    pub fn has_events(&self) -> bool {
        matches!(&self.spoken_by().machine, Machine::Frames(frames) if frames.has_events())
    }

    /// Returns whether the client asked the server to close behind its answer (RFC 9112 §9.6).
    pub fn has_asked_last(&self) -> bool {
        self.exchanges.has_asked_last()
    }

    /// Returns whether the newest request is answered by a stream of events over HTTP/1.
    pub fn streams_events(&self) -> bool {
        self.exchanges.streams_events()
    }

    /// Returns whether the first `RequestStart` of the next push ends the exchanges before it: their
    /// protocol does not show where a response ends. If the message in progress has yet to show its
    /// protocol, its own start is marked already: the next one is that of a pipelined request.
    pub fn ends_exchanges(&self) -> bool {
        let is_pipelined = self.exchanges.has_anticipated(Side::Client) || self.awaits_reply();
        self.is_open_ended() && !is_pipelined
    }

    /// Sets whether the following pushes come in the middle of a message of the other side, which
    /// does not stop for them. If their protocol is unknown, they begin and end no message.
    #[inline]
    pub fn set_overlapping(&mut self, overlapping: bool) {
        self.exchanges.overlapping = overlapping;
    }

    /// Sets whether the following pushes come later than their sender would send what it sends by
    /// itself as soon as it has received the peer's data, such as session tickets.
    #[inline]
    pub fn set_late(&mut self, late: bool) {
        self.exchanges.late = late;
    }

    /// Returns whether the last push belongs to no exchange: nothing requested it and nothing waits
    /// for it.
    pub fn is_set_aside(&self) -> bool {
        self.exchanges.set_aside && !self.exchanges.is_in_exchange
    }

    /// Returns whether this is a WebSocket connection on which no Close frame has passed.
    pub fn lacks_close_frame(&self) -> bool {
        matches!(&self.spoken_by().machine, Machine::Frames(frames) if frames.lacks_close_frame())
    }

    /// Returns whether the client is known not to wait for some of the data that the server sends.
    #[inline]
    pub fn has_unsolicited(&self) -> bool {
        matches!(&self.spoken_by().machine, Machine::Frames(frames) if frames.has_unsolicited())
    }

    /// Returns whether the content of TLS is hidden, and its client named no version of HTTP (RFC 7301 §6).
    pub fn hides_other_than_http(&self) -> bool {
        let lacks = matches!(&self.machine, Machine::Tls(tls) if tls.lacks_http());
        lacks && self.protocol() == Protocol::Tls && self.hides_dialogue()
    }

    /// Returns whether the server has sent only session tickets since the TLS handshake.
    pub fn has_sent_tickets_only(&self) -> bool {
        matches!(&self.machine, Machine::Tls(tls) if tls.has_sent_tickets_only(self.server_port))
    }

    /// Processes the next bytes of one side: `bytes` as captured, then `missing` bytes that were on
    /// the wire but not captured. `on` receives each mark with the number of bytes of this push,
    /// including missing ones, before it. `known` may be shared by many connections.
    #[inline]
    pub fn push(
        &mut self,
        from: Side,
        bytes: &[u8],
        missing: u32,
        known: &mut KnownHeaders,
        on: &mut dyn FnMut(u32, Mark<'_>),
    ) {
        match self.known(from, bytes, missing, known) {
            Some(mark) => on(0, mark),
            None => self.parse(from, bytes, missing, known, on),
        }
    }

    /// Returns the only mark, at the first byte, of a push that is one complete simple message with
    /// a known header; `None` for other pushes, which have to be [`parse`](Self::parse)d.
    #[inline]
    pub fn known<'k>(
        &mut self,
        from: Side,
        bytes: &[u8],
        missing: u32,
        known: &'k KnownHeaders,
    ) -> Option<Mark<'k>> {
        if self.skip[from] > 0 || missing > 0 {
            return None;
        }
        let exchanges = &mut self.exchanges;
        match &self.machine {
            Machine::Http(http) => match http.whole(from, bytes, exchanges, known) {
                None if !exchanges.knows_software(from) => {
                    http.whole_naming(from, bytes, exchanges, known)
                }
                whole => whole,
            },
            Machine::Turns if from == Side::Client && self.may_sniff(from) => {
                self.begin_http(bytes, known)
            }
            _ => None,
        }
    }

    /// Like [`known`](Self::known), for a client's message that may be the first whose protocol is
    /// recognised.
    fn begin_http<'k>(&mut self, bytes: &[u8], known: &'k KnownHeaders) -> Option<Mark<'k>> {
        let from = Side::Client;
        if !self.exchanges.is_at_rest() {
            return None;
        }
        let http = Http::beginning(known, from, known.identifies_http(from, bytes)?);
        let exchanges = &mut self.exchanges;
        let mark = match http.whole(from, bytes, exchanges, known) {
            None => http.whole_naming(from, bytes, exchanges, known)?,
            Some(mark) => mark,
        };
        (self.protocol, self.machine) = (Protocol::Http1, Machine::Http(http));
        self.last = Some(from);
        Some(mark)
    }

    /// Returns whether the bytes of `from` may begin a message of a protocol, while none is known:
    /// the first message is always checked, later ones only while a protocol is looked for.
    fn may_sniff(&self, from: Side) -> bool {
        (self.hunting || self.last.is_none()) && self.last != Some(from)
    }

    /// Like [`known`](Self::known), for a side that has sent messages before and stated its
    /// software.
    #[inline]
    pub fn whole<'k>(
        &mut self,
        from: Side,
        bytes: &[u8],
        missing: u32,
        known: &'k KnownHeaders,
    ) -> Option<Mark<'k>> {
        let Machine::Http(http) = &self.machine else { return None };
        if self.skip[from] > 0 || missing > 0 {
            return None;
        }
        http.whole(from, bytes, &mut self.exchanges, known)
    }

    /// Like [`push`](Self::push), if [`known`](Self::known) has returned `None`.
    #[inline]
    pub fn parse(
        &mut self,
        from: Side,
        bytes: &[u8],
        missing: u32,
        known: &mut KnownHeaders,
        on: &mut dyn FnMut(u32, Mark<'_>),
    ) {
        if self.take_more(from, bytes, missing) {
            return;
        }
        let is_body = self.skip[from] > 0;
        (self.exchanges.is_in_exchange, self.exchanges.set_aside) = (is_body, false);
        if bytes.is_empty() && missing == 0 {
            return;
        }
        let begun = self.spoken.has_begun();
        self.spoken.note(from, bytes, missing);
        if self.hunting && self.dialogue.is_none() && from == Side::Client {
            self.dialogue = Dialogue::amid(self.server_port, bytes);
        }
        if begun && self.dialogue.is_none() && !self.is_ssh || self.protocol != Protocol::Turns {
            return self.run(from, bytes, missing, None, known, on);
        }
        let is_unasked = |it: &mut Box<Dialogue>| it.ends_unasked(bytes) || it.is_told_idle(bytes);
        if from == Side::Server && self.dialogue.as_mut().is_some_and(is_unasked) {
            self.exchanges.set_aside = true;
            return;
        }
        self.exchanges.set_amid_reply(from == Side::Server && self.is_replying());
        let said = self.listen(from, bytes, missing, !begun);
        self.run(from, bytes, missing, None, known, on);
        self.mark_said(bytes, said, known, on);
    }

    fn run(
        &mut self,
        from: Side,
        bytes: &[u8],
        missing: u32,
        pinned: Option<u32>,
        known: &mut KnownHeaders,
        on: &mut dyn FnMut(u32, Mark<'_>),
    ) {
        let side = from as usize;
        let end = bytes.len() + missing as usize;
        let mut pos = 0;
        loop {
            let skipped = (end - pos).min(usize::try_from(self.skip[side]).unwrap_or(usize::MAX));
            pos += skipped;
            self.skip[side] -= skipped as u64;
            if self.skip[side] > 0 || (pos >= end && skipped == 0) {
                return;
            }
            if pos >= end && matches!(self.machine, Machine::Turns) {
                return;
            }
            let exchanges = &mut self.exchanges;
            let mut feed = Feed { bytes, missing, pos, pinned, exchanges, known, on };
            let gap = pos >= bytes.len() && pos < end;
            let may_sniff = self.hunting || self.last.is_none();
            let next = match &mut self.machine {
                // If the upgrade was not captured, a ping or pong identifies WebSocket.
                Machine::Turns if may_sniff && is_keepalive(from, feed.rest()) => {
                    self.machine = Machine::Frames(Box::new(Frames::web_socket()));
                    self.last = Some(from);
                    continue;
                }
                Machine::Turns
                    if may_sniff
                        && from == Side::Client
                        && let Some(header) = proxy_header(feed.rest()) =>
                {
                    self.skip[side] = header;
                    continue;
                }
                Machine::Turns if may_sniff && asks_nothing(feed.rest(), self.last.is_none()) => {
                    self.machine = Machine::Aside;
                    continue;
                }
                Machine::Turns
                    if from == Side::Client
                        && self.protocol == Protocol::Turns
                        && let Some(rest) = memcached::without_reply(feed.rest())
                            .or_else(|| calls::unbind(feed.rest())) =>
                {
                    feed.aside();
                    self.skip[side] = rest.saturating_sub(missing.into());
                    return;
                }
                // The first message is always checked, later ones only while a protocol is looked
                // for, or if the client goes on with TLS (STARTTLS: RFC 3207, RFC 9051 §6.2.1).
                Machine::Turns
                    if self.last != Some(from)
                        && (may_sniff
                            || from == Side::Client
                                && self.protocol == Protocol::Turns
                                && tls::begins_with_hello(feed.rest())) =>
                {
                    self.last = Some(from);
                    feed.anticipate(from);
                    if let Some(slot) = feed.known.identifies_http(from, feed.rest()) {
                        self.protocol = Protocol::Http1;
                        self.machine = Machine::Http(Http::beginning(known, from, slot));
                        continue;
                    }
                    self.sniff(Sniffer::new(from), bytes, &mut pos, known, on);
                    continue;
                }
                // The end of a TLS connection belongs to no exchange, even after missing bytes.
                Machine::Turns
                    if self.protocol == Protocol::Tls && tls::begins_with_alert(feed.rest()) =>
                {
                    feed.aside();
                    self.last = Some(from);
                    return;
                }
                Machine::Turns => {
                    feed.turn(from);
                    self.last = Some(from);
                    return;
                }
                Machine::Aside => return feed.aside(),
                Machine::Sniff(sniffer) if gap || sniffer.from != from => {
                    self.exchanges.forget_anticipated();
                    self.become_turns();
                    continue;
                }
                Machine::Sniff(sniffer) => {
                    let sniffer = **sniffer;
                    self.sniff(sniffer, bytes, &mut pos, known, on);
                    continue;
                }
                machine if gap => machine.gap(from, &mut feed),
                machine => machine.feed(from, &mut feed),
            };
            let moved = feed.pos > pos || skipped > 0;
            pos = feed.pos;
            let owed = &mut self.skip[Side::Client];
            if from == Side::Server
                && let Machine::Http(http) = &mut self.machine
                && http.refuses_body(*owed, feed.exchanges)
            {
                *owed = 0;
            }
            match next {
                Ok(Next::Skip(bytes)) => self.skip[side] = bytes,
                Ok(Next::More) if moved => {}
                Ok(Next::Turns) => self.become_turns(),
                Ok(Next::WebSocket) => {
                    self.become_turns();
                    self.machine = Machine::Frames(Box::new(Frames::web_socket()));
                }
                Ok(Next::Aside) => {
                    self.become_turns();
                    self.machine = Machine::Aside;
                }
                Ok(Next::Http2) => {
                    self.become_turns();
                    self.protocol = Protocol::Http2;
                    self.machine = Machine::Frames(Box::new(Frames::upgraded_http2()));
                }
                Ok(Next::Tunnel) => {
                    if matches!(self.machine, Machine::Calls(_)) {
                        // The next message may be any of the other protocol, not only its first.
                        self.hunting = true;
                        self.protocol = Protocol::Turns;
                    }
                    self.become_turns();
                    self.last = None;
                }
                Ok(Next::More) | Err(Lost) => {
                    if matches!(self.machine, Machine::Calls(_)) {
                        self.protocol = Protocol::Turns;
                    }
                    feed.desync();
                    self.note_opening();
                    self.become_turns();
                    self.hunting = true;
                    self.last = Some(from);
                }
            }
            if pos >= end {
                return;
            }
        }
    }

    fn become_turns(&mut self) {
        self.machine = Machine::Turns;
        self.skip = [0; 2];
    }

    /// Passes bytes to the sniffer until it has decided; then passes the bytes held back to the
    /// parser.
    fn sniff(
        &mut self,
        mut sniffer: Sniffer,
        bytes: &[u8],
        pos: &mut usize,
        known: &mut KnownHeaders,
        on: &mut dyn FnMut(u32, Mark<'_>),
    ) {
        let from = sniffer.from;
        let hint = Hint { server_port: self.server_port, mid_stream: self.hunting };
        let decided = bytes.get(*pos..).unwrap_or_default().iter().find_map(|&byte| {
            *pos += 1;
            sniffer.decide(byte, hint)
        });
        let Some(protocol) = decided else {
            self.machine = Machine::Sniff(Box::new(sniffer));
            return;
        };
        let message = pos.checked_sub(sniffer.prefix().len()).and_then(|begin| bytes.get(begin..));
        let message = message.unwrap_or(sniffer.prefix());
        self.machine = self.machine_for(protocol, &sniffer, message, known);
        if matches!(self.machine, Machine::Turns) {
            self.is_ssh |= message.starts_with(b"SSH-");
            self.exchanges.forget_anticipated();
            let exchanges = &mut self.exchanges;
            Feed { bytes, missing: 0, pos: *pos, pinned: None, exchanges, known, on }.turn(from);
            return;
        }
        self.protocol = protocol;
        // No mark lies within the bytes that identify HTTP: if all of them are in this push, the
        // parser gets the header in one piece.
        if protocol == Protocol::Http1
            && let Some(begin) = pos.checked_sub(sniffer.prefix().len())
        {
            *pos = begin;
            return;
        }
        let pinned = u32::try_from(*pos).unwrap_or(u32::MAX);
        self.run(from, sniffer.prefix(), 0, Some(pinned), known, on);
    }
}
