//! What a direction has been through: losses, closed windows and other faults. Most directions
//! never need it.

use super::copies::Copies;
use super::holes::Holes;
use super::loss_state::LossState;
use super::nagle_history::NagleHistory;
use super::path_mtu::PathMtu;
use super::repeats::RepeatCounts;
use super::restart::Restart;
use super::window_history::WindowHistory;

/// Marks of congestion on the path (RFC 3168).
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
    /// Ranges not seen.
    pub holes: Holes,
    /// Losses and their repair.
    pub losses: LossState,
    /// Counts of repeated segments.
    pub counts: RepeatCounts,
    /// Sizes that pass.
    pub mtu: PathMtu,
    /// Holding back of data.
    pub nagle: NagleHistory,
    /// The offered window.
    pub window: WindowHistory,
    /// Marks of congestion.
    pub ecn: EcnCounts,
    /// The fault that closed the congestion window again.
    pub restarted: Option<Restart>,
    /// The last packets, if some were captured twice.
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

    /// The history without any fault.
    pub fn none() -> &'static Self {
        static NONE: History = History::NONE;
        &NONE
    }

    /// Number of retransmissions, and number of those that were needless (RFC 2883). A loss before
    /// the vantage is counted by its timeout, since only the retransmission passed.
    pub fn repetitions(&self) -> [u64; 2] {
        let again = self.counts.rexmt_data_packets + u64::from(self.losses.unseen_timeouts);
        [again, self.counts.dsacks.into()]
    }

    /// Returns whether most retransmissions were needless.
    pub fn repeats_for_nothing(&self) -> bool {
        let [again, needless] = self.repetitions();
        2 * needless > again
    }

    /// Returns whether packets came out of order.
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
    fn retransmissions_are_for_nothing_where_the_receiver_reports_most_of_them() {
        let mut history = History::default();
        assert!(!history.repeats_for_nothing());
        (history.counts.rexmt_data_packets, history.counts.dsacks) = (3, 2);
        assert!(history.repeats_for_nothing());
        history.losses.unseen_timeouts = 1;
        assert!(!history.repeats_for_nothing(), "a timeout before the vantage was needed");
    }
}
