//! A congestion window that is still growing (RFC 5681 §3.1, RFC 6928).
//!
//! Recognised in `judge/flight.rs`, which distinguishes a growing window from a constant one.

use super::flight::{add_flights, rule_out_ends};
use crate::findings::facts::Facts;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::judge::Shape;
use crate::judge::thresholds::LINUX_RTO_MIN_NS;
use crate::model::{Cause, Fact, Owner};

/// Name of the number of exchanges that a pause preceded.
const AFTER_IDLE: &str = "after_idle";

/// Proves a growing window by two flights and the number of round trips that it took to grow.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    add_flights(gap, proof);
    proof.add_fact("rounds", Fact::Count(round_trips(scene)));
    // An exchange on an open connection needs no set-up either.
    let ledger = &scene.exchange.ledger;
    let set_up_ns = ledger.of(Owner::Connect).saturating_add(ledger.of(Owner::Tls));
    let spent_ns = scene.chain.ns.saturating_add(set_up_ns);
    let without = if is_after_idle(scene) { "unpaused_ns" } else { "warm_ns" };
    let began = scene.exchange.began_at[gap.sender];
    let bytes = scene.sender().space.nxt.saturating_sub(began);
    let wall_ns = scene.exchange.wall_ns();
    let without_ns = wall_ns.saturating_sub(spent_ns).max(least_ns(scene, bytes)).min(wall_ns);
    proof.add_fact(without, Fact::Ns(without_ns));
    proof.add_fact("bytes", Fact::Bytes(bytes));
    if is_after_idle(scene) {
        proof.add_fact("idle_ns", Fact::Ns(scene.exchange.idle_ns));
    }
    proof.rule_out(Cause::SendBuffer, "grows", gap.flight.shape == Shape::Opening);
    proof.rule_out(Cause::CongestionWindow, "nothing_lost", scene.nothing_retransmitted());
    rule_out_ends(gap, proof);
}

/// Returns the least time in which `bytes` can cross the path to a receiver that does not scale its window,
/// however wide the congestion window is: a round trip for each window (RFC 7323 §1.1), ns. A scaled window
/// grows with the transfer: 0.
fn least_ns(scene: &Scene<'_>, bytes: u64) -> u64 {
    let sender = scene.sender();
    let bulk = sender.bulk.as_ref().filter(|_| sender.space.window_scale() == Some(0));
    let window = bulk.map_or(0, |bulk| bulk.widest_window());
    let windows = if window > 0 { bytes.div_ceil(window) } else { 0 };
    windows.saturating_mul(scene.gap().rtt.base_ns)
}

/// Returns whether a pause may have reset the window (RFC 5681 §4.1).
fn is_after_idle(scene: &Scene<'_>) -> bool {
    scene.exchange.idle_ns >= LINUX_RTO_MIN_NS && !scene.exchange.connects
}

/// Counts the exchanges that a pause preceded.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    shown.add(AFTER_IDLE, u64::from(is_after_idle(scene)));
}

/// Returns the number of exchanges that a pause preceded if they are most: reusing connections does
/// not help those, nor clients that connect once.
pub(super) fn facts(_: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let after_idle = cause.shown.count(AFTER_IDLE);
    let is_most = 2 * after_idle > cause.exchanges;
    let restarts = is_most.then_some(("restarts", Fact::Count(after_idle)));
    restarts.into_iter().chain(endpoint.clients.reconnects()).collect()
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
