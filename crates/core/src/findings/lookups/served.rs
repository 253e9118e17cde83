//! What the answers of each name server show of it.

use crate::dns::Lookup;
use crate::wire::Endpoint;
use std::collections::HashMap;

/// The answers of name servers.
pub(super) struct Served(HashMap<Endpoint, Answers>);

/// The answers of one name server that were no failures.
#[derive(Default)]
struct Answers {
    /// One of them offers recursion (RFC 1035 §4.1.1).
    recurses: bool,
    /// Greatest length over UDP, bytes.
    longest_bytes: u32,
}

impl Served {
    pub fn of(lookups: &[Lookup]) -> Self {
        let mut all: HashMap<_, Answers> = HashMap::new();
        let queries = lookups.iter().flat_map(|lookup| &lookup.queries);
        for query in queries.filter(|query| query.is_answered() && query.is_conclusive()) {
            let answers = all.entry(query.server).or_default();
            answers.recurses |= !query.flags.lacks_recursion;
            if !query.flags.over_tcp {
                answers.longest_bytes = answers.longest_bytes.max(query.answer_bytes);
            }
        }
        Self(all)
    }

    /// Returns whether `server` answers only what it knows itself: it is no resolver.
    pub fn is_authoritative(&self, server: Endpoint) -> bool {
        self.0.get(&server).is_some_and(|it| !it.recurses)
    }

    /// Greatest length of an answer of `server` over UDP, bytes; 0 if there is none.
    pub fn longest_bytes(&self, server: Endpoint) -> u32 {
        self.0.get(&server).map_or(0, |it| it.longest_bytes)
    }
}

/// Returns the time of the fastest answer of each server that was no failure, ns.
pub(super) fn fastest(lookups: &[Lookup]) -> HashMap<Endpoint, u64> {
    let mut fastest_ns = HashMap::new();
    let queries = lookups.iter().flat_map(|lookup| &lookup.queries);
    for query in queries.filter(|query| query.is_answered() && !query.is_failure()) {
        let Some(answered_ns) = query.answered_ns else { continue };
        let taken_ns = answered_ns.saturating_sub(query.sent_ns);
        let least_ns = fastest_ns.entry(query.server).or_insert(taken_ns);
        *least_ns = taken_ns.min(*least_ns);
    }
    fastest_ns
}

/// Returns the time of the slowest answer of each server, ns.
pub(super) fn slowest(lookups: &[Lookup]) -> HashMap<Endpoint, u64> {
    let mut slowest_ns = HashMap::new();
    for query in lookups.iter().flat_map(|lookup| &lookup.queries).filter(|it| it.is_answered()) {
        let Some(answered_ns) = query.answered_ns else { continue };
        let most_ns: &mut u64 = slowest_ns.entry(query.server).or_default();
        *most_ns = (*most_ns).max(answered_ns.saturating_sub(query.sent_ns));
    }
    slowest_ns
}
