//! The time in which a server waited for others: as many of the requests that it owes an answer wait as
//! it has requests of its own in progress.

use super::elsewhere::Work;
use crate::findings::tally::Wait;
use crate::judge::thresholds::AT_ONCE_PART;
use crate::wire::Endpoint;
use std::collections::BTreeMap;

/// Weight of a request that is in progress all the time.
const WHOLE: u64 = 1 << 10;

/// The time in which a server waited for others.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// The other servers, with the part of each, ns.
    pub parts: BTreeMap<Endpoint, u64>,
    /// Sum of the waits for the server itself, ns.
    pub outer_ns: u64,
    /// Number of requests that it has in progress there at a time, if others have to wait for one of
    /// these to end.
    pub pool: Option<u64>,
    /// Time for which these waited, ns.
    pub queued_ns: u64,
}

impl Covered {
    /// Returns the time of all other servers, ns.
    pub(super) fn inner_ns(&self) -> u64 {
        self.parts.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// A change of what is in progress.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    time_ns: u64,
    begins: bool,
    /// The other server that is asked, and the weight of the request; `None` for a request to the server
    /// itself.
    to: Option<(Endpoint, u64)>,
}

/// What is in progress at a time.
#[derive(Default)]
struct State {
    owed: u64,
    /// Number of requests to others.
    asked: u64,
    /// Sum of their weights by server.
    weights: BTreeMap<Endpoint, u64>,
}

impl State {
    fn apply(&mut self, step: &Step) {
        let change = |of: &mut u64, by: u64| {
            *of = if step.begins { *of + by } else { of.saturating_sub(by) };
        };
        match step.to {
            None => change(&mut self.owed, 1),
            Some((server, weight)) => {
                change(&mut self.asked, 1);
                change(self.weights.entry(server).or_default(), weight);
            }
        }
    }
}

fn steps(outer: &[&Wait], inner: &[&Work]) -> Vec<Step> {
    let step = |time_ns, begins, to| Step { time_ns, begins, to };
    let mut steps = Vec::new();
    for wait in outer {
        steps.extend([step(wait.asked_ns, true, None), step(wait.worked_until_ns(), false, None)]);
    }
    for work in inner {
        let to = Some((work.to, work.weight(WHOLE)));
        steps.extend([step(work.began_ns, true, to), step(work.ended_ns, false, to)]);
    }
    steps.sort_unstable();
    steps
}

/// Adds up the time in which `outer` waited for `inner`.
pub(super) fn cover(outer: &[&Wait], inner: &[&Work]) -> Covered {
    let steps = steps(outer, inner);
    let (mut state, mut most) = (State::default(), 0);
    for step in &steps {
        state.apply(step);
        most = most.max(state.asked);
    }
    let mut state = State::default();
    let mut covered = Covered::default();
    let mut last_ns = steps.first().map_or(0, |step| step.time_ns);
    // Time in which others wait while as many requests as ever are in progress, and while fewer are, ns.
    let (mut full_ns, mut free_ns) = (0_u64, 0_u64);
    for step in steps {
        let past_ns = step.time_ns - last_ns;
        let mut rest = state.owed.saturating_mul(WHOLE);
        for (&server, &weight) in &state.weights {
            let waiting = weight.min(rest);
            rest -= waiting;
            let ns = past_ns.saturating_mul(waiting) / WHOLE;
            let part = covered.parts.entry(server).or_default();
            *part = part.saturating_add(ns);
        }
        let others_ns = past_ns.saturating_mul(state.owed.saturating_sub(state.asked));
        let sum = if state.asked >= most { &mut full_ns } else { &mut free_ns };
        *sum = sum.saturating_add(others_ns);
        last_ns = step.time_ns;
        state.apply(&step);
    }
    covered.parts.retain(|_, ns| *ns > 0);
    covered.outer_ns = outer.iter().fold(0, |sum, it| sum.saturating_add(it.owed_ns()));
    let is_pool = full_ns >= covered.outer_ns / AT_ONCE_PART && free_ns <= full_ns / AT_ONCE_PART;
    if is_pool && most > 0 {
        (covered.pool, covered.queued_ns) = (Some(most), full_ns);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::upstream_wait::elsewhere::tests::{MS, wait, work};

    /// Returns the time of the server and the part of another one, ms, and the pool.
    fn covered(outer: &[(u64, u64)], inner: &[(u64, u64)]) -> (u64, u64, Option<u64>) {
        let outer: Vec<_> = outer.iter().copied().map(wait).collect();
        let inner: Vec<_> = inner.iter().copied().map(work).collect();
        let covered = cover(&outer.iter().collect::<Vec<_>>(), &inner.iter().collect::<Vec<_>>());
        (covered.outer_ns / MS, covered.inner_ns() / MS, covered.pool)
    }

    #[test]
    fn parallel_requests_wait_for_as_many_of_the_server_behind() {
        let outer: Vec<_> = (0..8).map(|at| (at * 10, 400 + at * 50)).collect();
        let inner: Vec<_> = outer.iter().map(|&(from, to)| (from + 1, to - 1)).collect();
        assert_eq!(covered(&outer, &inner), (4_320, 4_304, None));
    }

    #[test]
    fn requests_queue_for_the_only_one_that_may_be_in_progress() {
        let outer: Vec<_> = (1..=4).map(|at| (at, at * 100 + 2)).collect();
        let inner: Vec<_> = (0..4).map(|at| (at * 100 + 2, at * 100 + 100)).collect();
        assert_eq!(covered(&outer, &inner), (998, 392, Some(1)));
    }

    /// A negative twin: the server works before each request of its own.
    #[test]
    fn requests_that_wait_while_nothing_is_in_progress_elsewhere_are_in_no_queue() {
        let outer: Vec<_> = (0..4).map(|at| (at * 5, 400 + at * 30)).collect();
        let inner: Vec<_> = (0..4).map(|at| (380 + at * 30, 399 + at * 30)).collect();
        assert_eq!(covered(&outer, &inner), (1_750, 76, None));
    }

    #[test]
    fn pauses_of_a_series_are_the_server_s_own() {
        let outer = wait((0, 100));
        let series = Work { busy_ns: 50 * MS, count: 25, ..work((0, 100)) };
        let covered = cover(&[&outer], &[&series]);
        assert_eq!((covered.inner_ns() / MS, covered.outer_ns / MS), (50, 100));
    }
}
