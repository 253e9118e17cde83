//! Queues that multiply the round trip (RFC 8290 §1).

use super::{Cause, Owner, Slice};
use crate::tcp::Gap;

/// A queue shorter than this is what keeps a link busy.
const QUEUE_FLOOR_NS: u64 = 50_000_000;

/// The part of a turn-around that question or answer stood in queues; a bloated one where that
/// is several base round trips.
pub(super) fn queueing(gap: &Gap) -> Slice {
    queued(gap.queue_ns, gap.rtt_base_ns)
}

/// A stretch of `queue_ns` in a queue on a path of `rtt_base_ns`.
pub fn queued(queue_ns: u64, rtt_base_ns: u64) -> Slice {
    if queue_ns >= QUEUE_FLOOR_NS.max(2 * rtt_base_ns) {
        Slice::of(Owner::Queueing, Cause::Bufferbloat, queue_ns)
    } else {
        Slice::plain(Owner::Queueing, queue_ns)
    }
}
