//! Questions that were asked before. A cache answers only what it was asked before, so answers to
//! such questions are compared with each other, and answers to first questions too.

use crate::dns::thresholds::SLOW_MIN_NS;
use crate::dns::{Lookup, Query};
use crate::findings::causes::lookup;
use crate::findings::proof::Shown;
use crate::judge::thresholds::AT_ONCE_PART;
use crate::wire::Endpoint;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Hash of a name, and a type.
type Question = (u64, u16);

/// One second, ns.
const S: u64 = 1_000_000_000;

/// The first answer to each question, and how soon each server gave such answers.
#[derive(Default)]
pub(super) struct FirstAnswers {
    /// Times of each question of a server.
    by_server: HashMap<(Endpoint, Question), Times>,
    /// How long the answers to each question of a server, and of a client, may be kept.
    kept: Kept,
    /// Median time that each server took for those first answers that were quick, ns.
    first_ns: HashMap<Endpoint, u64>,
}

/// The times of one question of a server.
struct Times {
    /// That of the first answer, ns.
    first_ns: u64,
    /// Those of each time that it was asked, and of the answer to that, ns.
    all: Vec<(u64, u64)>,
}

impl FirstAnswers {
    pub fn of(lookups: &[Lookup]) -> Self {
        let mut asked = Self::default();
        for lookup in lookups {
            for query in lookup.last_step().filter(|query| query.is_conclusive()) {
                let Some(answered_ns) = query.answered_ns else { continue };
                let question = (lookup.digest, query.qtype);
                let times = asked.by_server.entry((query.server, question));
                let times =
                    times.or_insert_with(|| Times { first_ns: answered_ns, all: Vec::new() });
                times.first_ns = answered_ns.min(times.first_ns);
                times.all.push((query.sent_ns, answered_ns));
                asked.kept.add(digest_of(&query.server, question), answered_ns, query.ttl_s);
                asked.kept.add(digest_of(&lookup.client, question), answered_ns, query.ttl_s);
            }
        }
        asked.kept.settle();
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

    /// Returns whether the server of `query`, one of `lookup`, had answered this question before, and may
    /// have kept that answer until then. Once the answer has expired, it has to ask others again.
    fn is_known_to_server(&self, lookup: &Lookup, query: &Query) -> bool {
        let times = self.by_server.get(&(query.server, (lookup.digest, query.qtype)));
        let is_known = times.is_some_and(|times| times.first_ns <= query.sent_ns);
        is_known && self.at_server(lookup, query) != Some(Age::Expired)
    }

    /// Returns what a cache of the server of `query`, one of `lookup`, had of the question.
    fn at_server(&self, lookup: &Lookup, query: &Query) -> Option<Age> {
        let question = digest_of(&query.server, (lookup.digest, query.qtype));
        self.kept.age(question, query.sent_ns)
    }

    /// Returns whether the server of `query`, one of `lookup`, had to ask others: the same question, asked
    /// again before as much time had passed as the answer took, was answered at once. The load of a
    /// server does not go in that time.
    fn is_cache_miss(&self, lookup: &Lookup, query: &Query) -> bool {
        let Some(answered_ns) = query.answered_ns else { return false };
        let times = self.by_server.get(&(query.server, (lookup.digest, query.qtype)));
        times.is_some_and(|it| is_quick_right_after(&it.all, (query.sent_ns, answered_ns)))
    }

    /// Adds up whether the question of `query`, one of `lookup`, had been answered before, and whether a
    /// cache may still have had that answer (RFC 1035 §3.2.1).
    pub fn add_up(&self, lookup: &Lookup, query: &Query, shown: &mut Shown) {
        let at_server = self.at_server(lookup, query);
        shown.add(lookup::ASKED_AGAIN, u64::from(at_server == Some(Age::Valid)));
        shown.add(lookup::EXPIRED, u64::from(at_server == Some(Age::Expired)));
        shown.add(lookup::CACHE_MISSES, u64::from(self.is_cache_miss(lookup, query)));
        let question = digest_of(&lookup.client, (lookup.digest, query.qtype));
        let is_valid = self.kept.age(question, query.sent_ns) == Some(Age::Valid);
        shown.add(lookup::ASKED_AGAIN_BY_CLIENT, u64::from(is_valid));
    }
}

/// Whether a cache may still have an earlier answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// Its TTL had not passed.
    Valid,
    /// Its TTL had passed.
    Expired,
}

/// Returns the hash of a question and the host that is asked, or asks.
fn digest_of(host: &impl Hash, question: Question) -> u64 {
    let mut hasher = DefaultHasher::new();
    (host, question).hash(&mut hasher);
    hasher.finish()
}

/// How long a cache may keep the answers to each question of a host.
#[derive(Default)]
struct Kept {
    /// The question's hash, when each answer came, and until when one of these may be kept, ns; once they are
    /// settled in this order, each with the latest end so far of its question.
    until_ns: Vec<(u64, u64, u64)>,
}

impl Kept {
    /// Adds an answer to `question` by its time, ns, and its TTL, s, if that is known.
    fn add(&mut self, question: u64, answered_ns: u64, ttl_s: Option<u32>) {
        let Some(ttl_s) = ttl_s else { return };
        let ttl_ns = u64::from(ttl_s) * S;
        self.until_ns.push((question, answered_ns, answered_ns.saturating_add(ttl_ns)));
    }

    fn settle(&mut self) {
        self.until_ns.sort_unstable();
        let mut latest = (0, 0);
        for (question, _, until_ns) in &mut self.until_ns {
            let of_question = if latest.0 == *question { latest.1 } else { 0 };
            *until_ns = of_question.max(*until_ns);
            latest = (*question, *until_ns);
        }
    }

    /// Returns what had become at `at_ns` of the answers to `question` before; `None` if no TTL of one is known.
    fn age(&self, question: u64, at_ns: u64) -> Option<Age> {
        let is_before = |&(of, answered_ns, _): &_| (of, answered_ns) <= (question, at_ns);
        let before = self.until_ns.partition_point(is_before);
        let (of, _, until_ns) = *self.until_ns.get(before.checked_sub(1)?)?;
        let age = if at_ns < until_ns { Age::Valid } else { Age::Expired };
        (of == question).then_some(age)
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
    fn an_answer_is_kept_until_its_ttl_has_passed() {
        let mut kept = Kept::default();
        let answers = [(9 * S, Some(1)), (2 * S, Some(4)), (3 * S, Some(1)), (20 * S, None)];
        answers.into_iter().for_each(|(at_ns, ttl_s)| kept.add(7, at_ns, ttl_s));
        kept.add(6, S, Some(100));
        kept.settle();
        let ages = [S, 2 * S, 6 * S - 1, 6 * S, 9 * S, 21 * S].map(|at_ns| kept.age(7, at_ns));
        let [valid, expired] = [Some(Age::Valid), Some(Age::Expired)];
        assert_eq!(ages, [None, valid, valid, expired, valid, expired]);
    }

    #[test]
    fn a_question_asked_again_at_once_and_answered_at_once_was_not_cached_before() {
        assert!(is_miss(1, 1));
        assert!(!is_miss(1, 100), "slow again: it may be load");
        assert!(!is_miss(900, 1), "later: the load may be gone");
    }
}
