//! Losses, closed windows and other faults of a direction so far. Most directions never need this
//! state.

use super::Kind;
use super::copies::Copies;
use super::holes::{Hole, Holes};
use super::loss_state::LossState;
use super::nagle_history::NagleHistory;
use super::path_mtu::PathMtu;
use super::repeats::RepeatCounts;
use super::restart::Restart;
use super::since::SinceDeparture;
use super::space::SendSpace;
use super::window_history::WindowHistory;
use crate::judge::{Gap, Losses};
use crate::model::Slices;
use crate::wire::{Segment, Side};

/// Counts of congestion marks (RFC 3168).
#[derive(Clone, Copy, Debug)]
pub struct EcnCounts {
    /// Packets that the path marked as Congestion Experienced (§5).
    pub marked: u64,
    /// ACKs of the receiver that echo such a mark (§6.1.3).
    pub echoed: u64,
}

/// Losses, holes, closed windows and other faults of a direction, by mechanism.
#[derive(Clone, Debug)]
pub struct History {
    /// Ranges of the stream that were not seen.
    pub holes: Holes,
    /// Losses and their repair.
    pub losses: LossState,
    /// Counts of repeated segments.
    pub counts: RepeatCounts,
    /// Segment sizes that pass the path.
    pub mtu: PathMtu,
    /// Data that the sender held back.
    pub nagle: NagleHistory,
    /// History of the offered window.
    pub window: WindowHistory,
    /// Counts of congestion marks.
    pub ecn: EcnCounts,
    /// The fault that reset the congestion window, if there was one.
    pub restarted: Option<Restart>,
    /// The last packets, if some packets were captured twice.
    pub copies: Option<Box<Copies>>,
}

impl History {
    const NONE: Self = Self {
        holes: Holes::NONE,
        losses: LossState::NONE,
        counts: RepeatCounts::NONE,
        mtu: PathMtu::NONE,
        nagle: NagleHistory::NONE,
        window: WindowHistory::NONE,
        ecn: EcnCounts { marked: 0, echoed: 0 },
        restarted: None,
        copies: None,
    };

    /// Returns the history without any fault.
    pub fn none() -> &'static Self {
        static NONE: History = History::NONE;
        &NONE
    }

    /// Records that `side` is the sender.
    pub(super) fn set_side(&mut self, side: Side) {
        self.losses.set_side(side);
        self.window.set_side(side);
    }

    /// Number of retransmissions, and number of those that were spurious (RFC 2883). A loss before
    /// the vantage is counted by its timeout, since only the retransmission passed.
    pub fn retransmissions(&self) -> [u64; 2] {
        let all = self.counts.rexmt_data_packets + u64::from(self.losses.unseen_timeouts);
        [all, self.counts.reported_spurious().into()]
    }

    /// Returns whether most retransmissions were spurious.
    pub fn are_mostly_spurious(&self) -> bool {
        let [all, spurious] = self.retransmissions();
        2 * spurious > all
    }

    /// Returns whether packets arrived out of order.
    pub fn has_reordering(&self) -> bool {
        self.counts.out_of_order_packets > 0 || self.holes.late_arrivals > 0
    }

    /// Records that `segment` was captured twice, so that other segments may be too.
    #[cold]
    #[inline(never)]
    pub(super) fn expect_copies(&mut self, segment: &Segment) {
        self.copies.get_or_insert_with(|| Copies::after(segment));
    }

    /// Returns whether `segment` was captured before, on a connection where this has happened. If
    /// `numbers`, IP identifications distinguish packets.
    #[inline(never)]
    pub(super) fn is_copy(&mut self, segment: &Segment, numbers: bool) -> bool {
        self.copies.as_mut().is_some_and(|copies| copies.is_copy(segment, numbers))
    }

    /// Records that SND.UNA advanced to `una`; the ACK reports `duplicate_acks` losses beyond it.
    #[cold]
    #[inline(never)]
    pub(super) fn advance(&mut self, una: u64, duplicate_acks: u32) {
        self.losses.advance(una, duplicate_acks);
        self.mtu.advance(una);
    }

    /// Processes what the ACK `segment` of `una` reports of missing data to a sender with these
    /// positions, which `was_calm` before. This recognises late packets by SACK (RFC 2018): if the
    /// receiver missed only a hole, and this is filled without a retransmission, a packet was late.
    #[inline(never)]
    pub(super) fn hear(&mut self, segment: &Segment, una: u64, space: &SendSpace, was_calm: bool) {
        self.mtu.hear(segment.time_ns);
        let is_end_sacked = space.is_end_sacked(segment);
        if was_calm && !is_end_sacked {
            return;
        }
        if segment.sack_count > 0 {
            self.losses.sacked = segment.sack;
        }
        let only_hole_missing = is_end_sacked && self.losses.has_recovered(una);
        self.holes.follow_reports(una >= space.nxt, only_hole_missing, segment.time_ns);
    }

    /// Returns whether nothing that an ACK could settle is in progress: an ACK that says nothing new is
    /// only [`heard`](PathMtu::hear).
    pub(super) fn is_over(&self) -> bool {
        let Self { losses, window, holes, .. } = self;
        losses.are_over() && holes.are_over() && !window.is_closed() && !window.is_misread()
    }

    /// Records a hole in a stream whose full segments have `full` bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn notice_hole(&mut self, hole: Hole, full: u64) {
        self.mtu.note_full(full);
        self.holes.notice(hole);
    }

    /// Recognises a sender that shortens its segments: a timer fills a hole of several full
    /// segments from `start` on, beginning with `len` bytes.
    pub(super) fn note_shortened(&mut self, start: u64, len: u64) {
        let is_of_full = |full| self.holes.is_of_full_segments(start, full);
        self.mtu.shortened |= self.mtu.is_shorter(len) && is_of_full(self.mtu.full_bytes.max(1));
    }

    /// Counts `segment`, whose data is not new. If `arrived`, the data had arrived.
    pub(super) fn count_again(&mut self, segment: &Segment, kind: Kind, arrived: bool) {
        match kind {
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => {
                self.losses.repair = Some((segment.tsval, segment.ip_id));
                self.counts.retransmit(recovery, arrived);
            }
            Kind::Reordered | Kind::Late => self.counts.out_of_order_packets += 1,
            Kind::New | Kind::Probe => {}
        }
    }

    /// Counts a probe with data. Returns whether it is one of a closed window; otherwise it is a
    /// keep-alive. Inlined, rustc 1.95 with `-O3` drops the counts.
    #[inline(never)]
    pub(super) fn count_probe(&mut self) -> bool {
        let closed = self.window.is_closed();
        self.window.probes += u64::from(closed);
        self.counts.keep_alives += u64::from(!closed);
        closed
    }

    /// Attributes waits for the congestion window to the fault that reset it, until the window is as
    /// large as before.
    pub fn attribute_to_restart(&mut self, gap: &Gap, slices: &mut Slices) {
        if let Some(restart) = &self.restarted
            && !restart.attribute(gap, slices)
        {
            self.restarted = None;
        }
    }

    /// Losses in a gap of a sender that knows of data acknowledged up to `una`. If
    /// `may_have_occurred`, the capture began in the middle of the connection.
    pub fn losses_in_gap(
        &self,
        una: u64,
        since: &SinceDeparture,
        may_have_occurred: bool,
    ) -> Losses {
        Losses {
            occurred: self.losses.occurred,
            may_have_occurred: may_have_occurred || self.losses.occurred,
            in_recovery: self.losses.is_repairing(una),
            missing: since.missing,
            repeated_ns: since.repeated_ns,
            pmtu_reported: self.mtu.reported,
        }
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.holes.heap_bytes() + self.copies.as_ref().map_or(0, |_| size_of::<Copies>())
    }
}

impl Default for History {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Sighting;
    use crate::tcp::sequence::ORIGIN;

    #[test]
    fn a_probe_is_a_keep_alive_unless_the_window_is_closed() {
        let mut history = History::default();
        assert!(!history.count_probe());
        history.window.close(Sighting::default());
        assert!(history.count_probe());
        assert_eq!((history.counts.keep_alives, history.window.probes), (1, 1));
    }

    #[test]
    fn a_hole_of_full_segments_that_is_filled_by_shorter_ones_shows_a_smaller_mtu() {
        let shortened = |len| {
            let mut history = History::default();
            let segment = Segment::default();
            history.notice_hole(Hole::revealed_by(&segment, 0, 3 * 1_460), 1_460);
            history.note_shortened(0, len);
            history.mtu.shortened
        };
        assert!(shortened(1_200) && !shortened(1_460));
    }

    #[test]
    fn a_hole_that_is_filled_after_a_report_was_a_late_packet() {
        let mut space = SendSpace::default();
        space.position(0);
        space.extend_to(ORIGIN + 2_000);
        let mut report = Segment { sack_count: 1, time_ns: 10, ..Segment::default() };
        (report.sack[0].left, report.sack[0].right) = (1_000, 2_000);
        let mut history = History::default();
        history.hear(&report, ORIGIN, &space, true);
        history.hear(&Segment { time_ns: 25, ..Segment::default() }, ORIGIN + 2_000, &space, false);
        assert!(history.has_reordering() && history.holes.filled_late_ns == 15);
    }

    #[test]
    fn copies_are_recognised_once_there_was_one() {
        let mut history = History::default();
        let packet = Segment { payload_len: 10, time_ns: 1_000_000, ..Segment::default() };
        assert!(!history.is_copy(&packet, true), "none is remembered");
        history.expect_copies(&packet);
        assert!(history.is_copy(&packet, true) && history.heap_bytes() > 0);
    }

    #[test]
    fn retransmissions_are_spurious_if_the_receiver_reports_most_of_them() {
        let mut history = History::default();
        assert!(!history.are_mostly_spurious());
        (history.counts.rexmt_data_packets, history.counts.dsacks) = (3, 2);
        assert!(history.are_mostly_spurious());
        history.losses.unseen_timeouts = 1;
        assert!(!history.are_mostly_spurious(), "a timeout before the vantage was needed");
    }
}
