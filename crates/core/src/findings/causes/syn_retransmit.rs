//! A connection attempt whose SYN or SYN-ACK had to be retransmitted (RFC 9293 §3.5, RFC 6298 §2).
//!
//! Recognised in `tcp/setup.rs`: the set-up precedes the silences of a stream.

use super::set_up::{add_handshake, add_icmp_errors};
use crate::app::Side;
use crate::dns::DNS_PORT;
use crate::findings::facts::Facts;
use crate::findings::fallback::FALLBACKS;
use crate::findings::overflow::{EMPTY, OPEN};
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::judge::thresholds::RTO_INITIAL_NS;
use crate::model::{Cause, Fact, RuledOut, Sighting};
use crate::tcp::Syn;

/// Proves a repeated attempt by the first SYN, its retransmission, and the answer.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let setup = &scene.connection.setup;
    add_handshake(setup, proof);
    // Without a second SYN-ACK, the packet was lost between the vantage and the server.
    let side = match (setup.syn_acks, setup.syns) {
        (2.., _) if !setup.has_heard_first_answer() => "SYN-ACK",
        (_, 2..) if setup.syn_acks == 0 => "SYN, or each answer to it,",
        _ => "SYN, or the first answer to it,",
    };
    // What an ICMP error reports, and what met an older connection or a client that ignores it, was
    // not lost.
    let ttl = scene.connection.senders[Side::Server as usize].ttl();
    let is_reported = scene.connection.icmp_report().is_some_and(|report| report.about_syn);
    let is_ignored = setup.is_answer_ignored(ttl) || setup.other_connection_segments() > 0;
    let late_ns = setup.late_answer_ns();
    if let Some(late_ns) = late_ns {
        proof.add_fact("syns", Fact::Count(setup.syns.into()));
        proof.add_fact("answer_late_ns", Fact::Ns(late_ns));
        if let Some(last) = setup.syns_before_answer().last().filter(|_| setup.syns > 2) {
            let Syn { time_ns, frame, .. } = last;
            let seen = Sighting { frame, time_ns, payload_bytes: 0, from: Side::Client };
            proof.add_frame("syn_last", seen);
        }
    } else if !is_reported && !is_ignored {
        proof.add_fact("side", Fact::Text(side.into()));
    }
    proof.add_fact("target", Fact::Text(scene.connection.server().to_string()));
    let reset = scene.connection.ending().reset.filter(|reset| reset.from == Side::Server);
    proof.rule_out(Cause::Refused, "no_rst", !setup.refused && reset.is_none());
    add_icmp_errors(scene, proof);
    // A listener with a full queue drops SYNs, too. That it accepted a later SYN, and its ACK, does
    // not show that it had room for the earlier ones.
    let accepted = setup.syns == 1 && setup.established_ns().is_some() && setup.confirmed;
    proof.rule_out(Cause::AcceptQueueOverflow, "handshake_seen", accepted);
    let is_lost = setup.syns > 1 && !is_ignored && late_ns.is_none();
    proof.rule_out(Cause::PathRtt, "sent_again", is_lost);
    let answered_ns =
        setup.syn_ack_first_ns().map(|at_ns| at_ns.saturating_sub(setup.syn_last_ns()));
    if answered_ns.is_some_and(|ns| ns >= RTO_INITIAL_NS) {
        proof.add_fact("late_answer", Fact::Text("more than a second after the last SYN".into()));
    }
}

/// Returns the number of other connections that the server answered, and the server's address if it
/// is a resolver.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let others = endpoint.set_ups.established.saturating_sub(cause.connections);
    let answers = others > 0 && cause.shown.count(FALLBACKS) == 0;
    let answered = answers.then_some(("answered", Fact::Count(others)));
    let resolver = Fact::Text(key.server.ip().to_string());
    let of_resolver = (key.server.port == DNS_PORT).then_some(("resolver", resolver));
    answered.into_iter().chain(of_resolver).chain(endpoint.clients.reconnects()).collect()
}

/// Excludes a full accept queue if the attempts, taken together, show that it had room.
pub(super) fn ruled_out(cause: &CauseTally, _: Option<&EndpointTally>) -> Option<RuledOut> {
    let why = [OPEN, EMPTY].into_iter().find(|name| cause.shown.count(name) > 0)?;
    let why = if why == OPEN { "queue_open" } else { "queue_empty" };
    Some(RuledOut { cause: Cause::AcceptQueueOverflow, why })
}
