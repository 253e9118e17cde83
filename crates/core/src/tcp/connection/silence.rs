//! Who was silent, and what the sender knew while it was: departures become [`Gap`]s.

use super::*;
use crate::tcp::sender::PAUSE_NS;

/// A handshake that ended longer ago than this was not waited for by the request that follows, ns.
const HANDSHAKE_WAITED_FOR_NS: u64 = 100_000_000;

/// Causes that are the applications' own.
const OF_APPLICATIONS: u64 = 1 << Cause::ServerThink as u64 | 1 << Cause::ClientThink as u64;

impl Connection {
    /// How long the server's last byte stood in a queue behind the vantage: what its ACK took
    /// beyond the base round trip, as far as what was in flight explains it. Where that ACK was not
    /// `timed` by its arrival, this is all that is known. Something before it was acknowledged at
    /// `una_ns`: it did not arrive earlier. And how much of that had passed when the first of that
    /// flight had come through: the rest was its own bytes' turn.
    pub(super) fn queued_to_client(&mut self, ack_ns: u64, una_ns: u64, timed: bool) -> (u64, u64) {
        let (rtt_server_ns, rtt_client_ns) =
            (self.path.rtt_ns(Side::Server), self.path.rtt_ns(Side::Client));
        let sender = &mut self.senders[Side::Server as usize];
        let last_ns = sender.last.time_ns;
        let late_ns = ack_ns.saturating_sub(last_ns + rtt_client_ns);
        if sender.bulk.is_none() && !(timed && late_ns > DELAYED_ACK_MAX_NS) {
            return (0, 0);
        }
        sender.take_in(ack_ns, rtt_server_ns, rtt_client_ns);
        let unknown_ns = if timed { ack_ns } else { 0 };
        let first_ns = sender.first_ack_ns().map_or(unknown_ns, |at_ns| at_ns - rtt_server_ns);
        let ahead_ns = first_ns.saturating_sub(last_ns + rtt_client_ns);
        if timed && late_ns > DELAYED_ACK_MAX_NS {
            return (late_ns - DELAYED_ACK_NS, ahead_ns);
        }
        let Some(bulk) = &mut sender.bulk else { return (0, 0) };
        // The rate is only known to within a quarter of an octave; an ACK in the middle of the
        // flight that was as late says it better.
        let busy_ns = bulk.pipe.busy_ns(last_ns, last_ns + late_ns + late_ns / 2);
        let clocked_ns = bulk.rtt_clocked_ns.saturating_sub(rtt_client_ns);
        let shown_ns = busy_ns.max(clocked_ns).max(una_ns.saturating_sub(last_ns + rtt_client_ns));
        let explained = timed && late_ns <= shown_ns + shown_ns / 4;
        (if explained { late_ns } else { shown_ns.min(late_ns) }, ahead_ns)
    }

    /// A repetition by the side that is not speaking is not on the way to the exchange's end.
    #[inline]
    pub(super) fn moves_cursor(&self, side: Side, kind: Kind, arrived: bool, start: u64) -> bool {
        // An answer that an ACK overtook is an answer.
        if kind == Kind::Reordered && self.senders[side as usize].goes_on_at(start) {
            return true;
        }
        if arrived && matches!(kind, Kind::Retransmission(_)) {
            // Nobody waited for it to come again.
            return false;
        }
        if self.speaks_aside(side, kind) || self.repairs_goodbye(side, kind, start) {
            return false;
        }
        matches!(kind, Kind::New | Kind::Fill(_))
            || self.timeline.active.is_none_or(|active| active == side)
    }

    /// Whether the server repairs what it had sent after its client had closed amid the answer: nobody
    /// waits for that.
    fn repairs_goodbye(&self, side: Side, kind: Kind, start: u64) -> bool {
        let closed_ns = self.ending().fin_ns[Side::Client as usize];
        let noticed_ns = self.senders[side as usize].noticed_ns(start);
        side == Side::Server
            && matches!(kind, Kind::Fill(_))
            && self.timeline.active == Some(Side::Server)
            && closed_ns.zip(noticed_ns).is_some_and(|(closed, noticed)| closed <= noticed)
    }

    /// Whether what `side` sends has arrived when it is seen here.
    pub(super) fn arrives(&self, side: Side) -> bool {
        self.setup.confirmed && self.path.ends_here(side.peer())
    }

    /// Whether what `side` sends is seen beside its receiver, and its sender is elsewhere.
    pub(super) fn beside_receiver(&self, side: Side) -> bool {
        self.arrives(side) && !self.path.ends_here(side)
    }

    /// Takes the silence that this departure ends into `gap`, where somebody waited. Answers whether
    /// there is something to explain.
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
        if continues && kind == Kind::New && to_ns - from_ns < PLAIN_NS {
            self.timeline.own_plain(Owner::Bandwidth, to_ns - from_ns);
            return false;
        }
        let goes_on = continues && side == Side::Server;
        let way_ns = if goes_on { self.question_under_way_ns(from_ns) } else { None };
        if !continues {
            self.check_clock(side, to_ns);
        }
        self.gap(side, (from_ns, to_ns), continues && way_ns.is_none(), since, gap);
        gap.way_ns = way_ns.unwrap_or(gap.way_ns);
        gap.end_with(segment);
        if gap.turn == Turn::Continues {
            self.note_queue_delay(side, to_ns);
        }
        gap.retransmission = match kind {
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => Some(recovery),
            _ => None,
        };
        gap.unseen = matches!(kind, Kind::Fill(_));
        if !self.setup.confirmed && side == Side::Client && gap.retransmission.is_some() {
            self.setup.ignore_data(segment.time_ns);
        }
        if self.senders[side as usize].bulk.is_some()
            && self.senders[side as usize].infer_scale(gap)
        {
            self.timeline.reveal_window(side);
        }
        gap.overtaken = kind == Kind::Reordered;
        if gap.overtaken {
            // It was late, not in a queue: others that were sent after it were not.
            gap.busy_ns = 0;
            gap.late_ns = self.senders[side as usize].overtaken_ns(start, to_ns);
        }
        if gap.retransmission.is_some() {
            let sender = &self.senders[side as usize];
            gap.original = sender.original(start);
            gap.tail = start + u64::from(segment.payload_len) >= sender.nxt;
            if !gap.overtaken && self.beside_receiver(side) {
                // The last original segment has arrived: what comes after it is the repair's.
                gap.busy_ns = 0;
            }
        }
        if continues && gap.busy_ns > 0 && !gap.overtaken {
            self.doubt_rate(gap, start);
        }
        let began = self.timeline.front().filter(|_| continues).map(|it| it.began(side));
        let sender = &mut self.senders[side as usize];
        if sender.bulk.is_some() {
            sender.follow_pace(gap, start, began.map(|(position, _)| position));
        }
        if continues {
            sender.follow_pieces(gap, start, began);
        }
        true
    }

    /// States in `gap` what `side` knew while it was silent: it is large, and made in its place.
    pub(super) fn gap(
        &mut self,
        side: Side,
        (start_ns, end_ns): (u64, u64),
        continues: bool,
        since: &SinceDeparture,
        gap: &mut Gap,
    ) {
        let rtt_sender_ns = self.path.rtt_ns(side);
        let rtt_base_ns = self.path.base_rtt_ns();
        let front = self.timeline.front();
        // The server waits for the body as well, for ever where its client has gone.
        let waits = side == Side::Client || self.ending().fin_ns[Side::Client as usize].is_some();
        let expects_continue = waits && front.is_some_and(|exchange| exchange.awaits_continue);
        let in_handshake = front.is_some_and(|exchange| exchange.in_handshake);
        let asked_since = front.map(|it| (it.began_at[Side::Client as usize], it.first.time_ns));
        let after_handshake =
            front.is_some_and(|exchange| exchange.handshake.is_some() && !exchange.request_seen);
        let speaker = if continues { side } else { side.peer() };
        let asked = &mut self.senders[speaker as usize];
        let (last, last_small, apart_ns) =
            (asked.last_seen(), asked.last.small, asked.last.apart_ns());
        // Behind the vantage the question itself keeps the bottleneck busy, and others in a queue.
        let (busy_ns, behind_ns, own_ns) = if asked.bulk.is_some() {
            let behind_ns = asked.latest_delay_ns(rtt_sender_ns);
            let since = asked_since.filter(|_| speaker == Side::Client);
            asked.busy_ns((start_ns, end_ns), behind_ns, since)
        } else {
            (0, 0, 0)
        };
        let (busy_ns, behind_ns) = if continues {
            (busy_ns.max(self.queued_ns(side).min(end_ns - start_ns)), 0)
        } else {
            (own_ns.min(behind_ns), behind_ns.saturating_sub(own_ns))
        };
        let half = &self.senders[side as usize];
        let opens_from = match self.timeline.front() {
            Some(front) if front.idle_ns >= IDLE_NS => front.began_at[side as usize],
            _ => ORIGIN,
        };
        let no_ack = since.trigger.is_none();
        let (flight, room, window) = (half.flight(), half.room(), half.window());
        let height = if no_ack { flight } else { since.flight_before };
        let window_before = if no_ack { window } else { since.window_before };
        let drained = half.drained();
        let shape = half.bulk.as_ref().map_or(Shape::Opening, |bulk| {
            bulk.rounds.shape_with(height, drained, half.una(), half.smss())
        });
        // What its peer sent meanwhile it may have acknowledged.
        let peer_ns = self.senders[side.peer() as usize].last.time_ns;
        let may_be_ack = continues && peer_ns > start_ns;
        let missing_packets = since.missing_packets.saturating_sub(may_be_ack.into());
        let missing_packets = if self.pure_acks && !since.holed { missing_packets } else { 0 };
        *gap = Gap {
            sender: side,
            turn: if continues { Turn::Continues } else { Turn::Answers },
            start_ns,
            end_ns,
            last,
            next: last,
            rtt_sender_ns,
            is_bound: !self.path.is_settled(side),
            way_ns: self.path.way_ns(side),
            rtt_base_ns,
            busy_ns,
            queue_ns: behind_ns + half.queued_ns(),
            smss: half.smss(),
            last_small,
            small_acked: half.small_acked_of(height),
            window_opened: half.window_opened_by((half.nxt - height).saturating_sub(opens_from)),
            first_ack_ns: since.first_ack_ns,
            ack: since.trigger.map(|ack| self.unless_it_closes(side.peer(), ack)),
            acks: since.acks,
            flight_first: if no_ack { flight } else { since.flight_first },
            apart_ns: if continues { apart_ns } else { 0 },
            flight_before: height,
            may_be_after_loss: self.mid_stream,
            flight_cut: self.mid_stream && half.nxt - height == ORIGIN,
            room_before: if no_ack { room } else { since.room_before },
            window_before,
            closed_ns: since.closed_ns,
            probes: since.probes,
            probes_answered: since.probes_answered,
            probe: since.probe,
            more_queued: self.more_queued(side, continues),
            ack_lost: since.ack_lost,
            probe_due: no_ack
                && continues
                && self.path.knows(side)
                && half.probe_due(end_ns - start_ns, rtt_sender_ns),
            flight_reached: half.flight_reached(),
            // Where ACKs were left out of the capture, they are what is missing; and what arrived without having
            // been seen was captured no more than its packets.
            missing_packets,
            missing_from: since.missing_from,
            drained,
            holed: since.holed,
            repeated_ns: since.repeated_ns,
            nothing_unsent: since.probed_tail,
            steps: half.steps(),
            shape,
            owes: self.framer.owes(side),
            expects_continue,
            in_handshake,
            after_handshake,
            ..Gap::default()
        };
        if half.is_troubled() {
            half.add_trouble(gap);
            gap.may_be_after_loss |= gap.after_loss;
            gap.nagle_refuted = self.nagle_refuted(side);
        }
    }

    /// An ACK of `side` as one that does more than acknowledge, where it is in its FIN: what comes then may
    /// be what its peer's application says to that.
    fn unless_it_closes(&self, side: Side, ack: AckTrigger) -> AckTrigger {
        let fin = self.ended().and_then(|ending| ending.fin[side as usize]);
        AckTrigger { pure: ack.pure && fin.is_none_or(|fin| fin.frame != ack.frame), ..ack }
    }

    /// How often what `side` sends broke Nagle's rule. Where the capture has holes, the ACKs that it
    /// obeyed may be in them.
    pub fn nagle_refuted(&self, side: Side) -> u32 {
        let refuted = self.senders[side as usize].trouble().nagle_refuted;
        if self.faults().missing_bytes > 0 { 0 } else { refuted }
    }

    /// Whether nobody has waited in this silence: after a TLS handshake, for longer than who needed
    /// that for a request takes to make it.
    pub(super) fn has_rested(&self, gap: &Gap) -> bool {
        if !self.timeline.is_ready() || gap.len_ns() <= HANDSHAKE_WAITED_FOR_NS {
            return false;
        }
        // A packet that was late or lost is no rest.
        let slices = cause::judge(gap);
        let own = slices.iter().filter(|it| matches!(it.owner, Owner::Client | Owner::Server));
        own.map(|slice| slice.ns).sum::<u64>() > HANDSHAKE_WAITED_FOR_NS
    }

    /// `side` sent what was waited for.
    pub(super) fn move_cursor(&mut self, side: Side, time_ns: u64) {
        self.timeline.move_to(time_ns);
        self.timeline.active = Some(side);
        if let Some(bulk) = &mut self.senders[side as usize].bulk {
            bulk.pipe.mark();
        }
    }

    /// Whether the server's data after a pause is no answer: it says so itself, or the client
    /// had closed meanwhile.
    pub(super) fn is_unasked(&self) -> bool {
        let closed_ns = self.ending().fin_ns[Side::Client as usize];
        self.framer.is_set_aside()
            || closed_ns.is_some_and(|at_ns| self.timeline.paused_since_ns() < Some(at_ns))
    }

    /// How long what `side` sends stands in queues: on its way here by its timestamps, behind
    /// the vantage by how late ACKs of a flight of some size are.
    pub(super) fn queued_ns(&self, side: Side) -> u64 {
        let sender = &self.senders[side as usize];
        let behind_ns = sender.rtt_recent_ns().saturating_sub(self.path.rtt_ns(side.peer()));
        // An ACK that waits for the next step of the sender's pace, or for who reads, stood in no queue.
        let clocked = sender.flight() > 4 * sender.smss()
            && !sender.is_spaced_by_sender()
            && !sender.reader_is_behind();
        sender.queued_ns().max(if clocked { behind_ns } else { 0 })
    }

    pub(super) fn own(&mut self, gap: &Gap, end: u64) {
        let one_way = !self.senders[gap.sender.peer() as usize].seen();
        if one_way && gap.retransmission != Some(Recovery::Timer) {
            // The other direction was not captured: who waited for whom cannot be told.
            self.timeline.own_plain(Owner::Unknown, gap.len_ns());
            return;
        }
        let mut slices = cause::judge(gap);
        if gap.sender == Side::Server && gap.turn == Turn::Answers && !self.has_heard() {
            slices.leave_open(Cause::ServerThink);
        }
        self.senders[gap.sender as usize].blame_restart(gap, &mut slices);
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
        // What ends a turn without anything in the way says nothing more of its sender.
        if gap.turn == Turn::Continues || causes & !OF_APPLICATIONS != 0 {
            self.learn(gap, &slices);
        }
        // What comes within a round trip of other data goes on with that: nobody could say anything to it.
        let apart = gap.len_ns() > self.path.base_way_ns();
        if gap.sender == Side::Server && gap.turn == Turn::Continues && apart {
            let own = slices.iter().filter(|slice| slice.owner == Owner::Server);
            let position = self.senders[Side::Server as usize].nxt - gap.next_len;
            let own_ns = own.map(|slice| slice.ns).sum();
            self.timeline.pause((own_ns, gap.len_ns()), gap.start_ns, position);
        }
        let sent = self.senders[Side::Client as usize].nxt;
        self.timeline.settle_rests(gap, &slices, sent);
        let repaired = gap.retransmission.map(|_| end);
        self.timeline.own(&slices, gap, repaired);
        if causes & 1 << Cause::ZeroWindow as u64 != 0 {
            let reader = |ns| Slice::of(Owner::ZeroWindow, Cause::ZeroWindow, ns);
            for was in self.senders[gap.sender as usize].take_unread() {
                self.timeline.revise(gap.sender, gap.next.frame, was, reader(was.ns));
            }
        } else {
            self.senders[gap.sender as usize].note_unread(gap, &slices);
        }
    }

    /// Whether the server is known to have some of what it is asked: it has acknowledged that. Before, it did
    /// not work on it.
    fn has_heard(&self) -> bool {
        let client = &self.senders[Side::Client as usize];
        let began = self.timeline.front().map_or(0, |it| it.began_at[Side::Client as usize]);
        client.una_seen() > began || client.nxt <= began
    }

    /// Keeps what a silence says of its sender for later ones.
    fn learn(&mut self, gap: &Gap, slices: &Slices) {
        let causes = slices.causes();
        let owned_by = |cause: Cause| causes & 1 << cause as u64 != 0;
        if gap.flight_before <= 2 * gap.smss && owned_by(Cause::DelayedAck) {
            self.senders[gap.sender as usize].note_steps();
        }
        if owned_by(Cause::SendBuffer) {
            self.timeline.confirm_ceiling();
            self.note_grant(gap);
        }
        self.note_blocked(gap, slices);
        let half = &mut self.senders[gap.sender as usize];
        let own_pause = gap.turn == Turn::Continues
            && gap.retransmission.is_none()
            && gap.len_ns() >= PAUSE_NS
            && (owned_by(Cause::ServerThink) || owned_by(Cause::ClientThink))
            && !gap.in_pairs
            && (!gap.ack_triggered() || 2 * gap.own_pause_ns >= gap.len_ns());
        if own_pause && half.bulk.is_some() {
            half.trouble_mut().own_pauses += 1;
        }
        if gap.misses_ack() {
            half.trouble_mut().nagle_missed += 1;
        } else if owned_by(Cause::NagleDelayedAck) || gap.meets_ack() {
            half.trouble_mut().nagle_holds += 1;
        }
        if cause::after_late_ack(gap, gap.len_ns().saturating_sub(gap.after_ack_ns())) {
            let trouble = half.trouble_mut();
            let met = gap.ack_triggered();
            *(if met { &mut trouble.late_acks_met } else { &mut trouble.late_acks_missed }) += 1;
        }
        half.follow_waits(gap, owned_by(Cause::DelayedAck));
        if owned_by(Cause::ReceiveWindow) {
            self.senders[gap.sender as usize].level_window(gap.window_before.unwrap_or(0));
        }
        let of_flight = [Cause::SendBuffer, Cause::SlowStart, Cause::CongestionWindow];
        if of_flight.into_iter().any(owned_by) && !gap.spaced() {
            let bulk = self.senders[gap.sender as usize].bulk.get_or_insert_default();
            bulk.rounds.block(gap.flight_before, gap.drained);
            if let Shape::Ceiling { bytes, .. } = gap.shape
                && owned_by(Cause::SendBuffer)
                && self.path.knows(gap.sender)
            {
                bulk.stand_at(bytes, gap);
            }
        }
        self.senders[gap.sender as usize].restart(gap, slices);
    }

    /// Gives the time up to an end without data (a RST, the last probe) to its owners.
    pub(super) fn accrue_to(&mut self, side: Side, end_ns: u64, next: Sighting) {
        // What has all been sent, and is sent again, has not arrived.
        let again = self.senders[Side::Server as usize].in_recovery();
        let open = self.timeline.front().is_some_and(|exchange| again || !exchange.is_complete());
        let over = self.timeline.may_be_over() || self.timeline.is_ready();
        if !open || over && !self.unfinished() {
            return;
        }
        // Whoever has data unacknowledged (or unsent before a closed window) was held up.
        let side = match self.timeline.active {
            Some(active) if self.senders[active as usize].closed() => active,
            _ => side,
        };
        let rtts_ns = (self.path.rtt_ns(side), self.path.rtt_ns(side.peer()));
        let mut since = SinceDeparture::default();
        self.senders[side as usize].take_since(&mut since);
        self.senders[side as usize].advance(&mut since, end_ns, rtts_ns, None);
        let from_ns = self.timeline.cursor_ns;
        let continues = self.timeline.active == Some(side);
        let forgotten = side == Side::Server && self.ending().forgotten;
        let mut gap = Gap::default();
        self.gap(side, (from_ns, end_ns.max(from_ns)), continues, &since, &mut gap);
        let sender = &mut self.senders[side as usize];
        sender.keep_since(since);
        let unseen = sender.unseen_bytes().div_ceil(sender.smss()).min(u64::from(u32::MAX)) as u32;
        gap.missing_packets = gap.missing_packets.max(unseen);
        gap.unseen |= unseen > 0;
        if forgotten {
            // A host that knows of no connection any more waits for nothing: what comes reaches nobody.
            gap.ack = None;
        } else if continues && sender.in_recovery() {
            gap.retransmission = Some(Recovery::Timer);
        }
        gap.next = next;
        self.own(&gap, 0);
        self.timeline.cursor_ns = end_ns.max(from_ns);
    }
}
