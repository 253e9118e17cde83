//! A listener whose queue of completed connections is full (RFC 9293 §3.5).
//!
//! Recognised in `tcp/setup.rs` and, over all connections, in `findings/overflow.rs`.

use super::set_up::AWAY;
use super::set_up::add_handshake;
use crate::findings::facts::Facts;
use crate::findings::overflow::FULL;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Cause, Fact, OutcomeKind, RuledOut};

/// Proves an overflow by the handshake that the client completed and the server ignored.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let (setup, path) = (&scene.connection.setup, &scene.connection.path);
    add_handshake(setup, proof);
    proof.rule_out(Cause::SynRetransmit, "acked_repeat", setup.syn_acks_after_ack(path) > 0);
    proof.rule_out(Cause::ServerThink, "not_acknowledged", setup.ignored_data() >= 2);
    proof.rule_out(Cause::SynFlood, "completes", setup.established_ns().is_some());
}

/// Says that the queue is only one of two explanations, if no capture at the server shows what arrived
/// there and no connection ever worked: a queue would be emptied at some time, while a device on the path
/// that sees one direction only (a stateful firewall beside an asymmetric route) lets SYNs through, and
/// nothing that follows them.
pub(super) fn facts(_: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let outcomes = &endpoint.all.outcomes;
    let worked = outcomes.of(OutcomeKind::Answered) + outcomes.of(OutcomeKind::Error);
    let is_away = cause.shown.count(AWAY) > 0;
    let only_syns = (worked == 0 && is_away && cause.shown.count(FULL) == 0).then_some((
        "only_syns",
        Fact::Text("its accept queue is full, or a device on the path drops all but SYNs".into()),
    ));
    only_syns.into_iter().collect()
}

/// Excludes lost SYNs if the attempts, taken together, show that the queue was full.
pub(super) fn ruled_out(cause: &CauseTally, _: Option<&EndpointTally>) -> Option<RuledOut> {
    let is_full = cause.shown.count(FULL) > 0;
    is_full.then_some(RuledOut { cause: Cause::SynRetransmit, why: "queue_full" })
}
