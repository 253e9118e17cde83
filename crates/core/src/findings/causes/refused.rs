//! A connection attempt that a RST or an ICMP error answered (RFC 9293 §3.5.2).
//!
//! Recognised in `findings/tally/endings.rs`, where a connection ends; `findings/refusals.rs`
//! determines which refusals come from the path, and which attempts are strangers'.

use super::set_up::add_icmp_errors;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::findings::refusals;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Cause, Fact, RuledOut};

/// Proves a refusal by the SYN and the RST.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let setup = &scene.connection.setup;
    if let Some(syn) = setup.frames().syn_again.or(setup.frames().syn) {
        proof.add_frame("syn", syn);
        if let Some(reset) = scene.connection.ending().reset {
            let by_error =
                scene.connection.icmp_report().is_some_and(|told| told.seen.frame == reset.frame);
            if by_error {
                add_icmp_errors(scene, proof);
            } else {
                proof.add_frame("reset", reset);
                let [of_reset, _] = scene.connection.ending().reset_ttls;
                proof.add_fact("rst_ttl", Fact::Count(of_reset.into()));
            }
            proof.add_fact("rtt_ns", Fact::Ns(reset.time_ns.saturating_sub(syn.time_ns)));
        }
    }
    proof.rule_out(Cause::Reset, "before_established", setup.established_ns().is_none());
    proof.rule_out(Cause::SynRetransmit, "answered", setup.syns == 1);
}

/// Returns whether this is a single attempt of a client that has no other connection to these
/// hosts.
pub(super) fn is_minor(case: &Case<'_>) -> bool {
    refusals::is_of_stranger(case.cause, case.tally)
}

/// Returns the number of connections that the server accepted.
pub(super) fn facts(_: &Key, _: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let accepted = endpoint.set_ups.established;
    (accepted > 0).then_some(("accepted", Fact::Count(accepted))).into_iter().collect()
}

/// Excludes a full accept queue if the server refused all attempts.
pub(super) fn ruled_out(_: &CauseTally, endpoint: Option<&EndpointTally>) -> Option<RuledOut> {
    let is_always = endpoint.is_none_or(|endpoint| endpoint.set_ups.established == 0);
    is_always.then_some(RuledOut { cause: Cause::AcceptQueueOverflow, why: "always" })
}
