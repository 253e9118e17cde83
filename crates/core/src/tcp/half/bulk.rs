//! What only a sender of bulk needs.

use crate::cause::Slice;
use crate::tcp::ceiling::Rounds;
use crate::tcp::pipe::Pipe;

/// State of a sender that has sent more than a few segments.
#[derive(Debug, Default)]
pub struct Bulk {
    /// The bottleneck.
    pub pipe: Pipe,
    /// The flight, round by round.
    pub rounds: Rounds,
    /// The same before the last repetition.
    pub(super) rounds_before: Rounds,
    /// Last acknowledged position, window and time for rate samples.
    pub(super) rate_mark: Option<(u64, u64, u64)>,
    /// The last round trip to the receiver that was taken while more was under way, so that no
    /// timer held the ACK back, ns.
    pub rtt_clocked_ns: u64,
    /// The right edge of the offered window where it last moved by more than a little, and what was
    /// acknowledged then.
    pub(super) unread_since: (u64, u64),
    /// What silences were put down to since then.
    pub(super) unread: Vec<Slice>,
}
