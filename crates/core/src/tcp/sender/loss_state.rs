//! Losses of a sender, as it knows them (RFC 5681, RFC 6298).

use super::space::SendSpace;
use super::stamp::Stamp;
use crate::capture::FrameId;
use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN, RTO_MIN_NS};
use crate::judge::{DuplicateAcks, Recovery};
use crate::model::{Cause, Sighting};
use crate::tcp::thresholds::{TAIL_REPEATS_MIN, TIMER_MIN_NS};
use crate::wire::{SackBlock, Segment, SegmentFlags, Side};

/// The last retransmission, until it is known whether it was spurious, and the state before it.
#[derive(Clone, Copy, Debug)]
pub struct Repeated {
    /// Position of the end of the segment.
    pub end: u64,
    /// Time of the retransmission, ns.
    pub time_ns: u64,
    /// Timestamp of the retransmission.
    pub stamp: Stamp,
    /// [`LossState::occurred`] before the retransmission.
    occurred: bool,
    /// [`LossState::flight_since`] before the retransmission.
    flight_since: u64,
}

/// The segment that a timer repeats again and again (RFC 6298 §5.5).
#[derive(Clone, Copy, Debug)]
pub struct Repeating {
    /// Position of the first byte.
    start: u64,
    /// Time of its first transmission, as far as known, ns.
    pub first_ns: u64,
    /// Time of the last transmission, ns.
    last_ns: u64,
    /// Wait before the last transmission, ns.
    waited_ns: u64,
    /// The last wait was as long as the previous one.
    pub is_even: bool,
    /// A wait was twice as long as the previous one.
    pub doubles: bool,
    /// Number of waits up to the last one of which each was twice as long as the one before; 0 if that was
    /// not.
    row: u32,
    /// Such a row was a habit.
    pub backs_off: bool,
}

impl Repeating {
    const NONE: Self = Self {
        start: 0,
        first_ns: 0,
        last_ns: 0,
        waited_ns: 0,
        is_even: false,
        doubles: false,
        row: 0,
        backs_off: false,
    };

    /// Records that the segment at `start`, last sent at `before_ns`, is repeated at `now_ns`. The
    /// tolerance allows for the granularity of timers, which is small compared with the waits.
    pub fn repeat(&mut self, start: u64, before_ns: u64, now_ns: u64) {
        let Self { doubles, backs_off, .. } = *self;
        if self.start != start || self.waited_ns == 0 {
            let (first_ns, last_ns) = (before_ns, before_ns);
            *self = Self { start, first_ns, last_ns, doubles, backs_off, ..Self::NONE };
        }
        let waited_ns = now_ns.saturating_sub(self.last_ns);
        let doubled_ns = 2 * self.waited_ns;
        let is_double = doubled_ns > 0 && waited_ns.abs_diff(doubled_ns) <= doubled_ns / ALIKE_PART;
        self.is_even =
            self.waited_ns > 0 && waited_ns.abs_diff(self.waited_ns) <= waited_ns / ALIKE_PART;
        self.doubles |= is_double;
        self.row = if is_double { self.row.max(1) + 1 } else { 0 };
        self.backs_off |= self.row >= HABIT_MIN;
        (self.last_ns, self.waited_ns) = (now_ns, waited_ns);
    }
}

/// The first data that is not acknowledged, once it was sent again.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// Position of the first byte.
    start: u64,
    /// First transmission, as far as remembered.
    pub first: Sighting,
    /// Last transmission.
    pub last: Sighting,
    /// Number of transmissions after the first.
    pub repeats: u32,
}

impl Tail {
    /// Returns the data from `start` on after it was repeated in `last`; `first` is its first
    /// transmission, if that is remembered.
    fn repeated(known: Option<Self>, start: u64, first: Option<Sighting>, last: Sighting) -> Self {
        match known.filter(|known| known.start == start) {
            Some(known) => Self { last, repeats: known.repeats + 1, ..known },
            None => Self { start, first: first.unwrap_or(last), last, repeats: 1 },
        }
    }
}

/// Losses of a sender and their repair.
#[derive(Clone, Copy, Debug)]
pub struct LossState {
    /// A loss has occurred in this direction.
    pub occurred: bool,
    /// Greatest flight since the last loss, bytes.
    pub flight_since: u64,
    /// Duplicate ACKs that the sender knows.
    pub duplicates: DuplicateAcks,
    /// The receiver has reported missing data.
    pub reported: bool,
    /// Position of data that the sender repeats though its ACK passed the vantage, which is at the
    /// sender; 0 if there is none.
    pub unheard_from: u64,
    /// SACK blocks of its last ACK that had any (RFC 2018).
    pub sacked: [SackBlock; 3],
    /// Trigger of the last recovery, until its end is acknowledged.
    recovery: Option<Recovery>,
    /// Position below which the sender is in recovery.
    recovery_end: u64,
    /// The last retransmission, until it is known whether it was spurious.
    pub repeated: Option<Repeated>,
    /// Frame of the last retransmission whose data was answered before it arrived, and the first
    /// transmission of that data.
    pub first_answered: Option<(FrameId, Sighting)>,
    /// Timestamp and IP identification of the last retransmitted segment.
    pub repair: Option<(u32, u16)>,
    /// The segment that the timer repeated last.
    pub repeating: Repeating,
    /// The data that was repeated last, if it was the first that is not acknowledged.
    tail: Option<Tail>,
    /// Number of timeouts after losses before the vantage.
    pub unseen_timeouts: u32,
    /// Number of packets lost before the vantage.
    pub unseen_packets: u32,
    /// Cause to which the last repair was attributed.
    pub cause: Option<Cause>,
}

impl LossState {
    pub const NONE: Self = Self {
        occurred: false,
        flight_since: 0,
        duplicates: DuplicateAcks::NONE,
        reported: false,
        unheard_from: 0,
        sacked: [SackBlock::NONE; 3],
        recovery: None,
        recovery_end: 0,
        repeated: None,
        first_answered: None,
        repair: None,
        repeating: Repeating::NONE,
        tail: None,
        unseen_timeouts: 0,
        unseen_packets: 0,
        cause: None,
    };

    /// Returns whether the receiver's last report of missing data (RFC 2018) says that it has what
    /// begins at position `start`.
    pub fn is_sacked(&self, start: u64, space: &SendSpace) -> bool {
        let position = |seq: u32| space.position_of(seq);
        let holds =
            |block: &SackBlock| (position(block.left)..position(block.right)).contains(&start);
        self.sacked.iter().any(|block| block.left != block.right && holds(block))
    }

    /// Position of the first data behind `start` that the receiver reports to have in its last report of
    /// missing data, if it lacks what begins at `start`.
    pub fn sacked_behind(&self, start: u64, space: &SendSpace) -> Option<u64> {
        let blocks = self.sacked.iter().filter(|block| block.left != block.right);
        let behind = blocks.map(|block| space.position_of(block.left)).filter(|&left| left > start);
        behind.min().filter(|_| !self.is_sacked(start, space))
    }

    /// Greatest flight since the last loss, or ever (`flight_max`) if there was none, bytes.
    /// Neither the congestion window nor the sender's buffer was smaller.
    pub(super) fn flight_reached(&self, flight_max: u32) -> u64 {
        if self.occurred { self.flight_since } else { flight_max.into() }
    }

    /// Returns whether the sender sent `segment` before its last retransmission: its timestamps
    /// (RFC 7323 §5.4) and packet count (if `has_counter`) never go backward.
    pub(super) fn is_repair_after(&self, segment: &Segment, has_counter: bool) -> bool {
        let Some((tsval, ip_id)) = self.repair else { return false };
        let has_timestamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let has_counter = has_counter && segment.facts.has(SegmentFlags::IPV4);
        has_timestamp && (segment.tsval.wrapping_sub(tsval) as i32) < 0
            || has_counter && (segment.ip_id.wrapping_sub(ip_id) as i16) < 0
    }

    /// Records that the sender reduced its congestion window (RFC 5681 §3.1).
    pub fn reduce_window(&mut self) {
        self.occurred = true;
        self.flight_since = 0;
    }

    /// Begins a recovery by `trigger` up to `nxt`, unless a recovery by duplicate ACKs is in
    /// progress.
    pub fn recover(&mut self, trigger: Recovery, una: u64, nxt: u64) {
        if self.has_recovered(una) || trigger == Recovery::Timer {
            self.recovery = Some(trigger);
            self.recovery_end = nxt;
        }
    }

    /// Returns what triggered a retransmission after a silence of `silent_ns`, while data from `una`
    /// on is unacknowledged: duplicate ACKs or an ICMP error if the sender got any (`reported`), or
    /// is still in such a recovery; otherwise the timer. The round trip between both ends is at
    /// least `rtt_base_ns`; 0 if unknown. No ACK released what was sent after a silence in which
    /// nothing had come for `unheard_ns`, longer than a sender waits for reordered segments (RFC 8985
    /// §6.2) and as long as a timer.
    pub(super) fn trigger(
        &self,
        una: u64,
        (silent_ns, unheard_ns): (u64, u64),
        reported: bool,
        rtt_base_ns: u64,
    ) -> Recovery {
        let rto_ns = RTO_MIN_NS + rtt_base_ns;
        if silent_ns.min(unheard_ns) >= RTO_MIN_NS.max(rtt_base_ns) {
            return Recovery::Timer;
        }
        match self.recovery_at(una) {
            // A lost retransmission is repeated only by the timer.
            Some(Recovery::Fast) if silent_ns > rto_ns => Recovery::Timer,
            Some(recovery) => recovery,
            _ if reported && silent_ns < rto_ns => Recovery::Fast,
            _ if silent_ns < TIMER_MIN_NS => Recovery::Fast,
            // If no round trip is known, no timer is shorter than the least RTO.
            _ if rtt_base_ns == 0 && silent_ns < RTO_MIN_NS => Recovery::Fast,
            _ => Recovery::Timer,
        }
    }

    /// Returns the trigger of the recovery that is in progress while data from `una` on is
    /// unacknowledged.
    pub fn recovery_at(&self, una: u64) -> Option<Recovery> {
        self.recovery.filter(|_| !self.has_recovered(una))
    }

    /// Returns whether the sender is repairing a loss while data from `una` on is unacknowledged.
    pub fn is_repairing(&self, una: u64) -> bool {
        self.recovery_at(una).is_some()
    }

    /// Returns whether all data that was in flight at the last loss is acknowledged, up to `una`.
    pub fn has_recovered(&self, una: u64) -> bool {
        una >= self.recovery_end
    }

    /// Returns whether the last recovery has not ended, as far as ACKs in effect show.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Returns whether no repair is in progress, and no report or question about one is open.
    pub fn are_over(&self) -> bool {
        self.recovery.is_none() && self.repeated.is_none() && self.duplicates.count == 0
    }

    /// Records that SND.UNA advanced to `una`; the ACK reports `duplicate_acks` losses beyond it.
    pub fn advance(&mut self, una: u64, duplicate_acks: u32) {
        self.duplicates.restart(duplicate_acks);
        if self.has_recovered(una) {
            self.recovery = None;
        }
    }

    /// Records a retransmission up to `end` at `time_ns`, which may be spurious.
    pub fn repeat(&mut self, end: u64, time_ns: u64, stamp: Stamp) {
        let (occurred, flight_since) = (self.occurred, self.flight_since);
        self.repeated = Some(Repeated { end, time_ns, stamp, occurred, flight_since });
    }

    /// Reverts the last retransmission: it was spurious, so that nothing was lost.
    pub fn revert(&mut self, repeated: &Repeated) {
        self.occurred = repeated.occurred;
        self.flight_since = repeated.flight_since;
        self.recovery = None;
    }

    /// Records that `side` is the sender.
    pub(super) fn set_side(&mut self, side: Side) {
        let DuplicateAcks { first, last, .. } = &mut self.duplicates;
        first.iter_mut().chain(last).for_each(|ack| ack.from = side.peer());
        if let Some(tail) = &mut self.tail {
            (tail.first.from, tail.last.from) = (side, side);
        }
    }

    /// Records that the data from `start` on, the first that is not acknowledged, was sent again in
    /// `last`; `first` is its first transmission, if that is remembered.
    pub fn repeat_tail(&mut self, start: u64, first: Option<Sighting>, last: Sighting) {
        self.tail = Some(Tail::repeated(self.tail, start, first, last));
    }

    /// Returns the first transmission of the data that was sent again last, in `frame`.
    pub fn first_of(&self, frame: FrameId) -> Option<Sighting> {
        self.tail.filter(|tail| tail.last.frame == frame).map(|tail| tail.first)
    }

    /// Returns the data from `una` on, if it was sent again at least twice.
    pub fn tail_from(&self, una: u64) -> Option<Tail> {
        self.tail.filter(|tail| tail.start == una && tail.repeats >= TAIL_REPEATS_MIN)
    }

    /// Records that the timer repaired a loss of `packets` before the vantage.
    pub fn lose_unseen(&mut self, packets: u32) {
        self.unseen_timeouts += 1;
        self.unseen_packets += packets;
    }

    /// Reverts a loss before the vantage. If `is_first`, there had been no earlier loss.
    pub fn revoke_unseen(&mut self, is_first: bool) {
        self.unseen_timeouts = self.unseen_timeouts.saturating_sub(1);
        self.occurred = !is_first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_lasts_until_the_flight_of_the_loss_is_acknowledged() {
        let mut losses = LossState::NONE;
        losses.recover(Recovery::Fast, 1_000, 9_000);
        losses.recover(Recovery::Fast, 2_000, 12_000);
        assert_eq!(losses.recovery_at(8_999), Some(Recovery::Fast));
        assert_eq!(
            losses.recovery_at(9_000),
            None,
            "the second loss belongs to the first recovery"
        );
        losses.recover(Recovery::Timer, 2_000, 12_000);
        assert_eq!(losses.recovery_at(9_000), Some(Recovery::Timer));
        losses.advance(12_000, 0);
        assert!(!losses.is_recovering());
    }

    #[test]
    fn a_spurious_retransmission_is_reverted() {
        let mut losses = LossState { flight_since: 7_000, ..LossState::NONE };
        losses.repeat(2_000, 5, Stamp::default());
        losses.reduce_window();
        losses.recover(Recovery::Fast, 1_000, 9_000);
        let repeated = losses.repeated.expect("a retransmission");
        losses.revert(&repeated);
        assert_eq!((losses.occurred, losses.flight_since), (false, 7_000));
        assert_eq!(losses.recovery_at(1_000), None);
    }

    #[test]
    fn the_waits_of_a_timer_double() {
        let mut repeating = Repeating::NONE;
        repeating.repeat(0, 0, 200);
        assert!(!repeating.doubles);
        repeating.repeat(0, 200, 610);
        assert!(repeating.doubles && !repeating.backs_off && repeating.first_ns == 0);
        repeating.repeat(0, 610, 1_430);
        assert!(repeating.backs_off && !repeating.is_even);
        repeating.repeat(0, 1_430, 2_270);
        assert!(repeating.is_even);
        let mut even = Repeating::NONE;
        [1_000, 2_000, 4_000].into_iter().fold(0, |before_ns, now_ns| {
            even.repeat(0, before_ns, now_ns);
            now_ns
        });
        assert!(even.doubles && !even.backs_off, "one of three waits is missing in the capture");
    }

    #[test]
    fn a_retransmission_is_fast_if_a_loss_was_reported_within_the_timer() {
        const MS: u64 = 1_000_000;
        let mut losses = LossState::NONE;
        let rto_ns = RTO_MIN_NS + 40 * MS;
        assert_eq!(losses.trigger(0, (rto_ns - 1, 0), true, 40 * MS), Recovery::Fast);
        assert_eq!(losses.trigger(0, (rto_ns, 0), true, 40 * MS), Recovery::Timer);
        assert_eq!(losses.trigger(0, (RTO_MIN_NS - 1, 0), false, 40 * MS), Recovery::Timer);
        assert_eq!(losses.trigger(0, (RTO_MIN_NS - 1, 0), false, 0), Recovery::Fast);
        losses.recover(Recovery::Fast, 0, 9_000);
        assert_eq!(losses.trigger(0, (rto_ns, 0), false, 40 * MS), Recovery::Fast);
        assert_eq!(losses.trigger(0, (rto_ns + 1, 0), false, 40 * MS), Recovery::Timer);
    }

    #[test]
    fn the_last_report_names_the_data_that_arrived() {
        let mut space = SendSpace::default();
        space.position(100);
        let block = SackBlock { left: 200, right: 300 };
        let sacked = [block, SackBlock::NONE, SackBlock::NONE];
        let losses = LossState { sacked, ..LossState::NONE };
        let is_sacked = |seq| losses.is_sacked(space.position_of(seq), &space);
        assert_eq!([199, 200, 299, 300].map(is_sacked), [false, true, true, false]);
        let behind = |seq| losses.sacked_behind(space.position_of(seq), &space);
        let at = Some(space.position_of(200));
        assert_eq!([150, 199, 200, 300].map(behind), [at, at, None, None]);
    }

    #[test]
    fn an_earlier_number_or_timestamp_shows_that_a_segment_preceded_the_repair() {
        let losses = LossState { repair: Some((50, 7)), ..LossState::NONE };
        let facts = SegmentFlags(SegmentFlags::TIMESTAMPS | SegmentFlags::IPV4);
        let segment = |tsval, ip_id| Segment { tsval, ip_id, facts, ..Segment::default() };
        assert!(losses.is_repair_after(&segment(49, 8), false));
        assert!(losses.is_repair_after(&segment(50, 6), true));
        assert!(!losses.is_repair_after(&segment(50, 6), false), "other packets are counted too");
        assert!(!LossState::NONE.is_repair_after(&segment(0, 0), true));
    }

    #[test]
    fn after_a_loss_only_later_flights_show_what_fits() {
        let mut losses = LossState { flight_since: 4_000, ..LossState::NONE };
        assert_eq!(losses.flight_reached(9_000), 9_000);
        losses.occurred = true;
        assert_eq!(losses.flight_reached(9_000), 4_000);
    }
}
