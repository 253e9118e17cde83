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

/// A larger initial window, segments: about 44 KB, three times the default.
pub const INITCWND: u64 = 30;

/// Proves a growing window by two flights and the number of round trips that it took to grow.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    add_flights(gap, proof);
    let rounds = round_trips(scene);
    proof.add_fact("rounds", Fact::Count(rounds));
    // An exchange on an open connection needs no set-up either.
    let ledger = &scene.exchange.ledger;
    let set_up_ns = ledger.of(Owner::Connect).saturating_add(ledger.of(Owner::Tls));
    let spent_ns = scene.chain.ns.saturating_add(set_up_ns);
    let without = if is_after_idle(scene) { "unpaused_ns" } else { "warm_ns" };
    let began = scene.exchange.began_at[gap.sender];
    let bytes = scene.sender().space.nxt.saturating_sub(began);
    let wall_ns = scene.exchange.wall_ns();
    let saved = rounds.saturating_sub(waits_from(INITCWND * gap.smss, bytes, offered(scene)));
    if saved > 0 {
        proof.add_fact("saved", Fact::Count(saved));
    }
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
    let windows = window(scene).map_or(0, |window| bytes.div_ceil(window));
    windows.saturating_mul(scene.gap().rtt.base_ns)
}

/// Returns the widest window of a receiver that does not scale it, bytes.
fn window(scene: &Scene<'_>) -> Option<u64> {
    let sender = scene.sender();
    let bulk = sender.bulk.as_ref().filter(|_| sender.space.window_scale() == Some(0));
    bulk.map(|bulk| bulk.widest_window()).filter(|window| *window > 0)
}

/// Returns the window that the receiver offered to the flight in front of the silence, and the widest that it
/// offered, bytes; `u64::MAX` if they are unknown.
fn offered(scene: &Scene<'_>) -> [u64; 2] {
    let sender = scene.sender();
    let is_scaled = sender.space.window_scale().is_some();
    let widest = sender.bulk.as_ref().filter(|_| is_scaled).map(|bulk| bulk.widest_window());
    let widest = widest.filter(|&window| window > 0).unwrap_or(u64::MAX);
    [scene.gap().window.bytes.unwrap_or(u64::MAX).min(widest), widest]
}

/// Returns the number of round trips that a sender has to wait between flights of `bytes` in all, if its
/// congestion window is `initial` bytes and grows by what is acknowledged (RFC 5681 §3.1). No flight
/// exceeds the window that its receiver offers (RFC 9293 §3.8.6): `first` to the first, at most `widest`
/// to each.
fn waits_from(initial: u64, bytes: u64, [first, widest]: [u64; 2]) -> u64 {
    let mut cwnd = initial.max(1);
    let mut flight = cwnd.min(first).max(1);
    let (mut sent, mut waits) = (flight, 0);
    while sent < bytes {
        waits += 1;
        cwnd = cwnd.saturating_add(flight);
        flight = cwnd.min(widest).max(1);
        sent = sent.saturating_add(flight);
    }
    waits
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_double_from_the_initial_window_up_to_that_of_the_receiver() {
        // 30, 60 and 120 segments: none waits, then one, then two.
        let waits = |bytes| waits_from(30, bytes, [u64::MAX; 2]);
        assert_eq!([0, 30, 31, 90, 91, 210, 211].map(waits), [0, 0, 1, 1, 2, 2, 3]);
        let narrow = |bytes| waits_from(30, bytes, [40; 2]);
        assert_eq!([30, 70, 71, 110, 111].map(narrow), [0, 1, 2, 2, 3]);
        assert_eq!(waits_from(30, 41, [10; 2]), 4);
        // The first flight meets a window that is not yet wide.
        assert_eq!([4, 5, 38, 39].map(|bytes| waits_from(30, bytes, [4, 40])), [0, 1, 1, 2]);
    }
}
