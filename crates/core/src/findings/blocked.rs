//! Requests that wait until a server has answered a long one: its event loop, its only thread or a lock
//! is taken meanwhile.
//!
//! The packets show it so: requests that come while the long one is in progress are answered within the
//! time that a host takes after its answer, and soon those that waited behind them. That alone may be a
//! pause of the whole server (garbage collection, a disk, a CPU that it does not get), in which the first
//! request to come is in front by chance. Null model: such a pause meets requests of each kind as often as
//! they come. The chance that so many of the pauses have a request of the same kind in front is then at most the
//! share of that kind among all requests, to the power of their number, times the number of ways to choose
//! these pauses. It has to be at most `CHANCE_MAX`.

use crate::app::Label;
use crate::findings::nested::Nested;
use crate::findings::tally::{EndpointTally, Tally, Wait};
use crate::findings::thresholds::{CHANCE_MAX, COST_MIN_NS};
use crate::judge::thresholds::{AT_ONCE_PART, HOST_DELAY_MAX_NS};
use crate::model::{Cause, Fact, Finding};
use std::collections::BTreeMap;

/// The kind of requests for whose answers others wait.
struct Blocker {
    kind: Label,
    /// Median time of these requests, ns.
    work_ns: u64,
    /// Number of requests that waited for their answers.
    released: u64,
}

/// A request, and those that waited until it was answered.
struct Pause<'a> {
    first: &'a Wait,
    released: Vec<&'a Wait>,
}

impl Wait {
    /// Returns whether this request came while `first` was in progress and was answered soon after that.
    fn is_released_by(&self, first: &Self, reach_ns: u64) -> bool {
        let reach_ns = reach_ns.max(self.wait_ns() / (AT_ONCE_PART * AT_ONCE_PART));
        let is_other = (self.client, self.client_port) != (first.client, first.client_port);
        is_other
            && (first.asked_ns..first.answered_ns).contains(&self.asked_ns)
            && self.answered_ns >= first.answered_ns
            && self.answered_ns - first.answered_ns <= reach_ns
    }
}

/// Returns the pauses in `waits`, which are sorted by their requests.
fn pauses<'a>(waits: &[&'a Wait], reach_ns: impl Fn(&Wait) -> u64) -> Vec<Pause<'a>> {
    let mut pauses: Vec<Pause<'a>> = Vec::new();
    for &wait in waits {
        let is_released = |it: &&mut Pause<'_>| wait.is_released_by(it.first, reach_ns(wait));
        match pauses.iter_mut().find(is_released) {
            Some(pause) => pause.released.push(wait),
            None => pauses.push(Pause { first: wait, released: Vec::new() }),
        }
    }
    pauses.retain(|it| !it.released.is_empty());
    pauses
}

/// Returns the chance that `count` of `pauses` have a request of a kind in front that has this share of all
/// requests.
fn chance(share: f64, count: u32, pauses: usize) -> f64 {
    let ways = (0..count).map(|at| (pauses as f64 - f64::from(at)) / f64::from(at + 1));
    ways.product::<f64>() * share.powi(count as i32)
}

impl Blocker {
    fn of(endpoint: &EndpointTally) -> Option<Self> {
        let is_long = |it: &&Wait| it.wait_ns() >= COST_MIN_NS;
        let mut waits: Vec<_> = endpoint.waits.all().iter().filter(is_long).collect();
        waits.sort_by_key(|it| (it.asked_ns, it.answered_ns));
        let reach_ns = |wait: &Wait| {
            let way_ns = if wait.at_server { 0 } else { endpoint.round_trips.needed_ns() };
            way_ns.saturating_add(HOST_DELAY_MAX_NS)
        };
        let pauses = pauses(&waits, reach_ns);
        let mut fronts: BTreeMap<u64, u32> = BTreeMap::new();
        pauses.iter().for_each(|it| *fronts.entry(it.first.kind).or_default() += 1);
        let (&digest, &count) = fronts.iter().max_by_key(|(_, count)| **count)?;
        let (&kind, group) = endpoint.kinds.iter().find(|(kind, _)| kind.digest() == digest)?;
        let share = group.exchanges as f64 / endpoint.all.exchanges.max(1) as f64;
        // A request of the kind may wait for another one of it.
        let others = || waits.iter().filter(|it| it.kind != digest);
        let released = || {
            let of_kind = pauses.iter().filter(|it| it.first.kind == digest);
            of_kind.flat_map(|it| &it.released).filter(|it| it.kind != digest)
        };
        let released_ns = released().map(|it| it.wait_ns()).fold(0, u64::saturating_add);
        let others_ns = others().map(|it| it.wait_ns()).fold(0, u64::saturating_add);
        let is_chance = chance(share, count, pauses.len()) > CHANCE_MAX;
        let explains = released_ns > others_ns / 2;
        if kind.is_empty() || is_chance || !explains {
            return None;
        }
        let in_front = pauses.iter().map(|it| it.first).filter(|it| it.kind == digest);
        let mut times_ns: Vec<_> = in_front.map(Wait::wait_ns).collect();
        times_ns.sort_unstable();
        let work_ns = times_ns[times_ns.len() / 2];
        Some(Self { kind, work_ns, released: released().count() as u64 })
    }
}

/// Adds to the findings about a server's own work for whose answer its requests waited. A proxy that waits
/// for another server, and requests that wait for workers or for another client, are explained by that.
pub(super) fn settle(findings: &mut [Finding], tally: &Tally, nested: &[Nested]) {
    for finding in findings.iter_mut().filter(|it| it.cause == Cause::ServerThink) {
        let server = finding.culprit.endpoint;
        let is_explained = nested.iter().any(|it| it.server == server)
            || ["behind", "turn_ns", "holder"]
                .iter()
                .any(|fact| finding.facts.iter().any(|(name, _)| name == fact));
        let endpoint = tally.endpoints.get(&server).filter(|_| !is_explained);
        let Some(Blocker { kind, work_ns, released }) = endpoint.and_then(|it| Blocker::of(it))
        else {
            continue;
        };
        finding.facts.push(("blocker_kind", Fact::Text(kind.to_string())));
        finding.facts.push(("work_ns", Fact::Ns(work_ns)));
        finding.facts.push(("blocked", Fact::Count(released)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Ledger, Outcome, Owner};

    const MS: u64 = 1_000_000;

    /// Returns a server with these requests: kind, and the times of request and answer, ms. Of the second
    /// kind, `quick` more are answered at once.
    fn server(requests: &[(&str, u64, u64)], quick: u64) -> EndpointTally {
        let mut endpoint = EndpointTally::default();
        let ledger = |ms: u64| {
            let mut ledger = Ledger::default();
            ledger.add(Owner::Server, ms * MS);
            ledger
        };
        for (port, &(kind, from_ms, to_ms)) in requests.iter().enumerate() {
            endpoint.add(kind, &ledger(to_ms - from_ms), Outcome::Answered);
            endpoint.waits.insert(Wait {
                began_ns: from_ms * MS,
                asked_ns: from_ms * MS,
                answered_ns: to_ms * MS,
                ended_ns: to_ms * MS,
                busy_ns: (to_ms - from_ms) * MS,
                count: 1,
                client: [1; 16],
                client_port: port as u16,
                kind: Label::from(kind).digest(),
                streams: false,
                at_server: true,
                at_client: false,
            });
        }
        (0..quick).for_each(|_| endpoint.add("GET", &ledger(0), Outcome::Answered));
        endpoint
    }

    fn blocked(requests: &[(&str, u64, u64)], quick: u64) -> Option<(u64, u64)> {
        Blocker::of(&server(requests, quick)).map(|it| (it.work_ns / MS, it.released))
    }

    const TWICE: [(&str, u64, u64); 7] = [
        ("KEYS", 100, 500),
        ("GET", 110, 500),
        ("GET", 220, 501),
        ("GET", 300, 503),
        ("KEYS", 1_100, 1_520),
        ("GET", 1_200, 1_520),
        ("GET", 1_300, 1_521),
    ];

    #[test]
    fn requests_wait_until_a_long_one_is_answered() {
        assert_eq!(blocked(&TWICE, 60), Some((420, 5)));
    }

    /// Negative twins.
    #[test]
    fn pauses_in_which_another_request_may_be_in_front_by_chance() {
        assert_eq!(blocked(&TWICE, 10), None, "two of seventeen are of that kind");
        assert_eq!(blocked(&TWICE[..4], 60), None, "once");
        let mut gc = TWICE;
        gc[4].0 = "GET";
        assert_eq!(blocked(&gc, 500), None, "a pause meets what comes");
        let slow = TWICE.map(|(kind, from, to)| {
            (kind, from, if kind == "GET" { to + from % 97 + 30 } else { to })
        });
        assert_eq!(blocked(&slow, 500), None, "they take their own time");
    }
}
