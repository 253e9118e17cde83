//! Turns departures into [`Gap`]s, and attributes the time of the gaps.

use crate::app::{Protocol, Side};
use crate::judge::thresholds::{CLOCKED_SEGMENTS, HOST_DELAY_MAX_NS, RATE_MARGIN_PART, RTO_MIN_NS};
use crate::judge::{self, Gap, Recovery, Shape, Turn};
use crate::model::{Cause, Owner, Sighting, Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Change;
use crate::tcp::sender::{Bulk, Kind, Sender, SinceDeparture};
use crate::tcp::thresholds::{
    DELAYED_ACK_MAX_NS, DELAYED_ACK_NS, HANDSHAKE_WAITED_FOR_NS, KERNEL_SEND_NS,
};
use crate::wire::Segment;

/// Causes that mean the applications' own time.
const OF_APPLICATIONS: u64 = 1 << Cause::ServerThink as u64 | 1 << Cause::ClientThink as u64;

impl Connection {
    /// Queueing delay of the server's last byte behind the vantage, ns: the delay of its ACK beyond
    /// the base round trip, as far as the flight explains it. If the arrival of that byte did not
    /// determine the time of the ACK (`timed` is false), only the explained time counts. Earlier
    /// data was acknowledged at `una_ns`, and the last byte did not arrive before that. The second
    /// value is the part of the delay that had passed when the first byte of the flight arrived;
    /// the rest was transmission of the flight's own bytes.
    pub(super) fn queued_to_client(&mut self, ack_ns: u64, una_ns: u64, timed: bool) -> (u64, u64) {
        let (rtt_server_ns, rtt_client_ns) =
            (self.path.rtt_ns(Side::Server), self.path.rtt_ns(Side::Client));
        let sender = &mut self.senders[Side::Server as usize];
        let last_ns = sender.last.time_ns;
        let late_ns = ack_ns.saturating_sub(last_ns + rtt_client_ns);
        if sender.bulk.is_none() && !(timed && late_ns > DELAYED_ACK_MAX_NS) {
            return (0, 0);
        }
        sender.apply_arrived_acks(ack_ns, rtt_server_ns, rtt_client_ns);
        let unknown_ns = if timed { ack_ns } else { 0 };
        let first_ns =
            sender.since.first_ack_ns().map_or(unknown_ns, |at_ns| at_ns - rtt_server_ns);
        let ahead_ns = first_ns.saturating_sub(last_ns + rtt_client_ns);
        if timed && late_ns > DELAYED_ACK_MAX_NS {
            return (late_ns - DELAYED_ACK_NS, ahead_ns);
        }
        let Some(bulk) = &mut sender.bulk else { return (0, 0) };
        // The rate is known only to within a quarter of an octave; an equally late ACK in the
        // middle of the flight is better evidence.
        let busy_ns = bulk.pipe.busy_ns(last_ns, last_ns + late_ns + late_ns / 2);
        let clocked_ns = bulk.rtt_clocked_ns.saturating_sub(rtt_client_ns);
        let shown_ns = busy_ns.max(clocked_ns).max(una_ns.saturating_sub(last_ns + rtt_client_ns));
        let explained = timed && late_ns <= shown_ns + shown_ns / RATE_MARGIN_PART;
        (if explained { late_ns } else { shown_ns.min(late_ns) }, ahead_ns)
    }

    /// Returns whether a segment ends a silence of the exchange. A retransmission by the side that
    /// does not send the current message does not end one.
    #[inline]
    pub(super) fn moves_cursor(&self, side: Side, kind: Kind, arrived: bool, start: u64) -> bool {
        // A response that an ACK overtook is still a response.
        let sender = &self.senders[side as usize];
        if kind == Kind::Reordered && sender.history().holes.continues_at(start, sender.space.nxt) {
            return true;
        }
        if arrived && matches!(kind, Kind::Retransmission(_)) {
            // No side waited for this retransmission.
            return false;
        }
        if self.is_outside_exchanges(side, kind) || self.repairs_after_close(side, kind, start) {
            return false;
        }
        matches!(kind, Kind::New | Kind::Fill(_))
            || self.timeline.active.is_none_or(|active| active == side)
    }

    /// Returns whether the server retransmits data that it had sent after the client closed during
    /// the response: nothing waits for that.
    fn repairs_after_close(&self, side: Side, kind: Kind, start: u64) -> bool {
        let closed_ns = self.ending().fin_ns[Side::Client as usize];
        let noticed_ns = self.senders[side as usize].history().holes.noticed_ns(start);
        side == Side::Server
            && matches!(kind, Kind::Fill(_))
            && self.timeline.active == Some(Side::Server)
            && closed_ns.zip(noticed_ns).is_some_and(|(closed, noticed)| closed <= noticed)
    }

    /// Returns whether data of `side` has arrived once it passes the vantage.
    pub(super) fn arrives(&self, side: Side) -> bool {
        self.setup.confirmed && self.path.ends_here(side.peer())
    }

    /// Returns whether the receiver of what `side` sends, at the vantage, has not acknowledged the data
    /// from `start` to `end`, though its ACKs are captured. The data passed the vantage, and only
    /// the receiver's ACK, SACK or D-SACK shows that it has arrived: a filter behind the vantage, a wrong
    /// checksum or a full buffer of the host drops it. That the ACK is missing at `now_ns`, when the
    /// data is sent again, shows a drop only if it was due: the receiver may delay the ACK of less than
    /// two full segments (RFC 9293 §3.8.6.3), unless later data had come before them.
    pub(super) fn is_awaited_here(
        &self,
        side: Side,
        (start, end): (u64, u64),
        now_ns: u64,
    ) -> bool {
        let sender = &self.senders[side as usize];
        let is_due = || {
            let first = sender.original(start.max(sender.space.una_seen()));
            sender.space.nxt >= sender.space.una_seen() + 2 * sender.sizes.smss()
                || first.is_none_or(|it| now_ns.saturating_sub(it.time_ns) >= RTO_MIN_NS)
                || sender.history().losses.is_repairing(sender.space.una())
                || sender.is_loss_known(now_ns, self.path.rtt_ns(side))
        };
        self.pure_acks
            && end > sender.space.una_seen()
            && !sender.history().losses.is_sacked(start, &sender.space)
            && is_due()
    }

    /// Returns whether `side`, at the vantage, repeats data from `start` to `end` at `now_ns` by its
    /// timer, though the peer's ACK of it passed long before: the host has dropped that segment behind
    /// the vantage, with the answer in it. Its timer would have stopped otherwise (RFC 6298 §5.2).
    pub(super) fn has_not_heard(&self, side: Side, (start, end): (u64, u64), now_ns: u64) -> bool {
        let sender = &self.senders[side as usize];
        let is_here =
            self.setup.confirmed && self.path.ends_here(side) && !self.path.ends_here(side.peer());
        let is_last = end == sender.space.nxt && end == sender.space.una_seen() && start < end;
        let heard_ns = now_ns.saturating_sub(sender.una_seen_ns);
        let is_still =
            sender.history().losses.unheard_from == start && sender.space.una_seen() == start;
        is_here && (is_last && heard_ns >= RTO_MIN_NS || is_still)
    }

    /// Returns whether the vantage is at the receiver of what `side` sends, and not at its sender.
    pub fn beside_receiver(&self, side: Side) -> bool {
        self.arrives(side) && !self.path.ends_here(side)
    }

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
        let from_ns = self.timeline.cursor_ns;
        let to_ns = segment.time_ns.max(from_ns);
        let continues = self.timeline.active == Some(side);
        if continues && kind == Kind::New && to_ns - from_ns < KERNEL_SEND_NS {
            self.timeline.attribute_plain(Owner::Bandwidth, to_ns - from_ns);
            return false;
        }
        if continues && side == Side::Client && self.has_sent_only_early_data() {
            self.timeline.attribute_plain(Owner::Connect, to_ns - from_ns);
            return false;
        }
        let continues_response = continues && side == Side::Server;
        let under_way_ns =
            if continues_response { self.request_under_way_ns(from_ns) } else { None };
        if !continues {
            self.check_clock(side, to_ns);
        }
        self.gap(side, (from_ns, to_ns), continues && under_way_ns.is_none(), since, gap);
        gap.rtt.known_ns = under_way_ns.unwrap_or(gap.rtt.known_ns);
        gap.end_with(segment);
        if gap.turn == Turn::Continues {
            self.note_queue_delay(side, to_ns);
        }
        let sender = &self.senders[side as usize];
        gap.repair = sender.repair_in_gap(segment, (start, kind), to_ns);
        let repeats = gap.repair.is_retransmission();
        if gap.repair.overtaken || repeats && self.beside_receiver(side) {
            // Late data was not queued, since later packets were not delayed. If the vantage is at
            // the receiver, the last original segment has arrived: the time after it belongs to the
            // repair.
            gap.bottleneck.busy_ns = 0;
        }
        if !self.setup.confirmed && side == Side::Client && repeats {
            self.setup.ignore_data(segment.time_ns);
        }
        let Sender { bulk, space, .. } = &mut self.senders[side as usize];
        if bulk.as_mut().is_some_and(|bulk| bulk.infer_scale(space, gap)) {
            self.timeline.revise(&Change::OfferedWindow { sender: side });
        }
        if continues && gap.bottleneck.busy_ns > 0 && !gap.repair.overtaken {
            self.doubt_rate(gap, start);
        }
        let began = self.timeline.front().filter(|_| continues).map(|it| it.began(side));
        let sender = &mut self.senders[side as usize];
        let Sender { bulk, space, volume, .. } = sender;
        if let Some(bulk) = bulk {
            let after_small = volume.small.unacknowledged_before(start, space.una()).is_some();
            let from = began.map(|(position, _)| position);
            bulk.pacer.follow(gap, (start, space.nxt), from, after_small);
        }
        if continues {
            Bulk::follow_pieces(bulk, gap, (start, space.flight()), began);
        }
        true
    }

    /// Returns whether no exchange waited in this gap: it follows a TLS handshake, and is longer
    /// than a client that needed the handshake takes to send its request.
    pub(super) fn has_rested(&self, gap: &Gap) -> bool {
        if !self.timeline.is_ready() || gap.len_ns() <= HANDSHAKE_WAITED_FOR_NS {
            return false;
        }
        // A delay by a late or lost packet is no pause of the client.
        let slices = judge::judge(gap);
        let own = slices.iter().filter(|it| matches!(it.owner, Owner::Client | Owner::Server));
        own.map(|slice| slice.ns).sum::<u64>() > HANDSHAKE_WAITED_FOR_NS
    }

    /// Advances the timeline to `time_ns`, when `side` sent data for which an exchange was waiting.
    pub(super) fn move_cursor(&mut self, side: Side, time_ns: u64) {
        self.timeline.move_to(time_ns);
        self.timeline.active = Some(side);
        if let Some(bulk) = &mut self.senders[side as usize].bulk {
            bulk.pipe.mark();
        }
    }

    /// Returns whether data of the server after a pause is no response: the protocol shows that, or
    /// the client closed meanwhile.
    pub(super) fn is_unsolicited(&self) -> bool {
        let closed_ns = self.ending().fin_ns[Side::Client as usize];
        self.framer.is_set_aside()
            || closed_ns.is_some_and(|at_ns| self.timeline.paused_since_ns() < Some(at_ns))
    }

    /// Queueing delay of what `side` sends, ns. The delay before the vantage is taken from its
    /// timestamps, that behind the vantage from the delay of ACKs if the flight is large enough.
    pub(super) fn queued_ns(&self, side: Side) -> u64 {
        let sender = &self.senders[side as usize];
        let behind_ns = sender.rtts.recent_ns().saturating_sub(self.path.rtt_ns(side.peer()));
        // An ACK that is delayed by the sender's pacing or by a slow reader was not queued.
        let clocked = sender.space.flight() > CLOCKED_SEGMENTS * sender.sizes.smss()
            && !sender
                .bulk
                .as_ref()
                .is_some_and(|bulk| bulk.is_spaced_by_sender() || bulk.reader_is_behind);
        sender.clock.queued_ns().max(if clocked { behind_ns } else { 0 })
    }

    /// Judges a gap and attributes its slices. If the gap ended with a retransmission, that repairs
    /// data before `end`.
    pub(super) fn attribute(&mut self, gap: &Gap, end: u64) {
        let one_way = !self.senders[gap.sender.peer() as usize].volume.has_packets();
        if one_way && gap.repair.trigger != Some(Recovery::Timer) {
            // The other direction was not captured, so that the owner cannot be known.
            self.timeline.attribute_plain(Owner::Unknown, gap.len_ns());
            return;
        }
        let mut slices = judge::judge(gap);
        if gap.sender == Side::Server && gap.turn == Turn::Answers && !self.has_received_request() {
            slices.make_unknown(Cause::ServerThink);
        }
        // The final reply waits for a transfer over another connection.
        let owes_reply = gap.sender == Side::Server
            && gap.turn == Turn::Continues
            && self.framer.owes_final_reply();
        if owes_reply {
            slices.make_unknown(Cause::ServerThink);
        }
        let sender = &mut self.senders[gap.sender as usize];
        if sender.history().restarted.is_some() {
            sender.history_mut().attribute_to_restart(gap, &mut slices);
        }
        if self.trace().is_some() {
            let waiting = self.timeline.waiting(gap);
            if let Some(trace) = self.trace_mut() {
                match &waiting {
                    Some(waiting) => trace.gap(gap, waiting.iter()),
                    None => trace.gap(gap, slices.iter()),
                }
            }
        }
        self.doubt(gap, &slices);
        self.doubt_queue(gap, &slices);
        let causes = slices.causes();
        // A gap that ends a turn without any obstacle shows nothing more about its sender.
        if gap.turn == Turn::Continues || causes & !OF_APPLICATIONS != 0 {
            self.learn(gap, &slices);
        }
        // Data within a round trip of other data continues that: the peer could not have reacted.
        let apart = gap.len_ns() > self.path.known_base_rtt_ns();
        if gap.sender == Side::Server && gap.turn == Turn::Continues && apart && !owes_reply {
            let own = slices.iter().filter(|slice| slice.owner == Owner::Server);
            let position = self.senders[Side::Server as usize].space.nxt - gap.next_len;
            let own_ns = own.map(|slice| slice.ns).sum();
            self.timeline.pause((own_ns, gap.len_ns()), gap.start_ns, position);
        }
        let sent = self.senders[Side::Client as usize].space.nxt;
        let is_known = self.framer.protocol() != Protocol::Turns;
        self.timeline.settle_client_pause(gap, &slices, sent, is_known);
        let repaired = gap.repair.trigger.map(|_| end);
        if self.timeline.is_ready() && gap.sender == Side::Client {
            // Between the TLS handshake and the request, no exchange waits for the client.
            self.timeline.rest(slices.remove(Cause::ClientThink));
        }
        self.timeline.attribute(&slices, gap, repaired);
        if causes & 1 << Cause::ZeroWindow as u64 != 0 {
            let reader = |ns| Slice::of(Owner::ZeroWindow, Cause::ZeroWindow, ns);
            let bulk = self.senders[gap.sender as usize].bulk.as_mut();
            for from in bulk.map(|bulk| bulk.unread.take()).unwrap_or_default() {
                let (sender, frame, to) = (gap.sender, gap.next.frame, reader(from.ns));
                self.timeline.revise(&Change::Slice { sender, frame, from, to });
            }
        } else {
            let Sender { bulk, space, sizes, .. } = &mut self.senders[gap.sender as usize];
            if let Some(bulk) = bulk {
                bulk.unread.note(gap, &slices, space, sizes.smss());
            }
        }
    }

    /// Returns whether an ACK shows that the server has received some of the current request;
    /// before that it did not work on it.
    fn has_received_request(&self) -> bool {
        let client = &self.senders[Side::Client as usize];
        let began = self.timeline.front().map_or(0, |it| it.began_at[Side::Client as usize]);
        client.space.una_seen() > began || client.space.nxt <= began
    }

    /// Records what a gap shows of its sender, for later gaps.
    fn learn(&mut self, gap: &Gap, slices: &Slices) {
        let causes = slices.causes();
        let owned_by = |cause: Cause| causes & 1 << cause as u64 != 0;
        if gap.flight.before <= 2 * gap.smss && owned_by(Cause::DelayedAck) {
            self.senders[gap.sender as usize].habits.note_waits_per_segment();
        }
        if owned_by(Cause::SendBuffer) {
            self.timeline.revise(&Change::SendBuffer);
            self.count_continuation(gap);
        }
        self.note_blocked(gap, slices);
        let sender = &mut self.senders[gap.sender as usize];
        let own_pause = gap.turn == Turn::Continues
            && !gap.repair.is_retransmission()
            && gap.len_ns() >= HOST_DELAY_MAX_NS
            && (owned_by(Cause::ServerThink) || owned_by(Cause::ClientThink))
            && !gap.pace.in_pairs
            && (!gap.ack_triggered() || 2 * gap.pace.own_pause_ns >= gap.len_ns());
        if own_pause && sender.bulk.is_some() {
            sender.history_mut().nagle.own_pauses += 1;
        }
        if gap.continues_after_ack() {
            let nagle = &mut sender.history_mut().nagle.evidence;
            nagle.missed += 1;
            if gap.continues_shortly_after_ack() {
                nagle.nearly += 1;
                nagle.waits.add(gap.len_ns(), gap.sent_after_ack_ns());
            }
        } else if owned_by(Cause::NagleDelayedAck) || gap.continues_with_ack() {
            let nagle = &mut sender.history_mut().nagle.evidence;
            nagle.holds += 1;
            nagle.waits.add(gap.len_ns(), gap.sent_after_ack_ns());
        }
        if gap.full_waits_for_ack() {
            sender.history_mut().nagle.evidence.refuted += 1;
        }
        if judge::after_late_ack(gap) {
            sender.history_mut().nagle.late_acks.note(gap.ack_triggered());
        }
        let waited = owned_by(Cause::DelayedAck);
        if waited || sender.is_troubled() {
            sender.history_mut().nagle.waits.follow(gap, waited);
        }
        if owned_by(Cause::ReceiveWindow) {
            self.senders[gap.sender as usize].note_limiting_window(gap.window.bytes.unwrap_or(0));
        }
        let of_flight = [Cause::SendBuffer, Cause::SlowStart, Cause::CongestionWindow];
        if of_flight.into_iter().any(owned_by) && !gap.spaced() {
            let bulk = self.senders[gap.sender as usize].bulk.get_or_insert_default();
            bulk.rounds.block(gap.flight.before, gap.unsent.drained);
            if let Shape::Ceiling { bytes, .. } = gap.flight.shape
                && owned_by(Cause::SendBuffer)
                && self.path.has_sample(gap.sender)
            {
                bulk.note_ceiling(bytes, gap);
            }
        }
        self.senders[gap.sender as usize].restart(gap, slices);
    }

    /// Attributes the time up to an end without data (a RST or the last probe).
    pub(super) fn accrue_to(&mut self, side: Side, end_ns: u64, next: Sighting) {
        // Data that has all been sent and is being retransmitted has not arrived.
        let server = &self.senders[Side::Server as usize];
        let in_recovery = server.history().losses.is_repairing(server.space.una());
        let open =
            self.timeline.front().is_some_and(|exchange| in_recovery || !exchange.is_complete());
        let over = self.timeline.may_be_over() || self.timeline.is_ready();
        if !open || over && !self.unfinished() {
            return;
        }
        // A side was held up if it has unacknowledged data, or unsent data before a closed window.
        let side = match self.timeline.active {
            Some(active) if self.senders[active as usize].history().window.is_closed() => active,
            _ => side,
        };
        let rtts_ns = (self.path.rtt_ns(side), self.path.rtt_ns(side.peer()));
        let mut since = SinceDeparture::default();
        self.senders[side as usize].since.take(&mut since);
        self.senders[side as usize].advance(&mut since, end_ns, rtts_ns, None);
        let from_ns = self.timeline.cursor_ns;
        let continues = self.timeline.active == Some(side);
        let forgotten = side == Side::Server && self.ending().forgotten;
        let mut gap = Gap::default();
        self.gap(side, (from_ns, end_ns.max(from_ns)), continues, &since, &mut gap);
        // Nothing continues a handshake that ends here.
        gap.protocol.in_handshake = false;
        let sender = &mut self.senders[side as usize];
        sender.since.store(since);
        let unseen =
            sender.history().holes.bytes().div_ceil(sender.sizes.smss()).min(u64::from(u32::MAX))
                as u32;
        gap.losses.missing.count = gap.losses.missing.count.max(unseen);
        gap.repair.unseen |= unseen > 0;
        let is_repairing = sender.history().losses.is_repairing(sender.space.una())
            || sender.history().holes.are_awaited_at(sender.space.una_seen());
        if forgotten {
            // A host that no longer knows the connection does not wait.
            gap.acks.last = None;
        } else if continues && is_repairing {
            gap.repair.trigger = Some(Recovery::Timer);
        }
        gap.next = next;
        self.attribute(&gap, 0);
        self.timeline.cursor_ns = end_ns.max(from_ns);
    }
}
