//! A send buffer below the bandwidth-delay product: the flight has a constant size.
//!
//! The cause is recognised in `judge/flight.rs`, and in `judge/small_writes.rs` if the buffer holds
//! only one write.

use super::flight::rule_out_ends;
use crate::findings::buffer_limits;
use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::moves::{move_cause, think};
use crate::findings::tally::{Key, Tally};
use crate::judge::Shape;
use crate::model::{Cause, Fact, Owner};

/// Proves a small buffer by the end of a flight, the ACK that allowed the next one, and the size of
/// both.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.add_held_data(gap);
    let height = match gap.flight.shape {
        Shape::Ceiling { bytes, .. } => bytes,
        Shape::Opening => scene.sender().counts().flight_size_max_bytes,
    };
    proof.add_fact("ceiling_bytes", Fact::Bytes(height));
    scene.limited_to(height, proof);
    let flat = matches!(gap.flight.shape, Shape::Ceiling { .. });
    proof.rule_out(Cause::SlowStart, "ceiling_flat", flat);
    proof.rule_out(Cause::CongestionWindow, "nothing_lost", scene.nothing_retransmitted());
    proof.rule_out(Cause::Bandwidth, "idle_link", gap.bottleneck.busy_ns < gap.len_ns() / 2);
    rule_out_ends(gap, proof);
}

/// Returns whether a larger buffer would have saved most of the lost time.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let Some(endpoint) = case.endpoint() else { return false };
    case.is_broad() && buffer_limits::is_short(case.key, case.cause, endpoint, case.floors)
}

/// Moves what looked like a small buffer to the sender's application if the sender continued
/// without an ACK as often as with one: the application then writes in pieces, and the size of a
/// flight is the size of a piece.
pub(in crate::findings) fn settle(tally: &mut Tally) {
    let missed = |key: &Key, count: u64| {
        let endpoint = tally.endpoints.get(&key.server);
        endpoint.is_some_and(|endpoint| endpoint.sender(key.sender).ceilings.refute(count))
    };
    let suspects: Vec<_> = tally
        .causes
        .iter()
        .filter(|(key, cause)| key.cause == Cause::SendBuffer && missed(key, cause.count))
        .map(|(key, _)| key.clone())
        .collect();
    for key in suspects {
        let (to, owner) = think(key.sender);
        move_cause(tally, &key, to, Some((Owner::SendBuffer, owner)));
    }
}
