//! A query for the name of an address that nobody answered (RFC 1035 §3.5).

use super::lookup::{LookupRules, LookupScene, unheard};
use crate::dns::Query;
use crate::findings::proof::Proof;
use crate::model::Cause;

/// Rule for recognising it in a look-up.
pub(super) const LOOKUP: LookupRules = LookupRules {
    shows: Query::lacks_answer,
    count: unheard,
    is_wait: true,
    is_silence: true,
    prove,
    ..LookupRules::PLAIN
};

/// Proves a silent server: the query, and what the client asked next.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    scene.see(["query", "answer"], proof);
    scene.tell_silent_others(proof);
    let silent = scene.query.answered_ns.is_none();
    proof.not(Cause::DnsTimeout, "ptr_only", scene.known.answered == 0 && silent);
}
