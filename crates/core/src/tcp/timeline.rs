//! The exchanges of one connection in order, and the attribution of time to them.

mod asked;
mod overlap;
mod pauses;
mod steady;
mod unsolicited;

use crate::app::{ErrorCode, Mark, Side};
use crate::judge::{Gap, Leg, Turn};
use crate::model::{Cause, Outcome, Owner, Sighting, Slice, Slices};
use crate::queue::Queue;
use crate::tcp::exchange::{Chain, Change, Exchange, Handshake};
use crate::tcp::pause::ServerPattern;
use crate::tcp::sender::Tail;
use crate::tcp::setup::Setup;
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
    /// Position of each stream, indexed by sender.
    pub positions: [u64; 2],
    /// The client had closed the connection.
    pub client_closed: bool,
    /// Exchanges log what changes their ledgers later.
    pub logs_revisions: bool,
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
    /// Exchanges in progress. They are boxed because an idle connection has none, and moving a box
    /// is cheap.
    open: Queue<Box<Exchange>>,
    /// Exchanges that are finished and not yet reported.
    pub done: Queue<Box<Exchange>>,
    /// A request began in the data that was pushed last.
    pub request_began: bool,
    /// Exchanges of this protocol end only with the next request.
    pub open_ended: bool,
    /// Position of the server's stream whose ACK ends the oldest exchange.
    pub retire_at: u64,
    /// The data being pushed follows a pause in which no exchange waited, see
    /// [`Timeline::is_ready`].
    pub rests: bool,
    /// The data pushed last followed a pause of the server.
    pub paused_now: bool,
    /// The pattern in which the server sends, learnt from its responses.
    pub pattern: ServerPattern,
    /// State of the data being pushed, which may overlap the response to an earlier request.
    pub overlap: OverlappingMessage,
    begun: Begun,
    /// See [`Timeline::is_one_way`].
    one_way: bool,
}

/// Whether an exchange or an event began last on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    #[default]
    Nothing,
    /// An exchange.
    Exchange,
    /// An exchange, and after the last one an event: a message of the server that nothing requested.
    Event,
}

impl Timeline {
    /// Creates a timeline without exchanges.
    pub fn new() -> Self {
        Self { retire_at: u64::MAX, ..Self::default() }
    }

    /// Returns whether an exchange is in progress, to which time is attributed.
    #[inline]
    pub fn accrues(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns whether any exchange has begun.
    pub fn has_begun(&self) -> bool {
        self.begun != Begun::Nothing
    }

    /// Begins an exchange with `side` in the middle of a message that began before the capture.
    pub fn begin_mid_message(&mut self, side: Side, at: &At, setup: &mut Setup) {
        self.open(at, setup);
        if let Some(exchange) = self.open.back_mut() {
            exchange.kind = "under way".into();
            exchange.request_seen = side == Side::Client;
            exchange.response_seen = side == Side::Server;
            exchange.endless = side == Side::Server;
            // Earlier bytes are not counted either.
            exchange.answered_ns = if side == Side::Server { at.time_ns } else { 0 };
        }
    }

    /// The oldest exchange in progress.
    pub fn front(&self) -> Option<&Exchange> {
        self.open.front().map(|exchange| &**exchange)
    }

    /// Returns whether the last response has begun and its end cannot be recognised.
    pub fn may_be_over(&self) -> bool {
        self.open.back().is_some_and(|exchange| {
            (self.open_ended || exchange.endless)
                && exchange.response_seen
                && exchange.response_end.is_none()
                && !exchange.in_handshake
        })
    }

    /// Returns whether an exchange has begun whose response may be incomplete.
    pub fn lacks_response_end(&self) -> bool {
        self.open.iter().any(|exchange| exchange.response_end.is_none()) && !self.may_be_over()
    }

    /// Returns whether a TLS handshake is complete and no request has come, so that no exchange
    /// waits.
    pub fn is_ready(&self) -> bool {
        self.open.back().is_some_and(|it| it.handshake.is_some() && !it.request_seen)
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

    /// Attributes a short time to one owner.
    #[inline]
    pub fn attribute_plain(&mut self, owner: Owner, ns: u64) {
        let to_ns = self.cursor_ns + ns;
        for exchange in self.open.iter_mut() {
            if exchange.response_end.is_none() {
                exchange.ledger.add(owner, ns.min(to_ns.saturating_sub(exchange.start_ns)));
            }
        }
    }

    /// Attributes the slices of a gap to the exchanges that lasted through it. The repair of a loss
    /// of data before `repaired_end` also concerns an exchange whose last byte has passed and has
    /// not yet arrived.
    pub fn attribute(&mut self, slices: &Slices, gap: &Gap, repaired_end: Option<u64>) {
        let lives = |exchange: &&mut Box<Exchange>| match (exchange.response_end, repaired_end) {
            (None, _) => true,
            // A client that has not taken in the response repeats its request.
            (Some(_), Some(repaired)) if gap.sender == Side::Client => {
                gap.repair.deaf && exchange.began_at[Side::Client as usize] < repaired
            }
            (Some(end), Some(repaired)) => repaired <= end.get(),
            (Some(_), None) => false,
        };
        let open_ended = self.open_ended;
        self.open.iter_mut().filter(lives).for_each(|exchange| {
            exchange.note_rtt(gap);
            if waits(exchange, gap, open_ended) {
                exchange.attribute_waiting(gap);
            } else {
                exchange.attribute_since_begun(slices, gap);
            }
            exchange.end_ns = exchange.end_ns.max(gap.end_ns);
            exchange.last = gap.next;
        });
    }

    /// Returns the slices of a client's gap that another request ended, if the exchange before it
    /// was waiting.
    pub fn waiting(&self, gap: &Gap) -> Option<[Slice; 2]> {
        let last = self.open.back()?;
        waits(last, gap, self.open_ended).then(|| last.waiting(gap))
    }

    /// Applies `change` to the exchanges in progress.
    #[track_caller]
    pub fn revise(&mut self, change: &Change) {
        for exchange in self.open.iter_mut() {
            exchange.revise(change);
        }
    }

    /// Applies `change` to the first exchange that it concerns and that is not yet reported.
    #[track_caller]
    pub fn revise_any(&mut self, change: &Change) {
        for exchange in self.done.iter_mut().chain(self.open.iter_mut()) {
            if exchange.revise(change) {
                return;
            }
        }
    }

    /// Removes slice `was` of `sender`: that gap has not ended and continues since `start_ns`.
    #[track_caller]
    pub fn continue_gap(&mut self, sender: Side, was: Slice, start_ns: u64) {
        let change = Change::NotEnded { sender, slice: was };
        if self.open.front_mut().is_some_and(|exchange| exchange.revise(&change)) {
            self.cursor_ns = start_ns;
        }
    }

    /// Extends the exchange in progress to `seen`, unless its response is complete.
    #[inline]
    pub fn touch(&mut self, seen: Sighting) {
        if let Some(exchange) = self.open.front_mut()
            && exchange.response_end.is_none()
        {
            exchange.end_ns = seen.time_ns;
            exchange.last = seen;
        }
    }

    /// Records that the client sent its request this long after the TLS handshake, ns.
    pub fn rest(&mut self, ns: u64) {
        if let Some(exchange) = self.open.back_mut() {
            exchange.rested_ns += ns;
        }
    }

    /// Records that the client sends more, so that it waits for no 100 Continue.
    #[inline]
    pub fn note_client_data(&mut self) {
        if let Some(exchange) = self.open.back_mut() {
            exchange.awaits_continue = false;
        }
    }

    /// Processes a mark of the framer.
    pub fn mark(&mut self, mark: Mark<'_>, at: &At, setup: &mut Setup) {
        match mark {
            Mark::RequestStart => self.request_start(at, setup),
            Mark::Kind(kind) => {
                if let Some(exchange) = self.open.back_mut() {
                    exchange.kind = *kind;
                }
            }
            Mark::RequestHeaderEnd { expects_continue } => {
                if let Some(exchange) = self.open.back_mut() {
                    exchange.awaits_continue = expects_continue;
                }
            }
            Mark::RequestEnd => {
                if let Some(exchange) = self.open.back_mut() {
                    exchange.asked = true;
                    exchange.awaits_continue = false;
                }
            }
            Mark::ResponseStart => self.response_start(at, setup),
            Mark::Interim { .. } => {
                if let Some(exchange) = self.oldest_incomplete() {
                    exchange.response_seen = false;
                    exchange.awaits_continue = false;
                }
            }
            Mark::ResponseEnd => self.response_end(at, at.position),
            Mark::Request { kind, .. } => {
                self.request_start(at, setup);
                if let Some(exchange) = self.open.back_mut() {
                    exchange.kind = *kind;
                    exchange.asked = true;
                    exchange.awaits_continue = false;
                }
            }
            Mark::Response { status, extent, .. } => {
                self.response_start(at, setup);
                self.error(ErrorCode::of_http(status));
                self.response_end(at, at.position + u64::from(extent.message));
            }
            Mark::HandshakeStart => {
                self.retire_endless(at.rtt_client_ns);
                // The client goes on with TLS after an answer in plain text.
                if !self.open.is_empty() {
                    self.retire_answered(at);
                }
                self.open(at, setup);
                if let Some(exchange) = self.open.back_mut() {
                    exchange.in_handshake = true;
                    exchange.kind = "TLS handshake".into();
                }
            }
            Mark::HandshakeEnd { resumed, certificate_bytes, is_tls13 } => {
                if let Some(exchange) = self.open.back_mut() {
                    exchange.in_handshake = false;
                    exchange.handshake = Some(Handshake { resumed, certificate_bytes, is_tls13 });
                }
            }
            Mark::Desync => {
                self.open.iter_mut().for_each(|exchange| exchange.endless = true);
            }
            Mark::ResponseHeaderEnd { status } => self.error(ErrorCode::of_http(status)),
            Mark::Error(code) => self.error(Some(code)),
            Mark::RetryAfter { seconds } => {
                if let Some(exchange) = self.oldest_incomplete() {
                    exchange.retry_after_s = Some(seconds);
                }
            }
            Mark::Software(_) => {}
        }
    }

    fn request_start(&mut self, at: &At, setup: &mut Setup) {
        if self.overlap == OverlappingMessage::RequestContinues {
            return;
        }
        let event_came = self.begun == Begun::Event;
        let after_handshake = self.is_ready() && !self.rests;
        self.request_began = !after_handshake;
        if !after_handshake {
            if !self.open.is_empty() {
                self.retire_answered(at);
            }
            if self.open.len() < PIPELINED_MAX {
                self.open(at, setup);
            }
        }
        if let Some(exchange) = self.open.back_mut() {
            exchange.request_seen = true;
            exchange.asked = false;
            exchange.asked_at = (at.positions[Side::Client as usize], at.time_ns);
            exchange.follows_event = event_came;
            exchange.response_seen = false;
            exchange.error = None;
            exchange.kind.clear();
        }
    }

    /// Ends the exchanges that are answered, as far as known, because another request begins.
    fn retire_answered(&mut self, at: &At) {
        let position = at.positions[Side::Server as usize];
        if self.interrupt() {
            return;
        }
        let next = self.pattern.receipts.debt(at.seen.payload_bytes);
        self.settle_pauses_before(Some(at.time_ns), at.rtt_client_ns, position, next);
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
        if self.oldest_incomplete().is_none() && !self.has_begun() && !at.client_closed {
            self.greeting(at, setup);
        }
        self.drop_acknowledgement(at);
        if at.has_events && self.oldest_incomplete().is_none() {
            self.begun = Begun::Event;
        }
        if let Some(exchange) = self.oldest_incomplete() {
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
        if let Some(exchange) = self.open.back_mut() {
            exchange.kind = "greeting".into();
            let waited_ns = at.time_ns - ready_ns;
            let path_ns = waited_ns.min(at.rtt_server_ns);
            exchange.ledger.add(Owner::Path, path_ns);
            let own = Slice::of(Owner::Server, Cause::ServerThink, waited_ns - path_ns);
            let gap = Gap::between(Side::Server, ready_ns + path_ns, at.time_ns, ack, at.seen);
            exchange.attribute(&own, &Gap { turn: Turn::Answers, ..gap });
        }
    }

    /// The oldest exchange whose response is incomplete.
    fn oldest_incomplete(&mut self) -> Option<&mut Box<Exchange>> {
        self.open.iter_mut().find(|exchange| exchange.response_end.is_none())
    }

    /// Sets the end of the response in progress to `position`.
    fn response_end(&mut self, at: &At, position: u64) {
        let retire_at = &mut self.retire_at;
        let Some(exchange) = self.open.iter_mut().find(|exchange| exchange.response_end.is_none())
        else {
            return;
        };
        exchange.response_end = NonZeroU64::new(position);
        exchange.end_ns = at.time_ns;
        exchange.last = at.seen;
        *retire_at = (*retire_at).min(position);
    }

    /// Records the error that the response in progress reports; the first one counts.
    fn error(&mut self, code: Option<ErrorCode>) {
        if code.is_some()
            && let Some(exchange) = self.oldest_incomplete()
        {
            exchange.error = exchange.error.or(code);
        }
    }

    fn open(&mut self, at: &At, setup: &mut Setup) {
        let mut exchange = Exchange::begin(at.seen, at.time_ns);
        (exchange.began_at, exchange.idle_ns) = (at.positions, self.paused_ns);
        if setup.waited_for(at.time_ns, at.rtt_client_ns) {
            setup.claimed = true;
            exchange.connects = true;
            exchange.start_ns = setup.syn_first_ns().unwrap_or(at.time_ns).min(at.time_ns);
            (exchange.repeated_setup_ns, exchange.rested_ns) =
                setup.split(at.time_ns, at.rtt_client_ns, &mut exchange.ledger);
        }
        self.retire_at = self.retire_at.max(1);
        if self.open.is_empty() {
            self.retire_at = u64::MAX;
            self.cursor_ns = self.cursor_ns.max(at.time_ns);
        }
        self.begun = Begun::Exchange;
        if at.logs_revisions {
            exchange.log_revisions();
        }
        self.open.push_back(exchange);
    }

    /// Ends the exchanges whose response the client has acknowledged up to `una`. `leg` describes
    /// how the last byte travelled from the vantage to the client.
    pub fn acknowledged(&mut self, una: u64, rtt_client_ns: u64, leg: &Leg) {
        while let Some(end) = self.open.front().and_then(|exchange| exchange.response_end) {
            if end.get() > una {
                break;
            }
            if let Some(exchange) = self.open.front_mut() {
                let (mut from_ns, last) = (exchange.end_ns, exchange.last);
                let bytes = end.get().saturating_sub(exchange.began_at[Side::Server as usize]);
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
        let next = self.open.front().and_then(|exchange| exchange.response_end);
        self.retire_at = next.map_or(u64::MAX, NonZeroU64::get);
    }

    fn retire_complete(&mut self, rtt_client_ns: u64) {
        self.acknowledged(u64::MAX, rtt_client_ns, &Leg::default());
    }

    fn retire_endless(&mut self, rtt_client_ns: u64) {
        while self.open.front().is_some_and(|exchange| exchange.endless && exchange.response_seen) {
            self.retire_front(rtt_client_ns, Outcome::Answered);
        }
    }

    fn retire_all(&mut self, rtt_client_ns: u64, outcome: Outcome) {
        while !self.open.is_empty() {
            self.retire_front(rtt_client_ns, outcome);
        }
        self.retire_at = u64::MAX;
    }

    /// Processes the server's `fin` before the announced end of its response.
    pub fn end_early(&mut self, fin: Sighting) {
        let from_ns = self.cursor_ns;
        let Some(exchange) = self.open.front_mut().filter(|_| fin.time_ns > from_ns) else {
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
        let Some(exchange) = self.open.front_mut().filter(|_| last.time_ns > from_ns) else {
            return;
        };
        let ns = last.time_ns - from_ns;
        let (owner, cause) = (Owner::RetransmissionTimeout, Cause::RetransmissionTimeout);
        exchange.attribute(&Slice::of(owner, cause, ns), &tail.gap(from_ns, last.time_ns));
        exchange.end_ns = last.time_ns;
        exchange.last = last;
        self.cursor_ns = last.time_ns;
    }

    /// Ends all exchanges: complete ones with [`Outcome::Answered`], the rest with `outcome`.
    pub fn close(&mut self, rtt_client_ns: u64, outcome: Outcome) {
        if self.is_interrupted() {
            self.settle_interrupted(None, [rtt_client_ns, 0]);
        }
        self.retire_complete(rtt_client_ns);
        self.expect_nothing_after_event();
        self.retire_all(rtt_client_ns, outcome);
    }

    fn retire_front(&mut self, rtt_client_ns: u64, outcome: Outcome) {
        if let Some(exchange) = self.take_front(rtt_client_ns, outcome) {
            self.done.push_back(exchange);
        }
    }

    /// Removes and returns the oldest exchange. The leg to the client was not seen; its estimate is
    /// added to the time on the path.
    fn take_front(&mut self, rtt_client_ns: u64, outcome: Outcome) -> Option<Box<Exchange>> {
        let mut exchange = self.open.pop_front()?;
        exchange.end(outcome);
        exchange.ledger.add(Owner::Path, rtt_client_ns);
        exchange.known_rtts_ns[Side::Client as usize] = rtt_client_ns;
        Some(exchange)
    }

    /// Releases memory that is not in use.
    pub fn shrink(&mut self) {
        self.open.shrink();
        self.done.shrink();
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        let boxes = self.open.iter().map(|exchange| {
            size_of::<Exchange>() + exchange.chains.capacity() * size_of::<Chain>()
        });
        self.open.heap_bytes() + self.done.heap_bytes() + boxes.sum::<usize>()
    }
}

/// Returns whether the client of `exchange` waits during `gap`, a silence of its own that another
/// request ended: its request was still on its way, or the request is complete in a protocol that
/// shows the end of a request but not of a response (`open_ended`).
fn waits(exchange: &Exchange, gap: &Gap, open_ended: bool) -> bool {
    exchange.waits_through(gap) || open_ended && gap.asks_more() && exchange.is_awaiting()
}
