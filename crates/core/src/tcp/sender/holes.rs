//! Ranges of a stream that were not seen at the vantage.

use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN};
use crate::tcp::sender::packet_count::PacketCount;
use crate::tcp::thresholds::{IDENTIFICATION_JUMP_MAX, TIMER_MIN_NS};
use crate::wire::{Segment, SegmentFlags};

/// A range of the stream that was not seen although later data was seen.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    pub start: u64,
    pub end: u64,
    pub noticed_ns: u64,
    /// IP identification of the packet that revealed the hole.
    pub ip_id: u16,
    /// Timestamp value of that packet, if it had one.
    pub tsval: Option<u32>,
}

impl Hole {
    /// Creates the hole between `start` and `end` that `segment` reveals.
    pub fn revealed_by(segment: &Segment, start: u64, end: u64) -> Self {
        let &Segment { ip_id, time_ns: noticed_ns, .. } = segment;
        let tsval = segment.facts.has(SegmentFlags::TIMESTAMPS).then_some(segment.tsval);
        Self { start, end, noticed_ns, ip_id, tsval }
    }

    /// Length of the hole, bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns whether later data has overtaken `segment`, which fills the hole: otherwise it is a
    /// repair. `ids` counts the packets of the sender, and the round trip between both ends is
    /// `rtt_base_ns`.
    pub fn has_overtaken(&self, segment: &Segment, ids: PacketCount, rtt_base_ns: u64) -> bool {
        let waited_ns = segment.time_ns.saturating_sub(self.noticed_ns);
        // A repair follows the vantage's ACK by a whole round trip; an overtaken packet comes
        // sooner.
        let at_once = || waited_ns < (rtt_base_ns - rtt_base_ns / ALIKE_PART).max(TIMER_MIN_NS);
        self.is_revealed_after(segment, ids).unwrap_or_else(at_once)
    }

    /// Returns whether the sender sent `segment` before the packet that revealed the hole; `None`
    /// if neither timestamps (RFC 7323 §5.4) nor IP identifications show that.
    fn is_revealed_after(&self, segment: &Segment, ids: PacketCount) -> Option<bool> {
        let has_timestamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let age =
            self.tsval.filter(|_| has_timestamp).map(|at| segment.tsval.wrapping_sub(at) as i32);
        if let Some(age) = age.filter(|&age| age != 0) {
            return Some(age < 0);
        }
        let number = segment.ip_id.wrapping_sub(self.ip_id) as i16;
        let is_numbered = segment.facts.has(SegmentFlags::IPV4)
            && number != 0
            && ids.distinguishes()
            && (ids.is_proven() || number.unsigned_abs() <= IDENTIFICATION_JUMP_MAX);
        is_numbered.then_some(number < 0)
    }
}

/// Greatest number of holes remembered.
const HOLES_MAX: usize = 64;

/// Holes of a stream, and counts of packets that filled them late.
#[derive(Clone, Debug)]
pub struct Holes {
    /// The holes, in the order in which they were found.
    ranges: Vec<Hole>,
    /// Position up to which everything was seen at the vantage; valid while there are holes.
    in_order: u64,
    /// Time at which the receiver first reported that only a hole is missing, ns.
    only_hole_missing_ns: Option<u64>,
    /// Time from that report until the hole was filled without a retransmission, ns; 0 unless the
    /// last ACK reported that.
    pub filled_late_ns: u64,
    /// Number of times that a hole was filled without a retransmission.
    pub late_arrivals: u32,
}

impl Holes {
    pub const NONE: Self = Self {
        ranges: Vec::new(),
        in_order: 0,
        only_hole_missing_ns: None,
        filled_late_ns: 0,
        late_arrivals: 0,
    };

    /// Position up to which everything was seen at the vantage; `None` without a hole.
    pub fn in_order(&self) -> Option<u64> {
        (!self.ranges.is_empty()).then_some(self.in_order)
    }

    /// Sets the position at which the data of the stream begins.
    pub fn begin_at(&mut self, position: u64) {
        self.in_order = position;
    }

    /// Returns the first hole that data from `start` to `end` would fill, at least in part.
    pub fn overlapped(&self, start: u64, end: u64) -> Option<&Hole> {
        self.ranges.iter().find(|hole| start < hole.end && hole.start < end)
    }

    /// Returns the hole that contains position `start`.
    pub fn at(&self, start: u64) -> Option<&Hole> {
        self.ranges.iter().find(|hole| hole.start <= start && start < hole.end)
    }

    /// Returns whether the stream, sent up to `nxt`, continues at `start`, and only segments
    /// without data have overtaken that data.
    pub fn continues_at(&self, start: u64, nxt: u64) -> bool {
        self.ranges.first().is_some_and(|hole| start == self.in_order && hole.end == nxt)
    }

    /// Returns whether the receiver acknowledges no data behind a hole, as its ACK of `una_seen`
    /// shows, and so waits for the data that is missing there.
    pub fn are_awaited_at(&self, una_seen: u64) -> bool {
        self.in_order().is_some_and(|in_order| una_seen <= in_order)
    }

    /// Time at which the data at `start` was found to be missing, ns, if it is.
    pub fn noticed_ns(&self, start: u64) -> Option<u64> {
        self.at(start).map(|hole| hole.noticed_ns)
    }

    /// Time from the first packet that overtook the data at `start` to `now_ns`, ns.
    pub fn overtaken_ns(&self, start: u64, now_ns: u64) -> u64 {
        self.noticed_ns(start).map_or(0, |at_ns| now_ns.saturating_sub(at_ns))
    }

    /// Returns whether `segment` fills the hole at `start` and has a later timestamp than the
    /// packet that revealed it: the first transmission, which did not pass, had an earlier one.
    pub fn is_stamped_later(&self, start: u64, segment: &Segment) -> bool {
        let at = self.at(start).and_then(|hole| hole.tsval);
        at.is_some_and(|at| segment.tsval.wrapping_sub(at) as i32 > 0)
    }

    /// Returns whether a hole of several whole segments of `full` bytes begins at `start`.
    pub fn is_of_full_segments(&self, start: u64, full: u64) -> bool {
        let is_whole = |hole: &Hole| {
            hole.len() >= u64::from(HABIT_MIN) * full && hole.len().is_multiple_of(full)
        };
        self.ranges.iter().any(|hole| hole.start == start && is_whole(hole))
    }

    /// Length of all holes, bytes.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(Hole::len).sum()
    }

    /// Adds a hole at the end of the stream.
    pub fn notice(&mut self, hole: Hole) {
        if self.ranges.is_empty() {
            self.in_order = hole.start;
        }
        self.ranges.push(hole);
        if self.ranges.len() > HOLES_MAX {
            self.ranges.remove(0);
            self.settle_in_order();
        }
    }

    /// Fills holes between `start` and `end`. If that leaves two pieces of a hole and there is room
    /// for one, the smaller piece is dropped: data that fills it later counts as a retransmission.
    pub fn fill(&mut self, start: u64, end: u64) {
        let apart = |hole: &Hole| end <= hole.start || hole.end <= start;
        let Some(first) = self.ranges.iter().position(|hole| !apart(hole)) else { return };
        let hole = self.ranges[first];
        let before = Hole { end: start.max(hole.start), ..hole };
        let after = Hole { start: end.min(hole.end), ..hole };
        let [len_before, len_after] = [before, after].map(|piece| piece.len());
        if len_before > 0 && len_after > 0 && self.ranges.len() < HOLES_MAX {
            self.ranges[first] = before;
            self.ranges.insert(first + 1, after);
        } else if len_before > 0 && len_after > 0 {
            self.ranges[first] = if len_after > len_before { after } else { before };
        } else {
            self.fill_from(first, start, end);
        }
        self.settle_in_order();
    }

    /// Fills all holes from index `first` on, if none is split into two pieces.
    fn fill_from(&mut self, first: usize, start: u64, end: u64) {
        for hole in &mut self.ranges[first..] {
            if hole.start < end && start < hole.end {
                if hole.start < start {
                    hole.end = start;
                } else {
                    hole.start = end.min(hole.end);
                }
            }
        }
        self.ranges.retain(|hole| hole.start < hole.end);
    }

    /// Removes the holes, and the parts of holes, before `position`, which was acknowledged. Returns
    /// their length, bytes.
    pub fn skip_to(&mut self, position: u64) -> u64 {
        let before = self.bytes();
        self.in_order = position;
        self.ranges.retain(|hole| hole.end > position);
        for hole in &mut self.ranges {
            hole.start = hole.start.max(position);
        }
        self.settle_in_order();
        before - self.bytes()
    }

    /// Updates the position up to which everything was seen, after holes were filled.
    fn settle_in_order(&mut self) {
        if let Some(hole) = self.ranges.first() {
            self.in_order = self.in_order.max(hole.start);
        }
    }

    /// Processes what the receiver reports at `now_ns` (RFC 2018): nothing is missing any more
    /// (`is_complete`), or only a hole is (`only_hole_missing`). If a hole is filled without a
    /// retransmission, its packet was late.
    pub fn follow_reports(&mut self, is_complete: bool, only_hole_missing: bool, now_ns: u64) {
        self.filled_late_ns = 0;
        if is_complete {
            if let Some(since_ns) = self.only_hole_missing_ns.take() {
                self.filled_late_ns = now_ns.saturating_sub(since_ns);
                self.late_arrivals += 1;
            }
        } else if only_hole_missing {
            self.only_hole_missing_ns.get_or_insert(now_ns);
        }
    }

    /// Returns whether nothing is missing, and an ACK without a report of missing data changes nothing.
    pub fn are_over(&self) -> bool {
        self.ranges.is_empty() && self.only_hole_missing_ns.is_none() && self.filled_late_ns == 0
    }

    /// Processes a departure, which may fill the hole that the receiver reported.
    pub fn depart(&mut self) {
        self.only_hole_missing_ns = None;
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<Hole>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_hole(start: u64, end: u64) -> Holes {
        let mut holes = Holes::NONE;
        holes.notice(Hole { start, end, noticed_ns: 1, ip_id: 0, tsval: None });
        holes
    }

    /// The work per segment is bounded by the number of holes.
    #[test]
    fn few_holes_are_kept_whatever_the_order_in_which_a_hole_is_filled() {
        const SEGMENTS: u64 = 10_000;
        let upward: Vec<u64> = (0..SEGMENTS).collect();
        let downward: Vec<u64> = (0..SEGMENTS).rev().collect();
        let scattered: Vec<u64> = (0..SEGMENTS).map(|index| index * 7_919 % SEGMENTS).collect();
        for order in [upward, downward, scattered] {
            let mut holes = with_hole(1_000, 1_000 + 20 * SEGMENTS);
            for index in order {
                let start = 1_005 + 20 * index;
                holes.fill(start, start + 10);
                assert!(holes.ranges.len() <= HOLES_MAX, "{}", holes.ranges.len());
                assert!(holes.ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }

    #[test]
    fn the_larger_piece_of_a_hole_is_kept_if_there_is_room_for_one() {
        let mut holes = with_hole(0, 100_000);
        for index in 1..=100_u64 {
            holes.fill(100_000 - 20 * index, 100_000 - 20 * index + 10);
        }
        assert_eq!((holes.ranges.len(), holes.in_order), (HOLES_MAX, 0));
        assert_eq!(holes.ranges[0].end, 98_000, "what is left of the beginning");
        holes.fill(0, 200_000);
        assert!(holes.ranges.is_empty());
    }

    #[test]
    fn a_segment_that_fills_a_hole_was_overtaken_if_it_is_older_or_comes_at_once() {
        const MS: u64 = 1_000_000;
        let facts = SegmentFlags(SegmentFlags::TIMESTAMPS);
        let segment =
            |tsval, at_ms| Segment { tsval, time_ns: at_ms * MS, facts, ..Segment::default() };
        let hole = Hole::revealed_by(&segment(50, 100), 0, 1_000);
        let has_overtaken = |tsval, at_ms| {
            hole.has_overtaken(&segment(tsval, at_ms), PacketCount::default(), 40 * MS)
        };
        assert!(has_overtaken(49, 900) && !has_overtaken(51, 101));
        assert!(has_overtaken(50, 110) && !has_overtaken(50, 150), "only the time decides");
    }

    #[test]
    fn the_receiver_waits_for_a_hole_until_it_acknowledges_more() {
        let holes = with_hole(1_000, 2_000);
        assert!(holes.are_awaited_at(1_000) && !holes.are_awaited_at(1_001));
        assert!(!Holes::NONE.are_awaited_at(0));
        assert!(holes.continues_at(1_000, 2_000) && !holes.continues_at(1_000, 3_000));
        assert_eq!([holes.overtaken_ns(1_500, 8), holes.overtaken_ns(2_000, 8)], [7, 0]);
    }

    #[test]
    fn a_hole_filled_without_a_retransmission_was_a_late_packet() {
        let mut holes = with_hole(0, 1_000);
        holes.follow_reports(false, true, 10);
        holes.follow_reports(false, true, 20);
        holes.follow_reports(true, false, 35);
        assert_eq!((holes.filled_late_ns, holes.late_arrivals), (25, 1));
        holes.follow_reports(false, true, 40);
        holes.depart();
        holes.follow_reports(true, false, 50);
        assert_eq!((holes.filled_late_ns, holes.late_arrivals), (0, 1), "it was retransmitted");
    }
}
