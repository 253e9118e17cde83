//! The first request after an idle time is never acknowledged, while a new connection of the same
//! hosts works: a device on the path has forgotten the connection.
//!
//! Counted in `findings/tally/failures.rs`, where an exchange ends, and confirmed in
//! `findings/unheard.rs`.

use super::repair::add_repair;
use super::retransmission_timeout;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::model::{Cause, Fact};

/// Proves that a request was never acknowledged by its first and its last transmission. If nothing
/// else shows the reason, it is a loss.
pub(super) fn prove_unheard(scene: &Scene<'_>, proof: &mut Proof) {
    add_repair(scene, proof);
    proof.rule_out(Cause::ServerThink, "sent_again", true);
    proof.rule_out(Cause::SpuriousRetransmission, "not_acknowledged", true);
}

/// Proves the cause by the request and its last repetition.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    prove_unheard(scene, proof);
    proof.add_fact("waited_ns", Fact::Ns(scene.gap().len_ns()));
    proof.add_fact("idle_ns", Fact::Ns(scene.exchange.idle_ns));
    proof.rule_out(Cause::IdleReset, "no_rst", scene.connection.cold.ending().reset.is_none());
    proof.rule_out(Cause::ServerThink, "not_acknowledged", true);
}

/// Counts the losses, as for a request that no other connection explains.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    retransmission_timeout::add_up(scene, shown);
}
