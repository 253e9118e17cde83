//! A slow answer of the resolver.

use super::lookup::{LookupRules, LookupScene};
use crate::findings::proof::Proof;
use crate::model::Cause;

/// How the cause is recognised in a look-up.
pub(super) const LOOKUP: LookupRules = LookupRules {
    shows: |query| query.answered_ns.is_some() && !query.is_failure(),
    is_wait: true,
    prove,
    ..LookupRules::PLAIN
};

/// Proves a late answer by the query and the answer.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    scene.add_frames(["query", "answer"], proof);
    let (lookup, query) = (scene.lookup, scene.query);
    let asked_once = scene.next().is_none_or(|next| next.qtype != query.qtype);
    proof.rule_out(Cause::DnsTimeout, "answered", query.answered_ns.is_some() && asked_once);
    let first = lookup.search_steps == 0 && !lookup.is_missing(0);
    proof.rule_out(Cause::DnsSearch, "first_name", first);
}
