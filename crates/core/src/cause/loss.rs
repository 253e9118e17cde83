//! Losses and their repair: by timer (RFC 6298, RFC 8985 §7) or by duplicate ACKs (RFC 5681
//! §3.2, RFC 6675, RFC 8985).

use super::{Cause, Owner, Slice};
use crate::tcp::{Gap, Recovery, Turn};

/// Least silence before an unseen packet counts as repaired by timer: two delayed round trips
/// of a tail-loss probe are longer, and so is every RTO.
const UNSEEN_FLOOR_NS: u64 = 10_000_000;

/// The silence ended with a retransmission.
pub(super) fn repair(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    if gap.overtaken {
        return Some(Slice::of(Owner::FastRecovery, Cause::Reordering, rest_ns));
    }
    gap.retransmission.map(|recovery| slice(recovery, rest_ns))
}

/// The silence ended with data that looks new here, but a packet of this sender is missing in
/// between: it was lost before the vantage, and this is its repetition.
pub(super) fn unseen(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let waited = rest_ns >= UNSEEN_FLOOR_NS.max(2 * gap.rtt_base_ns);
    let repeated = gap.missing_packets > 0 && waited && !gap.ack_triggered();
    (repeated || gap.missing_packets > 0 && waited && gap.turn == Turn::Answers)
        .then(|| slice(Recovery::Timer, rest_ns))
}

/// New data in the middle of a recovery: the sender was held back by it.
pub(super) fn recovery(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    (gap.in_recovery && gap.turn == Turn::Continues && gap.ack_triggered())
        .then(|| slice(Recovery::Fast, rest_ns))
}

fn slice(recovery: Recovery, ns: u64) -> Slice {
    match recovery {
        Recovery::Timer => {
            Slice::of(Owner::RetransmissionTimeout, Cause::RetransmissionTimeout, ns)
        }
        Recovery::Fast => Slice::of(Owner::FastRecovery, Cause::FastRecovery, ns),
    }
}
