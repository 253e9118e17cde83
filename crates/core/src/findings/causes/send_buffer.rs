//! A send buffer below the bandwidth-delay product: the flight has a constant height.
//!
//! The cause is recognised in `judge/flight.rs`, and in `judge/small_writes.rs` if the buffer holds
//! only one write.

use super::flight::rule_out_ends;
use crate::findings::buffer_limits;
use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::settling::{move_cause, think};
use crate::findings::tally::{Key, Tally};
use crate::judge::Shape;
use crate::model::{Cause, Fact, Owner};

/// Proves a small buffer: the end of a flight, the ACK that let the next one go, and the height.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.see_held(gap);
    let height = match gap.flight.shape {
        Shape::Ceiling { bytes, .. } => bytes,
        Shape::Opening => scene.sender().counts().flight_size_max_bytes,
    };
    proof.fact("ceiling_bytes", Fact::Bytes(height));
    scene.limited_to(height, proof);
    let flat = matches!(gap.flight.shape, Shape::Ceiling { .. });
    proof.not(Cause::SlowStart, "ceiling_flat", flat);
    proof.not(Cause::CongestionWindow, "nothing_lost", scene.nothing_again());
    proof.not(Cause::Bandwidth, "idle_link", gap.bottleneck.busy_ns < gap.len_ns() / 2);
    rule_out_ends(gap, proof);
}

/// Returns whether more room would have spared what it cost.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let Some(endpoint) = case.endpoint() else { return false };
    case.is_broad() && buffer_limits::is_short(case.key, case.cause, endpoint, case.floors)
}

/// Moves what looked like a small buffer to the sender's application, where that goes on by its
/// own clock as often as with an ACK: it writes in pieces, and the height of its flight is what it
/// has to send.
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
