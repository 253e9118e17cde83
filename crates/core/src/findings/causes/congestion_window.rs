//! A congestion window that is small after a loss (RFC 5681 §3.2).
//!
//! Recognised in `judge/flight.rs`, which distinguishes a growing window from a constant one.

use super::flight::{add_flights, rule_out_ends};
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::model::{Cause, Fact};

/// Proves a small window by two flights, their sizes, and the losses before them.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    add_flights(gap, proof);
    proof.add_fact("cwnd_estimate_bytes", Fact::Bytes(gap.flight.before));
    proof.add_fact("losses", Fact::Count(scene.sender().counts().rexmt_data_packets));
    scene.limited_to(gap.flight.before, proof);
    proof.rule_out(Cause::SlowStart, "after_loss", gap.losses.occurred);
    rule_out_ends(gap, proof);
}
