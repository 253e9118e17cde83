//! Repetitions by timer of which it is not yet known whether they were needed.

use super::*;

/// What a host takes to answer, ns.
const ANSWER_NS: u64 = 1_000_000;

/// A repetition by timer whose need is not yet known.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    /// The silence that it ended.
    pub gap: Gap,
    /// Where it ends in its stream.
    pub end: u64,
    /// Its timestamp.
    pub stamp: Stamp,
}

/// Repetitions by timer of what had arrived: only their answer told the sender so.
#[derive(Clone, Debug)]
pub(super) struct ToldLate {
    last: Suspended,
    /// The one before it, which its sender had not waited for to be known.
    earlier: Option<Suspended>,
}

impl Connection {
    /// `side` acknowledged: was what its peer repeated by timer needed? Not if a D-SACK says it
    /// had arrived, nor if the acknowledgment is of the first sending. Where the answer to a needless
    /// repetition is the first to acknowledge more, it is the ACKs that were lost: `advances`.
    #[inline]
    pub(super) fn settle_suspended(&mut self, side: Side, segment: &Segment, says: [bool; 2]) {
        if self.is_unsettled() || self.senders[side.peer() as usize].is_troubled() {
            self.settle_held(side, segment, says);
        }
    }

    #[inline(never)]
    fn settle_held(&mut self, side: Side, segment: &Segment, [dsack, advances]: [bool; 2]) {
        let rtt_ns = self.path.rtt_ns(side);
        self.senders[side.peer() as usize].settle_repeated(segment, rtt_ns, dsack);
        let Some(cold) = &mut self.cold else { return };
        let of_peer = |held: &mut Box<Suspended>| held.gap.sender != side;
        let contested = cold.contested.take_if(of_peer);
        let suspended = cold.suspended.take_if(of_peer);
        let tells = |held: &Suspended| {
            let answer_ns = segment.time_ns.saturating_sub(held.gap.end_ns);
            let at_once = answer_ns <= 2 * rtt_ns + ANSWER_NS;
            dsack && advances && at_once && !too_early(segment.time_ns, held.gap.end_ns, rtt_ns)
        };
        if let Some(held) = suspended.as_deref().filter(|held| tells(held)) {
            let (last, earlier) = (held.clone(), contested.map(|held| *held));
            self.cold_mut().told_late = Some(Box::new(ToldLate { last, earlier }));
            return;
        }
        if let Some(held) = contested {
            match self.was_needed(&held, segment, dsack) {
                Some(false) => self.take_back(&held.gap),
                Some(true) => {}
                None => self.cold_mut().contested = Some(held),
            }
        }
        if let Some(held) = suspended {
            let needed = self.was_needed(&held, segment, dsack);
            if needed != Some(false) {
                self.cold_mut().suspended = Some(held);
            }
            if needed == Some(true) {
                self.count_acks(side);
                self.resume();
            }
        }
    }

    /// `side` has acknowledged what its peer had repeated once by timer, and has neither timestamps nor D-SACK to
    /// say which sending that was.
    fn count_acks(&mut self, side: Side) {
        let Some(cold) = &mut self.cold else { return };
        let sender = &self.senders[side.peer() as usize];
        let all_acked = sender.una_seen() >= sender.nxt;
        let once = |held: &Suspended| {
            held.gap.original.is_some() && !held.gap.in_recovery && held.stamp.is_unstamped()
        };
        cold.counted = cold.suspended.clone().filter(|held| all_acked && once(held));
    }

    /// `side` acknowledges once more what it has acknowledged: it has got one more segment that it had before
    /// (RFC 9293 §3.10.7.4). One ACK for each sending, and nothing was lost. An ACK right behind the first may
    /// be a window update that the window's scale hides, once the application has read.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_counted(&mut self, side: Side, acked_ns: u64) {
        let first_ns = self.senders[side.peer() as usize].una_seen_ns();
        if acked_ns < first_ns.saturating_add(ANSWER_NS) {
            return;
        }
        let Some(cold) = &mut self.cold else { return };
        let of_peer = |held: &mut Box<Suspended>| held.gap.sender != side;
        if let Some(held) = cold.counted.take_if(of_peer) {
            self.senders[side.peer() as usize].trouble_mut().dsacks += 1;
            self.take_back(&held.gap);
        }
    }

    /// `side` sends `segment` while a repetition may be suspended. Whether it repeats more of the same:
    /// all that is outstanding is repeated at once, and the first of it not yet settled. Otherwise
    /// the repetition is settled.
    #[inline(never)]
    pub(super) fn stays_suspended(&mut self, side: Side, segment: &Segment, kind: Kind) -> bool {
        if let Some(cold) = &mut self.cold {
            cold.counted.take_if(|held| held.gap.sender == side);
        }
        let Some(held) = self.cold(|cold| &cold.suspended) else { return false };
        let by_timer = kind == Kind::Retransmission(Recovery::Timer);
        if held.gap.sender != side {
            if kind == Kind::New {
                // It was still on its way when its peer went on: the first one had arrived.
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

    /// `side` goes on: at once with an ACK that only its timer has brought about, it had waited for
    /// that. Otherwise it had nothing more to send, and nobody waited.
    #[inline(never)]
    pub(super) fn settle_told_late(&mut self, side: Side, now_ns: u64, since: &SinceDeparture) {
        let Some(told) = self.cold.as_mut().and_then(|cold| cold.told_late.take()) else { return };
        let gap = &told.last.gap;
        let tolerance_ns = gap.trigger_tolerance_ns();
        let goes_on = gap.sender == side
            && self.timeline.active == Some(side)
            && since.trigger.is_some_and(|ack| {
                ack.effect_ns >= gap.end_ns && now_ns.saturating_sub(ack.effect_ns) <= tolerance_ns
            });
        if goes_on {
            self.cold_mut().suspended = Some(Box::new(told.last));
            self.resume();
        } else if let Some(earlier) = told.earlier {
            self.take_back(&earlier.gap);
        }
    }

    /// Whether a repetition was needed, if the acknowledgment says so.
    fn was_needed(&self, held: &Suspended, ack: &Segment, dsack: bool) -> Option<bool> {
        let (sender, rtt_ns) = (held.gap.sender, self.path.rtt_ns(held.gap.sender.peer()));
        let of_first = held.stamp.is_first_answered(ack, held.gap.end_ns, rtt_ns);
        let acked = self.senders[sender as usize].una_seen() >= held.end;
        if dsack || of_first && acked { Some(false) } else { (!of_first).then_some(true) }
    }

    /// The connection or the capture is over. Where nothing followed the first repetition, no answer and no
    /// other, the capture ends before its answer: the first sending may have been late only.
    pub(super) fn resume_last(&mut self) {
        let last = self.last.frame;
        let Some(cold) = &mut self.cold else { return };
        if cold.contested.is_none() {
            cold.suspended.take_if(|held| held.gap.next.frame == last && !held.gap.in_recovery);
        }
        self.resume();
    }

    /// What was repeated by timer was needed, or at least nothing says otherwise.
    pub(super) fn resume(&mut self) {
        let held = self.cold.as_mut().and_then(|cold| cold.suspended.take());
        let Some(held) = held else { return };
        let Suspended { mut gap, end, .. } = *held;
        if let Some(fin_ns) = self.ending().fin_ns[gap.sender as usize]
            && !self.senders[gap.sender.peer() as usize].seen()
        {
            // It has left, for all that one direction shows.
            gap.end_ns = gap.end_ns.min(fin_ns.max(gap.start_ns));
        }
        if let Some(at_ns) = self.gave_up_ns(gap.sender, end) {
            gap.end_ns = gap.end_ns.min(at_ns.max(gap.start_ns));
        }
        self.own(&gap, end);
        self.move_cursor(gap.sender, gap.end_ns);
    }
}
