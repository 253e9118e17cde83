//! A connection attempt that a RST or an ICMP error answered (RFC 9293 §3.5.2).
//!
//! Recognised in `findings/tally/endings.rs`, where a connection ends; `findings/refusals.rs`
//! determines which refusals come from the path, and which attempts are strangers'.

use super::set_up::add_icmp_errors;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::refusals;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Cause, Fact, RuledOut, Sighting};
use crate::tcp::Syn;
use crate::wire::{IcmpErrorKind, Side};

/// Proves a refusal by the SYN and the RST.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let setup = &scene.connection.setup;
    let refusals = scene.connection.view().refusals();
    let Some(reset) = scene.connection.cold.ending().reset.filter(|_| setup.refused) else {
        return refusals.into_iter().for_each(|(_, reset)| prove_accepted(scene, proof, reset));
    };
    let error = scene.connection.cold.icmp_report().filter(|told| told.last.frame == reset.frame);
    let frames = setup.frames();
    // Each error answers the SYN before it, and so does a RST that answers a SYN of its own. Which of
    // several SYNs a RST answers is not known: the time is that since the first (RFC 6298 §3).
    let since_ns = refusals.map_or(0, |(_, earlier)| earlier.time_ns);
    let mut unanswered = setup.syns_before_answer().filter(|syn| syn.time_ns >= since_ns);
    let asked = unanswered.next().map(|Syn { time_ns, frame, .. }| Sighting {
        frame,
        time_ns,
        payload_bytes: 0,
        from: Side::Client,
    });
    let (syn, answer) = match error {
        Some(error) => (frames.syn, error.seen),
        None => (asked.or(frames.syn), reset),
    };
    if let Some(first) = frames.syn.filter(|_| error.is_none() && refusals.is_some()) {
        proof.add_frame("first_syn", first);
    }
    if let Some(syn) = syn {
        proof.add_frame("syn", syn);
        if let Some(again) = frames.syn_again.filter(|_| error.is_some() || refusals.is_none()) {
            proof.add_frame("syn_again", again);
        }
        if error.is_some() {
            add_icmp_errors(scene, proof);
        } else {
            proof.add_frame("reset", reset);
            let [of_reset, _] = scene.connection.cold.ending().reset_ttls;
            // No device lies within a host.
            if !scene.connection.key.is_within_host() {
                proof.add_fact("rst_ttl", Fact::Count(of_reset.into()));
            }
        }
        proof.add_fact("rtt_ns", Fact::Ns(answer.time_ns.saturating_sub(syn.time_ns)));
    }
    proof.rule_out(Cause::Reset, "before_established", setup.established_ns().is_none());
    proof.rule_out(Cause::SynRetransmit, "answered", setup.syns == 1);
}

/// Proves a refusal by the last of the RSTs after which the client tried again until the server accepted.
fn prove_accepted(scene: &Scene<'_>, proof: &mut Proof, reset: Sighting) {
    let frames = scene.connection.setup.frames();
    if let Some(first) = frames.syn {
        proof.add_frame("first_syn", first);
    }
    proof.add_frame("reset", reset);
    if let Some(answer) = frames.syn_ack {
        proof.add_frame("accepted", answer);
    }
}

/// Name of the number of attempts that were refused because there is no route.
const WITHOUT_ROUTE: &str = "without_route";

/// Name of the number of attempts that a filter refused by an ICMP error.
const WITHOUT_RULE: &str = "without_rule";

/// Name of the number of those whose error says that a filter prohibits them.
const PROHIBITED: &str = "of_filter";

/// Counts the SYNs that were repeated in spite of the RSTs or errors that answered them, and the attempts
/// for which there was no route.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let setup = &scene.connection.setup;
    let refusals = scene.connection.view().refusals();
    let report = scene.connection.cold.icmp_report();
    // A SYN that is sent again was refused by an ICMP error or by a RST; the RSTs are counted.
    let errors = report.filter(|it| it.about_syn).map_or(0, |it| it.count);
    let refusals = refusals.map_or(0, |(count, _)| u64::from(count));
    shown.add("sent_again", refusals.saturating_sub(errors));
    if let Some(report) = report {
        shown.add("tried_again", u64::from(setup.syns).saturating_sub(1));
        match report.kind {
            IcmpErrorKind::Unreachable => shown.add(WITHOUT_ROUTE, 1),
            IcmpErrorKind::Prohibited => {
                shown.add(WITHOUT_RULE, 1);
                shown.add(PROHIBITED, 1);
            }
            IcmpErrorKind::PortUnreachable => shown.add(WITHOUT_RULE, 1),
            _ => {}
        }
    }
}

/// Returns whether this is a single attempt of a client that has no other connection to these
/// hosts.
pub(super) fn is_minor(case: &Case<'_>) -> bool {
    refusals::is_of_stranger(case.key, case.cause, case.tally)
}

/// Returns the number of connections that the server accepted, and whether a route or a rule is
/// missing, if that is the same for all attempts.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let accepted = endpoint.set_ups.established;
    let accepted = (accepted > 0).then_some(("accepted", Fact::Count(accepted)));
    let all = |name: &str| cause.shown.count(name) >= cause.exchanges.max(1);
    let missing = match (all(WITHOUT_ROUTE), all(WITHOUT_RULE)) {
        (true, false) => Some(("no_route", Fact::Text("no route".into()))),
        (false, true) => Some(("no_rule", Fact::Text("no rule that allows it".into()))),
        _ => None,
    };
    let prohibited = ("prohibited", Fact::Text("a filter prohibits it".into()));
    let prohibited = all(PROHIBITED).then_some(prohibited);
    // The clients are on the server's host, and use an address that no other host reaches.
    let is_loopback = key.server.ip().is_loopback();
    let loopback = is_loopback.then_some(("loopback", Fact::Text(key.server.to_string())));
    accepted.into_iter().chain(missing).chain(prohibited).chain(loopback).collect()
}

/// Excludes a full accept queue if the server refused all attempts: none was answered by a SYN-ACK.
pub(super) fn ruled_out(_: &CauseTally, endpoint: Option<&EndpointTally>) -> Option<RuledOut> {
    let accepted = |it: &EndpointTally| it.set_ups.established > 0 || it.set_ups.answered > 0;
    let is_always = !endpoint.is_some_and(accepted);
    is_always.then_some(RuledOut { cause: Cause::AcceptQueueOverflow, why: "always" })
}
