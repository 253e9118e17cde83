//! A query for the name of an address that nobody answered (RFC 1035 §3.5).

use super::lookup::{LookupRules, LookupScene, unanswered_queries};
use crate::dns::Query;
use crate::findings::proof::Proof;
use crate::model::{Cause, Fact};

/// How the cause is recognised in a look-up.
pub(super) const LOOKUP: LookupRules = LookupRules {
    shows: Query::lacks_answer,
    count: unanswered_queries,
    is_wait: true,
    is_silence: true,
    prove,
    ..LookupRules::PLAIN
};

/// Proves that a server did not answer, by the query and the client's next query.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    scene.add_frames(["query", "answer"], proof);
    scene.add_silent_servers(proof);
    if scene.lookup.is_private {
        proof.add_fact("private", Fact::Text("a private address".into()));
    }
    let silent = scene.query.answered_ns.is_none();
    proof.rule_out(Cause::DnsTimeout, "ptr_only", scene.known.answered == 0 && silent);
}
