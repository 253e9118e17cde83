//! A congestion window that is still growing (RFC 5681 §3.1, RFC 6928).
//!
//! Recognised in `judge/flight.rs`, which distinguishes a growing window from a constant one.

use super::flight::{add_flights, rule_out_ends};
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::judge::Shape;
use crate::judge::thresholds::LINUX_RTO_MIN_NS;
use crate::model::{Cause, Fact};

/// Proves a growing window by two flights and the number of round trips that it took to grow.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    add_flights(gap, proof);
    proof.add_fact("rounds", Fact::Count(round_trips(scene)));
    let wall_ns = scene.exchange.wall_ns();
    proof.add_fact("warm_ns", Fact::Ns(wall_ns.saturating_sub(scene.chain.ns)));
    let began = scene.exchange.began_at[gap.sender as usize];
    proof.add_fact("bytes", Fact::Bytes(scene.sender().nxt.saturating_sub(began)));
    if scene.exchange.idle_ns >= LINUX_RTO_MIN_NS && !scene.exchange.connects {
        proof.add_fact("idle_ns", Fact::Ns(scene.exchange.idle_ns));
    }
    proof.rule_out(Cause::SendBuffer, "grows", gap.flight.shape == Shape::Opening);
    proof.rule_out(Cause::CongestionWindow, "nothing_lost", scene.nothing_retransmitted());
    rule_out_ends(gap, proof);
}

/// Returns the number of round trips in which the sender waited. Several waits within one round
/// trip count once.
fn round_trips(scene: &Scene<'_>) -> u64 {
    let (waits, rtt_ns) = (u64::from(scene.chain.count), scene.gap().rtt.base_ns);
    if rtt_ns == 0 {
        return waits;
    }
    let lasted = (scene.chain.ns + rtt_ns / 2) / rtt_ns;
    waits.min(lasted.max(1))
}
