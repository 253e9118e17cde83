//! Servers that wait for other servers: a proxy and its backend, both seen in one capture.
//!
//! The own time of a proxy is the wait for its backend if the inner wait lies within the outer one.
//! If they begin and end together again and again, and there is one inner wait for each outer one,
//! only the rest is the outer server's own time. A capture at the proxy shows it as the server of
//! one connection and the client of the other, perhaps with another address. Connections that one
//! client has to several servers are no such pair.

mod at_once;

use crate::findings::nested::Nested;
use crate::findings::tally::{Key, Tally, Wait, Waits};
use crate::findings::thresholds::{COST_MIN_NS, UPSTREAM_FITS_MAX, UPSTREAM_MISSED_PART};
use crate::findings::{Floors, refusals};
use crate::judge::thresholds::{AT_ONCE_PART, HABIT_MIN};
use crate::model::{Cause, Class, Fact, Finding, Owner};
use crate::wire::Endpoint;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Counts of the waits that two servers have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pairs {
    /// Number of outer waits with one inner wait.
    matched: u64,
    /// Number of these whose inner wait is of a client with the address of the outer server.
    of_host: u64,
    /// Number of outer waits with no inner wait.
    unmatched: u64,
    /// Number of outer waits with several inner waits.
    ambiguous: u64,
    /// Sum of the outer waits, ns.
    outer_ns: u64,
    /// Sum of the inner waits, ns.
    inner_ns: u64,
}

impl Pairs {
    /// Matches the waits for `server` with those for another server: one inner wait for each outer
    /// one.
    fn of(server: Endpoint, outer: &Waits, inner: &Waits) -> Self {
        let mut pairs = Self::default();
        let until_ns = match inner.all() {
            [] => return pairs,
            [.., last] if inner.is_full() => last.began_ns,
            [..] => u64::MAX,
        };
        let mut taken = vec![false; inner.all().len()];
        for wait in outer.all().iter().filter(|it| it.is_outer() && it.asked_ns < until_ns) {
            let fits: Vec<_> = wait.within(inner.all()).take(UPSTREAM_FITS_MAX + 1).collect();
            match fits.iter().find(|(place, _)| !taken[*place]) {
                _ if fits.len() > UPSTREAM_FITS_MAX => pairs.ambiguous += 1,
                None => pairs.unmatched += 1,
                Some(&(place, end_ns)) => {
                    taken[place] = true;
                    let it = inner.all()[place];
                    pairs.matched += 1;
                    pairs.of_host += u64::from(it.client == server.address);
                    pairs.outer_ns += wait.answered_ns - wait.asked_ns;
                    pairs.inner_ns += end_ns - it.began_ns;
                }
            }
        }
        pairs
    }

    /// Returns whether the outer server waits for the inner one.
    fn is_link(&self) -> bool {
        let by_address = self.matched > 0 && self.of_host == self.matched && self.unmatched == 0;
        let by_time = self.matched >= u64::from(HABIT_MIN)
            && self.matched >= UPSTREAM_MISSED_PART * self.unmatched;
        (by_address || by_time) && self.matched >= self.ambiguous
    }

    /// Returns the share of the inner waits in the outer server's time.
    fn share(&self) -> f64 {
        self.inner_ns as f64 / self.outer_ns.max(1) as f64
    }
}

impl Wait {
    /// Returns whether the server, at which the capture was taken, kept this exchange waiting.
    fn is_outer(&self) -> bool {
        self.at_server && self.answered_ns.saturating_sub(self.asked_ns) >= COST_MIN_NS
    }

    /// Returns those of `others` that begin just after this wait and end just before its end, with
    /// their times.
    fn within<'a>(&self, others: &'a [Self]) -> impl Iterator<Item = (usize, u64)> + use<'a> {
        let Self { asked_ns, answered_ns, client, .. } = *self;
        let apart_ns = (answered_ns - asked_ns) / AT_ONCE_PART;
        let due_ns = answered_ns - apart_ns..answered_ns;
        let from = others.partition_point(|it| it.began_ns < asked_ns);
        let soon = others[from..].iter().take_while(move |it| it.began_ns <= asked_ns + apart_ns);
        soon.zip(from..).filter_map(move |(it, place)| {
            let mut ends = [it.ended_ns, it.answered_ns].into_iter();
            let end_ns = ends.find(|end_ns| due_ns.contains(end_ns))?;
            (it.at_client && it.client != client).then_some((place, end_ns))
        })
    }
}

impl Wait {
    /// Returns whether both were in progress at a time.
    fn overlaps(&self, other: &Self) -> bool {
        self.asked_ns < other.answered_ns && other.asked_ns < self.answered_ns
    }

    /// Returns the servers of those of `inner`, sorted by their begin, that lie within this wait, and
    /// the time of each that no earlier one has, ns.
    fn row(&self, inner: &[(Self, Endpoint)]) -> Vec<(Endpoint, u64)> {
        let from = inner.partition_point(|(it, _)| it.began_ns < self.asked_ns);
        let mut until_ns = self.asked_ns;
        let begun = inner[from..].iter().take_while(|(it, _)| it.began_ns <= self.answered_ns);
        let row = begun.filter_map(|&(it, server)| {
            let end_ns = if it.ended_ns <= self.answered_ns { it.ended_ns } else { it.answered_ns };
            let from_ns = it.began_ns.max(until_ns);
            if it.client == self.client || end_ns > self.answered_ns || end_ns <= from_ns {
                return None;
            }
            until_ns = end_ns;
            Some((server, end_ns - from_ns))
        });
        row.collect()
    }
}

/// The servers for which another waits, and the part of its time.
struct Behind {
    inner: Endpoint,
    /// Others for which it waits, in the same exchanges or at the same time.
    others: Vec<Endpoint>,
    share: f64,
}

impl Behind {
    /// Finds the server for which `outer` waits. Of several that wait for each other it is the
    /// outermost, which has most of the time.
    fn find(outer: Endpoint, tally: &Tally) -> Option<Self> {
        let waits = &tally.endpoints.get(&outer)?.waits;
        let others = tally.endpoints.iter().filter(|(server, _)| **server != outer);
        let pairs = others.map(|(&inner, it)| (inner, Pairs::of(outer, waits, &it.waits)));
        let links = pairs.filter(|(_, pairs)| pairs.is_link());
        let links = links.map(|(inner, pairs)| {
            let (others, share) = (Vec::new(), pairs.share());
            Self { inner, others, share }
        });
        let most = links.max_by(|one, other| {
            one.share.total_cmp(&other.share).then(other.inner.cmp(&one.inner))
        });
        most.or_else(|| Self::find_rows(outer, tally)).or_else(|| Self::find_at_once(outer, tally))
    }

    /// Finds the servers for which `outer` waits in several exchanges at a time.
    fn find_at_once(outer: Endpoint, tally: &Tally) -> Option<Self> {
        let at_once::Covered { mut parts, outer_ns } = at_once::find(outer, tally)?;
        let inner_ns = parts.iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        parts.sort_by_key(|&(server, ns)| (Reverse(ns), server));
        let mut servers = parts.into_iter().map(|(server, _)| server);
        let inner = servers.next()?;
        let share = inner_ns as f64 / outer_ns.max(1) as f64;
        Some(Self { inner, others: servers.collect(), share })
    }

    /// Finds the servers that `outer` asks one after the other, by its address: their answers take
    /// most of each of its exchanges. Exchanges at the same time do not show for which of them it asks.
    fn find_rows(outer: Endpoint, tally: &Tally) -> Option<Self> {
        let waits = tally.endpoints.get(&outer)?.waits.all();
        let of_host = |it: &&Wait| it.at_client && it.client == outer.address;
        let others = tally.endpoints.iter().filter(|(server, _)| **server != outer);
        let inner = others.flat_map(|(&server, it)| {
            it.waits.all().iter().filter(of_host).map(move |&wait| (wait, server))
        });
        let mut inner: Vec<_> = inner.collect();
        inner.sort_unstable();
        let (mut rows, mut outer_ns, mut unmatched) = (0, 0, 0);
        let mut parts: BTreeMap<Endpoint, u64> = BTreeMap::new();
        for (at, wait) in waits.iter().enumerate().filter(|(_, wait)| wait.is_outer()) {
            let is_other = |(place, it): (usize, &Wait)| place != at && it.overlaps(wait);
            if waits.iter().enumerate().any(is_other) {
                continue;
            }
            let row = wait.row(&inner);
            let wait_ns = wait.answered_ns - wait.asked_ns;
            if row.iter().map(|(_, ns)| ns).sum::<u64>() < wait_ns - wait_ns / AT_ONCE_PART {
                unmatched += 1;
                continue;
            }
            rows += 1;
            outer_ns += wait_ns;
            row.into_iter().for_each(|(server, ns)| *parts.entry(server).or_default() += ns);
        }
        let inner_ns: u64 = parts.values().sum();
        let mut servers: Vec<_> = parts.into_iter().collect();
        servers.sort_by_key(|&(server, ns)| (Reverse(ns), server));
        let mut servers = servers.into_iter().map(|(server, _)| server);
        let is_habit = rows >= HABIT_MIN && rows >= UPSTREAM_MISSED_PART as u32 * unmatched;
        let inner = servers.next().filter(|_| rows > 0 && unmatched == 0 || is_habit)?;
        let share = inner_ns as f64 / outer_ns.max(1) as f64;
        Some(Self { inner, others: servers.collect(), share })
    }
}

/// A server's wait for another one.
struct Link {
    outer: Endpoint,
    inner: Endpoint,
    /// See [`Behind::others`].
    others: Vec<Endpoint>,
    /// Place of the finding about the outer server.
    place: usize,
    waited_ns: u64,
    /// The findings about the inner server explain the wait.
    is_told: bool,
}

/// Returns the time of `finding` in exchanges with `server`, ns.
fn part_ns(finding: &Finding, server: Endpoint, tally: &Tally) -> u64 {
    if finding.cause.class() == Class::Cost {
        let is_of_server = finding.evidence_flow.is_some_and(|(_, it)| it == server);
        return if is_of_server { finding.lost_ns } else { 0 };
    }
    let is_part = |key: &Key| {
        (key.cause, key.sender) == (finding.cause, finding.sender)
            && (key.culprit == finding.culprit || refusals::culprit(key) == finding.culprit)
    };
    let parts = tally.causes.of(server).filter(|(key, _)| is_part(key));
    parts.map(|(_, cause)| cause.lost_ns).sum()
}

/// Returns the times of each of `findings` for which exchanges with `server` had to wait, ns: in
/// these exchanges themselves, and in attempts to connect elsewhere before them.
fn times_ns(findings: &[Finding], server: Endpoint, tally: &Tally) -> Vec<u64> {
    let mut dead: Vec<_> = tally.led_to.iter().filter(|it| it.1 == server).map(|it| it.0).collect();
    dead.sort_unstable();
    dead.dedup();
    let times_ns = findings.iter().map(|finding| {
        let before_ns = dead.iter().map(|&dead| match finding.cause {
            Cause::SynRetransmit => part_ns(finding, dead, tally),
            _ => 0,
        });
        part_ns(finding, server, tally) + before_ns.sum::<u64>()
    });
    times_ns.collect()
}

/// Finds the servers that wait for others.
fn links(findings: &[Finding], tally: &Tally) -> Vec<Link> {
    let thinks = findings.iter().enumerate().filter(|(_, it)| it.cause == Cause::ServerThink);
    let links = thinks.filter_map(|(place, finding)| {
        let outer = finding.culprit.endpoint;
        let Behind { inner, others, share } = Behind::find(outer, tally)?;
        let waited_ns = (finding.lost_ns as f64 * share) as u64;
        let servers = std::iter::once(inner).chain(others.iter().copied());
        let told_ns: u64 = servers.flat_map(|it| times_ns(findings, it, tally)).sum();
        let is_told = told_ns >= waited_ns / 2;
        Some(Link { outer, inner, others, place, waited_ns, is_told })
    });
    let mut links: Vec<_> = links.collect();
    links.sort_unstable_by_key(|link| link.outer);
    links
}

/// Subtracts from each server's time the time for which it waited for another, and names the
/// waiting server in the finding that explains most of the wait: of servers that wait for each
/// other, in that of the innermost. The rest is reported if it is still a cost, and the whole time
/// if nothing is reported about the other server. Returns the time that was subtracted.
pub(super) fn settle(findings: &mut Vec<Finding>, tally: &Tally, floors: &Floors) -> Vec<Nested> {
    let links = links(findings, tally);
    let mut nested = Vec::new();
    for link in &links {
        if !link.is_told {
            let facts = &mut findings[link.place].facts;
            facts.push(("behind", Fact::Text(link.inner.to_string())));
            facts.push(("behind_ns", Fact::Ns(link.waited_ns)));
            continue;
        }
        for server in [innermost(link, &links)].iter().chain(&link.others) {
            let times_ns = times_ns(findings, *server, tally);
            let most = (0..findings.len()).rev().max_by_key(|&at| times_ns[at]);
            if let Some(at) = most.filter(|&at| times_ns[at] > 0) {
                name_waiting_server(&mut findings[at], link.outer);
            }
        }
        nested.push(Nested {
            server: link.outer,
            owner: Owner::Server,
            ns: link.waited_ns,
            shown: None,
        });
    }
    let mut is_small = vec![false; findings.len()];
    for link in links.iter().filter(|link| link.is_told) {
        let finding = &mut findings[link.place];
        let own_ns = finding.lost_ns - link.waited_ns;
        finding.share *= own_ns as f64 / finding.lost_ns.max(1) as f64;
        finding.lost_ns = own_ns;
        let all_ns = tally.endpoints.get(&link.outer).map_or(0, |it| it.all.ledger.total_ns());
        is_small[link.place] = (own_ns as f64) < floors.cost_share * all_ns as f64;
    }
    let mut is_small = is_small.into_iter();
    findings.retain(|_| !is_small.next().unwrap_or(false));
    nested
}

/// Returns the last server in the chain of those that wait for each other.
fn innermost(link: &Link, links: &[Link]) -> Endpoint {
    let mut inner = link.inner;
    for _ in links {
        match links.iter().find(|it| it.outer == inner && it.is_told) {
            Some(next) if next.inner != link.outer => inner = next.inner,
            _ => break,
        }
    }
    inner
}

/// Adds to `finding` that requests to `outer` wait for its server.
fn name_waiting_server(finding: &mut Finding, outer: Endpoint) {
    match finding.facts.iter_mut().find(|(name, _)| *name == "ahead") {
        Some((_, Fact::Text(ahead))) => *ahead = format!("{ahead} and {outer}"),
        _ => finding.facts.push(("ahead", Fact::Text(outer.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn server(port: u16) -> Endpoint {
        Endpoint { port, ..Endpoint::default() }
    }

    /// Returns the waits of a client with these start and end times, in milliseconds, at one end of
    /// it.
    fn waits(client: u8, at_client: bool, times_ms: impl Iterator<Item = (u64, u64)>) -> Waits {
        let wait = |(from_ms, to_ms)| Wait {
            began_ns: from_ms * MS,
            asked_ns: from_ms * MS,
            answered_ns: to_ms * MS,
            ended_ns: to_ms * MS,
            client: [client; 16],
            client_port: 0,
            at_server: !at_client,
            at_client,
        };
        let mut waits = Waits::default();
        times_ms.for_each(|times| waits.insert(wait(times)));
        waits
    }

    /// Returns the pairs of `count` waits of 300 ms, with one inner wait in each at the times that
    /// `inner` returns.
    fn pairs(count: u64, inner: impl Fn(u64) -> (u64, u64)) -> Pairs {
        let outer = waits(1, false, (1..=count).map(|index| (1_000 * index, 1_000 * index + 300)));
        let inner = waits(2, true, (1..=count).map(|index| inner(1_000 * index)));
        Pairs::of(server(3128), &outer, &inner)
    }

    #[test]
    fn a_proxy_waits_for_the_backend_that_answers_just_before_it_does_time_and_again() {
        let link = pairs(4, |at_ms| (at_ms + 1, at_ms + 298));
        assert!(link.is_link());
        assert_eq!((link.matched, link.unmatched, link.share()), (4, 0, 0.99));
        assert!(!pairs(2, |at_ms| (at_ms + 1, at_ms + 298)).is_link(), "twice may be chance");
    }

    #[test]
    fn one_pair_is_enough_if_the_address_shows_it() {
        let proxy = Endpoint { address: [2; 16], port: 3128 };
        let outer = waits(1, false, [(1_000, 1_300)].into_iter());
        let inner = waits(2, true, [(1_001, 1_298)].into_iter());
        assert!(Pairs::of(proxy, &outer, &inner).is_link());
        assert!(!Pairs::of(server(3128), &outer, &inner).is_link());
    }

    #[test]
    fn servers_that_are_slow_at_other_times_or_for_a_part_only_do_not_wait_for_each_other() {
        assert!(!pairs(9, |at_ms| (at_ms + 500, at_ms + 790)).is_link());
        assert!(!pairs(9, |at_ms| (at_ms + 150, at_ms + 298)).is_link());
        assert!(!pairs(9, |at_ms| (at_ms + 1, at_ms + 200)).is_link());
        assert!(!pairs(9, |at_ms| (at_ms + 1, at_ms + 301)).is_link());
        let now_and_then = |at_ms| (at_ms + 1, at_ms + if at_ms % 3_000 == 0 { 200 } else { 298 });
        assert!(!pairs(9, now_and_then).is_link());
    }

    #[test]
    fn a_few_requests_at_a_time_may_have_one_wait_each_and_many_fit_by_chance() {
        let is_link = |at_a_time: u64| {
            let times = |from_ms: u64, to_ms: u64| {
                let each = move |index| index / at_a_time * 1_000 + index % at_a_time;
                (0..9 * at_a_time).map(move |index| (each(index) + from_ms, each(index) + to_ms))
            };
            let (outer, inner) = (waits(1, false, times(0, 300)), waits(2, true, times(9, 291)));
            Pairs::of(server(3128), &outer, &inner).is_link()
        };
        assert!(is_link(4) && !is_link(5));
    }

    #[test]
    fn concurrent_requests_show_no_upstream_wait() {
        let outer = waits(1, false, (0..60).map(|index| (1_000 + 2 * index, 1_300 + 2 * index)));
        let inner = waits(2, true, (0..60).map(|index| (1_001 + 2 * index, 1_285 + 2 * index)));
        assert!(!Pairs::of(server(3128), &outer, &inner).is_link());
    }

    #[test]
    fn each_of_several_requests_at_once_has_one_of_its_own() {
        let outer =
            || waits(1, false, (0..9).map(|index| (index / 3 * 1_000, index / 3 * 1_000 + 300)));
        let inner = |each: u64| {
            let times = (0..3 * each).map(move |index| index / each * 1_000 + index % each);
            waits(2, true, times.map(|at_ms| (at_ms, at_ms + 295)))
        };
        assert!(Pairs::of(server(3128), &outer(), &inner(3)).is_link());
        assert!(!Pairs::of(server(3128), &outer(), &inner(2)).is_link());
    }

    #[test]
    fn servers_of_one_client_that_end_together_do_not_wait_for_each_other() {
        let times = || (1..9).map(|index| (1_000 * index, 1_000 * index + 300));
        let inner = || (1..9).map(|index| (1_000 * index + 1, 1_000 * index + 298));
        let of = |outer: &Waits, inner: &Waits| Pairs::of(server(3128), outer, inner);
        assert!(of(&waits(1, false, times()), &waits(2, true, inner())).is_link());
        assert!(!of(&waits(1, false, times()), &waits(1, true, inner())).is_link());
        assert!(!of(&waits(1, true, times()), &waits(2, true, inner())).is_link());
        assert!(!of(&waits(1, false, times()), &waits(2, false, inner())).is_link());
    }
}
