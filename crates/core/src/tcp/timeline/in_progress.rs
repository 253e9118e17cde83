//! The exchanges in progress on one connection: what each of them waits for, and the attribution of
//! time to them.

use crate::app::{ErrorCode, Subject};
use crate::capture::FrameId;
use crate::judge::{self, Gap, Turn};
use crate::model::{Cause, Owner, Sighting, Slice, Slices};
use crate::queue::Queue;
use crate::tcp::exchange::{Change, Exchange, GapPlace};
use crate::tcp::owed::{Debt, Rule};
use crate::tcp::thresholds::HTTP2_CONTROL_BYTES;
use crate::tcp::timeline::StreamProgress;
use crate::wire::{BySide, Side};

/// The exchanges in progress, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct InProgress {
    /// The exchanges. They are boxed because an idle connection has none, and moving a box is cheap.
    pub(super) queue: Queue<Box<Exchange>>,
}

impl InProgress {
    /// Returns whether an exchange is in progress, to which time is attributed.
    #[inline]
    pub fn accrues(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The oldest exchange in progress.
    pub fn front(&self) -> Option<&Exchange> {
        self.queue.front().map(|exchange| &**exchange)
    }

    /// Returns whether a TLS handshake is complete and no request has come, so that no exchange
    /// waits.
    pub fn is_ready(&self) -> bool {
        self.queue.back().is_some_and(|it| it.handshake.is_some() && !it.request_seen)
    }

    /// Attributes a short time after `from_ns`, which `frame` ended, to one owner.
    #[inline]
    pub fn attribute_plain(&mut self, owner: Owner, (from_ns, frame): (u64, FrameId), ns: u64) {
        let to_ns = from_ns + ns;
        self.queue.for_each_mut(|exchange| {
            if exchange.response_end.is_none() {
                let place = GapPlace::of_both(from_ns.max(exchange.start_ns), frame);
                let ns = ns.min(to_ns.saturating_sub(exchange.start_ns));
                exchange.ledger.add(Slice::plain(owner, ns), place);
            }
        });
    }

    /// Attributes the slices of a gap to the exchanges that lasted through it. The repair of a loss
    /// of data before `repaired_end` also concerns an exchange whose last byte has passed and has
    /// not yet arrived. If `open_ended`, exchanges of this protocol end only with the next request.
    pub fn attribute(
        &mut self,
        slices: &Slices,
        gap: &Gap,
        repaired_end: Option<u64>,
        open_ended: bool,
    ) {
        let lives = |exchange: &Exchange| match (exchange.response_end, repaired_end) {
            (None, _) => true,
            // A client that has not taken in the response repeats its request.
            (Some(_), Some(repaired)) if gap.sender == Side::Client => {
                gap.repair.deaf && exchange.began_at[Side::Client] < repaired
            }
            (Some(end), Some(repaired)) => repaired <= end.get(),
            (Some(_), None) => false,
        };
        self.queue.for_each_mut(|exchange| {
            if !lives(exchange) {
                return;
            }
            exchange.note_rtt(gap);
            if waits(exchange, gap, open_ended) {
                exchange.attribute_waiting(gap);
            } else {
                exchange.attribute_since_begun(slices, gap);
                if !open_ended {
                    absorb_holds(exchange, slices, gap);
                }
            }
            exchange.end_ns = exchange.end_ns.max(gap.end_ns);
            exchange.last = gap.next;
        });
    }

    /// Returns the slices of a client's gap that another request ended, if the exchange before it
    /// was waiting.
    pub fn waiting(&self, gap: &Gap, open_ended: bool) -> Option<[Slice; 2]> {
        let last = self.queue.back()?;
        waits(last, gap, open_ended).then(|| last.waiting(gap))
    }

    /// Applies `change` to the exchanges in progress.
    #[track_caller]
    pub fn revise(&mut self, change: &Change) {
        for exchange in self.queue.iter_mut() {
            exchange.revise(change);
        }
    }

    /// Extends the exchange in progress to `seen`, unless its response is complete.
    #[inline]
    pub fn touch(&mut self, seen: Sighting) {
        if let Some(exchange) = self.queue.front_mut()
            && exchange.response_end.is_none()
        {
            exchange.end_ns = seen.time_ns;
            exchange.last = seen;
        }
    }

    /// Records that the client sent its request this long after the TLS handshake, ns.
    pub fn rest(&mut self, ns: u64) {
        if let Some(exchange) = self.queue.back_mut() {
            exchange.rested_ns += ns;
        }
    }

    /// Records that the client sends more, so that it waits for no 100 Continue.
    #[inline]
    pub fn note_client_data(&mut self) {
        if let Some(exchange) = self.queue.back_mut() {
            exchange.awaits_continue = false;
        }
    }

    /// The oldest exchange whose response is incomplete.
    pub(super) fn oldest_incomplete(&mut self) -> Option<&mut Box<Exchange>> {
        self.queue.find_mut(|exchange| exchange.response_end.is_none())
    }

    /// Records the error that the response in progress reports; the first one counts.
    pub(super) fn error(&mut self, code: Option<ErrorCode>) {
        if code.is_some()
            && let Some(exchange) = self.oldest_incomplete()
        {
            exchange.error = exchange.error.or(code);
        }
    }

    /// Returns whether every exchange in progress has its complete request and waits for its
    /// response to begin.
    pub fn all_asked(&self) -> bool {
        let last = self.queue.back().filter(|it| it.is_awaiting());
        last.is_some_and(|it| it.response_end.is_none())
    }

    /// Returns whether the newest request has begun and not reached its end, and nothing answers it yet.
    pub fn is_asking(&self) -> bool {
        let begun = |it: &Exchange| it.request_seen && !it.asked && !it.response_seen;
        self.queue.back().is_some_and(|it| begun(it))
    }

    /// Returns whether every response in progress is complete, though possibly not yet at the
    /// client.
    pub fn all_answered(&self) -> bool {
        self.queue.back().is_none_or(|exchange| exchange.response_end.is_some())
    }

    /// Returns whether only one exchange is in progress, and its response has begun and is not
    /// complete.
    #[inline]
    pub fn is_responding(&self) -> bool {
        self.queue.only().is_some_and(|it| {
            it.request_seen && it.response_seen && it.response_end.is_none() && !it.in_handshake
        })
    }

    /// Position of the client's stream at which the only request in progress begins; `None` if an
    /// answer has begun.
    pub fn asked_at(&self) -> Option<u64> {
        let exchange = self.queue.only().filter(|_| self.is_unanswered())?;
        Some(exchange.asked_at)
    }

    /// Time since which the oldest exchange in progress waits for its response to begin, ns.
    pub fn unanswered_since(&self) -> Option<u64> {
        let oldest = self.queue.iter().find(|exchange| exchange.response_end.is_none())?;
        (oldest.asked && oldest.answered_ns == 0).then_some(oldest.first.time_ns)
    }

    /// Attributes `gap` to the oldest of the requests that began with the segment that ended it.
    pub fn hold(&mut self, gap: &Gap, slices: &Slices) {
        let began = |it: &&mut Box<Exchange>| it.first.frame == gap.next.frame && !it.connects;
        if let Some(exchange) = self.queue.iter_mut().find(began) {
            let mut at_ns = gap.start_ns;
            for slice in slices.iter() {
                exchange.attribute_since(at_ns, slice, gap);
                at_ns += slice.ns;
            }
        }
    }

    /// Returns whether data of the server, sent when the client's stream had `passed` so far,
    /// overlaps the request.
    pub fn response_overlaps(&self, passed: StreamProgress) -> bool {
        let asked = self.queue.only().filter(|it| {
            it.request_seen && !it.response_seen && !it.in_handshake && it.response_end.is_none()
        });
        asked.is_some_and(|it| passed.is_under_way(it.began_at[Side::Client]))
    }

    /// Removes the exchange that [`ask`](Self::ask) added: the fast path records it again.
    pub fn remove_request(&mut self) {
        self.queue.pop_front();
    }

    /// Attributes `gap`, in which the exchange added by [`ask`](Self::ask) waited for its response,
    /// to the path and the server's application.
    #[inline]
    pub fn wait(&mut self, gap: &Gap) {
        if let Some(exchange) = self.queue.front_mut() {
            let path_ns = gap.rtt.known_ns.min(gap.len_ns());
            let at = GapPlace::of_both(gap.start_ns, gap.next.frame);
            exchange.ledger.add(Slice::plain(Owner::Path, path_ns), at);
            exchange.note_rtt(gap);
            let own = judge::busy(gap.sender, gap.len_ns() - path_ns);
            exchange.attribute_since(gap.start_ns + path_ns, &own, gap);
            (exchange.end_ns, exchange.last) = (gap.end_ns, gap.next);
        }
    }

    /// Returns what the server owes for the oldest message in progress, at the end of a connection on
    /// which it did not answer it: nothing if the message follows an event, which it acknowledged.
    pub fn debt_at_end(&self) -> Debt {
        match self.front().filter(|it| it.is_unanswered()).map(Exchange::debt) {
            Some(Debt::Unknown(Rule::Event)) => Debt::Nothing(Rule::Event),
            _ => Debt::Response,
        }
    }

    /// Returns whether the answer in progress refuses the connection because of a limit: there is no more of
    /// it, however the connection ends.
    pub fn refuses_connection(&self) -> bool {
        let error = self.front().and_then(|exchange| exchange.error);
        error.is_some_and(|code| code.subject() == Subject::Connections)
    }

    /// Returns whether one request is open, and nothing has answered it.
    pub fn is_unanswered(&self) -> bool {
        self.queue.only().is_some_and(|it| it.is_unanswered() && !it.in_handshake)
    }

    /// Records that the server closes behind the response in progress: no answer to the requests behind that
    /// is due.
    pub(super) fn expect_no_more(&mut self) {
        let waiting = self.queue.iter_mut().filter(|it| it.is_unanswered());
        waiting.for_each(|exchange| exchange.not_due = true);
    }

    /// Drops the requests without an answer for which none is due; returns their number.
    pub(super) fn drop_not_due(&mut self) -> u8 {
        let mut count = 0;
        for exchange in self.queue.iter_mut().filter(|it| it.not_due && it.is_unanswered()) {
            (exchange.request_seen, exchange.asked) = (false, false);
            count += 1;
        }
        count
    }

    /// Records that the client's last message was no request: both sides closed after it.
    pub fn expect_nothing(&mut self) {
        if let Some(exchange) = self.queue.front_mut().filter(|it| it.is_unanswered()) {
            exchange.request_seen = false;
        }
    }

    /// Processes a client that closed at `closed_ns`, before a response to its last message could
    /// have reached it over a round trip of `rtt_ns`: the message was no request. The client is
    /// known to send requests without a pause if it `asks_at_once`.
    pub fn drop_unanswered_last_message(
        &mut self,
        closed_ns: u64,
        rtt_ns: u64,
        asks_at_once: bool,
    ) {
        if !asks_at_once {
            return;
        }
        let before_answer = |it: &&mut Box<Exchange>| closed_ns <= it.first.time_ns + rtt_ns;
        let unanswered = self.queue.front_mut().filter(|it| it.is_unanswered());
        if let Some(exchange) = unanswered.filter(before_answer) {
            exchange.request_seen = exchange.connects || exchange.handshake.is_some();
        }
    }

    /// Processes a TLS server that closes long after the client's last data, which took
    /// `last_bytes`; the streams are at `positions`. If neither side has sent more than control
    /// frames since the last exchange, there was neither a request nor a response: the connection
    /// was idle. `asks_at_once` is as in
    /// [`drop_unanswered_last_message`](Self::drop_unanswered_last_message).
    pub fn drop_message_before_fin(
        &mut self,
        last_bytes: u64,
        positions: BySide<u64>,
        asks_at_once: bool,
    ) {
        if !asks_at_once {
            return;
        }
        let Some(exchange) = self.queue.front_mut() else { return };
        let sent_bytes = |side: Side| positions[side].saturating_sub(exchange.began_at[side]);
        let short = u64::from(exchange.first.payload_bytes).max(last_bytes) <= HTTP2_CONTROL_BYTES
            && Side::ALL.into_iter().all(|side| sent_bytes(side) <= 2 * HTTP2_CONTROL_BYTES);
        if short && !exchange.connects && exchange.handshake.is_none() {
            exchange.request_seen = false;
            exchange.response_seen = false;
        }
    }
}

/// Returns whether the client of `exchange` waits during `gap`, a silence of its own that another
/// request ended: its request was still on its way, or the request is complete in a protocol that
/// shows the end of a request but not of a response (`open_ended`).
fn waits(exchange: &Exchange, gap: &Gap, open_ended: bool) -> bool {
    exchange.waits_through(gap) || open_ended && gap.asks_more() && exchange.is_awaiting()
}

/// Takes earlier holds of a small segment off what they cost, as far as the sender's own pause in `gap`, which it
/// makes later in the same message, is as long: the message is complete at a time that they do not move, since a
/// write does not wait for the ACK of the one before it. All that was sent before is acknowledged.
fn absorb_holds(exchange: &mut Exchange, slices: &Slices, gap: &Gap) {
    if exchange.chains.len() < 2 || gap.turn != Turn::Continues || gap.repair.is_retransmission() {
        return;
    }
    let own = judge::busy(gap.sender, 0).cause;
    let pauses = slices.iter().filter(|slice| slice.cause == own);
    let ns = pauses.map(|slice| slice.ns).sum();
    let is_held = slices.causes().contains(Cause::NagleDelayedAck);
    let is_acked = gap.acks.cover_all() || gap.acks.last.is_none() && gap.flight.before == 0;
    if ns > 0 && is_acked && !is_held {
        exchange.revise(&Change::Absorbed { sender: gap.sender, ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_progress(exchanges: Vec<Exchange>) -> InProgress {
        let mut all = InProgress::default();
        exchanges.into_iter().for_each(|exchange| all.queue.push_back(Box::new(exchange)));
        all
    }

    #[test]
    fn a_complete_request_waits_for_its_response() {
        let asked = Exchange { request_seen: true, asked: true, ..Exchange::default() };
        let waiting = in_progress(vec![asked.clone()]);
        assert!(waiting.all_asked() && waiting.is_unanswered() && !waiting.all_answered());
        let answered = Exchange { answered_ns: 5, response_seen: true, ..asked };
        let answered = in_progress(vec![answered]);
        assert!(!answered.all_asked() && !answered.is_unanswered());
    }

    #[test]
    fn short_times_count_from_the_start_of_an_exchange() {
        let mut all = in_progress(vec![Exchange { start_ns: 90, ..Exchange::default() }]);
        all.attribute_plain(Owner::Bandwidth, (80, FrameId::default()), 15);
        assert_eq!(all.front().map(|it| it.ledger.of(Owner::Bandwidth)), Some(5));
    }

    #[test]
    fn a_message_behind_which_its_client_closes_is_no_request() {
        let asked = Exchange { request_seen: true, ..Exchange::default() };
        let mut all = in_progress(vec![asked]);
        all.drop_unanswered_last_message(50, 10, true);
        assert!(all.front().is_some_and(|it| it.request_seen), "an answer could have come by then");
        all.drop_unanswered_last_message(10, 10, true);
        assert!(all.front().is_some_and(|it| !it.request_seen));
    }
}
