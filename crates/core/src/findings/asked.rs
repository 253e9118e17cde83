//! Questions that were asked before. A cache answers only what it was asked before, so answers to
//! such questions are compared with each other, and answers to first questions too.

use crate::dns::thresholds::SLOW_MIN_NS;
use crate::dns::{Lookup, Query};
use crate::findings::causes::lookup;
use crate::findings::proof::Shown;
use crate::wire::Endpoint;
use std::collections::HashMap;

/// Hash of a name, and a type.
type Question = (u64, u16);

/// The first answer to each question, and how soon each server gave such answers.
#[derive(Default)]
pub(super) struct FirstAnswers {
    /// Time of the first answer by name server, ns.
    by_server: HashMap<(Endpoint, Question), u64>,
    /// Time of the first answer by client, ns.
    by_client: HashMap<([u8; 16], Question), u64>,
    /// Median time that each server took for those first answers that were quick, ns.
    first_ns: HashMap<Endpoint, u64>,
}

impl FirstAnswers {
    pub fn of(lookups: &[Lookup]) -> Self {
        let mut asked = Self::default();
        for lookup in lookups {
            for query in lookup.last_step().filter(|query| query.is_conclusive()) {
                let Some(answered_ns) = query.answered_ns else { continue };
                let question = (lookup.digest, query.qtype);
                let server = asked.by_server.entry((query.server, question));
                let first_ns = server.or_insert(answered_ns);
                *first_ns = answered_ns.min(*first_ns);
                let client = asked.by_client.entry((lookup.client, question));
                let first_ns = client.or_insert(answered_ns);
                *first_ns = answered_ns.min(*first_ns);
            }
        }
        let mut quick: HashMap<Endpoint, Vec<u64>> = HashMap::new();
        for lookup in lookups {
            for query in lookup.last_step().filter(|query| query.is_conclusive()) {
                let taken_ns = query.answered_ns.map(|at_ns| at_ns.saturating_sub(query.sent_ns));
                if let Some(taken_ns) = taken_ns.filter(|&ns| ns < SLOW_MIN_NS)
                    && !asked.is_known_to_server(lookup, query)
                {
                    quick.entry(query.server).or_default().push(taken_ns);
                }
            }
        }
        let median = |mut all: Vec<u64>| {
            let middle = all.len() / 2;
            *all.select_nth_unstable(middle).1
        };
        asked.first_ns = quick.into_iter().map(|(server, all)| (server, median(all))).collect();
        asked
    }

    /// Replaces the baseline of first questions, which is the fastest answer of the server to any
    /// question, by that of its quick answers to first questions, if it gave some.
    pub fn compare_first_with_first(&self, lookups: &mut [Lookup]) {
        for lookup in lookups {
            let first_ns = lookup.queries.iter().map(|query| self.first_ns(lookup, query));
            let first_ns: Vec<_> = first_ns.collect();
            for (query, first_ns) in lookup.queries.iter_mut().zip(first_ns) {
                query.baseline_ns = first_ns.or(query.baseline_ns);
            }
        }
    }

    /// Returns the time that the server of `query`, one of `lookup`, takes for a first question if it
    /// is quick, ns; `None` if the question is no first one, or if no quick answer is known.
    pub fn first_ns(&self, lookup: &Lookup, query: &Query) -> Option<u64> {
        let first_ns = self.first_ns.get(&query.server).copied();
        first_ns.filter(|_| !self.is_known_to_server(lookup, query))
    }

    /// Returns whether the server of `query`, one of `lookup`, had answered this question before.
    fn is_known_to_server(&self, lookup: &Lookup, query: &Query) -> bool {
        let first_ns = self.by_server.get(&(query.server, (lookup.digest, query.qtype)));
        first_ns.is_some_and(|&first_ns| first_ns <= query.sent_ns)
    }

    /// Adds up whether the question of `query`, one of `lookup`, had been answered before.
    pub fn add_up(&self, lookup: &Lookup, query: &Query, shown: &mut Shown) {
        let known = self.is_known_to_server(lookup, query);
        shown.add(lookup::ASKED_AGAIN, u64::from(known));
        let first_ns = self.by_client.get(&(lookup.client, (lookup.digest, query.qtype)));
        let known = first_ns.is_some_and(|&first_ns| first_ns <= query.sent_ns);
        shown.add(lookup::ASKED_AGAIN_BY_CLIENT, u64::from(known));
    }
}
