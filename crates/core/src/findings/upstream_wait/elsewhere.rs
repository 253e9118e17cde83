//! What a host has in progress elsewhere while it owes answers itself, and whether these wait for it.
//!
//! Work elsewhere is a request to another server, a look-up, or a series of short requests. It belongs to
//! a wait if it begins after the request and ends before the answer, and if no wait for another server of
//! the same host encloses it more closely. That the answer waits for it shows at its end: the answer
//! follows, within an eighth of the wait (`AT_ONCE_PART`). After a row of requests on one connection, of
//! which each began when the one before was answered, it may take as long as the row.
//!
//! That may be chance: a busy host always has something in progress. Null model: the work is unrelated,
//! so it begins and ends at any time around the wait (as long before and after as the wait takes, so that
//! bursts count as they are). The chance that the first begins as soon after the request as it is seen, or
//! that the last ends as soon before the answer, is then at most the number of works in that time times
//! that lag, as a part of the time (`chance.rs`). The shorter of the two lags counts, for twice that chance. Where
//! the wait encloses a row, each row is one work. A wait that work does not explain has the chance 1. The
//! chances of all waits together are Fisher's product, times the number of servers that were tried; it has
//! to be at most `CHANCE_MAX`. If requests come by a clock, other work may come by the same one: then all of
//! them together show no more than one, in the time of a period.

use super::chance;
use super::cover::{self, Covered};
use super::work::Work;
use crate::findings::tally::{Tally, Wait};
use crate::findings::thresholds::{CHANCE_MAX, COST_MIN_NS};
use crate::judge::thresholds::{AT_ONCE_PART, HABIT_MIN, HOST_DELAY_MAX_NS};
use crate::wire::Endpoint;

/// Number of works of a host that are considered. These are the earliest.
const WORK_MAX: usize = 1 << 12;

/// The servers for which another waits.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// The time for which it waits, by server.
    pub covered: Covered,
    /// Number of requests to them while the waits that are kept were in progress.
    pub asked: u64,
    /// Number of these waits.
    pub waits: u64,
    /// Number of answers that came piece by piece, and after whose end only the server answered; 0 unless
    /// these are most.
    pub gathered: u64,
}

/// Finds the servers for which `server` waits, if that is no chance.
pub(super) fn find(server: Endpoint, tally: &Tally) -> Option<Elsewhere> {
    let endpoint = tally.endpoints.get(&server)?;
    let is_owed = |it: &&Wait| it.owed_ns() >= COST_MIN_NS;
    let mut owed: Vec<_> = endpoint.waits.all().iter().filter(is_owed).collect();
    owed.sort_by_key(|it| (it.asked_ns, it.worked_until_ns()));
    let host = Host::of(server, &owed, tally);
    let mut peers: Vec<_> = host.work.iter().map(|it| it.to).collect();
    peers.sort_unstable();
    peers.dedup();
    let tries = if peers.len() > 1 { peers.len() + 1 } else { 1 };
    let test = |of: Option<Endpoint>| {
        let known = host.known.iter().filter(|(to, _)| of.is_none_or(|of| of == *to));
        let until_ns = known.map(|(_, until_ns)| *until_ns).min().unwrap_or(u64::MAX);
        let owed: Vec<_> =
            owed.iter().copied().filter(|it| it.worked_until_ns() < until_ns).collect();
        let is_of = |it: &&Work| of.is_none_or(|of| of == it.to);
        let work: Vec<_> = host.work.iter().filter(is_of).collect();
        let is_shown =
            owed.len() >= host.waits_min && chance(&owed, &work) * tries as f64 <= CHANCE_MAX;
        is_shown.then(|| Elsewhere::of(&owed, &work))
    };
    let single = peers.iter().filter_map(|&peer| test(Some(peer)));
    let inner_ns = |it: &Elsewhere| it.covered.inner_ns();
    let best = single.max_by_key(inner_ns);
    let all = if tries > 1 { test(None) } else { None };
    let found = match (best, all) {
        (Some(best), Some(all)) => {
            let adds = inner_ns(&all) > inner_ns(&best) + inner_ns(&best) / AT_ONCE_PART;
            Some(if adds { all } else { best })
        }
        (best, all) => best.or(all),
    };
    found.filter(|it| inner_ns(it) >= it.covered.outer_ns / AT_ONCE_PART)
}

/// A server's host, as the client of others.
struct Host {
    /// Its work elsewhere, sorted by begin.
    work: Vec<Work>,
    /// Time until which the work at each of the others is known, ns.
    known: Vec<(Endpoint, u64)>,
    /// Least number of waits that show for whom the server waits. Work that comes from another address may
    /// be that of another host, so that a single wait shows nothing.
    waits_min: usize,
}

impl Host {
    /// Collects the work of the host of `server`, apart from what it did for clients of its other servers.
    /// A host may have several addresses; if the capture was taken there, it shows what comes from it.
    fn of(server: Endpoint, owed: &[&Wait], tally: &Tally) -> Self {
        let at_server = owed.iter().any(|it| it.at_server);
        // A host that asks itself, by a loopback address for example, is seen at both ends.
        let is_of_host = |it: &Wait, other: Endpoint| {
            let is_here = it.at_client || it.at_server && it.client == other.address;
            it.client == server.address || at_server && is_here
        };
        let (mut work, mut known, mut rivals) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_one_address = true;
        let others = tally.endpoints.iter().filter(|(other, _)| **other != server);
        for (&other, endpoint) in others {
            let waits = &endpoint.waits;
            let before = work.len();
            let all = waits.all().iter().chain(waits.series());
            for wait in all.filter(|it| is_of_host(it, other)) {
                is_one_address &= wait.client == server.address;
                work.push(Work::of(wait, other));
            }
            if work.len() > before {
                known.push((other, waits.known_until_ns()));
            }
            let is_same = |it: &&Wait| other.address == server.address || at_server && it.at_server;
            rivals.extend(waits.all().iter().filter(is_same));
        }
        work.sort_unstable();
        work.truncate(WORK_MAX);
        work.retain(|it| !is_of_rival(it, owed, &rivals));
        let waits_min = if is_one_address { 1 } else { HABIT_MIN as usize };
        Self { work, known, waits_min }
    }
}

/// Returns whether one of `rivals` encloses `work` more closely than any of `owed` does.
fn is_of_rival(work: &Work, owed: &[&Wait], rivals: &[&Wait]) -> bool {
    let closest = |waits: &[&Wait]| {
        let around = waits.iter().filter(|wait| work.end_within(wait).is_some());
        around.map(|wait| wait.owed_ns()).min()
    };
    let own = closest(owed);
    own.is_some() && closest(rivals).is_some_and(|rival_ns| own.is_some_and(|ns| rival_ns < ns))
}

/// Returns the chance that unrelated work begins or ends as near to the ends of the waits.
fn chance(owed: &[&Wait], work: &[&Work]) -> f64 {
    let Some(ends) = Ends::of(owed, work) else { return 1.0 };
    let Some(period_ns) = period_ns(owed) else {
        let each: Vec<_> =
            owed.iter().map(|wait| ends.chance_of(wait, ends.around(wait))).collect();
        return chance::of_all(&each);
    };
    let within = |wait: &Wait| (wait.asked_ns, wait.asked_ns.saturating_add(period_ns));
    let mut each: Vec<_> = owed.iter().map(|wait| ends.chance_of(wait, within(wait))).collect();
    each.sort_unstable_by(f64::total_cmp);
    each[each.len() / 2]
}

/// Returns the period of requests that come by a clock, ns: at equal distances, whenever the one before was
/// answered.
fn period_ns(owed: &[&Wait]) -> Option<u64> {
    let steps = owed.windows(2).map(|it| it[1].asked_ns - it[0].asked_ns);
    let rests = |it: &[&Wait]| {
        let rest_ns = it[1].asked_ns.saturating_sub(it[0].worked_until_ns());
        rest_ns > it[0].owed_ns() / AT_ONCE_PART
    };
    let (least_ns, most_ns) = (steps.clone().min()?, steps.max()?);
    let is_clocked = owed.len() >= HABIT_MIN as usize
        && most_ns - least_ns <= 2 * HOST_DELAY_MAX_NS
        && owed.windows(2).all(rests);
    is_clocked.then_some(least_ns)
}

/// The work of a host, in two ways: each request, and what follows at once on a connection as one.
struct Ends<'a> {
    work: &'a [&'a Work],
    /// Times at which each of them ended, sorted, ns.
    each_ns: Vec<u64>,
    /// Work that follows at once, as one, sorted by begin.
    rows: Vec<Work>,
    /// Times at which these ended, sorted, ns.
    rows_ns: Vec<u64>,
    /// The time that is known.
    span_ns: (u64, u64),
}

impl<'a> Ends<'a> {
    fn of(owed: &[&Wait], work: &'a [&'a Work]) -> Option<Self> {
        let begun_ns = owed.iter().map(|it| it.asked_ns).chain(work.iter().map(|it| it.began_ns));
        let over_ns =
            owed.iter().map(|it| it.worked_until_ns()).chain(work.iter().map(|it| it.ended_ns));
        let span_ns = (begun_ns.min()?, over_ns.max()?);
        let mut each_ns: Vec<_> =
            work.iter().flat_map(|it| [it.answered_ns, it.ended_ns]).collect();
        each_ns.sort_unstable();
        each_ns.dedup();
        let mut by_connection: Vec<_> = work.iter().map(|it| **it).collect();
        by_connection.sort_unstable_by_key(|it| (it.to, it.port, *it));
        let (mut rows, mut last): (Vec<Work>, Option<Work>) = (Vec::new(), None);
        for work in by_connection {
            let before = last.replace(work);
            match rows.last_mut().zip(before) {
                Some((row, before)) if work.continues(&before) => {
                    row.count += work.count;
                    row.busy_ns = row.busy_ns.saturating_add(work.busy_ns);
                    (row.answered_ns, row.ended_ns) = (work.answered_ns, work.ended_ns);
                }
                _ => rows.push(work),
            }
        }
        rows.sort_unstable();
        let mut rows_ns: Vec<_> = rows.iter().map(|it| it.ended_ns).collect();
        rows_ns.sort_unstable();
        Some(Self { work, each_ns, rows, rows_ns, span_ns })
    }

    /// Returns the chance that unrelated work of a span begins or ends as near to the ends of `wait`.
    fn chance_of(&self, wait: &Wait, span_ns: (u64, u64)) -> f64 {
        let is_row = |it: &&Work| it.count >= HABIT_MIN.into() && it.end_within(wait).is_some();
        let has_row = self.rows.iter().any(|it| is_row(&it));
        let (lag_ns, ends) = match has_row {
            true => (self.lag_ns(self.rows.iter(), wait, 2), &self.rows_ns),
            false => (self.lag_ns(self.work.iter().copied(), wait, AT_ONCE_PART), &self.each_ns),
        };
        let Some(lag_ns) = lag_ns else { return 1.0 };
        let count = ends.partition_point(|&at_ns| at_ns <= span_ns.1)
            - ends.partition_point(|&at_ns| at_ns < span_ns.0);
        // The nearer of two ends.
        f64::min(1.0, 2.0 * chance::of_lag(lag_ns, count.max(1), span_ns.1 - span_ns.0))
    }

    /// Returns the time around `wait` that is known, ns.
    fn around(&self, wait: &Wait) -> (u64, u64) {
        let wait_ns = wait.owed_ns();
        let from_ns = wait.asked_ns.saturating_sub(wait_ns).max(self.span_ns.0);
        (from_ns, wait.worked_until_ns().saturating_add(wait_ns).min(self.span_ns.1))
    }

    /// Returns the time from the request to the begin of the first of `work` within `wait`, or from the end
    /// of the last to the answer, whichever is shorter, ns; `None` if the answer does not follow that end
    /// within this part of the wait.
    fn lag_ns<'w>(
        &self,
        work: impl Iterator<Item = &'w Work>,
        wait: &Wait,
        part: u64,
    ) -> Option<u64> {
        let within = work.skip_while(|it| it.began_ns < wait.asked_ns);
        let within = within.take_while(|it| it.began_ns <= wait.worked_until_ns());
        let within = within.filter_map(|it| Some((it.began_ns, it.end_within(wait)?)));
        let ends = within.reduce(|(from_ns, to_ns), it| (from_ns.min(it.0), to_ns.max(it.1)));
        let (first_ns, last_ns) = ends?;
        let lag_ns = wait.worked_until_ns() - last_ns;
        (lag_ns <= wait.owed_ns() / part).then(|| lag_ns.min(first_ns - wait.asked_ns))
    }
}

impl Elsewhere {
    fn of(owed: &[&Wait], work: &[&Work]) -> Self {
        let is_within = |it: &&&Work| owed.iter().any(|wait| it.end_within(wait).is_some());
        let work: Vec<_> = work.iter().filter(is_within).copied().collect();
        let asked = work.iter().map(|it| it.count).sum();
        let is_gathered = |it: &&&Work| owed.iter().any(|wait| it.is_gathered_for(wait));
        let gathered = work.iter().filter(is_gathered).count();
        let gathered = if gathered > work.len() / 2 { gathered as u64 } else { 0 };
        Self { covered: cover::cover(owed, &work), asked, waits: owed.len() as u64, gathered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::findings::upstream_wait::work::tests::{wait, work};

    /// Returns whether waits of these times wait for work of these times, ms.
    fn is_link(owed: &[(u64, u64)], inner: &[(u64, u64)]) -> bool {
        let owed: Vec<_> = owed.iter().copied().map(wait).collect();
        let mut inner: Vec<_> = inner.iter().copied().map(work).collect();
        inner.sort_unstable();
        let inner: Vec<_> = inner.iter().collect();
        chance(&owed.iter().collect::<Vec<_>>(), &inner) <= CHANCE_MAX
    }

    /// Returns `count` waits of 300 ms at uneven distances.
    fn waits(count: u64) -> Vec<(u64, u64)> {
        (1..=count).map(|at| (1_000 * at + 7 * at * at, 1_000 * at + 7 * at * at + 300)).collect()
    }

    /// Returns whether such waits wait for work with these times from the request on, ms.
    fn wait_for(count: u64, inner: &[(u64, u64)]) -> bool {
        let owed = waits(count);
        let of = |&(asked, _): &(u64, u64)| {
            inner.iter().map(move |(from, to)| (asked + from, asked + to)).collect::<Vec<_>>()
        };
        is_link(&owed, &owed.iter().flat_map(of).collect::<Vec<_>>())
    }

    #[test]
    fn a_proxy_waits_for_the_server_that_answers_just_before_it_does() {
        assert!(wait_for(1, &[(2, 299)]), "one is enough if it is close");
        assert!(wait_for(4, &[(2, 290)]));
        assert!(wait_for(4, &[(100, 290)]), "it works before it asks");
    }

    #[test]
    fn an_application_waits_for_many_answers_one_after_the_other() {
        let row: Vec<_> = (0..12).map(|at| (2 + 22 * at, 22 + 22 * at)).collect();
        assert!(wait_for(4, &row));
        let early: Vec<_> = row[..9].to_vec();
        assert!(wait_for(8, &early), "it works on them for a third of the time");
    }

    #[test]
    fn each_of_several_requests_at_a_time_has_one_of_its_own() {
        let owed: Vec<_> = (0..24).map(|at| (at * 37, at * 37 + 200 + at * 53 % 190)).collect();
        let inner: Vec<_> = owed.iter().map(|(from, to)| (from + 1, to - 1)).collect();
        assert!(is_link(&owed, &inner));
    }

    /// Negative twins: the same server works while its host does something else.
    #[test]
    fn unrelated_work_of_the_host() {
        assert!(!wait_for(9, &[(2, 200)]), "it ends long before the answers");
        assert!(!wait_for(9, &[(2, 301)]), "it ends behind them");
        assert!(!wait_for(9, &[(500, 790)]), "it is at other times");
        assert!(!wait_for(1, &[(2, 290)]), "once may be chance");
        let owed = waits(20);
        let polls: Vec<_> = (0..120).map(|at| (at * 211, at * 211 + 50)).collect();
        assert!(!is_link(&owed, &polls), "a monitor polls");
        let busy: Vec<_> = (0..3_000)
            .map(|at| (at * 9 + at * at % 7, at * 9 + at * at % 7 + 20 + at * 13 % 31))
            .collect();
        assert!(!is_link(&owed, &busy), "a busy database of others");
        let job: Vec<_> = (0..200).map(|at| (at * 140, at * 140 + 60 + at * 29 % 75)).collect();
        assert!(!is_link(&owed, &job), "a job asks one thing after the other");
    }

    #[test]
    fn what_happens_by_the_same_clock_happens_once() {
        let owed: Vec<_> = (1..20).map(|at| (1_000 * at, 1_000 * at + 300)).collect();
        let near = |ms: u64| owed.iter().map(|it| (it.0 + ms, it.1 - ms)).collect::<Vec<_>>();
        assert!(!is_link(&owed, &near(15)) && is_link(&owed, &near(2)));
        let uneven = waits(20);
        let near: Vec<_> = uneven.iter().map(|it| (it.0 + 15, it.1 - 15)).collect();
        assert!(is_link(&uneven, &near));
    }

    #[test]
    fn work_for_another_server_of_the_host_is_not_of_this_one() {
        let (own, rival) = (wait((0, 300)), wait((20, 290)));
        let inner = work((21, 289));
        assert!(is_of_rival(&inner, &[&own], &[&rival]));
        assert!(!is_of_rival(&inner, &[&rival], &[&own]));
        assert!(!is_of_rival(&inner, &[&own], &[&wait((20, 280))]));
    }
}
