//! Latencies that are not alike: a tail of few slow requests, and standstills in which no connection
//! has an answer. A closed loop sends nothing during a standstill, so its percentiles hardly show
//! one (coordinated omission).

use tcpwhy_core::model::units::{count, duration};

use super::outcome::{LoadOutcome, Quantile};
use super::plan::{Pace, Plan};

/// Least length of a standstill, ns, and as a multiple of the median latency.
pub(super) const STANDSTILL_NS: u64 = 200_000_000;
const STANDSTILL_TIMES: u64 = 10;
/// Least number of connections that are still at the same time, so that one slow request is none.
const CONNECTIONS_MIN: usize = 3;
/// Latency of the requests of a tail: a multiple of the median, and this much more, ns.
const TAIL_TIMES: u64 = 10;
const TAIL_NS: u64 = 50_000_000;
/// Shares of requests that are a tail: fewer are chance, more are a second kind of request.
const TAIL_SHARE_MIN: f64 = 0.001;
const TAIL_SHARE_MAX: f64 = 0.2;
/// Least number of requests of a tail.
const TAIL_COUNT_MIN: u64 = 5;

/// Timeout after which a SYN is sent again (RFC 6298 §2), ns.
const SYN_RTO_NS: u64 = 1_000_000_000;
/// Least number of late connections: one may be a lost packet.
const LATE_CONNECTS_MIN: u64 = 2;

/// Greatest age of a request in progress when a standstill begins, as a multiple of the median latency
/// and at least, ns. An older one was slow by itself: slow requests that have all connections at the
/// same time are a tail.
const AGE_TIMES: u64 = 10;
const AGE_NS: u64 = 5_000_000;

/// A time without any answer, although requests had been sent; ns since the load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Standstill {
    /// Its begin.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Age of the oldest request in progress at its begin, ns.
    #[serde(skip)]
    pub age_ns: u64,
}

impl Standstill {
    fn length_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// Returns the times that are in both lists, each in order.
    pub(super) fn common(ours: &[Standstill], theirs: &[Standstill]) -> Vec<Standstill> {
        let both = |one: &Standstill, other: &Standstill| Standstill {
            begin_ns: one.begin_ns.max(other.begin_ns),
            end_ns: one.end_ns.min(other.end_ns),
            age_ns: one.age_ns.max(other.age_ns),
        };
        let pairs = ours.iter().flat_map(|one| theirs.iter().map(move |other| both(one, other)));
        pairs.filter(|it| it.begin_ns < it.end_ns && it.length_ns() >= STANDSTILL_NS).collect()
    }
}

/// The slowest requests, if they are far slower than the others.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Tail {
    /// Number of requests of the tail, with those that had no answer.
    pub requests: u64,
    /// Their share of all.
    pub share: f64,
    /// Their median latency, ns.
    pub median_ns: u64,
    /// The median latency of all requests, ns.
    pub of_all_ns: u64,
}

/// Connections that took so long that their SYN was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LateConnects {
    /// Number of late connections, with those that were not open at the end.
    pub late: u64,
    /// Number of all connections.
    pub of: u64,
    /// Median time of all that opened, ns.
    pub of_all_ns: u64,
}

/// What is uneven in a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uneven {
    /// The standstills, in order.
    pub standstills: Vec<Standstill>,
    /// The tail.
    pub tail: Option<Tail>,
    /// The 99th percentile of requests that come at the achieved rate, also during standstills; of
    /// a closed loop with standstills.
    pub open_p99: Option<Quantile>,
    /// The late connections, if most are not late.
    pub late_connects: Option<LateConnects>,
}

impl Uneven {
    /// Finds what is uneven in the outcome of a plan.
    pub fn of(plan: &Plan, outcome: &LoadOutcome) -> Uneven {
        let p50_ns = outcome.latency.quantile(0.5).ns;
        let least_ns = STANDSTILL_NS.max(STANDSTILL_TIMES.saturating_mul(p50_ns));
        let age_ns = AGE_NS.max(AGE_TIMES.saturating_mul(p50_ns));
        let is_long = |it: &&Standstill| it.length_ns() >= least_ns && it.age_ns <= age_ns;
        let standstills: Vec<Standstill> = match plan.connections {
            CONNECTIONS_MIN.. => outcome.standstills.iter().filter(is_long).copied().collect(),
            _ => Vec::new(),
        };
        let is_closed = plan.pace == Pace::Closed && plan.spacing.is_zero();
        let open_p99 = (is_closed && !standstills.is_empty()).then(|| {
            let still_ns: u64 = standstills.iter().map(|it| it.length_ns()).sum();
            let active_ns = outcome.elapsed_ns.saturating_sub(still_ns).max(1);
            let per_ns = outcome.requests as f64 / active_ns as f64;
            let mut latency = outcome.latency.clone();
            for it in &standstills {
                latency.record_evenly(it.length_ns(), (per_ns * it.length_ns() as f64) as u64);
            }
            latency.quantile(0.99)
        });
        // Each standstill makes a request of each connection slow.
        let stood = (standstills.len() * plan.connections) as u64;
        let tail = tail(outcome, p50_ns).filter(|it| it.requests > 2 * stood);
        Uneven { standstills, tail, open_p99, late_connects: late_connects(outcome) }
    }

    /// Returns all that is uneven, a sentence each.
    pub fn words(&self) -> impl Iterator<Item = String> {
        [self.standstill_words(), self.tail_words(), self.late_words()].into_iter().flatten()
    }

    /// Describes the standstills; `None` without any.
    pub fn standstill_words(&self) -> Option<String> {
        let longest = self.standstills.iter().max_by_key(|it| it.length_ns())?;
        let times = match self.standstills.len() as u64 {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            more => format!("{} times", count(more)),
        };
        let begins: Vec<String> =
            self.standstills.iter().take(3).map(|it| duration(it.begin_ns)).collect();
        let hidden = self.open_p99.map_or_else(String::new, |it| {
            format!(
                "; a closed loop sends nothing meanwhile and hides it: of requests that come at the \
                 achieved rate p99 would be {}, which --rate measures",
                duration(it.ns)
            )
        });
        Some(format!(
            "The server stood still {times}, for {} at most (from {} on): no connection had an answer \
             meanwhile{hidden}",
            duration(longest.length_ns()),
            begins.join(", ")
        ))
    }

    /// Describes the late connections; `None` without any.
    pub fn late_words(&self) -> Option<String> {
        let LateConnects { late, of, of_all_ns } = self.late_connects?;
        Some(format!(
            "{} of {} connections took 1 s or more to open, where half of all take {} or less: the SYN              was sent again by its timer of 1 s (RFC 6298 §2), since the server's accept queue is full              (backlog of listen, net.core.somaxconn; `nstat -az TcpExtListenOverflows` there) or packets              are lost",
            count(late),
            count(of),
            duration(of_all_ns)
        ))
    }

    /// Describes the tail; `None` without one.
    pub fn tail_words(&self) -> Option<String> {
        let tail = self.tail.as_ref()?;
        Some(format!(
            "1 request in {:.0} is far slower than the others: {} of them take {} in the median, where \
             half of all take {} or less",
            1.0 / tail.share,
            count(tail.requests),
            duration(tail.median_ns),
            duration(tail.of_all_ns)
        ))
    }
}

fn late_connects(outcome: &LoadOutcome) -> Option<LateConnects> {
    let of_all_ns = outcome.connect.quantile(0.5).ns;
    let late = outcome.connect.count_from(SYN_RTO_NS) + outcome.connecting;
    let of = outcome.connect.count() + outcome.connecting;
    let is_one = late >= LATE_CONNECTS_MIN && of_all_ns < SYN_RTO_NS && of_all_ns > 0;
    is_one.then_some(LateConnects { late, of, of_all_ns })
}

fn tail(outcome: &LoadOutcome, p50_ns: u64) -> Option<Tail> {
    let from_ns = p50_ns.saturating_mul(TAIL_TIMES).max(p50_ns + TAIL_NS);
    let (requests, all) = (outcome.latency.count_from(from_ns), outcome.latency.count());
    let share = requests as f64 / all.max(1) as f64;
    let is_one = requests >= TAIL_COUNT_MIN && (TAIL_SHARE_MIN..=TAIL_SHARE_MAX).contains(&share);
    let median_ns = outcome.latency.quantile(1.0 - share / 2.0).ns;
    is_one.then_some(Tail { requests, share, median_ns, of_all_ns: p50_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    const MS: u64 = 1_000_000;

    fn plan(connections: usize) -> Plan {
        let target = Target::parse("http://host/").unwrap();
        Plan { connections, ..Plan::new(target, Vec::new()) }
    }

    fn outcome(times: &[(u64, u64)], standstills: &[(u64, u64)]) -> LoadOutcome {
        let mut outcome = LoadOutcome { elapsed_ns: 10_000 * MS, ..LoadOutcome::default() };
        for &(ms, number) in times {
            (0..number).for_each(|_| outcome.latency.record(ms * MS));
            outcome.requests += number;
        }
        let still =
            |&(begin, end)| Standstill { begin_ns: begin * MS, end_ns: end * MS, age_ns: 0 };
        outcome.standstills = standstills.iter().map(still).collect();
        outcome
    }

    #[test]
    fn one_slow_request_in_fifty_is_a_tail() {
        let uneven = Uneven::of(&plan(10), &outcome(&[(1, 980), (400, 20)], &[]));
        let tail = uneven.tail.expect("a tail");
        assert_eq!((tail.requests, tail.median_ns / MS), (20, 400));
        let words = uneven.tail_words().expect("words");
        assert!(words.starts_with("1 request in 50 is far slower"), "{words}");
        for even in [&[(1, 1_000)][..], &[(1, 999), (400, 1)], &[(1, 600), (400, 400)]] {
            assert_eq!(Uneven::of(&plan(10), &outcome(even, &[])).tail, None, "{even:?}");
        }
    }

    #[test]
    fn standstills_count_for_requests_that_come_meanwhile() {
        let stalled = outcome(&[(1, 80_000), (1_000, 20)], &[(2_000, 3_000), (6_000, 7_000)]);
        let uneven = Uneven::of(&plan(10), &stalled);
        assert_eq!((uneven.standstills.len(), uneven.tail), (2, None));
        // A fifth of all requests comes during the standstills, evenly over their second.
        let p99_ms = uneven.open_p99.expect("an estimate").ns / MS;
        assert!((930..970).contains(&p99_ms), "{p99_ms}");
        assert!(stalled.latency.quantile(0.99).ns < 2 * MS);
        let words = uneven.standstill_words().expect("words");
        assert!(words.contains("stood still twice, for 1 s at most (from 2 s, 6 s on)"), "{words}");
        // Slow requests had all connections.
        let mut slow = stalled.clone();
        slow.standstills.iter_mut().for_each(|it| it.age_ns = 30 * MS);
        assert_eq!(Uneven::of(&plan(10), &slow).standstills, []);
        // The latency of a slow server is none, nor that of one connection.
        let slow = outcome(&[(300, 30)], &[(0, 300)]);
        assert_eq!(Uneven::of(&plan(10), &slow), Uneven::default());
        assert_eq!(Uneven::of(&plan(1), &stalled).standstills, []);
    }

    #[test]
    fn connections_whose_syn_is_sent_again_are_late() {
        let connects = |times: &[(u64, u64)]| {
            let mut outcome = LoadOutcome::default();
            for &(ms, number) in times {
                (0..number).for_each(|_| outcome.connect.record(ms * MS));
            }
            Uneven::of(&plan(10), &outcome)
        };
        let late = connects(&[(10, 40), (1_015, 8)]);
        let words = late.late_words().expect("words");
        assert!(words.starts_with("8 of 48 connections took 1 s or more"), "{words}");
        for times in [&[(10, 40), (1_015, 1)][..], &[(990, 48)], &[(1_500, 48)]] {
            assert_eq!(connects(times).late_connects, None, "{times:?}");
        }
    }

    #[test]
    fn only_what_all_threads_share_is_a_standstill() {
        let still = |all: &[(u64, u64)]| outcome(&[], all).standstills;
        let common = Standstill::common(
            &still(&[(100, 900), (2_000, 3_000)]),
            &still(&[(500, 1_200), (2_900, 3_500)]),
        );
        assert_eq!(common, still(&[(500, 900)]));
    }
}
