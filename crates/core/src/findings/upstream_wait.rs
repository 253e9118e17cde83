//! Servers that wait for servers: a proxy and what stands behind it, both seen in one capture.
//!
//! What a proxy seems to think is what its backend takes, as long as the one wait lies within the
//! other. Where they begin and end together, time and again, and there is one inner wait for each
//! outer one, the outer server is left with what is its own. Beside the proxy it is one
//! connection's server and the other one's client, perhaps by another address; connections that one
//! client has to several servers are no such pair.

use crate::findings::Floors;
use crate::findings::tally::{Tally, Wait, Waits};
use crate::findings::thresholds::{COST_MIN_NS, UPSTREAM_FITS_MAX, UPSTREAM_MISSED_PART};
use crate::judge::thresholds::{AT_ONCE_PART, HABIT_MIN};
use crate::model::{Cause, Fact, Finding};
use crate::wire::Endpoint;

/// The waits that two servers have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pairs {
    /// Outer waits with one inner wait.
    met: u64,
    /// Those of them whose inner wait is of a client with the outer server's address.
    of_host: u64,
    /// Outer waits with none.
    missed: u64,
    /// Outer waits with too many.
    crowded: u64,
    /// Sum of the outer waits, ns.
    outer_ns: u64,
    /// Sum of the inner waits, ns.
    inner_ns: u64,
}

impl Pairs {
    /// Matches the waits with `server` and with another server: one inner wait for each outer one.
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
                _ if fits.len() > UPSTREAM_FITS_MAX => pairs.crowded += 1,
                None => pairs.missed += 1,
                Some(&(place, end_ns)) => {
                    taken[place] = true;
                    let it = inner.all()[place];
                    pairs.met += 1;
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
        let by_address = self.met > 0 && self.of_host == self.met && self.missed == 0;
        let by_time =
            self.met >= u64::from(HABIT_MIN) && self.met >= UPSTREAM_MISSED_PART * self.missed;
        (by_address || by_time) && self.met >= self.crowded
    }

    /// Returns the share of the outer server's time that they are.
    fn share(&self) -> f64 {
        self.inner_ns as f64 / self.outer_ns.max(1) as f64
    }
}

impl Wait {
    /// Returns whether its server kept it waiting beside the capture.
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

/// The server that another waits for, and what part of its time.
struct Behind {
    inner: Endpoint,
    share: f64,
}

impl Behind {
    /// Finds the innermost of several servers in a row: its waits are the shortest.
    fn find(outer: Endpoint, tally: &Tally) -> Option<Self> {
        let waits = &tally.endpoints.get(&outer)?.waits;
        let others = tally.endpoints.iter().filter(|(server, _)| **server != outer);
        let pairs = others.map(|(&inner, it)| (inner, Pairs::of(outer, waits, &it.waits)));
        let links = pairs.filter(|(_, pairs)| pairs.is_link());
        let links = links.map(|(inner, pairs)| Self { inner, share: pairs.share() });
        links.min_by(|one, other| {
            one.share.total_cmp(&other.share).then(one.inner.cmp(&other.inner))
        })
    }
}

/// Subtracts from each server's time the time that it waited for another, and names the waiting
/// server in the other's finding. The rest is reported if it is still a cost, and all of it if
/// nothing is reported about the other server.
pub(super) fn settle(findings: &mut Vec<Finding>, tally: &Tally, floors: &Floors) {
    let thinks = |finding: &Finding| finding.cause == Cause::ServerThink;
    let outer = findings.iter().filter(|it| thinks(it)).map(|it| it.culprit.endpoint);
    let links = outer.filter_map(|outer| Some((outer, Behind::find(outer, tally)?)));
    let links: Vec<_> = links.collect();
    for (outer, behind) in links {
        let of = |it: &Finding| thinks(it) && it.culprit.endpoint == outer;
        let Some(place) = findings.iter().position(of) else { continue };
        let waited_ns = (findings[place].lost_ns as f64 * behind.share) as u64;
        let about = |it: &&mut Finding| it.evidence_flow.map(|it| it.1) == Some(behind.inner);
        let told = findings.iter_mut().filter(about).max_by_key(|it| it.lost_ns);
        let is_told = told.is_some_and(|finding| {
            let explains = 2 * finding.lost_ns >= waited_ns;
            if explains {
                tell(finding, outer);
            }
            explains
        });
        let finding = &mut findings[place];
        if !is_told {
            finding.facts.push(("behind", Fact::Text(behind.inner.to_string())));
            finding.facts.push(("behind_ns", Fact::Ns(waited_ns)));
            continue;
        }
        let own_ns = finding.lost_ns - waited_ns;
        finding.share *= own_ns as f64 / finding.lost_ns.max(1) as f64;
        finding.lost_ns = own_ns;
        let all_ns = tally.endpoints.get(&outer).map_or(0, |it| it.all.ledger.total_ns());
        if (own_ns as f64) < floors.cost_share * all_ns as f64 {
            findings.remove(place);
        }
    }
}

/// Requests to `outer` wait for the server of `finding`.
fn tell(finding: &mut Finding, outer: Endpoint) {
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

    /// Waits of a client from and to so many milliseconds, at one end of it.
    fn waits(client: u8, at_client: bool, times_ms: impl Iterator<Item = (u64, u64)>) -> Waits {
        let wait = |(from_ms, to_ms)| Wait {
            began_ns: from_ms * MS,
            asked_ns: from_ms * MS,
            answered_ns: to_ms * MS,
            ended_ns: to_ms * MS,
            client: [client; 16],
            at_server: !at_client,
            at_client,
        };
        let mut waits = Waits::default();
        times_ms.for_each(|times| waits.insert(wait(times)));
        waits
    }

    /// So many waits of 300 ms, and one within each as is said of it.
    fn pairs(count: u64, inner: impl Fn(u64) -> (u64, u64)) -> Pairs {
        let outer = waits(1, false, (1..=count).map(|index| (1_000 * index, 1_000 * index + 300)));
        let inner = waits(2, true, (1..=count).map(|index| inner(1_000 * index)));
        Pairs::of(server(3128), &outer, &inner)
    }

    #[test]
    fn a_proxy_waits_for_the_backend_that_answers_just_before_it_does_time_and_again() {
        let link = pairs(4, |at_ms| (at_ms + 1, at_ms + 298));
        assert!(link.is_link());
        assert_eq!((link.met, link.missed, link.share()), (4, 0, 0.99));
        assert!(!pairs(2, |at_ms| (at_ms + 1, at_ms + 298)).is_link(), "twice may be chance");
    }

    #[test]
    fn once_is_enough_where_the_address_tells() {
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
