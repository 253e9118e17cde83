//! Ranges of a stream that were not seen at the vantage.

use crate::judge::thresholds::HABIT_MIN;

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
    /// Length of the hole, bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
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

    /// Returns the first hole.
    pub fn first(&self) -> Option<&Hole> {
        self.ranges.first()
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
