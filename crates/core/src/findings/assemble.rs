//! From sums to findings: which of them matter, how sure we are, and in what order.

use std::collections::{BTreeMap, HashSet};

use crate::app::Side;
use crate::dns::thresholds::UNCACHED_NS;
use crate::findings::client_isolated::CutOff;
use crate::findings::notes::Noticed;
use crate::findings::tally::{CauseTally, EndpointTally, First, KIND_OTHER, Key, Tally};
use crate::findings::thresholds::{
    COST_MIN_NS, COST_SHARE_MIN, DEEP_FACTOR, DEEP_SHARE, DOMINANT_COST_SHARE, DOMINANT_FACTOR,
    FAULT_MIN_NS, FAULT_SHARE_MIN, OFTEN_FACTOR, REPAIR_FACTOR, SLIGHT_SHARE,
};
use crate::findings::{
    buffer_limits, client_isolated, confidence, costs, facts, lookup_proof, refusals, scans,
    settling, syn_flood, unblamed, upstream_wait,
};
use crate::model::{
    Affected, Cause, Class, Culprit, EndpointReport, Fact, Finding, Histogram, KindReport,
    Observation, Report, Role, SlowExchange, Totals, Vantage,
};
use crate::wire::Endpoint;

/// From where on findings are worth a reader's time.
#[derive(Clone, Copy, Debug)]
pub struct Floors {
    /// A cost is a finding from this share of its endpoint's wall time on.
    pub cost_share: f64,
    /// A cost is a finding where it takes at least this much of a typical exchange, ns.
    pub cost_ns: u64,
    /// A fault is a finding from this share of its endpoint's wall time on …
    pub fault_share: f64,
    /// … and at least this much of each exchange that it hits, ns.
    pub fault_ns: u64,
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            cost_share: COST_SHARE_MIN,
            cost_ns: COST_MIN_NS,
            fault_share: FAULT_SHARE_MIN,
            fault_ns: FAULT_MIN_NS,
        }
    }
}

/// Fills in what the sums say.
pub fn assemble(mut tally: Tally, floors: &Floors, report: &mut Report) {
    settling::settle(&mut tally, &mut report.settled);
    let mut latency = Histogram::default();
    for endpoint in tally.endpoints.values() {
        report.ledger.merge(&endpoint.all.ledger);
        report.totals.exchanges += endpoint.all.exchanges;
        latency.merge(&endpoint.all.latency);
    }
    report.totals.wall_ns = report.ledger.total_ns();
    report.totals.connections = tally.connections;
    report.latency = latency.latency();
    report.latency_histogram = latency;
    report.endpoints = endpoints(&tally);
    let scans = scans::Scans::of(&tally);
    let wrong = tally.causes.iter().filter(|(key, _)| key.cause.class() == Class::Fault);
    let wrong = wrong.filter(|(key, cause)| is_wrong(key, cause, &tally, floors));
    let (scanned, wrong): (Vec<_>, Vec<_>) = wrong.partition(|part| scans.explain(*part));
    let (minor, faults): (Vec<_>, Vec<_>) =
        wrong.into_iter().partition(|(key, cause)| is_minor(key, cause, &tally, floors));
    let wall_ns = report.totals.wall_ns;
    let mut findings: Vec<_> = by_culprit(&faults, &tally.firsts)
        .iter()
        .map(|(culprit, parts)| {
            let culprit = if parts.len() > 1 { *culprit } else { parts[0].0.culprit };
            finding(culprit, parts, &tally, wall_ns)
        })
        .collect();
    let floods = floods(&tally, &scans);
    findings.retain(|finding| {
        !matches!(finding.cause, Cause::SynRetransmit | Cause::AcceptQueueOverflow)
            || floods.iter().all(|flood| flood.culprit.endpoint != finding.culprit.endpoint)
    });
    findings.extend(floods);
    findings.extend(costs::costs(&tally, floors, wall_ns, &faults));
    upstream_wait::settle(&mut findings, &tally, floors);
    report.observations.extend(scans.observe());
    report.observations.extend(minor_observations(&minor, wall_ns));
    let blamed: Vec<_> = faults.iter().chain(&minor).chain(&scanned).copied().collect();
    report.observations.extend(unblamed::observe(&tally, floors, wall_ns, &blamed));
    report.findings.extend(findings);
    arrange(&mut report.findings, &report.totals);
    (report.connections, report.connections_omitted) = std::mem::take(&mut tally.worst).finish();
    report.slowest = slowest(&mut tally, &report.findings);
    tally.notes.leave_out(report.findings.iter().map(|finding| finding.cause));
    notice(&mut tally, report);
    report.observations.extend(tally.notes.observations());
    report.totals.vantage = vantage(&tally);
}

/// The slowest exchanges. What looked like a cause when one was over need not be one by what the
/// whole shows.
fn slowest(tally: &mut Tally, findings: &[Finding]) -> Vec<SlowExchange> {
    let mut slowest = std::mem::take(&mut tally.slowest).finish();
    for one in &mut slowest {
        let concerns = |finding: &&Finding| {
            let shown = finding.evidence_flow.map(|(_, server)| server);
            finding.culprit.endpoint == one.server || shown == Some(one.server)
        };
        let is_found =
            |cause: &Cause| findings.iter().filter(concerns).any(|it| it.cause == *cause);
        one.cause = one.cause.filter(is_found);
    }
    slowest
}

/// Puts the findings in order: faults before costs, for what is wrong heads the report, not what
/// distance and work take; lost time within a class; faults without lost time by severity. Costs
/// that have a cost's share of all the time come before faults that lost none, or hardly any. What
/// a request meets that is asked alone comes before what only a load shows.
pub fn arrange(findings: &mut [Finding], totals: &Totals) {
    let floors = Floors::default();
    let costs = findings.iter().filter(|finding| finding.cause.class() == Class::Cost);
    let dominated = costs.clone().any(|cost| cost.share >= DOMINANT_COST_SHARE);
    findings.sort_by_key(|finding| {
        let rank = match finding.cause.class() {
            Class::Fault if !is_slight(finding, totals, &floors, dominated) => 0,
            Class::Cost if finding.share >= floors.cost_share => 1,
            Class::Fault => 2,
            Class::Cost => 3,
        };
        (rank, finding.load.is_some(), order(finding))
    });
}

/// Returns whether `fault` lost hardly any time, and few exchanges; `dominated`: a cost takes most
/// of the time.
fn is_slight(fault: &Finding, totals: &Totals, floors: &Floors, dominated: bool) -> bool {
    let part = |of: u64, whole: u64| of as f64 / whole.max(1) as f64;
    let of_exchanges = part(fault.affected.exchanges, totals.exchanges);
    let of_connections = part(fault.affected.connections, totals.connections);
    // Nothing is asked on half-open connections.
    let met = if fault.cause == Cause::SynFlood { of_connections } else { of_exchanges };
    let rare = dominated && of_exchanges < SLIGHT_SHARE && of_connections < SLIGHT_SHARE;
    fault.share < SLIGHT_SHARE
        && (rare || fault.lost_ns < floors.cost_ns && met < floors.cost_share)
}

fn order(finding: &Finding) -> impl Ord + use<> {
    let severity = match finding.cause {
        Cause::SynFlood => 0,
        Cause::Refused => 1,
        Cause::Reset | Cause::IdleReset => 2,
        _ => 3,
    };
    (
        std::cmp::Reverse(finding.lost_ns),
        severity,
        finding.cause,
        finding.culprit.endpoint,
        finding.culprit.role,
    )
}

/// What is wrong, and not worth a finding: a chain that was seen once and cost less than any of
/// TCP's timers waits (40 ms for a delayed ACK is the shortest, and half of it the floor of a
/// cost), or one refused attempt of a stranger.
fn is_minor(key: &Key, cause: &CauseTally, tally: &Tally, floors: &Floors) -> bool {
    match key.cause {
        Cause::Refused => refusals::is_of_stranger(cause, tally),
        other => !other.is_in_vain() && cause.count <= 1 && cause.lost_ns < floors.cost_ns,
    }
}

fn minor_observations(minor: &[Part<'_>], wall_ns: u64) -> Vec<Observation> {
    let (refused, once): (Vec<_>, Vec<_>) =
        minor.iter().copied().partition(|(key, _)| key.cause == Cause::Refused);
    let strangers = refusals::observe_strangers(&refused);
    strangers.into_iter().chain(unblamed::observe_once(&once, wall_ns)).collect()
}

fn is_wrong(key: &Key, cause: &CauseTally, tally: &Tally, floors: &Floors) -> bool {
    if matches!(key.cause, Cause::Refused | Cause::Reset | Cause::IdleReset) {
        return true;
    }
    // However quickly it was said: whoever asked got nothing.
    if key.cause == Cause::DnsFailure && cause.shown.count(lookup_proof::FAILED) > 0 {
        return true;
    }
    let Some(endpoint) = tally.endpoints.get(&key.server) else { return false };
    let wall_ns = endpoint.all.ledger.total_ns().max(1);
    let share = cause.lost_ns as f64 / wall_ns as f64;
    let mean_ns = cause.lost_ns / cause.exchanges.max(1);
    let broad = share >= floors.fault_share && mean_ns >= floors.fault_ns;
    // One request that hung is one too many, however many did not.
    let deep = cause.share_max >= DEEP_SHARE && cause.share_max_ns >= DEEP_FACTOR * floors.fault_ns;
    match key.cause {
        // A resolver's work is part of a first visit: it is slow where it dominates. One late
        // answer that nobody is seen to wait for is a name that was not cached.
        Cause::DnsSlow | Cause::DnsSearch => {
            // What a cache asked for once, it had not kept yet.
            let kept = cause.shown.count(lookup_proof::FORWARDED) > 0;
            let seen = key.server != key.culprit.endpoint && !kept;
            let waited_for = seen || cause.exchanges >= 2;
            let dominates = broad && share >= DOMINANT_FACTOR * floors.fault_share;
            dominates && (waited_for || cause.lost_ns >= UNCACHED_NS)
        }
        // A quick repair is what TCP is for.
        Cause::FastRecovery | Cause::SpuriousRetransmission | Cause::Reordering => {
            // The smaller window that follows is the loss's doing as well.
            let after_ns = tally.cost_of(Cause::CongestionWindow, key.server);
            let with_window = (cause.lost_ns + after_ns) as f64 / wall_ns as f64;
            let often = cause.count >= 3 && with_window >= OFTEN_FACTOR * floors.fault_share;
            // One that takes a quarter of a transfer, and as long as a cost has to take to matter.
            let of_one = cause.share_max >= REPAIR_FACTOR * floors.fault_share;
            let felt = key.cause == Cause::FastRecovery && cause.share_max_ns >= floors.cost_ns;
            broad && (often || felt && of_one || with_window >= REPAIR_FACTOR * floors.fault_share)
        }
        Cause::SendBuffer | Cause::ReceiveWindow => {
            broad && buffer_limits::is_short(key, cause, endpoint, floors)
        }
        // One late packet is a host that was busy; a queue that stands is met again.
        Cause::Bufferbloat => {
            let felt = cause.waits.points().filter(|&(ns, _)| ns >= floors.fault_ns);
            (broad || deep) && felt.map(|(_, count)| count).sum::<u64>() >= 2
        }
        Cause::ZeroWindow => {
            deep && buffer_limits::has_stopped(cause, floors)
                || broad && buffer_limits::is_unread(cause, endpoint, floors)
        }
        _ => broad || deep,
    }
}

/// A cause at one culprit, with one server.
pub(super) type Part<'a> = (&'a Key, &'a CauseTally);

/// The parts of each finding, the greatest first: one resolver holds up the exchanges of many
/// servers, and is to be changed once.
fn by_culprit<'a>(faults: &[Part<'a>], firsts: &[First]) -> Vec<(Culprit, Vec<Part<'a>>)> {
    let cut_off = CutOff::of(faults, firsts);
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for &(key, cause) in faults {
        let part = (key, cause);
        let culprit = cut_off.culprit(part).unwrap_or_else(|| refusals::culprit(key));
        groups.entry((key.cause, key.sender, culprit)).or_default().push((key, cause));
    }
    let groups = groups.into_iter().map(|((_, _, culprit), parts)| (culprit, parts));
    let mut groups: Vec<_> = groups.collect();
    for (_, parts) in &mut groups {
        parts.sort_by_key(|(key, cause)| (std::cmp::Reverse(cause.lost_ns), key.server));
    }
    groups
}

pub(super) fn finding(
    culprit: Culprit,
    parts: &[Part<'_>],
    tally: &Tally,
    wall_ns: u64,
) -> Finding {
    let (key, mut cause) = (parts[0].0, parts[0].1.clone());
    parts[1..].iter().for_each(|(_, more)| cause.merge(more));
    // Of equals that of the greatest part, whenever it was.
    let instances = parts.iter().filter_map(|(_, cause)| cause.worst.as_ref());
    cause.worst =
        instances.reduce(|one, other| if other.rank.0 > one.rank.0 { other } else { one }).cloned();
    let cause = &cause;
    let endpoints = parts.iter().filter_map(|(key, _)| tally.endpoints.get(&key.server));
    let (mut all, mut of_exchanges, mut of_connections) = (Histogram::default(), 0, 0);
    for endpoint in endpoints {
        all.merge(&endpoint.all.latency);
        of_exchanges += endpoint.all.exchanges;
        of_connections += endpoint.connections;
    }
    let endpoint = tally.endpoints.get(&key.server).map(|endpoint| &**endpoint);
    let worst = cause.worst.as_ref();
    let mut facts = facts::facts(key, cause, endpoint);
    facts.extend(refusals::facts(parts));
    facts.extend(client_isolated::facts(culprit, parts));
    if culprit.role == Role::Network && culprit.endpoint.address != key.server.address {
        let target = match parts.len() {
            1 => key.server.to_string(),
            servers => format!("{} and {} more", key.server, servers - 1),
        };
        facts.insert("target", Fact::Text(target));
    }
    Finding {
        cause: key.cause,
        culprit,
        // A cause that was moved to another one met that on some of its exchanges.
        affected: Affected {
            exchanges: cause.exchanges.min(of_exchanges),
            of_exchanges,
            connections: cause.connections.min(of_connections),
        },
        lost_ns: cause.lost_ns,
        share: cause.lost_ns as f64 / wall_ns.max(1) as f64,
        latency: all.latency(),
        // An exchange that two parts of one cause were found in stands there twice.
        counterfactual: all.exchanged(&cause.now, &cause.without).latency().at_most(&all.latency()),
        confidence: confidence::of(key.cause, cause, tally.is_flawed()),
        evidence: worst.map(|instance| instance.proof.evidence()).unwrap_or_default(),
        evidence_flow: worst.map(|instance| (instance.client, instance.server)),
        evidence_exchange: worst.map_or(0, |instance| instance.exchange),
        state: Vec::new(),
        ruled_out: facts::ruled_out(key, cause, endpoint),
        facts: facts.into_iter().collect(),
        software: worst.and_then(|instance| instance.software.clone()).map(String::from),
        protocol: worst.map(|instance| instance.protocol).unwrap_or_default(),
        sender: key.sender,
        sights: Vec::new(),
        experiments: Vec::new(),
        is_unseen: false,
        load: None,
    }
}

fn floods(tally: &Tally, scans: &scans::Scans) -> Vec<Finding> {
    let floods = tally.endpoints.iter().filter_map(|(&server, endpoint)| {
        let source = endpoint.flood.only_source();
        if source.is_some_and(|client| scans.is_of(client, server)) {
            return None;
        }
        // Whoever has to wait for a listener under a flood waits because of it.
        let waits = |(key, _): &(&Key, &CauseTally)| {
            matches!(key.cause, Cause::SynRetransmit | Cause::AcceptQueueOverflow)
        };
        let waiting = || tally.causes.of(server).filter(waits).map(|(_, cause)| cause);
        let exchanges = waiting().map(|cause| cause.exchanges).sum();
        let lost_ns = waiting().map(|cause| cause.lost_ns).sum();
        syn_flood::recognise(server, endpoint, exchanges, lost_ns)
    });
    floods.collect()
}

/// Notes what the segments of each sender were that no finding tells of.
fn notice(tally: &mut Tally, report: &Report) {
    let told: HashSet<_> =
        report.findings.iter().map(|it| (it.cause, it.sender, it.culprit)).collect();
    let is_told = |server: Endpoint, side: Side| {
        let of_side = tally.causes.of(server).map(|(key, _)| key).filter(|key| key.sender == side);
        let mut of_side = of_side.filter(|key| key.cause.repeats_or_waits());
        of_side.any(|key| told.contains(&(key.cause, key.sender, key.culprit)))
    };
    let mut noticed = Noticed::default();
    for (&server, endpoint) in &tally.endpoints {
        for side in Side::ALL.into_iter().filter(|&side| !is_told(server, side)) {
            noticed.merge(&endpoint.noticed[side as usize]);
        }
    }
    tally.notes.noticed = noticed;
}

/// Where most connections were captured.
fn vantage(tally: &Tally) -> Vantage {
    let places = [Vantage::Client, Vantage::Server, Vantage::Middle, Vantage::Local]
        .map(|place| (tally.vantages[place as usize], place));
    let known: u64 = places.iter().map(|(count, _)| count).sum();
    match places.into_iter().max_by_key(|(count, _)| *count) {
        Some((count, place)) if known > 0 && count * 10 >= known * 9 => place,
        _ if known > 0 => Vantage::Mixed,
        _ => Vantage::Unknown,
    }
}

fn endpoints(tally: &Tally) -> Vec<EndpointReport> {
    let mut all: Vec<_> = tally
        .endpoints
        .iter()
        .filter(|(_, endpoint)| endpoint.all.exchanges > 0)
        .map(|(&endpoint, tally)| EndpointReport {
            endpoint,
            software: tally.software.clone().map(String::from),
            protocol: tally.protocol,
            connections: tally.connections,
            exchanges: tally.all.exchanges,
            ledger: tally.all.ledger,
            latency: tally.all.latency.latency(),
            kinds: kinds(tally),
        })
        .collect();
    all.sort_by_key(|endpoint| (std::cmp::Reverse(endpoint.ledger.total_ns()), endpoint.endpoint));
    all
}

/// Request kinds reported per endpoint; what is left is reported together.
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
        })
        .collect()
}
