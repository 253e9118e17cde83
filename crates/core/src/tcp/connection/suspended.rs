//! Retransmissions by timer that may have been spurious: the decision is postponed.

use crate::app::Side;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{self, Gap, Recovery, timed_out};
use crate::model::{Cause, Owner, Sighting, Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Change;
use crate::tcp::sender::{Kind, SinceDeparture, Stamp, too_early};
use crate::wire::Segment;

/// A retransmission by timer of which it is not yet known whether it was spurious.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    /// The gap that the retransmission ended.
    pub gap: Gap,
    /// Position of the end of the retransmission in the stream.
    pub end: u64,
    /// Timestamp of the retransmission.
    pub stamp: Stamp,
}

/// Retransmissions by timer of data that had arrived and whose ACKs were lost: the first ACK that
/// the sender received answers the retransmission.
#[derive(Clone, Debug)]
pub(super) struct AckedLate {
    last: Suspended,
    /// The retransmission before it, which was still undecided when the sender sent more.
    earlier: Option<Suspended>,
}

impl Connection {
    /// Decides, with an ACK that `side` sends, whether the retransmission by the timer of its peer
    /// was needed. It was spurious if a D-SACK reports the data as received (`has_dsack`), or if
    /// the ACK answers the first transmission. If the answer to a spurious retransmission is the
    /// first ACK to advance SND.UNA (`advances`), the earlier ACKs were lost.
    #[inline]
    pub(super) fn settle_suspended(
        &mut self,
        side: Side,
        segment: &Segment,
        has_dsack: bool,
        advances: bool,
    ) {
        if self.is_unsettled() || self.senders[side.peer() as usize].is_troubled() {
            self.settle_held(side, segment, has_dsack, advances);
        }
    }

    #[inline(never)]
    fn settle_held(&mut self, side: Side, segment: &Segment, has_dsack: bool, advances: bool) {
        let rtt_ns = self.path.rtt_ns(side);
        self.senders[side.peer() as usize].settle_repeated(segment, rtt_ns, has_dsack);
        if advances {
            self.settle_fast(side, segment, rtt_ns);
        }
        let Some(cold) = &mut self.cold else { return };
        let of_peer = |held: &mut Box<Suspended>| held.gap.sender != side;
        let contested = cold.contested.take_if(of_peer);
        let suspended = cold.suspended.take_if(of_peer);
        let shows_lost_acks = |held: &Suspended| {
            let answer_ns = segment.time_ns.saturating_sub(held.gap.end_ns);
            let at_once = answer_ns <= 2 * rtt_ns + HOST_DELAY_MAX_NS;
            // Where the ACKs of the receiver are captured as it sends them, a lost one was seen.
            let may_be_lost = !self.beside_receiver(held.gap.sender);
            has_dsack
                && advances
                && at_once
                && may_be_lost
                && !too_early(segment.time_ns, held.gap.end_ns, rtt_ns)
        };
        if let Some(held) = suspended.as_deref().filter(|held| shows_lost_acks(held)) {
            let (last, earlier) = (held.clone(), contested.map(|held| *held));
            self.cold_mut().acked_late = Some(Box::new(AckedLate { last, earlier }));
            return;
        }
        if has_dsack && advances && side == Side::Client {
            let held = suspended.as_deref();
            let is_late = |held| self.is_late_ack(segment, held, contested.as_deref());
            if let Some(held) = held.filter(|held| is_late(held)).cloned() {
                return self.wait_for_ack(segment, &held, contested.as_deref());
            }
        }
        if let Some(held) = contested {
            match self.was_needed(&held, segment, has_dsack) {
                Some(false) => self.revise_spurious(&held.gap),
                Some(true) => {}
                None => self.cold_mut().contested = Some(held),
            }
        }
        if let Some(held) = suspended {
            let needed = self.was_needed(&held, segment, has_dsack);
            if needed != Some(false) {
                self.cold_mut().suspended = Some(held);
            }
            if needed == Some(true) {
                self.count_acks(side);
                self.resume();
            }
        }
    }

    /// Decides, with an ACK of `side` that advances SND.UNA, whether a fast retransmission of its peer
    /// was needed. If the ACK answers the first transmission (RFC 3522), later segments had only
    /// overtaken that, and nothing was lost.
    #[cold]
    #[inline(never)]
    fn settle_fast(&mut self, side: Side, ack: &Segment, rtt_ns: u64) {
        let Some(cold) = &mut self.cold else { return };
        let Some(held) = cold.fast.take_if(|held| held.gap.sender != side) else { return };
        if !held.stamp.is_first_answered(ack, held.gap.end_ns, rtt_ns) {
            return;
        }
        let sender = &mut self.senders[held.gap.sender as usize];
        if sender.space.una_seen() < held.end {
            cold.fast = Some(held);
            return;
        }
        sender.history_mut().counts.revert_fast();
        self.revise_overtaken(&held.gap);
    }

    /// Returns whether `ack`, by which the client reports for the first time that it has a response,
    /// comes too late for an answer to the last copy of it, which ended the gap of `held`: neither
    /// that copy nor the one before it, which ended the gap of `earlier`, brought it about. If no round
    /// trip is known, it is bounded by the timer, which is never shorter (RFC 6298 §2.3).
    fn is_late_ack(&self, ack: &Segment, held: &Suspended, earlier: Option<&Suspended>) -> bool {
        let timers_ns = [Some(held), earlier].into_iter().flatten().map(|it| it.gap.len_ns());
        let answer_ns = match self.path.has_sample(Side::Client) {
            true => 2 * self.path.rtt_ns(Side::Client) + HOST_DELAY_MAX_NS,
            false => timers_ns.min().unwrap_or(u64::MAX),
        };
        let waited_ns = ack.time_ns.saturating_sub(held.gap.end_ns);
        let server = &self.senders[Side::Server as usize];
        waited_ns > answer_ns
            && server.space.una_seen() >= held.end.max(server.space.nxt)
            && !self.owes(Side::Server)
    }

    /// Attributes the time from the first copy of a response to `ack`, by which the client reports for
    /// the first time that it has the response, and all copies of it: the server had nothing more to
    /// do, and nothing was lost on the way to the client. The client or the way back stood still.
    #[cold]
    #[inline(never)]
    fn wait_for_ack(&mut self, ack: &Segment, held: &Suspended, earlier: Option<&Suspended>) {
        let needless =
            |ns| Slice::of(Owner::RetransmissionTimeout, Cause::SpuriousRetransmission, ns);
        if let Some(Suspended { gap, .. }) = earlier {
            let slices = judge::judge(gap);
            let lost = timed_out(0).cause;
            let ns = slices.iter().filter(|slice| slice.cause == lost).map(|slice| slice.ns).sum();
            let (sender, frame) = (gap.sender, gap.next.frame);
            let (from, to) = (timed_out(ns), needless(ns));
            self.timeline.revise(&Change::Slice { sender, frame, from, to });
        }
        let mut gap = held.gap;
        gap.start_ns = gap.start_ns.max(self.timeline.cursor_ns.min(gap.end_ns));
        let acked_ns = ack.time_ns.saturating_sub(self.path.rtt_ns(Side::Client));
        gap.end_ns = acked_ns.max(gap.end_ns);
        let mut slices = Slices::new(gap.len_ns());
        slices.take(needless(gap.len_ns()));
        if let Some(trace) = self.trace_mut() {
            // The first part ended with the last copy, the rest with the ACK.
            let copied_ns = held.gap.end_ns;
            let seen = Sighting::of(Side::Client, ack);
            let rest = Gap::between(gap.sender, copied_ns, gap.end_ns, gap.next, seen);
            let first = Gap { end_ns: copied_ns, ..gap };
            for part in [first, rest] {
                trace.gap(&part, [needless(part.len_ns())].iter());
            }
        }
        self.timeline.attribute(&slices, &gap, Some(held.end));
        self.move_cursor(Side::Server, gap.end_ns);
    }

    /// Keeps a retransmission for which ACKs are to be counted: `side` acknowledged data that was
    /// retransmitted once by timer, and neither timestamps nor a D-SACK show which transmission the
    /// ACK answers.
    fn count_acks(&mut self, side: Side) {
        let Some(cold) = &mut self.cold else { return };
        let sender = &self.senders[side.peer() as usize];
        let all_acked = sender.space.una_seen() >= sender.space.nxt;
        let once = |held: &Suspended| {
            held.gap.repair.original.is_some()
                && !held.gap.losses.in_recovery
                && held.stamp.is_unstamped()
        };
        cold.counted = cold.suspended.clone().filter(|held| all_acked && once(held));
    }

    /// Stops counting the ACKs of a retransmission when `side`, which sent it, sends something else
    /// that is acknowledged, as a keep-alive is (RFC 9293 §3.8.4).
    #[inline]
    pub(super) fn stop_counting_acks(&mut self, side: Side) {
        if let Some(cold) = &mut self.cold {
            cold.counted.take_if(|held| held.gap.sender == side);
        }
    }

    /// Processes a second ACK of `side` for the same position: it answers another copy of the
    /// segment (RFC 9293 §3.10.7.4). One ACK per transmission means that nothing was lost. An ACK
    /// directly after the first may be a window update of the reading application whose change the
    /// window scale hides, and is not counted.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_by_second_ack(&mut self, side: Side, acked_ns: u64) {
        let first_ns = self.senders[side.peer() as usize].una_seen_ns;
        if acked_ns < first_ns.saturating_add(HOST_DELAY_MAX_NS) {
            return;
        }
        let Some(cold) = &mut self.cold else { return };
        let of_peer = |held: &mut Box<Suspended>| held.gap.sender != side;
        if let Some(held) = cold.counted.take_if(of_peer) {
            self.senders[side.peer() as usize].history_mut().counts.acked_twice += 1;
            self.revise_spurious(&held.gap);
        }
    }

    /// Returns whether the retransmission stays undecided when `side` sends `segment`: it does
    /// while all outstanding data is retransmitted at once. Otherwise it is settled.
    #[inline(never)]
    pub(super) fn stays_suspended(&mut self, side: Side, segment: &Segment, kind: Kind) -> bool {
        self.stop_counting_acks(side);
        let Some(held) = self.cold(|cold| &cold.suspended) else { return false };
        let by_timer = kind == Kind::Retransmission(Recovery::Timer);
        if held.gap.sender != side {
            if kind == Kind::New {
                // The retransmission was still under way when the peer sent new data: the first
                // transmission had arrived.
                self.cold_mut().suspended = None;
            }
            return false;
        }
        if by_timer && segment.time_ns < held.gap.end_ns + self.path.rtt_ns(side.peer()) {
            return true;
        }
        let held = Box::new(held.clone());
        self.cold_mut().contested = Some(held);
        self.resume();
        false
    }

    /// Decides about retransmissions after lost ACKs when `side` sends. If it continues at once
    /// with the ACK that its timer brought about, it had waited for that ACK. Otherwise it had
    /// nothing more to send, and the time belongs to the application.
    #[inline(never)]
    pub(super) fn settle_acked_late(&mut self, side: Side, now_ns: u64, since: &SinceDeparture) {
        let Some(late) = self.cold.as_mut().and_then(|cold| cold.acked_late.take()) else { return };
        let gap = &late.last.gap;
        let tolerance_ns = gap.trigger_tolerance_ns();
        let goes_on = gap.sender == side
            && self.timeline.active == Some(side)
            && since.acks.last.is_some_and(|ack| {
                ack.effect_ns >= gap.end_ns && now_ns.saturating_sub(ack.effect_ns) <= tolerance_ns
            });
        if goes_on {
            self.cold_mut().suspended = Some(Box::new(late.last));
            self.resume();
        } else if let Some(earlier) = late.earlier {
            self.revise_spurious(&earlier.gap);
        }
    }

    /// Returns whether a retransmission was needed, if `ack` shows that.
    fn was_needed(&self, held: &Suspended, ack: &Segment, dsack: bool) -> Option<bool> {
        let (sender, rtt_ns) = (held.gap.sender, self.path.rtt_ns(held.gap.sender.peer()));
        let of_first = held.stamp.is_first_answered(ack, held.gap.end_ns, rtt_ns);
        let acked = self.senders[sender as usize].space.una_seen() >= held.end;
        if dsack || of_first && acked { Some(false) } else { (!of_first).then_some(true) }
    }

    /// Decides at the end of the connection or capture: counts an undecided retransmission as
    /// needed, except if nothing followed it. Then the capture ends before the answer to it, and
    /// the first transmission may only have been late.
    pub(super) fn resume_last(&mut self) {
        let last = self.last.frame;
        let Some(cold) = &mut self.cold else { return };
        if cold.contested.is_none() {
            cold.suspended
                .take_if(|held| held.gap.next.frame == last && !held.gap.losses.in_recovery);
        }
        self.resume();
    }

    /// Attributes the suspended gap: the retransmission was needed, or at least nothing contradicts
    /// that.
    pub(super) fn resume(&mut self) {
        let held = self.cold.as_mut().and_then(|cold| cold.suspended.take());
        let Some(held) = held else { return };
        let Suspended { mut gap, end, .. } = *held;
        if let Some(fin_ns) = self.ending().fin_ns[gap.sender as usize]
            && !self.senders[gap.sender.peer() as usize].volume.has_packets()
        {
            // In the only direction that was captured, the sender has closed.
            gap.end_ns = gap.end_ns.min(fin_ns.max(gap.start_ns));
        }
        if let Some(at_ns) = self.gave_up_ns(gap.sender, end) {
            gap.end_ns = gap.end_ns.min(at_ns.max(gap.start_ns));
        }
        self.attribute(&gap, end);
        self.move_cursor(gap.sender, gap.end_ns);
    }
}
