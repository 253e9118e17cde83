//! Search domains tried without success before the name itself (`search`, `ndots` in
//! resolv.conf(5)).

use super::lookup::{LookupRules, LookupScene, add_answer, add_query};
use crate::dns::thresholds::SLOW_MIN_NS;
use crate::findings::proof::Proof;
use crate::model::{Cause, Fact, Role};
use crate::wire::dns_message::rcode;

/// How the cause is recognised in a look-up. The client has to change its search domains.
pub(super) const LOOKUP: LookupRules = LookupRules {
    shows: |query| query.rcode == Some(rcode::NXDOMAIN),
    role: |_, _| Role::Client,
    prove,
    ..LookupRules::PLAIN
};

/// Proves unnecessary queries by a query for a name that does not exist and the last one, for the
/// name that does.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    let (lookup, query) = (scene.lookup, scene.query);
    scene.add_query_and_answer(["query", "nxdomain"], proof);
    if let Some(hit) = lookup.hit() {
        add_query(hit, "hit", proof);
        add_answer(hit, "answer", proof);
    }
    scene.add_common_facts(proof);
    let missing = (0..lookup.search_steps).filter(|step| lookup.is_missing(*step)).count() as u64;
    proof.add_fact("tries_per_name", Fact::Count(missing));
    let last = lookup.queries.iter().max_by_key(|query| query.step);
    let of_last = lookup.queries.iter().filter(|it| last.is_some_and(|last| last.step == it.step));
    let all_missing = missing == u64::from(lookup.search_steps);
    if let Some(start_ns) = of_last.map(|query| query.sent_ns).min().filter(|_| all_missing) {
        proof.add_fact("extra_ns", Fact::Ns(start_ns.saturating_sub(lookup.start_ns)));
    }
    let denied = query.rcode == Some(rcode::NXDOMAIN);
    let failed = lookup.queries.iter().any(|query| query.is_failure());
    proof.rule_out(Cause::DnsFailure, "nxdomain", denied && !failed);
    let slowest_ns = lookup.queries.iter().map(|query| {
        query.answered_ns.map_or(u64::MAX, |at_ns| at_ns.saturating_sub(query.sent_ns))
    });
    let fast = slowest_ns.max().is_some_and(|ns| ns < SLOW_MIN_NS);
    proof.rule_out(Cause::DnsSlow, "each_fast", fast);
}
