//! Turns departures into [`Gap`]s, and attributes the time of the gaps.

use crate::judge::{self, Gap, Recovery, Turn};
use crate::model::{Cause, CauseSet, Owner, Sighting, Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::connection::asked::{has_sent_only_early_data, passed};
use crate::tcp::connection::at_end::is_unfinished;
use crate::tcp::connection::cold::Cold;
use crate::tcp::connection::doubt::{doubt_rate, note_doubt};
use crate::tcp::connection::learnt::learn;
use crate::tcp::connection::place::is_beside_receiver;
use crate::tcp::connection::questions::Settling;
use crate::tcp::connection::queue_delay::note_queue_delay;
use crate::tcp::connection::queued::{check_clock, note_queued};
use crate::tcp::exchange::{Change, Exchange};
use crate::tcp::sender::{Bulk, Kind, Sender, SinceDeparture};
use crate::tcp::thresholds::KERNEL_SEND_NS;
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Segment, Side};

/// Causes that mean the applications' own time.
const OF_APPLICATIONS: CauseSet = CauseSet::of(&[Cause::ServerThink, Cause::ClientThink]);

impl Connection {
    /// Fills `gap` with the silence that this departure ends, if an exchange was waiting. Returns
    /// whether there is something to explain.
    pub(super) fn silence(
        &mut self,
        side: Side,
        start: u64,
        segment: &Segment,
        kind: Kind,
        since: &SinceDeparture,
        gap: &mut Gap,
    ) -> bool {
        if side == Side::Server && kind == Kind::New {
            self.end_pause_amid_request(Sighting::of(side, segment));
        }
        let from_ns = self.timeline.cursor_ns;
        let to_ns = segment.time_ns.max(from_ns);
        let continues = self.timeline.active == Some(side);
        if continues && kind == Kind::New && to_ns - from_ns < KERNEL_SEND_NS {
            self.timeline.exchanges.attribute_plain(
                Owner::Bandwidth,
                (from_ns, segment.frame),
                to_ns - from_ns,
            );
            return false;
        }
        if continues
            && side == Side::Client
            && has_sent_only_early_data(&self.setup, &self.senders[Side::Client])
        {
            self.timeline.exchanges.attribute_plain(
                Owner::Connect,
                (from_ns, segment.frame),
                to_ns - from_ns,
            );
            return false;
        }
        let continues_response = continues && side == Side::Server;
        let under_way_ns =
            if continues_response { self.awaited().request_under_way_ns(from_ns) } else { None };
        if !continues {
            check_clock(&mut self.senders, side, to_ns);
        }
        let goes_on = continues && under_way_ns.is_none();
        self.knowledge().fill(side, (from_ns, to_ns), goes_on, since, gap);
        gap.rtt.known_ns = under_way_ns.unwrap_or(gap.rtt.known_ns);
        gap.end_with(segment);
        let Sender { space, habits, .. } = &self.senders[side];
        gap.acks.unheard = habits.echoes()
            && since.acks.last.is_some_and(|ack| {
                ack.tsval != 0 && segment.echoes().is_some_and(|echo| !ack.is_echoed_by(echo))
            });
        gap.behind_hole = kind == Kind::New && start > space.nxt;
        if gap.bottleneck.stood_ns > 0 {
            let message = self.timeline.exchanges.front().map(|it| it.began(side));
            let bytes = (start + u64::from(segment.payload_len)).saturating_sub(space.nxt);
            gap.bottleneck.stood_ns -=
                at_rate_of(message, (space.nxt, from_ns), bytes).min(gap.bottleneck.stood_ns);
        }
        if gap.turn == Turn::Continues {
            let Self { cold, senders, path, timeline, .. } = self;
            let began = timeline.exchanges.front().map_or(u64::MAX, |it| it.began_at[side]);
            note_queue_delay(cold, &senders[side], path, (side, began), to_ns);
        }
        let sender = &self.senders[side];
        gap.repair = sender.repair_in_gap(segment, (start, kind), to_ns);
        let repeats = gap.repair.is_retransmission();
        if gap.repair.overtaken || repeats && is_beside_receiver(&self.setup, &self.path, side) {
            // Late data was not queued, since later packets were not delayed. If the vantage is at
            // the receiver, the last original segment has arrived: the time after it belongs to the
            // repair.
            gap.bottleneck.busy_ns = 0;
        }
        if !self.setup.confirmed && side == Side::Client && repeats {
            self.setup.ignore_data(segment.time_ns);
        }
        let Sender { bulk, space, .. } = &mut self.senders[side];
        if bulk.as_mut().is_some_and(|bulk| bulk.infer_scale(space, gap)) {
            self.timeline.exchanges.revise(&Change::OfferedWindow { sender: side });
        }
        if continues && gap.bottleneck.busy_ns > 0 && !gap.repair.overtaken {
            let is_known = self.setup.confirmed && !self.mid_stream;
            let arrives = is_beside_receiver(&self.setup, &self.path, side);
            doubt_rate(gap, start, &mut self.senders, &self.path, (arrives, is_known));
        }
        let sender = &mut self.senders[side];
        follow(sender, gap, start, self.timeline.exchanges.front().filter(|_| continues));
        true
    }

    /// Passes over the silence of the client up to its next request, at `now_ns`, for which no exchange
    /// waited: only the state of the clock and the link follows. Returns `false` if the client is a
    /// bulk sender, whose pace each silence shows.
    pub(super) fn pass_over(&mut self, now_ns: u64) -> bool {
        let [client, server] = &mut self.senders;
        if client.bulk.is_some() {
            return false;
        }
        let from_ns = self.timeline.cursor_ns;
        let to_ns = now_ns.max(from_ns);
        if let Some(bulk) = &mut server.bulk {
            bulk.busy_ns((from_ns, to_ns), None);
        }
        check_clock(&mut self.senders, Side::Client, to_ns);
        true
    }

    /// Attributes the time before `end`, by which the client closes its side or the server answers,
    /// to a client that had been silent amid its request.
    pub(super) fn end_pause_amid_request(&mut self, end: Sighting) {
        let is_next = self.timeline.active == Some(Side::Client);
        if is_next && self.at_end().pauses_amid_request(end.time_ns) {
            self.accrue_to(Side::Client, end.time_ns, end);
        }
    }

    /// Judges a gap, with what the exchange and the protocol show of it.
    pub(super) fn judge(&self, gap: &Gap) -> Slices {
        let mut slices = judge::judge(gap);
        let answers_early = gap.sender == Side::Server
            && gap.turn == Turn::Answers
            && !self.awaited().has_received_request();
        // The segment that ended the silence had left before it began, and before its sender heard the last
        // ACK: it may have waited for an earlier one, behind a queue.
        let is_behind_queue = gap.turn == Turn::Continues
            && gap.acks.unheard
            && self.senders[gap.sender].clock.queued_ns() >= gap.len_ns();
        if answers_early || gap.protocol.owes_final_reply || is_behind_queue {
            slices.make_unknown(Cause::ServerThink);
        }
        slices
    }

    /// Time for which the server was silent of its own accord in `gap`, which has these `slices`, ns, if
    /// it continues a response that may have been over.
    pub(super) fn pause_of_server(&self, gap: &Gap, slices: &Slices) -> Option<u64> {
        let own_ns = self.own_ns_amid_response(gap, slices)?;
        let is_amid_message =
            self.framer.hides_dialogue() && self.senders[Side::Server].sizes.is_full(&gap.last);
        (!is_amid_message && self.timeline.is_pause(own_ns)).then_some(own_ns)
    }

    /// Time of the server's application in `gap`, ns, if it continues a response after it.
    fn own_ns_amid_response(&self, gap: &Gap, slices: &Slices) -> Option<u64> {
        // Data within a round trip of other data continues that: the peer could not have reacted.
        let is_apart = gap.len_ns() > self.path.known_base_rtt_ns();
        let continues = gap.sender == Side::Server && gap.turn == Turn::Continues;
        let own = slices.iter().filter(|slice| slice.owner == Owner::Server);
        (continues && is_apart && !gap.protocol.owes_final_reply)
            .then(|| own.map(|slice| slice.ns).sum())
    }

    /// Attributes the `slices` of a gap. If the gap ended with a retransmission, that repairs data
    /// before `end`.
    pub(super) fn attribute(&mut self, gap: &Gap, mut slices: Slices, end: u64) {
        let one_way = self.senders.iter().any(|sender| !sender.volume.has_packets());
        if one_way && gap.repair.trigger != Some(Recovery::Timer) {
            // The other direction was not captured, so that the owner cannot be known.
            let from = (self.timeline.cursor_ns, gap.next.frame);
            self.timeline.exchanges.attribute_plain(Owner::Unknown, from, gap.len_ns());
            return;
        }
        let sender = &mut self.senders[gap.sender];
        if sender.history().restarted.is_some() {
            sender.history_mut().attribute_to_restart(gap, &mut slices);
        }
        record(&mut self.cold, &self.timeline, gap, &slices);
        note_doubt(&mut self.cold, &mut self.senders, &self.path, gap, &slices);
        note_queued(&mut self.cold, &self.senders, gap, &slices);
        let causes = slices.causes();
        // A gap that ends a turn without any obstacle shows nothing more about its sender.
        if gap.turn == Turn::Continues || !causes.is_subset(OF_APPLICATIONS) {
            let Self { cold, senders, path, timeline, .. } = self;
            learn(gap, &slices, Settling { senders, path, timeline }, cold);
        }
        if let Some(own_ns) = self.own_ns_amid_response(gap, &slices) {
            let position = self.senders[Side::Server].space.nxt - gap.next_len;
            self.timeline.pause((own_ns, gap.len_ns()), position);
        }
        let passed = passed(&self.senders[Side::Client]);
        let is_known = gap.protocol.is_known;
        self.timeline.settle_client_pause(gap, &mut slices, passed, is_known);
        let repaired = gap.repair.trigger.map(|_| end);
        if self.timeline.exchanges.is_ready() && gap.sender == Side::Client {
            // Between the TLS handshake and the request, no exchange waits for the client.
            self.timeline.exchanges.rest(slices.remove(Cause::ClientThink));
        }
        let open_ended = self.timeline.open_ended;
        self.timeline.exchanges.attribute(&slices, gap, repaired, open_ended);
        let sender = &mut self.senders[gap.sender];
        attribute_to_reader(&mut self.timeline, sender, gap, &slices);
    }

    /// Attributes the time up to an end without data (a RST or the last probe).
    pub(super) fn accrue_to(&mut self, side: Side, end_ns: u64, next: Sighting) {
        // Data that has all been sent and is being retransmitted has not arrived.
        let in_recovery = self.senders[Side::Server]
            .history()
            .losses
            .is_repairing(self.senders[Side::Server].space.una());
        let open = self
            .timeline
            .exchanges
            .front()
            .is_some_and(|exchange| in_recovery || !exchange.is_complete());
        let over = self.at_end().may_be_over() || self.timeline.exchanges.is_ready();
        if !open || over && !is_unfinished(&self.senders) {
            return;
        }
        // A side was held up if it has unacknowledged data, or unsent data before a closed window.
        let side = match self.timeline.active {
            Some(active) if self.senders[active].history().window.is_closed() => active,
            _ => side,
        };
        let rtts_ns = (self.path.rtt_ns(side), self.path.rtt_ns(side.peer()));
        let mut since = SinceDeparture::default();
        self.senders[side].since.take(&mut since);
        self.senders[side].advance(&mut since, end_ns, rtts_ns, None);
        let from_ns = self.timeline.cursor_ns;
        let continues = self.timeline.active == Some(side);
        let forgotten = side == Side::Server && self.cold.ending().forgotten;
        let mut gap = Gap::default();
        let span_ns = (from_ns, end_ns.max(from_ns));
        self.knowledge().fill(side, span_ns, continues, &since, &mut gap);
        // Nothing continues a handshake that ends here.
        gap.protocol.in_handshake = false;
        let sender = &mut self.senders[side];
        sender.since.store(since);
        let unseen =
            sender.history().holes.bytes().div_ceil(sender.sizes.smss()).min(u64::from(u32::MAX))
                as u32;
        gap.losses.missing.count = gap.losses.missing.count.max(unseen);
        gap.repair.unseen |= unseen > 0;
        // The answer may be among the bytes that the capture does not show.
        gap.behind_hole = unseen > 0;
        if forgotten {
            // A host that no longer knows the connection does not wait.
            gap.acks.last = None;
        } else if continues
            && (sender.history().losses.is_repairing(sender.space.una())
                || sender.history().holes.are_awaited_at(sender.space.una_seen()))
        {
            gap.repair.trigger = Some(Recovery::Timer);
        }
        gap.next = next;
        gap.in_vain = side == Side::Server && self.ends_stalled_response(&next);
        self.attribute(&gap, self.judge(&gap), 0);
        self.timeline.cursor_ns = end_ns.max(from_ns);
    }

    /// Returns whether the client gives up by `end` on a response that has begun and stopped.
    fn ends_stalled_response(&self, end: &Sighting) -> bool {
        let is_begun = |it: &Exchange| it.request_seen && it.response_seen;
        let silent_ns = end.time_ns.saturating_sub(self.view().last_data_ns());
        end.from == Side::Client
            && self.timeline.exchanges.front().is_some_and(is_begun)
            && self.at_end().is_stalled(silent_ns)
    }
}

/// Advances the timeline to `time_ns`, when `side` sent data for which an exchange was waiting.
pub(super) fn move_cursor(
    timeline: &mut Timeline,
    senders: &mut BySide<Sender>,
    side: Side,
    time_ns: u64,
) {
    timeline.move_to(time_ns);
    timeline.active = Some(side);
    if let Some(bulk) = &mut senders[side].bulk {
        bulk.pipe.mark();
    }
}

/// Returns how long `bytes` take at the rate of the message so far, ns, which began at a position and a
/// time and had come to position `nxt` at `last_ns`; 0 if nothing shows a rate.
fn at_rate_of(message: Option<(u64, u64)>, (nxt, last_ns): (u64, u64), bytes: u64) -> u64 {
    let Some((begin, began_ns)) = message.filter(|&(_, began_ns)| began_ns > 0) else { return 0 };
    let sent = nxt.saturating_sub(begin).max(1);
    // The rate of a link that others use too varies by a half.
    let took_ns = 2 * u128::from(last_ns.saturating_sub(began_ns));
    u64::try_from(u128::from(bytes) * took_ns / u128::from(sent)).unwrap_or(u64::MAX)
}

/// Follows by `gap` the pace of a sender and the pieces in which it writes; `message` is the
/// exchange of the message that it continues at position `start`.
fn follow(sender: &mut Sender, gap: &mut Gap, start: u64, message: Option<&Exchange>) {
    let began = message.map(|it| it.began(gap.sender));
    let Sender { bulk, space, volume, .. } = sender;
    if let Some(bulk) = bulk {
        let after_small = volume.small.unacknowledged_before(start, space.una()).is_some();
        let from = began.map(|(position, _)| position);
        bulk.pacer.follow(gap, (start, space.nxt), from, after_small);
    }
    if message.is_some() {
        Bulk::follow_pieces(bulk, gap, (start, space.flight()), began);
    }
}

/// Adds `gap` to the recording, if there is one.
fn record(cold: &mut Cold, timeline: &Timeline, gap: &Gap, slices: &Slices) {
    let Some(trace) = cold.trace_mut() else { return };
    match timeline.exchanges.waiting(gap, timeline.open_ended) {
        Some(waiting) => trace.gap(gap, waiting.iter()),
        None => trace.gap(gap, slices.iter()),
    }
}

/// Attributes waits to the reader if its window was closed in `gap`: those before it in which it
/// did not read. Otherwise keeps the wait until that is known.
fn attribute_to_reader(timeline: &mut Timeline, sender: &mut Sender, gap: &Gap, slices: &Slices) {
    if !slices.causes().contains(Cause::ZeroWindow) {
        let Sender { bulk, space, sizes, .. } = sender;
        if let Some(bulk) = bulk {
            bulk.unread.note(gap, slices, space, sizes.smss());
        }
        return;
    }
    let unread = sender.bulk.as_mut().map(|bulk| bulk.unread.take());
    for from in unread.unwrap_or_default() {
        let to = Slice::of(Owner::ZeroWindow, Cause::ZeroWindow, from.ns);
        let (sender, frame) = (gap.sender, gap.next.frame);
        timeline.exchanges.revise(&Change::Slice { sender, frame, from, to });
    }
}
