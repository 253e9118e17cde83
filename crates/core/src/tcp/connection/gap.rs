//! Fills [`Gap`]s with what their senders knew. Each group of a gap comes from the type that owns
//! the knowledge.

use crate::app::Framer;
use crate::judge::thresholds::{
    ACK_TIMER_MIN_NS, CLOCKED_SEGMENTS, FEW_SEGMENTS, HOST_DELAY_MAX_NS, LINUX_RTO_MIN_NS,
};
use crate::judge::{
    AckTrigger, Acks, Bottleneck, Gap, Losses, NagleEvidence, Pace, ProtocolState, Repair,
    RoundTrips, Turn, Unsent,
};
use crate::tcp::connection::Connection;
use crate::tcp::connection::at_end::is_amid_request;
use crate::tcp::connection::cold::Cold;
use crate::tcp::connection::doubt::more_queued;
use crate::tcp::connection::place::{is_beside_sender, is_directly_connected};
use crate::tcp::path::Path;
use crate::tcp::sender::{Sender, SinceDeparture};
use crate::tcp::sequence::ORIGIN;
use crate::tcp::setup::Setup;
use crate::tcp::timeline::Timeline;
use crate::wire::Side;

/// What is known of both senders when one of them was silent.
pub(super) struct Knowledge<'a> {
    senders: &'a mut [Sender; 2],
    path: &'a Path,
    framer: &'a Framer,
    setup: &'a Setup,
    timeline: &'a Timeline,
    cold: &'a Cold,
    /// The capture does not contain the beginning of the connection.
    mid_stream: bool,
    /// ACKs without data were captured.
    pure_acks: bool,
}

impl Connection {
    /// What is known of both senders.
    #[inline]
    pub(super) fn knowledge(&mut self) -> Knowledge<'_> {
        let Self { senders, path, framer, setup, timeline, cold, mid_stream, pure_acks, .. } = self;
        let (mid_stream, pure_acks) = (*mid_stream, *pure_acks);
        Knowledge { senders, path, framer, setup, timeline, cold, mid_stream, pure_acks }
    }
}

impl Knowledge<'_> {
    /// Fills `gap` with what `side` knew while it was silent. The gap is filled in place because it
    /// is large.
    pub fn fill(
        &mut self,
        side: Side,
        (start_ns, end_ns): (u64, u64),
        continues: bool,
        since: &SinceDeparture,
        gap: &mut Gap,
    ) {
        let heard = since.as_heard();
        let since = heard.as_ref().unwrap_or(since);
        let bottleneck = self.bottleneck(side, (start_ns, end_ns), continues);
        let opens_from = match self.timeline.exchanges.front() {
            Some(front) if front.idle_ns >= LINUX_RTO_MIN_NS => front.began_at[side],
            _ => ORIGIN,
        };
        let handshake_ns = if self.setup.times(side) { self.setup.rtt_ns(side) } else { 0 };
        let sender = &self.senders[side];
        let last_side = if continues { side } else { side.peer() };
        let sent = &self.senders[last_side];
        let before = self.cold.before_aside(last_side, sent.space.nxt);
        let last = before.unwrap_or_else(|| sent.last_answerable());
        let mut flight = sender.flight_in_gap(since, continues, opens_from);
        flight.cut = self.is_cut(sender.space.nxt - flight.before);
        flight.opens_from_one = self.setup.is_repeated();
        *gap = Gap {
            sender: side,
            turn: if continues { Turn::Continues } else { Turn::Answers },
            start_ns,
            end_ns,
            last,
            next: last,
            own_last: sender.last.sighting(side),
            smss: sender.sizes.smss(),
            last_small: self.senders[last_side].last.small,
            next_len: 0,
            next_pushed: false,
            misses_data: since.misses_data,
            behind_hole: false,
            has_sent_unseen: since.has_sent_unseen,
            repairs_unseen: since.repairs_unseen,
            in_vain: false,
            unseen_until_ns: match self.senders[side.peer()].since.end_unseen_ns() {
                at_ns if since.misses_data => at_ns,
                _ => 0,
            },
            rtt: RoundTrips {
                is_direct: is_directly_connected(self.senders, side),
                ..self.path.round_trips(side, handshake_ns)
            },
            acks: self.acks_in_gap(side, end_ns, since),
            duplicates: sender.history().losses.duplicates,
            flight,
            window: sender.window_in_gap(since, end_ns),
            unsent: self.unsent_in_gap(side, end_ns - start_ns, continues, since),
            repair: Repair::default(),
            losses: self.losses_in_gap(side, start_ns, continues, since),
            nagle: nagle_evidence(sender, self.cold, self.framer.is_ssh),
            late_acks: sender.history().nagle.late_acks,
            pace: Pace::default(),
            bottleneck,
            protocol: self.protocol_in_gap(side, continues),
            credit: self.framer.credit(side),
        };
    }

    /// Returns the time in which the bottleneck was busy in a gap of `side`, and the queueing
    /// delay. If the bottleneck lies behind the vantage, the request itself keeps it busy, and
    /// other traffic in its queue delays the request.
    fn bottleneck(
        &mut self,
        side: Side,
        (start_ns, end_ns): (u64, u64),
        continues: bool,
    ) -> Bottleneck {
        let last_sender = if continues { side } else { side.peer() };
        let front = self.timeline.exchanges.front();
        let request_began = front.map(|it| (it.began_at[Side::Client], it.first.time_ns));
        let requester = &mut self.senders[last_sender];
        let Sender { bulk, space, last, una_seen_ns, .. } = requester;
        let (busy_ns, behind_ns, own_ns) = if let Some(bulk) = bulk {
            // An ACK that has not come has no delay.
            let acked_ns = if space.is_acked() { *una_seen_ns } else { 0 };
            let behind_ns = last.ack_delay_ns(acked_ns, self.path.rtt_ns(side));
            let began = request_began.filter(|_| last_sender == Side::Client);
            let message = began.map(|(from, at_ns)| {
                (space.nxt.saturating_sub(from), last.time_ns.saturating_sub(at_ns))
            });
            let (busy_ns, own_ns) = bulk.busy_ns((start_ns, end_ns), message);
            (busy_ns, behind_ns.min(busy_ns), own_ns)
        } else {
            (0, 0, 0)
        };
        let sender = &self.senders[side];
        let ahead_ns = self.ahead_ns(side).min(end_ns - start_ns);
        let (busy_ns, behind_ns, stood_ns) = if continues {
            let busy_ns = busy_ns.max(behind_ns_of(sender, self.path, side).min(end_ns - start_ns));
            (busy_ns.max(ahead_ns), 0, ahead_ns.saturating_sub(busy_ns))
        } else {
            (own_ns.min(behind_ns), behind_ns.saturating_sub(own_ns), 0)
        };
        let queued_ns = sender.clock.queued_ns();
        let (queued_ns, late_ns) =
            if sender.clock.runs() { (queued_ns, 0) } else { (0, queued_ns) };
        let queue_ns = behind_ns + queued_ns;
        let shown_ns = busy_ns + queue_ns + late_ns;
        let ack_late_ns = match continues {
            true => 0,
            false => self.ack_late_ns(side, (start_ns, end_ns)).saturating_sub(shown_ns),
        };
        let is_acked = !continues && self.is_acked_before_answer(side, (start_ns, end_ns));
        let asker = &self.senders[side.peer()];
        let acked_after_ns = is_acked.then(|| asker.last.ack_delay_ns(asker.una_seen_ns, 0));
        Bottleneck { busy_ns, stood_ns, late_ns, queue_ns, ack_late_ns, acked_after_ns }
    }

    /// Time by which `side` acknowledged all that it then answered later than after a round trip, ns; 0
    /// where that shows nothing: its kernel may delay an ACK for longer, and beside its host there is
    /// no path that could. An ACK with data waited for the application, and one of repeated data may be
    /// that of the first copy.
    fn ack_late_ns(&self, side: Side, (start_ns, end_ns): (u64, u64)) -> u64 {
        let asker = &self.senders[side.peer()];
        let is_acked_before = self.is_acked_before_answer(side, (start_ns, end_ns));
        if !is_acked_before || !self.path.is_known(side) || self.path.ends_here(side) {
            return 0;
        }
        let late_ns = asker
            .last
            .ack_delay_ns(asker.una_seen_ns, self.path.rtt_ns(side))
            .min(end_ns - start_ns);
        if late_ns > HOST_DELAY_MAX_NS && late_ns < ACK_TIMER_MIN_NS { late_ns } else { 0 }
    }

    /// Returns whether `side` acknowledged all that it then answered without data, in the gap, and nothing of
    /// that had been repeated.
    fn is_acked_before_answer(&self, side: Side, (start_ns, end_ns): (u64, u64)) -> bool {
        let asker = &self.senders[side.peer()];
        asker.space.una_seen() >= asker.space.nxt
            && (start_ns..end_ns).contains(&asker.una_seen_ns)
            && self.senders[side].last.time_ns < asker.una_seen_ns
            && asker.last.time_ns > 0
            && !asker.is_troubled()
    }

    /// Returns the ACKs that took effect in a gap of `side` up to `end_ns`.
    fn acks_in_gap(&self, side: Side, end_ns: u64, since: &SinceDeparture) -> Acks {
        let last = since.acks.last.map(|ack| self.unless_it_closes(side.peer(), ack));
        let queued_ns = self.senders[side.peer()].clock.queued_ns();
        let sender = &self.senders[side];
        let is_due = sender.space.flight() > FEW_SEGMENTS * sender.sizes.smss();
        let uncaptured = last.is_none() && is_due && !self.pure_acks;
        let at_last_ns = end_ns.saturating_sub(self.path.rtt_ns(side) / 2);
        let under_way = sender.pending.of(sender.space.nxt, at_last_ns).filter(|_| last.is_none());
        let under_way = under_way.map(|ack| ack.sighting(side.peer()));
        Acks { last, queued_ns, under_way, uncaptured, ..since.acks }
    }

    /// Time for which a queue before the vantage lengthens a silence of `side`, ns, as its timestamp shows.
    /// On the host of that side there is no way that could delay it: its clock lags there, as those of
    /// hosts do that count no ticks while they are idle. A segment that leaves with nothing in flight waits
    /// in no queue of its own: only what delays it more than the one before counts.
    fn ahead_ns(&self, side: Side) -> u64 {
        let sender = &self.senders[side];
        match sender.space.flight() {
            _ if is_beside_sender(self.setup, self.path, side) => 0,
            0 => sender.clock.grown_ns(),
            _ => sender.clock.queued_ns(),
        }
    }

    /// Returns whether a flight that began at position `begin` may have begun before the capture.
    fn is_cut(&self, begin: u64) -> bool {
        self.mid_stream && begin == ORIGIN
    }

    /// Returns what `side` had not yet sent in a gap of `silent_ns`.
    fn unsent_in_gap(
        &self,
        side: Side,
        silent_ns: u64,
        continues: bool,
        since: &SinceDeparture,
    ) -> Unsent {
        let sender = &self.senders[side];
        let unanswered = since.acks.last.is_none() && continues && self.path.has_sample(side);
        Unsent {
            drained: sender.habits.drained(&sender.last),
            more_queued: more_queued(sender, self.path, side, continues),
            probe_due: unanswered && sender.probe_due(silent_ns, self.path.rtt_ns(side)),
            ran_out: since.probed_tail,
        }
    }

    /// Returns the losses of `side` before and in a gap that began at `start_ns`.
    fn losses_in_gap(
        &self,
        side: Side,
        start_ns: u64,
        continues: bool,
        since: &SinceDeparture,
    ) -> Losses {
        let sender = &self.senders[side];
        let losses = sender.history().losses_in_gap(sender.space.una(), since, self.mid_stream);
        // A missing packet may be an ACK of what the peer sent meanwhile.
        let peer_ns = self.senders[side.peer()].last.time_ns;
        let may_be_ack = continues && peer_ns > start_ns;
        // If ACKs were left out of the capture, the missing packets are ACKs; data that arrived
        // unseen was not captured either.
        let are_data = self.pure_acks && !since.misses_data;
        let not_data = if are_data { may_be_ack.into() } else { u32::MAX };
        Losses { missing: losses.missing.less(not_data), ..losses }
    }

    /// Returns the state of the application protocol in a gap of `side`.
    fn protocol_in_gap(&self, side: Side, continues: bool) -> ProtocolState {
        let front = self.timeline.exchanges.front();
        // The server waits for the body too, and for ever if the client has closed.
        let waits = side == Side::Client || self.cold.ending().fin_ns[Side::Client].is_some();
        ProtocolState {
            owes: self.framer.owes(side),
            expects_continue: waits && front.is_some_and(|it| it.awaits_continue),
            // A server may decide by the header whether the body is to come.
            amid_request: is_amid_request(self.framer, self.timeline)
                && !front.is_some_and(|it| it.awaits_continue),
            lacks_length: self.framer.ends_with_connection(),
            owes_final_reply: side == Side::Server && continues && self.framer.owes_final_reply(),
            is_known: !self.framer.protocol().is_in_turns(),
            in_handshake: front.is_some_and(|it| it.in_handshake),
            after_handshake: front.is_some_and(|it| it.handshake.is_some() && !it.request_seen),
        }
    }

    /// Returns `ack` with `pure` cleared if it is the FIN of `side`: the data that follows may be
    /// the reaction of the peer's application to the close.
    fn unless_it_closes(&self, side: Side, ack: AckTrigger) -> AckTrigger {
        let fin = self.cold.ended().and_then(|ending| ending.fin[side]);
        AckTrigger { pure: ack.pure && fin.is_none_or(|fin| fin.frame != ack.frame), ..ack }
    }
}

/// Returns the evidence about Nagle's algorithm at `sender`. If bytes are missing in the capture,
/// nothing refutes it, since the ACKs that it waited for may be missing too. Only in SSH the sender is
/// known to go on without the algorithm after it has used it.
pub(super) fn nagle_evidence(sender: &Sender, cold: &Cold, is_ssh: bool) -> NagleEvidence {
    let nagle = sender.history().nagle.evidence;
    let nagle = if is_ssh { nagle } else { nagle.of_steady_sender() };
    if cold.faults().missing_bytes > 0 {
        return NagleEvidence { refuted: 0, ends_of_writes: 0, with_due_acks: 0, ..nagle };
    }
    nagle
}

/// Queueing delay behind the vantage of what `sender`, which `side` is, sends, ns: the delay of ACKs, if
/// the flight is large enough.
fn behind_ns_of(sender: &Sender, path: &Path, side: Side) -> u64 {
    let behind_ns = sender.rtts.recent_ns().saturating_sub(path.rtt_ns(side.peer()));
    // An ACK that is delayed by the sender's pacing or by a slow reader was not queued.
    let clocked = sender.space.flight() > CLOCKED_SEGMENTS * sender.sizes.smss()
        && !sender
            .bulk
            .as_ref()
            .is_some_and(|bulk| bulk.is_spaced_by_sender() || bulk.reader_is_behind);
    if clocked { behind_ns } else { 0 }
}
