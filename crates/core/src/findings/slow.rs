//! Costs that a mean does not show: costs of few exchanges (the tail), and costs of many small
//! exchanges that add up.

use crate::findings::facts::Facts;
use crate::findings::floors::Floors;
use crate::findings::tally::{CauseTally, EndpointTally, First, Rows, Tally, slow_ns};
use crate::findings::thresholds::{
    INTERRUPTS_NS, MOST_SHARE, NOTICED_FACTOR, SEQUENCE_MIN, TAIL_SHARE,
};
use crate::judge::thresholds::HABIT_MIN;
use crate::model::{Cause, Fact, Histogram};
use crate::tcp::{Link, Row};
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// The exchanges of one endpoint that a cost made slow.
pub(super) struct Tail {
    /// Number of these exchanges.
    pub count: u64,
    /// Time that the cost took in all of them, ns.
    pub ns: u64,
    /// Time that the cost took in each, ns.
    parts: Histogram,
}

impl Tail {
    /// Returns the exchanges that `cause` made slow; `tallied` is the sum of the cause.
    pub(super) fn of(cause: Cause, tallied: &CauseTally, endpoint: &EndpointTally) -> Self {
        let counted = endpoint.tails.of(cause).map(|tail| Self {
            count: tail.count(),
            ns: tail.ns,
            parts: tail.parts.clone(),
        });
        // Time that was attributed to this cause later is contained only in its waits.
        let (mut ns, mut parts) = (0_u64, Histogram::default());
        for (each_ns, count) in tallied.waits.points().filter(|&(ns, _)| ns >= slow_ns(cause)) {
            ns = ns.saturating_add(each_ns.saturating_mul(count));
            (0..count).for_each(|_| parts.record(each_ns));
        }
        let waited = Self { count: parts.count(), ns, parts };
        counted.filter(|counted| counted.ns >= waited.ns).unwrap_or(waited)
    }

    /// Returns whether these exchanges are fewer than the others, have most of `cost_ns`, and are
    /// the reason why the 99th percentile is so much slower than the typical one.
    fn is_apart(&self, endpoint: &EndpointTally, cost_ns: u64) -> bool {
        let latency = endpoint.all.latency.latency();
        2 * self.count < endpoint.all.exchanges
            && self.count as f64 >= TAIL_SHARE * endpoint.all.exchanges as f64
            && self.ns as f64 >= MOST_SHARE * cost_ns as f64
            && latency.p99_ns / 2 >= latency.p50_ns
    }

    /// Returns whether the longest of these waits takes more than all other time of the endpoint's
    /// exchanges together, and so long that it interrupts a person's thought.
    fn dominates(&self, endpoint: &EndpointTally) -> bool {
        let longest_ns = self.parts.quantile_ns(1.0);
        longest_ns > endpoint.all.ledger.total_ns() / 2 && longest_ns >= INTERRUPTS_NS
    }

    /// Returns whether the cost is a finding because of the time that it takes in these exchanges.
    pub(super) fn is_felt(&self, endpoint: &EndpointTally, cost_ns: u64, floors: &Floors) -> bool {
        let total_ns = endpoint.all.ledger.total_ns().max(1);
        let noticed = self.count >= u64::from(HABIT_MIN)
            || self.parts.quantile_ns(0.5) >= NOTICED_FACTOR * floors.cost_ns;
        let share = self.ns.min(cost_ns) as f64 / total_ns as f64;
        let is_tail = self.count > 0 && noticed && self.is_apart(endpoint, cost_ns);
        share >= floors.cost_share && (is_tail || self.dominates(endpoint))
    }

    /// Returns the facts that state why few exchanges are slow.
    pub(super) fn facts(&self, endpoint: &EndpointTally, cost_ns: u64) -> Facts {
        if !self.is_apart(endpoint, cost_ns) {
            return Facts::new();
        }
        let latency = endpoint.all.latency.latency();
        Facts::from([
            ("slow", Fact::Count(self.count)),
            ("slow_p50_ns", Fact::Ns(self.parts.quantile_ns(0.5))),
            ("all_p50_ns", Fact::Ns(latency.p50_ns)),
            ("all_p99_ns", Fact::Ns(latency.p99_ns)),
        ])
    }
}

/// Returns whether the round trips of a sequence add up to the cost of a long one, and sequences
/// have the share of the time that a cost must have.
pub(super) fn adds_up(
    rows: &Rows,
    endpoint: &EndpointTally,
    cost_ns: u64,
    floors: &Floors,
) -> bool {
    let total_ns = endpoint.all.ledger.total_ns().max(1);
    let share = rows.path_ns.min(cost_ns) as f64 / total_ns as f64;
    rows.longest.count >= SEQUENCE_MIN
        && rows.longest.path_ns >= NOTICED_FACTOR * floors.cost_ns
        && share >= floors.cost_share
}

/// Returns the facts about sequences of requests.
pub(super) fn sequence_facts(rows: &Rows) -> Facts {
    let longest = &rows.longest;
    let mut facts = Facts::from([
        ("in_row", Fact::Count(longest.count.into())),
        ("row_ns", Fact::Ns(longest.len_ns())),
        ("row_path_ns", Fact::Ns(longest.path_ns)),
        ("row_trip_ns", Fact::Ns(longest.path_ns / u64::from(longest.count).max(1))),
    ]);
    if rows.count > 1 {
        facts.insert("rows", Fact::Count(rows.count));
    }
    facts
}

/// First exchanges by the endpoint under which the sums of their server are kept.
pub(super) struct Firsts<'a>(HashMap<Endpoint, Vec<&'a First>>);

impl<'a> Firsts<'a> {
    /// Groups the answered first exchanges of `tally` by client, in order of time.
    pub(super) fn of(tally: &'a Tally) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for first in tally.firsts.iter().filter(|first| first.answered) {
            all.entry(tally.row_of(first.server)).or_default().push(first);
        }
        for firsts in all.values_mut() {
            firsts.sort_by_key(|first| (first.client, first.start_ns, first.frame));
        }
        Self(all)
    }

    /// Returns the sequences with `server`: exchanges on one connection, and those of a client that
    /// opens a connection for each exchange, of which a limited number is kept.
    pub(super) fn rows(&self, server: Endpoint, endpoint: &EndpointTally) -> Rows {
        let mut rows = endpoint.rows.clone();
        // With TLS the repeated set-up costs most, which is reported as TLS handshakes.
        let firsts = self.0.get(&server).filter(|_| endpoint.handshakes.times.count() == 0);
        let by_client = firsts.into_iter().flat_map(|it| it.chunk_by(|a, b| a.client == b.client));
        for calls in by_client {
            let mut row = Row::default();
            for call in calls {
                // The set-up takes one round trip, and the request after it another.
                let path_ns = (2 * call.rtt_base_ns).min(call.wall_ns);
                row = row.with(Link {
                    asked_ns: call.start_ns,
                    ended_ns: call.end_ns(),
                    path_ns,
                    round_trip_ns: path_ns,
                    rtt_client_ns: 0,
                });
                rows.add(&row, path_ns);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Owner;

    #[test]
    fn a_sequence_adds_up_to_what_a_person_notices() {
        let adds_up = |path_ns: u64| {
            let mut rows = Rows { path_ns, ..Rows::default() };
            rows.longest = Row { count: 2 * SEQUENCE_MIN, path_ns, ..Row::default() };
            adds_up(&rows, &EndpointTally::default(), path_ns, &Floors::default())
        };
        assert!(!adds_up(70_000_000) && adds_up(150_000_000));
    }

    #[test]
    fn one_long_wait_among_thousands_is_felt_if_it_takes_most_of_the_time() {
        let is_felt = |wait_ns: u64, others: u64| {
            let mut endpoint = EndpointTally::default();
            // A shorter one is slow too.
            let mut tail = Tail { count: 2, ns: wait_ns + 40_000_000, parts: Histogram::default() };
            [40_000_000, wait_ns].into_iter().for_each(|ns| tail.parts.record(ns));
            endpoint.all.exchanges = 1 + others;
            (0..others).for_each(|_| endpoint.all.latency.record(200_000));
            endpoint.all.latency.record(wait_ns);
            let total_ns = wait_ns + others * 200_000;
            endpoint.all.ledger.add(Owner::Server, total_ns);
            tail.is_felt(&endpoint, wait_ns, &Floors::default())
        };
        assert!(is_felt(2_700_000_000, 2_000), "a log-in, and what a person typed");
        assert!(!is_felt(2_700_000_000, 20_000), "the others take more");
        assert!(!is_felt(900_000_000, 1_000), "it interrupts nobody");
    }
}
