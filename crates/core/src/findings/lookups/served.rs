//! Properties of name servers that follow from their answers: how fast they are, and whether they are resolvers.

use crate::dns::{Lookup, Query};
use crate::wire::Endpoint;
use std::collections::HashMap;

/// The answers of name servers.
pub(super) struct Served(HashMap<Endpoint, Answers>);

/// The answers of one name server.
struct Answers {
    /// Time of the fastest that was no failure, ns; `u64::MAX` if there is none.
    fastest_ns: u64,
    /// Time of the slowest, ns.
    slowest_ns: u64,
    /// Greatest length of those over UDP that were no failures, bytes.
    longest_bytes: u32,
    /// One was no failure.
    are_conclusive: bool,
    /// One of these offers recursion (RFC 1035 §4.1.1).
    recurses: bool,
}

impl Served {
    pub fn of(lookups: &[Lookup]) -> Self {
        let mut all = HashMap::new();
        let queries = lookups.iter().flat_map(|lookup| &lookup.queries);
        for query in queries.filter(|query| query.is_answered()) {
            all.entry(query.server).or_insert_with(Answers::none).add(query);
        }
        Self(all)
    }

    /// Time of the fastest answer of `server` that was no failure, ns; `None` if there is none.
    pub fn fastest_ns(&self, server: Endpoint) -> Option<u64> {
        self.0.get(&server).map(|it| it.fastest_ns).filter(|&ns| ns < u64::MAX)
    }

    /// Time of the slowest answer of `server`, ns; `None` if there is none.
    pub fn slowest_ns(&self, server: Endpoint) -> Option<u64> {
        self.0.get(&server).map(|it| it.slowest_ns)
    }

    /// Returns whether `server` answers only what it knows itself: it is no resolver.
    pub fn is_authoritative(&self, server: Endpoint) -> bool {
        self.0.get(&server).is_some_and(|it| it.are_conclusive && !it.recurses)
    }

    /// Greatest length of an answer of `server` over UDP, bytes; 0 if there is none.
    pub fn longest_bytes(&self, server: Endpoint) -> u32 {
        self.0.get(&server).map_or(0, |it| it.longest_bytes)
    }
}

impl Answers {
    fn none() -> Self {
        Self {
            fastest_ns: u64::MAX,
            slowest_ns: 0,
            longest_bytes: 0,
            are_conclusive: false,
            recurses: false,
        }
    }

    fn add(&mut self, query: &Query) {
        let took_ns = query.answered_ns.map_or(0, |ns| ns.saturating_sub(query.sent_ns));
        self.slowest_ns = self.slowest_ns.max(took_ns);
        if !query.is_failure() {
            self.fastest_ns = self.fastest_ns.min(took_ns);
        }
        if query.is_conclusive() {
            self.are_conclusive = true;
            self.recurses |= !query.flags.lacks_recursion;
            if !query.flags.over_tcp {
                self.longest_bytes = self.longest_bytes.max(query.answer_bytes);
            }
        }
    }
}
