//! Questions that were asked before. A cache answers only what it was asked before, so answers to
//! such questions are compared with each other, and answers to first questions too.

use crate::dns::thresholds::SLOW_MIN_NS;
use crate::dns::{Lookup, Query};
use crate::findings::causes::lookup;
use crate::findings::proof::Shown;
use crate::judge::thresholds::AT_ONCE_PART;
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
    /// Times of each question of a server and its answer, ns.
    all: HashMap<(Endpoint, Question), Vec<(u64, u64)>>,
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
                let all = asked.all.entry((query.server, question)).or_default();
                all.push((query.sent_ns, answered_ns));
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

    /// Returns whether the server of `query`, one of `lookup`, had to ask others: the same question, asked
    /// again before as much time had passed as the answer took, was answered at once. The load of a
    /// server does not go in that time.
    fn is_cache_miss(&self, lookup: &Lookup, query: &Query) -> bool {
        let Some(answered_ns) = query.answered_ns else { return false };
        let all = self.all.get(&(query.server, (lookup.digest, query.qtype)));
        all.is_some_and(|all| is_quick_right_after(all, (query.sent_ns, answered_ns)))
    }

    /// Adds up whether the question of `query`, one of `lookup`, had been answered before.
    pub fn add_up(&self, lookup: &Lookup, query: &Query, shown: &mut Shown) {
        let known = self.is_known_to_server(lookup, query);
        shown.add(lookup::ASKED_AGAIN, u64::from(known));
        shown.add(lookup::CACHE_MISSES, u64::from(self.is_cache_miss(lookup, query)));
        let first_ns = self.by_client.get(&(lookup.client, (lookup.digest, query.qtype)));
        let known = first_ns.is_some_and(|&first_ns| first_ns <= query.sent_ns);
        shown.add(lookup::ASKED_AGAIN_BY_CLIENT, u64::from(known));
    }
}

/// Returns whether one of `all`, the times of a question and its answer, was asked right after the one from
/// `sent_ns` to `answered_ns` and took far less, ns.
fn is_quick_right_after(all: &[(u64, u64)], (sent_ns, answered_ns): (u64, u64)) -> bool {
    let taken_ns = answered_ns.saturating_sub(sent_ns);
    let right_after = answered_ns..=answered_ns.saturating_add(taken_ns);
    all.iter().any(|(again_ns, at_ns)| {
        right_after.contains(again_ns) && at_ns.saturating_sub(*again_ns) <= taken_ns / AT_ONCE_PART
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns whether an answer after 240 ms is shown to be a cache miss by the same question, asked again
    /// `pause_ms` later and answered after `again_ms`.
    fn is_miss(pause_ms: u64, again_ms: u64) -> bool {
        let asked_ns = (240 + pause_ms) * MS;
        let times = vec![(0, 240 * MS), (asked_ns, asked_ns + again_ms * MS)];
        is_quick_right_after(&times, (0, 240 * MS))
    }

    #[test]
    fn a_question_asked_again_at_once_and_answered_at_once_was_not_cached_before() {
        assert!(is_miss(1, 1));
        assert!(!is_miss(1, 100), "slow again: it may be load");
        assert!(!is_miss(900, 1), "later: the load may be gone");
    }
}
