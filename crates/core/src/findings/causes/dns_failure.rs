//! An answer that reports the failure of the look-up (SERVFAIL, REFUSED, FORMERR; RFC 1035 §4.1.1), or
//! an ICMP error that comes instead: nothing listens at the port, or a router has no way there.

use super::lookup::{
    FAILED, LookupRules, LookupScene, RESOLVED, add_answer, add_query, rcode_name,
};
use crate::dns::Query;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Cause, Fact, Role};
use crate::wire::dns_message::rcode;

/// How the cause is recognised in a look-up.
pub(super) const LOOKUP: LookupRules = LookupRules {
    shows: Query::is_failure,
    count: |lookup, shown| {
        let failed = lookup.queries.iter().filter(|it| it.is_failure());
        failed.filter(|it| it.server == shown.server).count() as u64
    },
    role: |query, _| match query.router {
        Some(_) => Role::Network,
        None => Role::Resolver,
    },
    prove,
    ..LookupRules::PLAIN
};

/// Returns whether a look-up failed, however quickly the failure was reported, or took long.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    case.cause.shown.count(FAILED) > 0 || case.is_broad_or_deep()
}

/// Names the resolver of look-ups that all had an answer in spite of its failures.
pub(super) fn facts(key: &Key, cause: &CauseTally, _: &EndpointTally) -> Facts {
    let recovered = cause.shown.count(FAILED) == 0 && cause.shown.count(RESOLVED) > 0;
    let resolver = Fact::Text(key.culprit.endpoint.to_string());
    recovered.then_some(("recovered", resolver)).into_iter().collect()
}

/// Proves a failure by the query, the answer, and the client's next query.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    scene.add_query_and_answer(["query", "answer"], proof);
    if let Some(next) = scene.next().filter(|next| scene.is_same(next)) {
        add_query(next, "again", proof);
        add_answer(next, if next.is_failure() { "answer" } else { "resolved" }, proof);
    }
    scene.add_common_facts(proof);
    if let Some(router) = &scene.query.router {
        proof.add_fact("router", Fact::Text(router.ip().to_string()));
    } else if scene.query.flags.is_unreachable {
        proof.add_fact("closed_port", Fact::Text(scene.query.server.to_string()));
    }
    if let Some(rcode) = scene.query.rcode {
        proof.add_fact("rcode", Fact::Text(rcode_name(rcode)));
    }
    if scene.query.rcode == Some(rcode::FORMERR) {
        proof.add_fact("misread", Fact::Text("FORMERR".into()));
    }
    let servers: std::collections::BTreeSet<_> =
        scene.lookup.queries.iter().map(|query| query.server).collect();
    if servers.len() > 1 {
        proof.add_fact("tries", Fact::Count(servers.len() as u64));
    }
    proof.rule_out(Cause::DnsTimeout, "answered", scene.query.is_answered());
    let failed = scene.query.rcode.is_some_and(|rcode| rcode != 3);
    proof.rule_out(Cause::DnsSearch, "not_nxdomain", failed);
}
