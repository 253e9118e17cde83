//! Losses before and in a gap.

use crate::judge::MissingPackets;

/// Losses of a sender's packets before and in a gap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// The sender has had a loss on this connection.
    pub occurred: bool,
    /// The sender may have had a loss: it had one, or the capture began in the middle of the
    /// connection.
    pub may_have_occurred: bool,
    /// The sender is repairing a loss.
    pub in_recovery: bool,
    /// Packets that the sender sent in the gap and that never passed the vantage.
    pub missing: MissingPackets,
    /// Time at which the sender's timer last repeated acknowledged data in the gap, ns; 0 if it did
    /// not.
    pub repeated_ns: u64,
    /// A router has reported to the sender that a packet was too big, and not all data that was in
    /// flight then has arrived: a retransmission repeats what did not fit.
    pub pmtu_reported: bool,
}
