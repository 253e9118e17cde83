//! The pace of a sender in a gap.

/// Evidence in a gap about the pace of its sender or of the application that writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// The gap may be a step of a pacing sender.
    pub is_step: bool,
    /// Two full segments were sent at once before the gap, as at a slow pace.
    pub in_pairs: bool,
    /// If the gap is a step of the sender's pace after a loss: length of the step at the pace
    /// before the loss, ns.
    pub before_loss_ns: u64,
    /// The measured rate is not the path's, but the rate that a window or buffer allows per round
    /// trip.
    pub by_limit: bool,
    /// Time for which the writer would have paused in any case, as after similar writes with room
    /// for more, ns; 0 if unknown.
    pub own_pause_ns: u64,
}
