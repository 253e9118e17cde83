//! Losses, closed windows and other faults of a direction so far. Most directions never need this
//! state.

use super::copies::Copies;
use super::holes::Holes;
use super::loss_state::LossState;
use super::nagle_history::NagleHistory;
use super::path_mtu::PathMtu;
use super::repeats::RepeatCounts;
use super::restart::Restart;
use super::window_history::WindowHistory;

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
