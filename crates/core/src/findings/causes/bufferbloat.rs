//! Queues that multiply the round trip (RFC 8290 §1).

use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::model::{Cause, Fact};

/// Proves a queue by the bytes that waited in it and by the round trip that included it.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.add_frame_before(gap, "flight_end");
    proof.add_ack(gap, "ack");
    proof.add_frame_after(gap, "next");
    if let Some(bottleneck_bps) = scene.bottleneck_bps() {
        let bits = u128::from(bottleneck_bps) * u128::from(scene.chain.longest_ns) / 1_000_000_000;
        proof.add_fact("bottleneck_bps", Fact::BitsPerSecond(bottleneck_bps));
        proof.add_fact("queue_bytes", Fact::Bytes((bits / 8) as u64));
    }
    let base_ns = scene.connection.path.base_rtt_ns();
    if base_ns > 0 {
        proof.add_fact("base_rtt_ns", Fact::Ns(base_ns));
        proof.add_fact("loaded_rtt_ns", Fact::Ns(base_ns + scene.chain.longest_ns));
    }
    proof.rule_out(Cause::PathRtt, "base_rtt", base_ns > 0);
    proof.rule_out(Cause::ServerThink, "kernel_acks", true);
}

/// Returns whether several exchanges were delayed by the queue. A single late packet can come from
/// a busy host; a standing queue delays several.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let waits = case.cause.waits.points();
    let felt = waits.filter(|&(ns, _)| ns >= case.floors.fault_ns);
    case.is_broad_or_deep() && felt.map(|(_, count)| count).sum::<u64>() >= 2
}
