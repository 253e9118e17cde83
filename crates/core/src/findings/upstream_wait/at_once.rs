//! Servers that answer at once when another server has answered them.
//!
//! Of requests that are in progress at a time nothing shows which request to the other server belongs to
//! which. But a server that only passes answers on does so within the time that a host takes, again and
//! again; by chance, an answer comes so soon after one of the other server only as often as these short
//! times fill the whole time. While it waits for as many answers as it owes, it does no work of its own.

use super::Wait;
use crate::findings::tally::Tally;
use crate::findings::thresholds::UPSTREAM_MISSED_PART;
use crate::judge::thresholds::{AT_ONCE_PART, HABIT_MIN, HOST_DELAY_MAX_NS};
use crate::wire::Endpoint;
use std::collections::BTreeMap;

/// The time in which a server waited for others.
pub(super) struct Covered {
    /// The other servers, with the part of each, ns.
    pub parts: Vec<(Endpoint, u64)>,
    /// Sum of the waits for the server itself, ns.
    pub outer_ns: u64,
}

/// Finds the servers that `outer` asks, by its address, if it answers at once when they do.
pub(super) fn find(outer: Endpoint, tally: &Tally) -> Option<Covered> {
    let waits = &tally.endpoints.get(&outer)?.waits;
    let others = tally.endpoints.iter().filter(|(server, _)| **server != outer);
    let (mut inner, mut until_ns) = (Vec::new(), u64::MAX);
    for (&server, it) in others {
        let before = inner.len();
        let of_host = it.waits.all().iter().filter(|it| it.at_client && it.client == outer.address);
        inner.extend(of_host.map(|&wait| (wait, server)));
        if inner.len() > before && it.waits.is_full() {
            until_ns = until_ns.min(it.waits.all().last().map_or(0, |last| last.began_ns));
        }
    }
    let outer: Vec<_> =
        waits.all().iter().filter(|it| it.is_outer() && it.answered_ns < until_ns).collect();
    follows(&outer, &inner).then(|| cover(&outer, &inner))
}

/// Times at which an answer of another server may have been complete, ns.
fn ends_ns(wait: &Wait) -> [u64; 2] {
    [wait.answered_ns, wait.ended_ns]
}

/// Returns whether the answers to `outer` follow those to `inner` at once, and not by chance.
fn follows(outer: &[&Wait], inner: &[(Wait, Endpoint)]) -> bool {
    let mut ends_ns: Vec<_> = inner.iter().flat_map(|(it, _)| ends_ns(it)).collect();
    ends_ns.sort_unstable();
    ends_ns.dedup();
    let begun_ns = outer.iter().map(|it| it.asked_ns).min().unwrap_or(0);
    let span_ns = outer.iter().map(|it| it.answered_ns).max().unwrap_or(0) - begun_ns;
    let lucky_ns = (ends_ns.len() as u64).saturating_mul(HOST_DELAY_MAX_NS);
    let at_once = |wait: &&&Wait| {
        let from = ends_ns
            .partition_point(|&end_ns| end_ns.saturating_add(HOST_DELAY_MAX_NS) < wait.answered_ns);
        ends_ns.get(from).is_some_and(|&end_ns| end_ns <= wait.answered_ns)
    };
    let matched = outer.iter().filter(at_once).count() as u64;
    let unmatched = outer.len() as u64 - matched;
    matched >= HABIT_MIN.into()
        && matched >= UPSTREAM_MISSED_PART * unmatched
        && lucky_ns <= span_ns / AT_ONCE_PART
}

/// Adds up the time in which the server had at least as many requests of its own in progress as each of
/// those that it owes an answer: of `outer` in progress at a time, as many wait as there are `inner`.
fn cover(outer: &[&Wait], inner: &[(Wait, Endpoint)]) -> Covered {
    // Time, change of the number in progress, and the other server that is asked; `None` for a wait for
    // the server itself.
    let mut steps: Vec<(u64, i32, Option<Endpoint>)> = Vec::new();
    for wait in outer {
        steps.push((wait.asked_ns, 1, None));
        steps.push((wait.answered_ns, -1, None));
    }
    for &(wait, server) in inner {
        steps.push((wait.began_ns, 1, Some(server)));
        steps.push((wait.ended_ns.max(wait.answered_ns), -1, Some(server)));
    }
    steps.sort_unstable();
    let mut owed = 0_i32;
    let mut asked: BTreeMap<Endpoint, i32> = BTreeMap::new();
    let mut parts: BTreeMap<Endpoint, u64> = BTreeMap::new();
    let mut last_ns = steps.first().map_or(0, |step| step.0);
    for (time_ns, change, server) in steps {
        let past_ns = time_ns - last_ns;
        let mut rest = owed.max(0);
        for (&server, &count) in &asked {
            let waiting = count.clamp(0, rest);
            rest -= waiting;
            let part = parts.entry(server).or_default();
            *part = part.saturating_add(past_ns.saturating_mul(waiting as u64));
        }
        last_ns = time_ns;
        match server {
            None => owed += change,
            Some(server) => *asked.entry(server).or_default() += change,
        }
    }
    let waits_ns = outer.iter().map(|it| it.answered_ns - it.asked_ns);
    let outer_ns = waits_ns.fold(0, u64::saturating_add);
    Covered { parts: parts.into_iter().filter(|(_, ns)| *ns > 0).collect(), outer_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn wait((from_us, to_us): (u64, u64)) -> Wait {
        Wait {
            began_ns: from_us * 1_000,
            asked_ns: from_us * 1_000,
            answered_ns: to_us * 1_000,
            ended_ns: to_us * 1_000,
            client: [1; 16],
            client_port: 1,
            at_server: true,
            at_client: true,
        }
    }

    /// Returns the time of the server and the part of another one, ms; 0 if it does not follow that.
    fn covered(outer: &[(u64, u64)], inner: &[(u64, u64)]) -> (u64, u64) {
        let outer: Vec<_> = outer.iter().copied().map(wait).collect();
        let outer: Vec<_> = outer.iter().collect();
        let inner: Vec<_> = inner.iter().map(|&times| (wait(times), Endpoint::default())).collect();
        if !follows(&outer, &inner) {
            return (0, 0);
        }
        let Covered { parts, outer_ns } = cover(&outer, &inner);
        (outer_ns / MS, parts.iter().map(|(_, ns)| ns / MS).sum())
    }

    #[test]
    fn parallel_requests_wait_for_as_many_of_the_server_behind() {
        let outer: Vec<_> = (0..8).map(|at| (at * 10_000, 400_000 + at * 50_000)).collect();
        let inner: Vec<_> = outer.iter().map(|&(from, to)| (from + 200, to - 300)).collect();
        assert_eq!(covered(&outer, &inner), (4_320, 4_316));
    }

    #[test]
    fn what_waits_for_one_of_two_requests_to_the_server_behind_is_not_covered() {
        let outer = [(0, 100_500), (0, 200_500), (0, 300_500), (0, 400_500)];
        let inner = [(0, 100_000), (100_200, 200_000), (200_200, 300_000), (300_200, 400_000)];
        assert_eq!(covered(&outer, &inner), (1_002, 399));
    }

    /// Negative twins.
    #[test]
    fn answers_that_do_not_follow_those_of_the_server_behind() {
        let outer: Vec<_> = (0..8).map(|at| (at * 10_000, 400_000 + at * 50_000)).collect();
        let later: Vec<_> = outer.iter().map(|&(from, to)| (from + 200, to - 5_000)).collect();
        assert_eq!(covered(&outer, &later), (0, 0));
        let often: Vec<_> = (0..400).map(|at| (at * 2_000, at * 2_000 + 1_900)).collect();
        assert_eq!(covered(&outer, &often), (0, 0), "by chance");
    }
}
