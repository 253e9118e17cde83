//! The report's sections about each server and about the whole capture.

use crate::findings::tally::{EndpointTally, KIND_OTHER, Tally};
use crate::model::{EndpointReport, Histogram, KindReport, Report};

/// Adds up the ledgers, latencies and counts of all endpoints.
pub(super) fn add_up(tally: &Tally, report: &mut Report) {
    let mut latency = Histogram::default();
    (report.ledger, report.totals.outcomes) = Default::default();
    report.totals.exchanges = 0;
    for endpoint in tally.endpoints.values() {
        report.ledger.merge(&endpoint.all.ledger);
        report.totals.exchanges += endpoint.all.exchanges;
        report.totals.outcomes.merge(&endpoint.all.outcomes);
        latency.merge(&endpoint.all.latency);
    }
    report.totals.wall_ns = report.ledger.total_ns();
    report.totals.connections = tally.connections;
    report.latency = latency.latency();
    report.latency_histogram = latency;
    report.endpoints = endpoints(tally);
}

fn endpoints(tally: &Tally) -> Vec<EndpointReport> {
    let mut all: Vec<_> = tally
        .endpoints
        .iter()
        .filter(|(_, endpoint)| endpoint.all.exchanges > 0)
        .map(|(&endpoint, tally)| EndpointReport {
            endpoint,
            software: tally.identity.software.clone().map(String::from),
            protocol: tally.identity.protocol,
            connections: tally.connections,
            exchanges: tally.all.exchanges,
            ledger: tally.all.ledger,
            latency: tally.all.latency.latency(),
            outcomes: tally.all.outcomes.clone(),
            kinds: kinds(tally),
        })
        .collect();
    all.sort_by_key(|endpoint| (std::cmp::Reverse(endpoint.ledger.total_ns()), endpoint.endpoint));
    all
}

/// Number of request kinds reported per endpoint; the rest is reported together.
const KINDS_MAX: usize = 32;

fn kinds(tally: &EndpointTally) -> Vec<KindReport> {
    let mut kinds: Vec<_> = tally.kinds.iter().collect();
    kinds.sort_by_key(|(name, group)| {
        (&***name == KIND_OTHER, std::cmp::Reverse(group.ledger.total_ns()), *name)
    });
    let (shown, rest) = kinds.split_at(kinds.len().min(KINDS_MAX));
    let rest = rest.iter().map(|(_, group)| *group).cloned().reduce(|mut sum, group| {
        sum.merge(&group);
        sum
    });
    let shown = shown.iter().map(|(name, group)| (**name, (*group).clone()));
    shown
        .chain(rest.map(|group| (KIND_OTHER.into(), group)))
        .map(|(name, group)| KindReport {
            kind: name.to_string(),
            exchanges: group.exchanges,
            latency: group.latency.latency(),
            outcomes: group.outcomes,
        })
        .collect()
}
