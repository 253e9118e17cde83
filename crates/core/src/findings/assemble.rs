//! Makes findings from the sums: which of them matter, with what confidence, and in what order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use crate::findings::causes::{rules, set_up, syn_flood};
use crate::findings::client_isolated::IsolatedClients;
use crate::findings::finding::finding;
use crate::findings::floors::{Case, Floors, share_of};
use crate::findings::lossy_access::{self, LossyAccess};
use crate::findings::mute_hosts::MuteHosts;
use crate::findings::selective::Selective;
use crate::findings::tally::{CauseTally, Key, Part, Tally};
use crate::findings::thresholds::TAIL_SHARE;
use crate::findings::{
    blocked, costs, endpoints, failed_upstream, forward_proxies, harmless_waits, held_by_attempt,
    nested, quic, refusals, released, scans, serial, settling, upstream_wait,
};
use crate::model::{
    Cause, Class, Culprit, Family, Finding, Observation, Report, SlowExchange, Totals,
};
use crate::wire::{Endpoint, Side};

/// Fills `report` with the results of the sums.
pub fn assemble(mut tally: Tally, floors: &Floors, report: &mut Report) {
    settling::settle(&mut tally, &mut report.settled);
    let scans = scans::Scans::of(&tally);
    scans.leave_out(&mut tally);
    endpoints::add_up(&tally, report);
    let wall_ns = report.totals.wall_ns;
    let faults = Faults::of(&tally, floors, &scans);
    let mut findings = faults.findings(&tally, wall_ns);
    let floods = floods(&tally, &scans, wall_ns);
    findings.retain(|finding| {
        finding.cause.family() != Family::SetUp
            || floods.iter().all(|flood| flood.culprit.endpoint != finding.culprit.endpoint)
    });
    findings.extend(floods);
    findings.extend(costs::costs(&tally, floors, wall_ns, &faults.major));
    failed_upstream::settle(&mut findings, &tally);
    let mut nested = upstream_wait::settle(&mut findings, &tally, floors);
    serial::settle(&mut findings, &tally, &nested);
    released::settle(&mut findings, &tally, &nested);
    blocked::settle(&mut findings, &tally, &nested);
    held_by_attempt::settle(&mut findings, &tally, floors, &mut nested);
    report.observations.extend(scans.observe());
    report.observations.extend(minor_observations(&faults.minor, wall_ns));
    let blamed: Vec<_> = faults.all().collect();
    report.observations.extend(harmless_waits::observe(&tally, floors, wall_ns, &blamed));
    nested::count_once(&nested, &mut findings, &mut tally, report);
    forward_proxies::settle(&mut findings, &tally, report);
    report.findings.extend(findings);
    arrange(&mut report.findings, &report.totals);
    report.observations.extend(quic::observe(&tally));
    report.quic.merge(std::mem::take(&mut tally.quic));
    (report.connections, report.connections_omitted) = std::mem::take(&mut tally.worst).finish();
    let all = report.connections.len();
    report.connections.retain(|it| !scans.has(it.client.address, it.server));
    report.connections_omitted += (all - report.connections.len()) as u64;
    report.slowest = std::mem::take(&mut tally.slowest).finish();
    report.slowest.retain(|it| !scans.has(it.client.address, it.server));
    confirm(&mut report.slowest, &report.findings);
    tally.notes.exclude(report.findings.iter().map(|finding| finding.cause));
    count_noticed(&mut tally, report);
    report.observations.extend(tally.notes.observations());
    report.totals.vantage = tally.vantages.most();
    report.totals.vantage_from_padding = tally.vantages.is_by_frames(report.totals.vantage);
}

/// The faults that exceed the floors.
struct Faults<'a> {
    /// Parts that become findings.
    major: Vec<Part<'a>>,
    /// Parts that become observations only.
    minor: Vec<Part<'a>>,
    /// Parts that scans explain.
    scanned: Vec<Part<'a>>,
}

impl<'a> Faults<'a> {
    fn of(tally: &'a Tally, floors: &Floors, scans: &scans::Scans) -> Self {
        let wrong = tally.causes.iter().filter(|(key, cause)| {
            let case = Case { key, cause, tally, floors };
            key.cause.class() == Class::Fault && (rules(key.cause).is_finding)(&case)
        });
        let (scanned, wrong): (Vec<_>, Vec<_>) = wrong.partition(|part| scans.explain(*part));
        let (minor, major) = wrong.into_iter().partition(|(key, cause)| {
            (rules(key.cause).is_minor)(&Case { key, cause, tally, floors })
        });
        Self { major, minor, scanned }
    }

    fn all(&self) -> impl Iterator<Item = Part<'a>> {
        self.major.iter().chain(&self.minor).chain(&self.scanned).copied()
    }

    fn findings(&self, tally: &Tally, wall_ns: u64) -> Vec<Finding> {
        let selective = Selective::of(tally);
        let parts = by_culprit(&self.major, tally, &selective);
        let findings = parts.iter().map(|(culprit, parts)| {
            let culprit = if parts.len() > 1 { *culprit } else { parts[0].0.culprit };
            finding(culprit, parts, tally, wall_ns, Some(&selective))
        });
        findings.collect()
    }
}

/// Removes from exchanges the cause that each seemed to have when it ended, if `findings` do not confirm
/// it.
pub(crate) fn confirm(slowest: &mut [SlowExchange], findings: &[Finding]) {
    for one in slowest {
        let concerns = |finding: &&Finding| {
            let shown = finding.evidence_flow.map(|(_, server)| server);
            let of_client = Endpoint { port: 0, ..one.client };
            [one.server, of_client].contains(&finding.culprit.endpoint) || shown == Some(one.server)
        };
        let is_found =
            |cause: &Cause| findings.iter().filter(concerns).any(|it| it.cause == *cause);
        one.cause = one.cause.filter(is_found);
    }
}

/// Puts the findings in order: faults before costs, since a fault is more urgent than the time that
/// distance and work take; within a class by lost time; faults without lost time by severity. Costs
/// that have a large share of all time come before faults that lost hardly any. Findings that
/// single requests show come before those that only a load shows.
pub fn arrange(findings: &mut [Finding], totals: &Totals) {
    let floors = Floors::default();
    let costs = findings.iter().filter(|finding| finding.cause.class() == Class::Cost);
    let dominated = costs.clone().any(|cost| 2.0 * cost.share >= 1.0);
    let rivals: Vec<_> = findings.iter().filter_map(Rival::of).collect();
    findings.sort_by_key(|finding| {
        let rank = match finding.cause.class() {
            Class::Fault if !is_slight(finding, totals, &floors, dominated) => 0,
            Class::Cost if finding.share >= floors.cost_share => 1,
            Class::Fault => 2,
            Class::Cost => 3,
        };
        (rank, finding.load.is_some(), !fails_most(finding, &rivals), order(finding))
    });
}

/// A fault that only takes time.
struct Rival {
    lost_ns: u64,
    exchanges: u64,
}

impl Rival {
    fn of(finding: &Finding) -> Option<Self> {
        let takes_time = finding.cause.class() == Class::Fault;
        let (lost_ns, exchanges) = (finding.lost_ns, finding.affected.exchanges);
        (takes_time && !fails(finding)).then_some(Self { lost_ns, exchanges })
    }
}

/// Returns whether `finding` makes exchanges fail, and more of them than any fault that takes more time
/// concerns: else they may fail because of such a fault. What fails at once takes no time.
fn fails_most(finding: &Finding, rivals: &[Rival]) -> bool {
    let explains = |rival: &Rival| {
        rival.lost_ns > finding.lost_ns && rival.exchanges >= finding.affected.exchanges
    };
    // Which errors are failures of the service is decided by their number already.
    let counts = fails(finding) && finding.cause != Cause::ErrorResponses;
    counts && !rivals.iter().any(explains)
}

/// Returns whether the exchanges that the finding concerns failed: its cause makes them fail, or none of
/// its connection attempts was answered.
fn fails(finding: &Finding) -> bool {
    let left_unanswered = || set_up::leaves_all_unanswered(&finding.facts);
    finding.cause.makes_exchanges_fail() || left_unanswered()
}

/// Returns whether `fault` lost hardly any time, and affected few exchanges. If `dominated`, a cost
/// takes most of the time. Requests that fail may be fast: how many fail decides alone.
fn is_slight(fault: &Finding, totals: &Totals, floors: &Floors, dominated: bool) -> bool {
    let part = |of: u64, whole: u64| of as f64 / whole.max(1) as f64;
    let of_exchanges = part(fault.affected.exchanges, totals.exchanges);
    let of_connections = part(fault.affected.connections, totals.connections);
    if matches!(fault.cause, Cause::NoAnswer | Cause::ErrorResponses) {
        return of_exchanges < TAIL_SHARE;
    }
    // Half-open connections carry no requests.
    let met = if fault.cause == Cause::SynFlood { of_connections } else { of_exchanges };
    let rare = dominated && of_exchanges < TAIL_SHARE && of_connections < TAIL_SHARE;
    fault.share < TAIL_SHARE && (rare || fault.lost_ns < floors.cost_ns && met < floors.cost_share)
}

fn order(finding: &Finding) -> impl Ord + use<> {
    (
        Reverse(finding.lost_ns),
        rules(finding.cause).severity,
        finding.cause,
        finding.culprit.endpoint,
        finding.culprit.role,
    )
}

fn minor_observations(minor: &[Part<'_>], wall_ns: u64) -> Vec<Observation> {
    let (refused, once): (Vec<_>, Vec<_>) =
        minor.iter().copied().partition(|(key, _)| key.cause == Cause::Refused);
    let strangers = refusals::observe_strangers(&refused);
    strangers.into_iter().chain(harmless_waits::observe_once(&once, wall_ns)).collect()
}

/// Returns the parts of each finding, the greatest first. One resolver delays the exchanges of many
/// servers, and has to be changed only once.
fn by_culprit<'a>(
    faults: &[Part<'a>],
    tally: &Tally,
    selective: &Selective,
) -> Vec<(Culprit, Vec<Part<'a>>)> {
    let (cut_off, mute) = (IsolatedClients::of(faults, &tally.firsts), MuteHosts::of(faults));
    let lossy = LossyAccess::of(tally, selective);
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for &(key, cause) in faults {
        let part = (key, cause);
        let culprit = cut_off.culprit(part).or_else(|| mute.culprit(part));
        let culprit = culprit.or_else(|| selective.culprit(part));
        let culprit = culprit.or_else(|| lossy.culprit(part));
        let culprit = culprit.unwrap_or_else(|| refusals::culprit(key));
        let is_selected = selective.has(part);
        let group = (key.cause, key.sender, culprit, is_selected);
        groups.entry(group).or_default().push((key, cause));
    }
    let groups = groups.into_iter().map(|((_, _, culprit, _), parts)| (culprit, parts));
    let mut groups: Vec<_> = groups.collect();
    for (_, parts) in &mut groups {
        parts.sort_by_key(|(key, cause)| (Reverse(cause.lost_ns), key.server));
    }
    groups
}

fn floods(tally: &Tally, scans: &scans::Scans, wall_ns: u64) -> Vec<Finding> {
    let floods = tally.endpoints.iter().filter_map(|(&server, endpoint)| {
        let source = endpoint.set_ups.flood.only_source();
        if source.is_some_and(|client| scans.is_of(client, server)) {
            return None;
        }
        // Everything that waits for a listener under a flood waits because of the flood.
        let waits = |(key, _): &(&Key, &CauseTally)| key.cause.family() == Family::SetUp;
        let waiting = || tally.causes.of(server).filter(waits).map(|(_, cause)| cause);
        let exchanges = waiting().map(|cause| cause.exchanges).sum();
        let lost_ns = waiting().map(|cause| cause.lost_ns).sum();
        let flood = syn_flood::recognise(server, endpoint, exchanges, lost_ns)?;
        Some(Finding { share: share_of(lost_ns, wall_ns), ..flood })
    });
    floods.collect()
}

/// Counts the events at each sender that no finding reports.
fn count_noticed(tally: &mut Tally, report: &Report) {
    let told: HashSet<_> =
        report.findings.iter().map(|it| (it.cause, it.sender, it.culprit)).collect();
    let is_reported = |server: Endpoint, side: Side| {
        let of_side = tally.causes.of(server).filter(|(key, _)| key.sender == side);
        let mut of_side = of_side.filter(|(key, _)| key.cause.repeats_or_waits());
        of_side.any(|part| {
            told.contains(&(part.0.cause, part.0.sender, part.0.culprit))
                || lossy_access::is_reported(part, &report.findings)
        })
    };
    // Repeated segments to endpoints that were left out are among those noticed.
    let mut noticed = tally.notes.noticed;
    for (&server, endpoint) in &tally.endpoints {
        for side in Side::ALL.into_iter().filter(|&side| !is_reported(server, side)) {
            noticed.merge(&endpoint.sender(side).noticed);
        }
    }
    tally.notes.noticed = noticed;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Affected, Role};

    fn finding(cause: Cause, share: f64, exchanges: u64) -> Finding {
        let culprit = Culprit { role: Role::Server, endpoint: Endpoint::default() };
        let affected = Affected { exchanges, of_exchanges: 1_000, connections: 1 };
        Finding { share, affected, ..Finding::of_cause(cause, culprit) }
    }

    #[test]
    fn what_fails_at_once_comes_before_a_fault_of_fewer_exchanges() {
        let totals = Totals { exchanges: 100, connections: 100, ..Totals::default() };
        for (held, is_first) in [(3, true), (60, false)] {
            let nagle =
                Finding { lost_ns: 40_000_000, ..finding(Cause::NagleDelayedAck, 0.9, held) };
            let mut findings = [nagle, finding(Cause::Reset, 0.0, 60)];
            arrange(&mut findings, &totals);
            assert_eq!(findings[0].cause == Cause::Reset, is_first, "{held} of 100 held");
        }
    }

    #[test]
    fn requests_that_fail_come_before_the_greatest_cost_from_one_per_cent_on() {
        let totals = Totals { exchanges: 1_000, connections: 1_000, ..Totals::default() };
        for cause in [Cause::NoAnswer, Cause::ErrorResponses] {
            for (failed, is_first) in [(9, false), (10, true)] {
                // They fail at once, so no time is lost.
                let cost = finding(Cause::ServerThink, 0.9, 1_000);
                let mut findings = [cost, finding(cause, 0.0, failed)];
                arrange(&mut findings, &totals);
                assert_eq!(findings[0].cause == cause, is_first, "{cause:?}: {failed} of 1,000");
            }
        }
    }
}
