//! A query that was lost or that its server did not answer (RFC 1035 §4.2.1).

use super::lookup::{LookupRules, LookupScene, is_long_type, type_name, unanswered_queries};
use crate::dns::{Lookup, LookupOutcome, Query};
use crate::findings::proof::Proof;
use crate::model::{Cause, Fact, Role};
use crate::wire::Endpoint;
use crate::wire::dns_message::qtype;

/// How the cause is recognised in a look-up. If the server answers other queries of the same type,
/// a packet was lost on the path; if it answers none of that type, or none for some names, the server itself is at
/// fault.
pub(super) const LOOKUP: LookupRules = LookupRules {
    shows: Query::lacks_answer,
    count: unanswered_queries,
    role: |query, server| match (server.answers || query.is_cut_short()) && !server.is_local {
        true => Role::Network,
        false => Role::Resolver,
    },
    is_wait: true,
    is_silence: true,
    prove,
};

/// Returns whether the answer came after the client had repeated the query.
fn is_late(lookup: &Lookup, query: &Query) -> bool {
    let again = |other: &&Query| other.qtype == query.qtype && other.sent_ns > query.sent_ns;
    let next = lookup.queries.iter().find(again);
    next.is_some_and(|next| query.answered_ns > Some(next.sent_ns))
}

/// Proves that a server did not answer, by the query, the client's next query, and the other
/// servers that did not answer.
fn prove(scene: &LookupScene<'_>, proof: &mut Proof) {
    let (lookup, query, known) = (scene.lookup, scene.query, scene.known);
    let is_begun = query.is_cut_short() && query.first_fragment.is_some();
    let asked = if query.is_answered() || is_begun { "asked" } else { "query" };
    let part = |next: &Query| match scene.is_same(next) {
        false => "other",
        true if next.server != query.server => "next",
        true => "again",
    };
    scene.add_frames_with_next([asked, "answer"], part, proof);
    scene.add_silent_servers(proof);
    if [qtype::A, qtype::AAAA].iter().all(|it| lookup.qtypes.contains(it)) {
        proof.add_fact("both_types", Fact::Text("A and AAAA".into()));
    }
    if let Some(address) = query.refused() {
        let other = Endpoint { address, port: 0 };
        proof.add_fact("other_source", Fact::Text(other.ip().to_string()));
    } else if known.resolvers_if_isolated.is_none() && !query.is_cut_short() && known.answered == 0
    {
        if known.is_reached {
            proof.add_fact("reached", Fact::Text(query.server.ip().to_string()));
        } else if known.other_types == 0 {
            proof.add_fact("answered", Fact::Count(0));
        } else {
            proof.add_fact("others", Fact::Count(known.other_types));
            let type_name = Fact::Text(type_name(query.qtype));
            if is_long_type(query.qtype) && !query.flags.over_tcp {
                // Whether the type or the size decides is not known.
                proof.add_fact("long_type", type_name);
                let bytes = u64::from(known.longest_bytes);
                if bytes > 0 {
                    proof.add_fact("longest_bytes", Fact::Bytes(bytes));
                }
            } else {
                proof.add_fact("silent_type", type_name);
            }
        }
    }
    if let Some(by_name) = known.by_name.filter(|_| query.is_silent()) {
        proof.add_fact("silent_names", Fact::Count(by_name.silent));
        proof.add_fact("answered_names", Fact::Count(by_name.others));
        proof.add_fact("of_queries", Fact::Count(by_name.queries));
    }
    if lookup.outcome == LookupOutcome::Timeout && known.answered == 0 {
        // How soon a server would answer that never did is not known.
        proof.add_fact("unmeasured", Fact::Text(query.server.ip().to_string()));
    }
    if known.is_authoritative {
        let server = Fact::Text(query.server.ip().to_string());
        proof.add_fact("authoritative", server);
    }
    let silent = query.answered_ns.is_none() && query.refused().is_none();
    let whole = lookup.queries.iter().all(|query| !query.is_cut_short());
    let never = silent && whole && !lookup.queries.iter().any(|query| is_late(lookup, query));
    proof.rule_out(Cause::DnsSlow, "never", never);
    let alone = silent && whole && lookup.leaves_lone_queries_unanswered(query);
    let why = if alone { "alone" } else { "whole" };
    proof.rule_out(Cause::ConntrackRace, why, !lookup.conntrack_race_suspected);
    proof.rule_out(Cause::ReverseDnsTimeout, "forward", !lookup.is_reverse);
}
