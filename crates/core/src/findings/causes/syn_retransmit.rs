//! A connection attempt whose SYN or SYN-ACK had to be retransmitted (RFC 9293 §3.5, RFC 6298 §2).
//!
//! Recognised in `tcp/setup.rs`: the set-up precedes the silences of a stream.

use super::set_up::{TAKEN_AT_ONCE, UNHEARD_ANSWERS, add_handshake, add_icmp_errors, unanswered};
use crate::dns::DNS_PORT;
use crate::findings::attempts::is_heard;
use crate::findings::facts::Facts;
use crate::findings::fallback::FALLBACKS;
use crate::findings::overflow::{EMPTY, OPEN};
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Cause, Fact, RuledOut, Sighting};
use crate::tcp::Syn;
use crate::wire::Side;

/// Proves a repeated attempt by the first SYN, its retransmission, and the answer.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let setup = &scene.connection.setup;
    add_handshake(setup, proof);
    // Without a second SYN-ACK, the packet was lost between the vantage and the server.
    let is_unheard = setup.unheard_until_ns().is_some();
    let side = match (setup.syn_acks, setup.syns) {
        (2.., _) if !setup.has_heard_first_answer() => "SYN-ACK",
        (_, 2..) if setup.syn_acks == 0 => "SYN, or each answer to it,",
        _ => "SYN, or the first answer to it,",
    };
    // What an ICMP error reports, and what met an older connection or a client that ignores it, was
    // not lost.
    let ttl = scene.connection.senders[Side::Server].packets.last.ttl;
    let is_reported = scene.connection.cold.icmp_report().is_some_and(|report| report.about_syn);
    let is_ignored = setup.is_answer_ignored(ttl) || setup.other_connection_segments() > 0;
    let late_ns = setup.late_answer_ns();
    proof.facts.extend(late_ns.map(|ns| ("answer_late_ns", Fact::Ns(ns))));
    let may_be_slow = late_ns.is_some() && setup.syns > 1;
    if may_be_slow {
        proof.add_fact("syns", Fact::Count(setup.syns.into()));
        if let Some(last) = setup.syns_before_answer().last().filter(|_| setup.syns > 2) {
            let Syn { time_ns, frame, .. } = last;
            let seen = Sighting { frame, time_ns, payload_bytes: 0, from: Side::Client };
            proof.add_frame("syn_last", seen);
        }
    } else if !is_reported && !is_ignored && !is_unheard && is_heard(scene.connection) {
        proof.add_fact("side", Fact::Text(side.into()));
    }
    proof.add_fact("target", Fact::Text(scene.connection.server().to_string()));
    let reset = scene.connection.cold.ending().reset.filter(|reset| reset.from == Side::Server);
    proof.rule_out(Cause::Refused, "no_rst", !setup.refused && reset.is_none());
    add_icmp_errors(scene, proof);
    // A listener with a full queue drops SYNs, too. That it accepted a later SYN, and its ACK, does
    // not show that it had room for the earlier ones.
    let accepted = setup.syns == 1 && setup.established_ns().is_some() && setup.confirmed;
    proof.rule_out(Cause::AcceptQueueOverflow, "handshake_seen", accepted);
    // Away from the server, the client's host may drop SYN-ACKs that passed the capture.
    let is_on_path = !is_unheard || scene.connection.path.ends_here(Side::Server);
    let is_lost = setup.syns > 1 && !is_ignored && !may_be_slow && is_on_path;
    proof.rule_out(Cause::PathRtt, "sent_again", is_lost);
}

/// Name of the fact: number of queries over UDP that the host answered whose TCP port is silent.
pub(in crate::findings) const UDP_ANSWERS: &str = "udp_answers";

/// Returns the number of other connections that the server answered, the server's address if it is a
/// resolver, and what all attempts have in common.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let others = endpoint.set_ups.established.saturating_sub(cause.connections);
    let answers = others > 0 && cause.shown.count(FALLBACKS) == 0;
    let answered = answers.then_some(("answered", Fact::Count(others)));
    let resolver = Fact::Text(key.server.ip().to_string());
    let of_resolver = (key.server.port == DNS_PORT).then_some(("resolver", resolver));
    let of_all = [(UNHEARD_ANSWERS, "unheard"), (TAKEN_AT_ONCE, "had_room")];
    let of_all = of_all.into_iter().filter(|(of_one, _)| has_all(cause, of_one));
    let of_all = of_all.map(|(_, of_all)| (of_all, Fact::Count(cause.exchanges)));
    let of_server = answered.into_iter().chain(of_resolver).chain(endpoint.clients.reconnects());
    of_server.chain(of_all).chain(unanswered(cause)).collect()
}

/// Returns whether all attempts of `cause` have what `name` counts.
fn has_all(cause: &CauseTally, name: &str) -> bool {
    cause.exchanges > 0 && cause.shown.count(name) == cause.exchanges
}

/// Excludes a full accept queue if the attempts, taken together, show that it had room.
pub(super) fn ruled_out(cause: &CauseTally, _: Option<&EndpointTally>) -> Option<RuledOut> {
    let why = match () {
        () if has_all(cause, TAKEN_AT_ONCE) => "first_answered",
        () if cause.shown.count(OPEN) > 0 => "queue_open",
        () if cause.shown.count(EMPTY) > 0 => "queue_empty",
        () => return None,
    };
    Some(RuledOut { cause: Cause::AcceptQueueOverflow, why })
}
