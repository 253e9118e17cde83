//! An answer that reports the failure of the look-up (SERVFAIL, REFUSED; RFC 1035 §4.1.1).

use super::lookup::{FAILED, LookupRules, LookupScene};
use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::model::{Cause, Fact};

/// How the cause is recognised in a look-up.
pub(super) const LOOKUP: LookupRules = LookupRules { prove, ..LookupRules::PLAIN };

/// Returns whether a look-up failed, however quickly the failure was reported, or took long.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    case.cause.shown.count(FAILED) > 0 || case.is_broad_or_deep()
}

/// Proves a failure by the query, the answer, and the client's next query.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    scene.add_frames(["query", "answer"], proof);
    if let Some(rcode) = scene.query.rcode {
        proof.add_fact("rcode", Fact::Text(rcode_name(rcode)));
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

/// Returns the mnemonic of a response code (RFC 1035 §4.1.1).
fn rcode_name(rcode: u8) -> String {
    match rcode {
        1 => "FORMERR".into(),
        2 => "SERVFAIL".into(),
        4 => "NOTIMP".into(),
        5 => "REFUSED".into(),
        other => format!("RCODE {other}"),
    }
}
