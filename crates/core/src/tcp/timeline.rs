//! The exchanges of one connection in order, and the attribution of time to them.

mod asked;
mod in_progress;
mod marks;
mod overlap;
mod pauses;
mod steady;
mod unsolicited;

use crate::app::{ErrorCode, Mark};
use crate::judge::{Gap, Leg, Turn};
use crate::model::{Cause, Outcome, Owner, Sighting, Slice};
use crate::queue::Queue;
use crate::tcp::exchange::{Chain, Change, Exchange, GapPlace, Handshake, Recording};
use crate::tcp::owed::Debt;
use crate::tcp::pause::ServerPattern;
use crate::tcp::sender::Tail;
use crate::tcp::setup::Setup;
use crate::wire::{BySide, Side};
pub use in_progress::InProgress;
pub use marks::Marks;
pub use overlap::{OverlappingMessage, StreamProgress};
use std::num::NonZeroU64;

/// Greatest number of requests in flight on one connection; any more are one exchange.
const PIPELINED_MAX: usize = 64;

/// Context of a mark in the stream.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Time of the segment that carried the byte at the mark, ns.
    pub time_ns: u64,
    /// The segment that carried the byte at the mark.
    pub seen: Sighting,
    /// Position of the mark in the sender's stream.
    pub position: u64,
    /// Minimum round trip between vantage and client, ns.
    pub rtt_client_ns: u64,
    /// Minimum round trip between vantage and server, ns.
    pub rtt_server_ns: u64,
    /// An exchange of this protocol ends with the next request.
    pub open_ended: bool,
    /// The server may send messages that the client acknowledges, see
    /// [`Timeline::drop_acknowledgement`].
    pub has_events: bool,
    /// The server may begin the conversation, or has been asked. In HTTP/1.x it only answers (RFC 9112 §2):
    /// what comes before the client's first byte answers nothing, as a 408 to a client that does not ask (RFC
    /// 9110 §15.5.9).
    pub may_greet: bool,
    /// Whether the data may overlap a message of the other side.
    pub overlap: OverlappingMessage,
    /// The data follows a pause in which no exchange waited, see [`InProgress::is_ready`].
    pub rests: bool,
    /// Position of each stream, indexed by sender.
    pub positions: BySide<u64>,
    /// The client had closed the connection.
    pub client_closed: bool,
    /// The server had closed the connection, and its FIN had been acknowledged.
    pub server_closed: bool,
    /// What the exchanges record.
    pub recording: Recording,
    /// Time for which the segment was queued before the vantage, as its timestamp shows, ns.
    pub queued_ns: u64,
}

/// The exchanges of one connection that are not yet over.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Time up to which silences have been attributed, ns.
    pub cursor_ns: u64,
    /// Time without data before the cursor last moved, ns; 0 at the beginning.
    pub paused_ns: u64,
    /// Side that sent data last.
    pub active: Option<Side>,
    pub exchanges: InProgress,
    /// Exchanges that are finished and not yet reported.
    pub done: Queue<Box<Exchange>>,
    /// Exchanges of this protocol end only with the next request.
    pub open_ended: bool,
    /// Position of the server's stream whose ACK ends the oldest exchange.
    pub retire_at: u64,
    /// The pattern in which the server sends, learnt from its responses.
    pub pattern: ServerPattern,
    /// A request has begun that may overlap a response: the exchange of that is kept in `done` until
    /// the server sends.
    pub is_interrupted: bool,
    begun: Begun,
    /// See [`Timeline::anticipate`].
    anticipated: bool,
    /// See [`Timeline::is_one_way`].
    one_way: bool,
}

/// Whether an exchange or an event began last on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    #[default]
    Nothing,
    Exchange,
    /// An exchange, and after the last one an event: a message of the server that nothing requested.
    Event,
}

impl Timeline {
    /// Creates a timeline without exchanges.
    pub fn new() -> Self {
        Self { retire_at: u64::MAX, ..Self::default() }
    }

    /// Returns whether any exchange has begun.
    pub fn has_begun(&self) -> bool {
        self.begun != Begun::Nothing
    }

    /// Begins an exchange with `side` in the middle of a message that began before the capture.
    pub fn begin_mid_message(&mut self, side: Side, at: &At, setup: &mut Setup) {
        self.open(at, setup);
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            exchange.kind = "under way".into();
            exchange.request_seen = side == Side::Client;
            exchange.response_seen = side == Side::Server;
            exchange.endless = side == Side::Server;
            // Earlier bytes are not counted either.
            exchange.answered_ns = if side == Side::Server { at.time_ns } else { 0 };
        }
    }

    /// Returns whether the last response has begun and its end cannot be recognised.
    pub fn may_be_over(&self) -> bool {
        self.may_be_over_if(self.open_ended)
    }

    /// Like [`may_be_over`](Self::may_be_over), if exchanges of this protocol are `open_ended`.
    #[inline]
    pub fn may_be_over_if(&self, open_ended: bool) -> bool {
        self.exchanges.queue.back().is_some_and(|exchange| {
            (open_ended || exchange.endless)
                && exchange.response_seen
                && exchange.response_end.is_none()
                && !exchange.in_handshake
        })
    }

    /// Returns whether an exchange has begun whose response may be incomplete.
    pub fn lacks_response_end(&self) -> bool {
        self.exchanges.queue.iter().any(|exchange| exchange.response_end.is_none())
            && !self.may_be_over()
    }

    /// Returns whether the client is known to send requests without a pause, in a protocol in which
    /// exchanges end only with the next request.
    pub fn asks_at_once(&self) -> bool {
        self.open_ended && self.pattern.asked_at_once
    }

    /// Moves the cursor to data that passed at `time_ns`.
    #[inline]
    pub fn move_to(&mut self, time_ns: u64) {
        let from_ns = if self.cursor_ns == 0 { time_ns } else { self.cursor_ns };
        self.paused_ns = time_ns.saturating_sub(from_ns);
        self.cursor_ns = self.cursor_ns.max(time_ns);
    }

    /// Shortens the recorded pause: data outside any exchange was sent at `last_data_ns` (0 if
    /// there was none).
    #[inline]
    pub fn shorten_pause(&mut self, last_data_ns: u64, now_ns: u64) {
        if last_data_ns > 0 {
            self.paused_ns = self.paused_ns.min(now_ns.saturating_sub(last_data_ns));
        }
    }

    /// Applies `change` to the first exchange that it concerns and that is not yet reported.
    #[track_caller]
    pub fn revise_any(&mut self, change: &Change) {
        for exchange in self.done.iter_mut().chain(self.exchanges.queue.iter_mut()) {
            if exchange.revise(change) {
                return;
            }
        }
    }

    /// Removes slice `was` of `sender`: that gap has not ended and continues since `start_ns`.
    #[track_caller]
    pub fn continue_gap(&mut self, sender: Side, was: Slice, start_ns: u64) {
        let change = Change::NotEnded { sender, slice: was };
        if self.exchanges.queue.front_mut().is_some_and(|exchange| exchange.revise(&change)) {
            self.cursor_ns = start_ns;
        }
    }

    /// Processes a mark of the framer.
    pub fn mark(&mut self, mark: Mark<'_>, at: &At, setup: &mut Setup) {
        match mark {
            Mark::RequestStart => self.request_start(at, setup),
            Mark::NotDue => {
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.not_due = true;
                }
            }
            Mark::LastResponse => self.exchanges.expect_no_more(),
            Mark::Kind(kind) => {
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.kind = *kind;
                }
            }
            Mark::RequestHeaderEnd { expects_continue } => {
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.awaits_continue = expects_continue;
                    exchange.asked_to_continue = expects_continue;
                }
            }
            Mark::RequestEnd => {
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.asked = true;
                    exchange.awaits_continue = false;
                }
            }
            Mark::ResponseStart => self.response_start(at, setup),
            Mark::Interim { .. } => {
                if let Some(exchange) = self.exchanges.oldest_incomplete() {
                    exchange.response_seen = false;
                    exchange.awaits_continue = false;
                }
            }
            Mark::ResponseEnd => self.response_end(at, at.position),
            Mark::Request { kind, .. } => {
                self.request_start(at, setup);
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.kind = *kind;
                    exchange.asked = true;
                    exchange.awaits_continue = false;
                }
            }
            Mark::Response { status, extent, .. } => {
                self.response_start(at, setup);
                self.exchanges.error(ErrorCode::of_http(status));
                self.response_end(at, at.position + u64::from(extent.message));
            }
            Mark::HandshakeStart => {
                if !self.take_anticipated(at) {
                    self.retire_endless(at.rtt_client_ns);
                    // The client goes on with TLS after an answer in plain text.
                    if !self.exchanges.queue.is_empty() {
                        self.retire_answered(at);
                    }
                    self.open(at, setup);
                }
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.in_handshake = true;
                    exchange.kind = "TLS handshake".into();
                }
            }
            Mark::HelloAgain => {
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.hello_again_ns = at.time_ns.saturating_sub(exchange.first.time_ns);
                }
            }
            Mark::HandshakeEnd { resumed, certificate_bytes, is_tls13 } => {
                if let Some(exchange) = self.exchanges.queue.back_mut() {
                    exchange.in_handshake = false;
                    let (end, again_ns) = (at.seen, exchange.hello_again_ns);
                    exchange.handshake =
                        Some(Handshake { resumed, certificate_bytes, is_tls13, again_ns, end });
                }
            }
            Mark::Desync => {
                self.exchanges.queue.iter_mut().for_each(|exchange| exchange.endless = true);
            }
            Mark::Proceeds => {
                if let Some(next) = self.exchanges.oldest_incomplete() {
                    next.begin_behind(at.time_ns, at.recording);
                }
            }
            Mark::Overtaken => self.drop_overtaken(at.rtt_client_ns),
            Mark::ResponseHeaderEnd { status } => self.exchanges.error(ErrorCode::of_http(status)),
            Mark::Error(code) => self.exchanges.error(Some(code)),
            Mark::RetryAfter { seconds } => {
                if let Some(exchange) = self.exchanges.oldest_incomplete() {
                    exchange.retry_after_s = Some(seconds);
                }
            }
            Mark::Software(_) => {}
        }
    }

    fn request_start(&mut self, at: &At, setup: &mut Setup) {
        if at.overlap == OverlappingMessage::RequestContinues {
            return;
        }
        let event_came = self.begun == Begun::Event;
        let after_handshake = self.exchanges.is_ready() && !at.rests;
        if !after_handshake && !self.take_anticipated(at) {
            if !self.exchanges.queue.is_empty() {
                self.retire_answered(at);
            }
            if self.exchanges.queue.len() < PIPELINED_MAX {
                self.open(at, setup);
            }
        }
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            exchange.request_seen = true;
            exchange.asked = false;
            exchange.asked_at = at.positions[Side::Client];
            exchange.follows_event = event_came;
            exchange.response_seen = false;
            exchange.error = None;
            exchange.kind.clear();
        }
    }

    /// Ends the exchanges that are answered, as far as known, because another request begins.
    fn retire_answered(&mut self, at: &At) {
        let position = at.positions[Side::Server];
        if at.overlap == OverlappingMessage::Possible && self.interrupt() {
            return;
        }
        let next = self.pattern.receipts.debt(at.seen.payload_bytes);
        self.settle_pauses(Some(at.time_ns), at.rtt_client_ns, position, next);
        if at.open_ended {
            self.retire_all(at.rtt_client_ns, Outcome::Answered);
        } else {
            self.retire_complete(at.rtt_client_ns);
            self.retire_endless(at.rtt_client_ns);
        }
    }

    fn response_start(&mut self, at: &At, setup: &mut Setup) {
        // A server that sends unsolicited data does not make the client wait, unless it is the
        // first to send.
        let is_first = !self.has_begun() && self.exchanges.oldest_incomplete().is_none();
        if is_first && at.may_greet && !at.client_closed {
            self.greeting(at, setup);
        }
        self.drop_acknowledgement(at);
        if at.has_events && self.exchanges.oldest_incomplete().is_none() {
            self.begun = Begun::Event;
        }
        if let Some(exchange) = self.exchanges.oldest_incomplete() {
            exchange.response_seen = true;
            if exchange.answered_ns == 0 {
                exchange.answered_ns = at.time_ns;
            }
        }
    }

    /// Adds an exchange for a server that sends the first data: the client has waited since the
    /// connection was established.
    fn greeting(&mut self, at: &At, setup: &mut Setup) {
        let (Some(_), Some(ack)) = (setup.syn_first_ns(), setup.frames().ack) else { return };
        let ready_ns = ack.time_ns.min(at.time_ns);
        self.open(&At { time_ns: ready_ns, ..*at }, setup);
        if let Some(exchange) = self.exchanges.queue.back_mut() {
            exchange.kind = "greeting".into();
            let waited_ns = at.time_ns - ready_ns;
            let path_ns = waited_ns.min(at.rtt_server_ns);
            let way = Slice::plain(Owner::Path, path_ns);
            exchange.ledger.add(way, GapPlace::of_both(ready_ns, at.seen.frame));
            let queued_ns = at.queued_ns.min(waited_ns - path_ns);
            let own = Slice::of(Owner::Server, Cause::ServerThink, waited_ns - path_ns - queued_ns);
            let left_ns = at.time_ns - queued_ns;
            let gap = Gap::between(Side::Server, ready_ns + path_ns, left_ns, ack, at.seen);
            exchange.attribute(&own, &Gap { turn: Turn::Answers, ..gap });
            let queue = Slice::plain(Owner::Queueing, queued_ns);
            exchange.ledger.add(queue, GapPlace::of_both(left_ns, at.seen.frame));
        }
    }

    /// Sets the end of the response in progress to `position`.
    fn response_end(&mut self, at: &At, position: u64) {
        let retire_at = &mut self.retire_at;
        let Some(exchange) = self.exchanges.oldest_incomplete() else { return };
        exchange.response_end = NonZeroU64::new(position);
        exchange.end_ns = at.time_ns;
        exchange.last = at.seen;
        *retire_at = (*retire_at).min(position);
    }

    fn open(&mut self, at: &At, setup: &mut Setup) {
        let mut exchange = Exchange::begin(at.seen, at.time_ns);
        exchange.record(at.recording);
        (exchange.began_at, exchange.idle_ns) = (at.positions, self.paused_ns);
        exchange.behind_fin = at.server_closed;
        if setup.waited_for(at.time_ns, at.rtt_client_ns) {
            setup.claimed = true;
            exchange.connects = true;
            exchange.start_ns = setup.syn_first_ns().unwrap_or(at.time_ns).min(at.time_ns);
            let split = setup.split(at.time_ns, at.rtt_client_ns);
            exchange.set_up(&split, at.seen.frame);
            exchange.rested_ns = split.rested_ns;
        }
        self.retire_at = self.retire_at.max(1);
        if self.exchanges.queue.is_empty() {
            self.retire_at = u64::MAX;
            self.cursor_ns = self.cursor_ns.max(at.time_ns);
        }
        self.begun = Begun::Exchange;
        self.exchanges.queue.push_back(exchange);
    }

    /// Ends the exchanges whose response the client has acknowledged up to `una`. `leg` describes
    /// how the last byte travelled from the vantage to the client.
    pub fn acknowledged(&mut self, una: u64, rtt_client_ns: u64, leg: &Leg) {
        while let Some(end) =
            self.exchanges.queue.front().and_then(|exchange| exchange.response_end)
        {
            if end.get() > una {
                break;
            }
            if let Some(exchange) = self.exchanges.queue.front_mut() {
                let (mut from_ns, last) = (exchange.end_ns, exchange.last);
                let bytes = end.get().saturating_sub(exchange.began_at[Side::Server]);
                let sent_ns = exchange.end_ns.saturating_sub(exchange.answered_ns);
                let slices = (!leg.is_plain()).then(|| leg.slices(bytes, sent_ns));
                for slice in slices.iter().flatten() {
                    let to_ns = from_ns + slice.ns;
                    exchange
                        .attribute(slice, &Gap::between(Side::Server, from_ns, to_ns, last, last));
                    from_ns = to_ns;
                }
            }
            self.retire_front(rtt_client_ns, Outcome::Answered);
        }
        let next = self.exchanges.queue.front().and_then(|exchange| exchange.response_end);
        self.retire_at = next.map_or(u64::MAX, NonZeroU64::get);
    }

    /// Drops the exchanges in progress whose answers the newest one's came before, or will.
    fn drop_overtaken(&mut self, rtt_client_ns: u64) {
        self.retire_complete(rtt_client_ns);
        let queue = &mut self.exchanges.queue;
        while queue.len() > 1 {
            queue.pop_front();
        }
    }

    fn retire_complete(&mut self, rtt_client_ns: u64) {
        self.acknowledged(u64::MAX, rtt_client_ns, &Leg::default());
    }

    fn retire_endless(&mut self, rtt_client_ns: u64) {
        while self
            .exchanges
            .queue
            .front()
            .is_some_and(|exchange| exchange.endless && exchange.response_seen)
        {
            self.retire_front(rtt_client_ns, Outcome::Answered);
        }
    }

    fn retire_all(&mut self, rtt_client_ns: u64, outcome: Outcome) {
        while !self.exchanges.queue.is_empty() {
            self.retire_front(rtt_client_ns, outcome);
        }
        self.retire_at = u64::MAX;
    }

    /// Processes the server's `fin` before the announced end of its response.
    pub fn end_early(&mut self, fin: Sighting) {
        let from_ns = self.cursor_ns;
        let Some(exchange) = self.exchanges.queue.front_mut().filter(|_| fin.time_ns > from_ns)
        else {
            return;
        };
        let gap = Gap::between(Side::Server, from_ns, fin.time_ns, exchange.last, fin);
        let slice = Slice::of(Owner::Server, Cause::ServerThink, fin.time_ns - from_ns);
        exchange.attribute(&slice, &gap);
        exchange.end_ns = fin.time_ns;
        self.cursor_ns = fin.time_ns;
    }

    /// Attributes the time until `last` to the timer of the client, which sent `tail` again and
    /// again.
    pub fn attribute_unanswered(&mut self, tail: &Tail, last: Sighting) {
        let from_ns = self.cursor_ns.max(tail.first.time_ns);
        let Some(exchange) = self.exchanges.queue.front_mut().filter(|_| last.time_ns > from_ns)
        else {
            return;
        };
        let ns = last.time_ns - from_ns;
        let (owner, cause) = (Owner::RetransmissionTimeout, Cause::RetransmissionTimeout);
        exchange.attribute(&Slice::of(owner, cause, ns), &tail.gap(from_ns, last.time_ns));
        exchange.end_ns = last.time_ns;
        exchange.last = last;
        self.cursor_ns = last.time_ns;
    }

    /// Ends all exchanges: complete ones with [`Outcome::Answered`], the rest with `outcome`. Returns the
    /// number of requests without an answer for which none was due.
    pub fn close(&mut self, rtt_client_ns: u64, outcome: Outcome) -> u8 {
        if self.is_interrupted {
            self.settle_interrupted(None, [rtt_client_ns, 0]);
        }
        self.retire_complete(rtt_client_ns);
        // Of an answer that the capture does not show nothing is known.
        let is_seen = outcome != Outcome::Unseen;
        let not_due = if is_seen { self.exchanges.drop_not_due() } else { 0 };
        // A message for which nothing is owed was no request.
        if self.exchanges.debt_at_end() != Debt::Response {
            self.exchanges.expect_nothing();
        }
        self.retire_all(rtt_client_ns, outcome);
        not_due
    }

    fn retire_front(&mut self, rtt_client_ns: u64, outcome: Outcome) {
        if let Some(exchange) = self.take_front(rtt_client_ns, outcome) {
            self.done.push_back(exchange);
        }
    }

    /// Removes and returns the oldest exchange. The leg to the client was not seen; its estimate is
    /// added to the time on the path.
    fn take_front(&mut self, rtt_client_ns: u64, outcome: Outcome) -> Option<Box<Exchange>> {
        let mut exchange = self.exchanges.queue.pop_front()?;
        exchange.end(outcome);
        exchange.add_last_leg(rtt_client_ns);
        exchange.known_rtts_ns[Side::Client] = rtt_client_ns;
        Some(exchange)
    }

    /// Releases memory that is not in use.
    pub fn shrink(&mut self) {
        self.exchanges.queue.shrink();
        self.done.shrink();
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        let boxes = self.exchanges.queue.iter().map(|exchange| {
            size_of::<Exchange>() + exchange.chains.capacity() * size_of::<Chain>()
        });
        self.exchanges.queue.heap_bytes() + self.done.heap_bytes() + boxes.sum::<usize>()
    }
}
