//! A slow answer of the resolver.

use super::lookup::{LookupRules, LookupScene, add_answer, add_closed_port, add_query};
use crate::dns::Query;
use crate::findings::proof::Proof;
use crate::model::{Cause, Fact};
use crate::wire::Endpoint;

/// How the cause is recognised in a look-up.
pub(super) const LOOKUP: LookupRules = LookupRules {
    shows: |query| query.answered_ns.is_some() && !query.is_failure(),
    is_wait: true,
    prove,
    ..LookupRules::PLAIN
};

/// Adds another server that was asked the same in the meantime and answered before: its answer ended the
/// wait.
fn add_sooner(scene: &LookupScene<'_>, proof: &mut Proof) {
    let query = scene.query;
    let is_sooner = |other: &&Query| {
        other.server != query.server
            && other.sent_ns > query.sent_ns
            && scene.is_same(other)
            && other.is_conclusive()
            && other.answered_ns < query.answered_ns
    };
    let Some(sooner) = scene.lookup.queries.iter().find(is_sooner) else { return };
    let took_ns = sooner.answered_ns.map(|at_ns| at_ns.saturating_sub(sooner.sent_ns));
    proof.add_fact("next_resolver", Fact::Text(sooner.server.ip().to_string()));
    proof.add_fact("timeout_ns", Fact::Ns(sooner.sent_ns - query.sent_ns));
    proof.facts.extend(took_ns.map(|ns| ("took_ns", Fact::Ns(ns))));
    add_query(sooner, "next", proof);
    add_answer(sooner, "resolved", proof);
}

/// Proves a late answer by the query and the answer.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    scene.add_frames(["query", "answer"], proof);
    let (lookup, query) = (scene.lookup, scene.query);
    if !scene.known.is_measured {
        proof.add_fact("unmeasured", Fact::Text(query.server.ip().to_string()));
    }
    let resolver = scene.known.upstream.unwrap_or(query).server;
    let client = Endpoint { address: lookup.client, port: 0 };
    if resolver.is_public() && !client.is_public() {
        proof.add_fact("public_resolver", Fact::Text(resolver.ip().to_string()));
    }
    add_closed_port(query, proof);
    add_sooner(scene, proof);
    let asked_once = scene.next().is_none_or(|next| next.qtype != query.qtype);
    let in_time = query.answered_ns.is_some() && !query.flags.is_too_late;
    proof.rule_out(Cause::DnsTimeout, "answered", in_time && asked_once);
    let is_same = |next: &&Query| next.client_port == query.client_port && scene.is_same(next);
    if let Some(again) = scene.next().filter(is_same).filter(|it| it.answered_ns.is_none())
        && query.answered_ns >= Some(again.sent_ns)
    {
        proof.add_fact("again_ns", Fact::Ns(again.sent_ns - query.sent_ns));
        if scene.is_done() {
            add_query(again, "again", proof);
        }
    }
    let first = lookup.search_steps == 0 && !lookup.is_missing(0);
    proof.rule_out(Cause::DnsSearch, "first_name", first);
}
