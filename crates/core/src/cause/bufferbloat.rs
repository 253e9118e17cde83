//! Queues that multiply the round trip (RFC 8290 §1).

use super::scene::{Proof, Scene};
use super::{Cause, Owner, Slice};
use crate::report::Fact;
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

/// What waited in the queue, and how long a round trip became.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.see_before(gap, "flight_end");
    proof.see_ack(gap, "ack");
    proof.see_after(gap, "next");
    if let Some(bottleneck_bps) = scene.bottleneck_bps() {
        let bits = u128::from(bottleneck_bps) * u128::from(scene.chain.longest_ns) / 1_000_000_000;
        proof.fact("bottleneck_bps", Fact::BitsPerSecond(bottleneck_bps));
        proof.fact("queue_bytes", Fact::Bytes((bits / 8) as u64));
    }
    let base_ns = scene.connection.path.base_rtt_ns();
    if base_ns > 0 {
        proof.fact("base_rtt_ns", Fact::Ns(base_ns));
        proof.fact("loaded_rtt_ns", Fact::Ns(base_ns + scene.chain.longest_ns));
    }
    proof.not(Cause::PathRtt, "base_rtt", base_ns > 0);
    proof.not(Cause::ServerThink, "kernel_acks", true);
}
