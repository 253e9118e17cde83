//! A request without a byte of an answer: its server closed, or was silent. Or a connection that the
//! server closed as soon as it was set up.
//!
//! Counted in `findings/tally/failures.rs`, where an exchange ends; `findings/left_waiting.rs`
//! decides about clients that gave up, `findings/unheard.rs` about requests that were not
//! acknowledged.

use super::idle_flow_dropped::prove_unheard;
use super::retransmission_timeout;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::model::{Cause, Fact, Outcome, Sighting};
use crate::tcp::ORIGIN;
use crate::wire::Side;

/// Name of the number of requests after which the server closed without an answer.
pub const CLOSED: &str = "closed";

/// Name of the number of connections that the server closed as soon as they were set up.
pub const AT_ONCE: &str = "at_once";

/// Name of the number of requests that came when the server's FIN had been acknowledged, and that nothing
/// acknowledged.
pub const BEHIND_FIN: &str = "behind_fin";

/// Proves that there was no answer by the request and what ended the wait.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    if scene.exchange.outcome == Outcome::Unacknowledged && scene.exchange.behind_fin {
        return prove_behind_fin(scene, proof);
    }
    if scene.exchange.outcome == Outcome::Unacknowledged {
        return prove_unheard(scene, proof);
    }
    if let Some(end) = scene.connection.view().closed_at_once() {
        return prove_closed_at_once(scene, end, proof);
    }
    let (connection, exchange) = (scene.connection, scene.exchange);
    let asked = exchange.first;
    proof.add_frame("request", asked);
    let [left, closed] = connection.cold.ending().fin;
    match exchange.outcome {
        Outcome::Closed { by: Side::Server } | Outcome::Unclear => {
            let half_closed = left.filter(|_| exchange.outcome == Outcome::Unclear);
            half_closed.into_iter().for_each(|fin| proof.add_frame("left", fin));
            closed.into_iter().for_each(|fin| proof.add_frame("fin", fin));
            let took_ns = closed.map(|fin| fin.time_ns.saturating_sub(asked.time_ns));
            proof.facts.extend(took_ns.map(|ns| ("took_ns", Fact::Ns(ns))));
            proof.rule_out(Cause::IdleReset, "received", closed.is_some());
            proof.rule_out(Cause::Reset, "fin", connection.cold.ending().reset.is_none());
        }
        Outcome::Reset { .. } => {
            let (last, reset) =
                (connection.cold.ending().last_data, connection.cold.ending().reset);
            last.into_iter().for_each(|last| proof.add_frame("last_data", last));
            reset.into_iter().for_each(|reset| proof.add_frame("gave_up", reset));
            let quiet_ns = last.zip(reset).map(|(last, reset)| reset.time_ns - last.time_ns);
            proof.facts.extend(quiet_ns.map(|ns| ("quiet_ns", Fact::Ns(ns))));
            proof.rule_out(Cause::Reset, "has_all", true);
            let relayed_ns = connection.view().relayed_rtt_ns();
            let beyond_ns = relayed_ns.map(|ns| ns.saturating_sub(connection.path.base_rtt_ns()));
            proof.facts.extend(beyond_ns.map(|ns| ("beyond_ns", Fact::Ns(ns))));
        }
        _ => left.into_iter().for_each(|fin| proof.add_frame("left", fin)),
    }
    let sent = &connection.senders[Side::Server].space;
    let is_mute = sent.una() + sent.flight() <= exchange.began_at[Side::Server] + 1;
    proof.rule_out(Cause::ServerThink, "no_response", !exchange.response_seen && is_mute);
    let client = &connection.senders[Side::Client];
    let acknowledged = client.space.una_seen() > exchange.began_at[Side::Client];
    proof.rule_out(Cause::RetransmissionTimeout, "acknowledged", acknowledged);
}

/// Proves that a request came too late by the server's FIN, the request and the end of the wait.
fn prove_behind_fin(scene: &Scene<'_>, proof: &mut Proof) {
    let ending = scene.connection.cold.ending();
    ending.fin[Side::Server].into_iter().for_each(|fin| proof.add_frame("fin", fin));
    proof.add_frame("request", scene.exchange.first);
    proof.add_frame("end", scene.exchange.last);
    let first = ORIGIN + 1;
    let before_bytes = scene.exchange.began_at[Side::Server].saturating_sub(first);
    let is_first = scene.exchange.began_at[Side::Client] <= first && !scene.connection.mid_stream;
    if before_bytes > 0 && is_first {
        proof.add_fact("before_bytes", Fact::Bytes(before_bytes));
    }
}

/// Proves that the server closed without waiting for a request by the handshake and its end.
fn prove_closed_at_once(scene: &Scene<'_>, end: Sighting, proof: &mut Proof) {
    let setup = &scene.connection.setup;
    let frames = setup.frames();
    for (part, frame) in [("syn", frames.syn), ("syn_ack", frames.syn_ack), ("ack", frames.ack)] {
        frame.into_iter().for_each(|seen| proof.add_frame(part, seen));
    }
    let is_reset = scene.connection.cold.ending().reset.is_some_and(|it| it.frame == end.frame);
    proof.add_frame(if is_reset { "reset" } else { "fin" }, end);
    let open_ns = setup.established_ns().map(|from_ns| end.time_ns.saturating_sub(from_ns));
    proof.facts.extend(open_ns.map(|ns| ("open_ns", Fact::Ns(ns))));
    proof.rule_out(Cause::Refused, "accepted", true);
    proof.rule_out(Cause::IdleReset, "at_once", true);
}

/// Counts the losses of requests that were not acknowledged.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    if scene.exchange.outcome == Outcome::Unacknowledged && !scene.exchange.behind_fin {
        retransmission_timeout::add_up(scene, shown);
    }
}
