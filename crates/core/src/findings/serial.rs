//! Servers that work on one request at a time, or on a few.
//!
//! A server with one worker, with a lock around its work or with a limit of its rate takes waiting
//! requests one at a time: each answer follows the one before by the same time, its *turn*. What a
//! request waits beyond its turn is a queue, and no work on that request.
//!
//! A server that works on many requests at a time also answers at equal distances, if the requests
//! come at equal distances. So the turn is measured between requests that came together: their
//! distance is less than half of that of their answers. By chance the distance of two answers is
//! within an eighth of another one (`ALIKE_PART`) at most once in eight times, and four distances
//! are alike at most once in 512 (one of them is the median). All other requests that came together
//! have to agree as well, most of them: two workers have two answers at a time, so half of the
//! distances are short.
//!
//! With `n` workers that take requests in order, a request is taken up once all but `n` - 1 of those
//! before it have been answered. If that is so, the times from there to the answers, the *work*, are
//! alike, though the waits are not: those of requests that found a worker free, and those of the
//! others. With another `n` they are not, since the waits differ by whole amounts of work.

use crate::app::ErrorCode;
use crate::findings::nested::Nested;
use crate::findings::tally::{EndpointTally, Tally, Wait};
use crate::findings::thresholds::COST_MIN_NS;
use crate::judge::thresholds::{ALIKE_PART, AT_ONCE_PART, HABIT_MIN};
use crate::model::{Cause, Fact, Finding, Prediction};

/// HTTP statuses of a request that a limit refuses (RFC 6585 §4, RFC 9110 §15.6.4).
const REFUSING: [u16; 2] = [429, 503];

/// The turns of a server that answers one request after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turns {
    /// Median distance of the answers, ns.
    turn_ns: u64,
    /// Number of answers that came a turn after the one before, to requests that waited already.
    count: u64,
    /// No answer came later than a turn after the one before: the server never paused.
    is_busy: bool,
}

/// The workers of a server that works on a few requests at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Workers {
    /// Number of requests that it works on at a time.
    count: u64,
    /// Median time of the work on one request, ns.
    work_ns: u64,
    /// Number of requests that waited for a worker.
    queued: u64,
    /// Number of requests whose work took another time.
    odd: usize,
}

/// How a request would have been taken up by a number of workers.
#[derive(Clone, Copy)]
struct Taken {
    /// Time for which it waited for a worker, ns.
    delay_ns: u64,
    /// Time from then to its answer, ns.
    work_ns: u64,
}

/// Two answers of which the second follows the first.
#[derive(Clone, Copy)]
struct AnswerPair<'a> {
    before: &'a Wait,
    next: &'a Wait,
}

impl AnswerPair<'_> {
    /// Returns the distance of the answers, ns.
    fn gap_ns(self) -> u64 {
        self.next.answered_ns - self.before.answered_ns
    }

    /// Returns whether the second request waited when the first was answered.
    fn waits(self) -> bool {
        self.next.asked_ns <= self.before.answered_ns
    }

    /// Returns whether the second request waited, and came less than half of `gap_ns` before or
    /// after the first.
    fn is_together(self, gap_ns: u64) -> bool {
        self.waits() && 2 * self.next.asked_ns.abs_diff(self.before.asked_ns) < gap_ns
    }

    fn is_alike(self, turn_ns: u64) -> bool {
        self.gap_ns().abs_diff(turn_ns) <= turn_ns / ALIKE_PART
    }
}

impl Wait {
    /// Time from the request to the answer, ns.
    pub(in crate::findings) fn wait_ns(&self) -> u64 {
        self.answered_ns.saturating_sub(self.asked_ns)
    }
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

impl Turns {
    /// Finds the turns in the waits for a server; `None` if it works on many requests at a time, or
    /// if that is unknown.
    fn of(waits: &[Wait]) -> Option<Self> {
        let mut answers: Vec<_> = waits.iter().collect();
        answers.sort_by_key(|it| (it.answered_ns, it.asked_ns));
        let steps: Vec<_> =
            answers.windows(2).map(|it| AnswerPair { before: it[0], next: it[1] }).collect();
        let together: Vec<_> = steps.iter().filter(|it| it.is_together(it.gap_ns())).collect();
        let turn_ns = median(together.iter().map(|it| it.gap_ns()).collect());
        let odd = together.iter().filter(|it| !it.is_alike(turn_ns)).count();
        let wait_ns = median(together.iter().map(|it| it.next.wait_ns()).collect());
        let is_turn = together.len() > HABIT_MIN as usize
            && turn_ns >= COST_MIN_NS
            && odd <= together.len() / AT_ONCE_PART as usize
            && wait_ns > 2 * turn_ns;
        if !is_turn {
            return None;
        }
        // Short work at a server with one worker leaves a short distance as well.
        let near = steps.iter().filter(|it| it.is_together(turn_ns));
        let near: Vec<_> = near.collect();
        let alike = near.iter().filter(|it| it.is_alike(turn_ns)).count();
        let in_turn = || steps.iter().filter(|it| it.waits() && it.is_alike(turn_ns));
        let in_turn_ns: u64 = in_turn().map(|it| it.next.wait_ns()).sum();
        let all_ns: u64 = waits.iter().map(Wait::wait_ns).sum();
        let latest_ns = turn_ns + turn_ns / ALIKE_PART;
        (3 * alike > 2 * near.len() && 2 * in_turn_ns > all_ns).then(|| Self {
            turn_ns,
            count: in_turn().count() as u64,
            is_busy: steps.iter().all(|it| it.gap_ns() <= latest_ns),
        })
    }
}

impl Workers {
    /// Finds the workers in the waits for a server; `None` if nobody waited for them, or if their
    /// number is unknown.
    fn of(waits: &[Wait]) -> Option<Self> {
        let mut requests: Vec<_> = waits.iter().collect();
        requests.sort_by_key(|it| (it.asked_ns, it.answered_ns));
        let mut answers: Vec<_> = waits.iter().map(|it| it.answered_ns).collect();
        answers.sort_unstable();
        let counts = 2..=requests.len() / 2;
        let fitting = counts.filter_map(|count| Self::with(count, &requests, &answers));
        fitting.min_by_key(|it| (it.odd, it.count))
    }

    /// Returns the workers if there are `count` of them; `None` if the times contradict that. Requests
    /// that are answered at once, or nearly so, hold no worker.
    fn with(count: usize, requests: &[&Wait], answers: &[u64]) -> Option<Self> {
        let free_ns = |at: usize| at.checked_sub(count).map_or(0, |before| answers[before]);
        let taken = |(at, wait): (usize, &&Wait)| {
            let begun_ns = wait.asked_ns.max(free_ns(at));
            let [delay_ns, work_ns] =
                [begun_ns - wait.asked_ns, wait.answered_ns.saturating_sub(begun_ns)];
            Taken { delay_ns, work_ns }
        };
        let mut all: Vec<_> = requests.iter().enumerate().map(taken).collect();
        let longest_ns = all.iter().map(|it| it.work_ns).max().unwrap_or(0);
        let long = all.iter().map(|it| it.work_ns).filter(|ns| *ns > longest_ns / ALIKE_PART);
        let work_ns = median(long.collect());
        all.retain(|it| it.delay_ns.max(it.work_ns) > work_ns / ALIKE_PART);
        let (queued, at_once): (Vec<_>, Vec<_>) =
            all.iter().partition(|it| it.delay_ns > work_ns / ALIKE_PART);
        let odd = |of: &[Taken]| {
            of.iter().filter(|it| it.work_ns.abs_diff(work_ns) > work_ns / ALIKE_PART).count()
        };
        let few = |of: &[Taken]| odd(of) <= of.len() / AT_ONCE_PART as usize;
        let fits = work_ns >= COST_MIN_NS
            && 2 * queued.len() >= all.len()
            && queued.len() >= 2 * HABIT_MIN as usize
            && few(&all)
            && few(&at_once);
        let (count, queued) = (count as u64, queued.len() as u64);
        fits.then(|| Self { count, work_ns, queued, odd: odd(&all) })
    }

    /// Adds what is known of the workers to the finding about their server.
    fn explain(self, finding: &mut Finding) {
        finding.facts.push(("workers", Fact::Count(self.count)));
        finding.facts.push(("work_ns", Fact::Ns(self.work_ns)));
        finding.facts.push(("turn_ns", Fact::Ns(self.work_ns / self.count)));
        finding.facts.push(("queued", Fact::Count(self.queued)));
    }
}

/// Adds the turns to the findings about servers that answer one request after the other, and the
/// workers to those about servers that work on a few at a time. A proxy that waits for another server, as
/// `nested` or its finding says, has the turns of that. If a server with turns never paused, its last
/// answer comes no sooner with a longer queue of its listener.
pub(super) fn settle(findings: &mut [Finding], tally: &Tally, nested: &[Nested]) {
    for finding in findings {
        let server = finding.culprit.endpoint;
        let is_about_waits =
            matches!(finding.cause, Cause::ServerThink | Cause::AcceptQueueOverflow);
        let waits_for_other = nested.iter().any(|it| it.server == server)
            || finding.facts.iter().any(|(name, _)| *name == "behind");
        if !is_about_waits || waits_for_other {
            continue;
        }
        let Some(endpoint) = tally.endpoints.get(&server) else { continue };
        let Some(turns) = Turns::of(endpoint.waits.all()) else {
            let workers = Workers::of(endpoint.waits.all());
            if let Some(workers) = workers.filter(|_| finding.cause == Cause::ServerThink) {
                workers.explain(finding);
            }
            continue;
        };
        if finding.cause == Cause::AcceptQueueOverflow {
            if turns.is_busy && !endpoint.waits.is_full() {
                finding.counterfactual = Prediction::exactly(finding.latency);
                finding.facts.push(("turn_ns", Fact::Ns(turns.turn_ns)));
            }
            continue;
        }
        finding.facts.push(("turn_ns", Fact::Ns(turns.turn_ns)));
        finding.facts.push(("in_turn", Fact::Count(turns.count)));
        let limited = limited(endpoint);
        finding.facts.extend((limited > 0).then_some(("limited", Fact::Count(limited))));
    }
}

/// Returns the number of requests that a limit may have refused.
fn limited(endpoint: &EndpointTally) -> u64 {
    let codes = endpoint.all.outcomes.codes();
    let refused = codes
        .iter()
        .filter(|(code, _)| matches!(code, ErrorCode::Http(status) if REFUSING.contains(status)));
    refused.map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the turns of a server with these times of requests and answers, ms.
    fn turns(times_ms: impl IntoIterator<Item = (u64, u64)>) -> Option<Turns> {
        Turns::of(&waits(times_ms))
    }

    fn waits(times_ms: impl IntoIterator<Item = (u64, u64)>) -> Vec<Wait> {
        let wait = |(from_ms, to_ms)| Wait {
            began_ns: from_ms * MS,
            asked_ns: from_ms * MS,
            answered_ns: to_ms * MS,
            ended_ns: to_ms * MS,
            busy_ns: (to_ms - from_ms) * MS,
            count: 1,
            client: [1; 16],
            kind: 0,
            client_port: 1,
            streams: false,
            at_server: true,
            at_client: false,
        };
        times_ms.into_iter().map(wait).collect()
    }

    /// Returns the times of `count` requests, each `apart_ms` after the one before, to a server with
    /// so many workers that take 400 ms for each.
    fn burst(count: u64, apart_ms: u64, workers: u64) -> impl Iterator<Item = (u64, u64)> {
        (0..count).map(move |at| (at * apart_ms, 1_000 + at % workers + at / workers * 400))
    }

    #[test]
    fn requests_that_come_together_are_answered_one_after_the_other() {
        let found = Turns { turn_ns: 400 * MS, count: 5, is_busy: true };
        assert_eq!(turns(burst(6, 10, 1)), Some(found));
        assert_eq!(turns(burst(4, 10, 1)), None, "three distances may be chance");
        let paused = burst(6, 10, 1).chain([(9_000, 9_400)]);
        assert_eq!(turns(paused), Some(Turns { is_busy: false, ..found }));
        let health = burst(6, 10, 1).chain([(2_990, 3_001)]);
        assert_eq!(turns(health), Some(found), "short work of one worker");
    }

    /// Negative twins.
    #[test]
    fn answers_at_equal_distances_of_a_server_that_works_on_many_requests() {
        let evenly = |wait_ms| (0..20).map(move |at| (400 * at, 400 * at + wait_ms));
        assert_eq!(turns(evenly(2_500)), None, "requests come at the distance of the answers");
        for workers in [2, 3] {
            for apart_ms in [0, 1, 10] {
                assert_eq!(turns(burst(24, apart_ms, workers)), None, "{workers}, {apart_ms} ms");
            }
        }
        let differing = [300, 520, 900, 1_080, 1_700, 1_790, 2_400];
        assert_eq!(turns(differing.map(|ms| (0, ms))), None);
    }

    /// Returns the number of workers and of requests that waited for one.
    fn workers(times_ms: impl IntoIterator<Item = (u64, u64)>) -> Option<(u64, u64)> {
        Workers::of(&waits(times_ms)).map(|it| (it.count, it.queued))
    }

    #[test]
    fn workers_are_counted_by_the_times_of_their_work() {
        for count in [2, 3, 4, 8] {
            let all = 5 * count;
            let at_work = burst(all, 1, count).map(|(asked, answered)| (asked, answered - 600));
            assert_eq!(workers(at_work), Some((count, all - count)), "{count}");
        }
        // Each of eight clients asks again at once: most of the waits are alike.
        let again = (0..8).map(|at| (0, 400 * (at / 2 + 1)));
        let later = (8..40).map(|at| (400 * (at / 2 - 3), 400 * (at / 2 + 1)));
        let again = again.chain(later);
        assert_eq!(workers(again.clone()), Some((2, 38)));
        let logins = (0..8).map(|at| (at, at + 20));
        let later = again.map(|(asked, answered)| (asked + 100, answered + 100));
        assert_eq!(workers(logins.chain(later)), Some((2, 38)), "logins hold no worker");
    }

    /// Negative twins.
    #[test]
    fn waits_that_no_number_of_workers_explains() {
        let differing = [300, 520, 900, 1_080, 1_700, 1_790, 2_400, 2_410, 2_950, 3_300];
        assert_eq!(workers(differing.map(|ms| (0, ms))), None, "own times");
        assert_eq!(workers((0..20).map(|at| (at, at + 400))), None, "all at a time");
        assert_eq!(workers((0..20).map(|at| (at, 4_000))), None, "shared by all");
        let steady = (0..40).map(|at| (100 * at, 100 * at + 800));
        assert_eq!(workers(steady), None, "the beginning is not captured");
        let few = burst(6, 0, 3).map(|(asked, answered)| (asked, answered - 600));
        assert_eq!(workers(few), None, "three waits may be chance");
    }

    #[test]
    fn a_few_requests_in_turn_do_not_explain_the_other_waits() {
        let others = (0..20).map(|at| (10_000 * at + 50_000, 10_000 * at + 52_000));
        assert_eq!(turns(burst(6, 10, 1).chain(others)), None);
    }
}
