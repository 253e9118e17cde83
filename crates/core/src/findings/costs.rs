//! Costs: time spent without a fault, reported for each server endpoint.

use crate::findings::causes::{COSTS, Cost, OwnedCost, rules};
use crate::findings::facts::Facts;
use crate::findings::finding::finding;
use crate::findings::floors::{Floors, share_of};
use crate::findings::proof::Proof;
use crate::findings::slow::{Firsts, Tail};
use crate::findings::tally::{CauseTally, EndpointTally, Key, Tally};
use crate::findings::thresholds::{
    AMBIGUOUS_CONFIDENCE_MAX, TYPED_LINE_BYTES, TYPED_MIN_NS, VERY_FEW_EXCHANGES,
};
use crate::findings::{confidence, prediction, slow};
use crate::model::{Cause, Class, Evidence, Fact, Family, Finding, Latency, Ledger, Owner, units};
use crate::wire::{Endpoint, Side};
use hashbrown::HashMap;

/// Returns the costs that are findings. Time that a fault of `faults` explains is not reported
/// again as a cost.
pub(super) fn costs(
    tally: &Tally,
    floors: &Floors,
    wall_ns: u64,
    faults: &[(&Key, &CauseTally)],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let context = Context { tally, floors, wall_ns, firsts: Firsts::of(tally) };
    let mut covered: HashMap<Endpoint, Ledger> = HashMap::new();
    for (key, cause) in faults {
        covered.entry(key.server).or_default().merge(&cause.covers);
    }
    for (&server, endpoint) in &tally.endpoints {
        let explained_ns = |owners: &[Owner]| -> u64 {
            let covered = covered.get(&server);
            covered.map_or(0, |covers| owners.iter().map(|&owner| covers.of(owner)).sum())
        };
        let mut all = Vec::new();
        for OwnedCost { cause, owners, .. } in COSTS {
            let own = rules_of_cost(cause);
            let owned_ns: u64 = owners.iter().map(|&owner| endpoint.all.ledger.of(owner)).sum();
            let cost_ns =
                owned_ns.saturating_sub(explained_ns(owners).max((own.other_ns)(endpoint)));
            all.push(EndpointCost { cause, sender: own.sender, server, endpoint, cost_ns });
        }
        for (cause, sender) in by_sender() {
            let of_sender =
                |(key, _): &(&Key, &CauseTally)| key.cause == cause && key.sender == sender;
            let met = tally.causes.of(server).filter(of_sender);
            let cost_ns = met.map(|(_, it)| it.lost_ns).sum();
            all.push(EndpointCost { cause, sender, server, endpoint, cost_ns });
        }
        findings.extend(of_endpoint(&context, &all));
    }
    debug_assert!(findings.iter().all(|finding| finding.cause.class() == Class::Cost));
    findings
}

/// Returns the findings among the costs at one endpoint. A cost below its floor is one as well if it is
/// greater than each that is above: otherwise the report would name the smaller one as the reason.
fn of_endpoint(context: &Context<'_>, all: &[EndpointCost<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut below = Vec::new();
    for of_endpoint in all {
        match cost(context, of_endpoint, false) {
            Some(finding) => findings.push(finding),
            None => below.push(of_endpoint),
        }
    }
    let Some(shown_ns) = findings.iter().map(|it| it.lost_ns).max() else { return findings };
    let greater = below.into_iter().filter(|it| it.cost_ns > shown_ns);
    findings.extend(greater.filter_map(|it| cost(context, it, true)));
    findings
}

/// Returns the costs that no owner of time shows, by sender: the window concerned is that of the
/// sender, in uploads the client's.
fn by_sender() -> impl Iterator<Item = (Cause, Side)> {
    let is_tallied = |cause: &Cause| cause.class() == Class::Cost && rules(*cause).cost.is_none();
    let causes = Cause::ALL.iter().copied().filter(is_tallied);
    causes.flat_map(|cause| Side::ALL.map(|side| (cause, side)))
}

fn rules_of_cost(cause: Cause) -> &'static Cost {
    rules(cause).cost.unwrap_or(&Cost::PLAIN)
}

/// The sums from which all costs are computed.
struct Context<'a> {
    tally: &'a Tally,
    floors: &'a Floors,
    /// Wall time of all exchanges, ns.
    wall_ns: u64,
    firsts: Firsts<'a>,
}

/// A cost at an endpoint.
struct EndpointCost<'a> {
    cause: Cause,
    sender: Side,
    server: Endpoint,
    endpoint: &'a EndpointTally,
    cost_ns: u64,
}

impl EndpointCost<'_> {
    /// Returns the sums under the cause of this cost, and their key.
    fn tallied(&self, tally: &Tally) -> (Key, CauseTally) {
        let &Self { cause, sender, server, endpoint, .. } = self;
        let is_known = |key: &Key| key.cause == cause && key.sender == sender;
        let known = tally.causes.of(server).find(|(key, _)| is_known(key));
        match known.filter(|_| !rules_of_cost(cause).is_partly_tallied) {
            Some((key, tallied)) => (key.clone(), tallied.clone()),
            None => {
                let sample = endpoint.sample(cause);
                let client = sample.map(|it| Endpoint { port: 0, ..it.client }).unwrap_or_default();
                let culprit = cause.culprit(sender, client, server);
                (Key { cause, sender, server, culprit }, CauseTally::default())
            }
        }
    }
}

/// Returns a cost as a finding if it is above its floor, or if `is_greatest` of those at its endpoint.
fn cost(
    context: &Context<'_>,
    of_endpoint: &EndpointCost<'_>,
    is_greatest: bool,
) -> Option<Finding> {
    let &Context { tally, floors, wall_ns, ref firsts } = context;
    let &EndpointCost { cause, server, endpoint, cost_ns, .. } = of_endpoint;
    let own = rules_of_cost(cause);
    let total_ns = endpoint.all.ledger.total_ns().max(1);
    if (cost_ns as f64) < floors.cost_share * total_ns as f64 {
        return None;
    }
    let (key, tallied) = of_endpoint.tallied(tally);
    let tail = Tail::of(cause, &tallied, endpoint);
    let mean_ns = cost_ns / endpoint.all.exchanges.max(1);
    let rows = own.adds_up.then(|| firsts.rows(server, endpoint));
    let rows = rows.filter(|rows| slow::adds_up(rows, endpoint, cost_ns, floors));
    let is_long = mean_ns >= own.floor_factor * floors.cost_ns;
    let is_worth = is_long || tail.is_felt(endpoint, cost_ns, floors) || rows.is_some();
    if !is_worth && !is_greatest {
        return None;
    }
    let mut finding = finding(key.culprit, &[(&key, &tallied)], tally, wall_ns, None);
    finding.lost_ns = cost_ns;
    finding.share = share_of(cost_ns, wall_ns);
    if tallied.exchanges == 0 {
        spread(of_endpoint, total_ns, &mut finding);
    }
    if finding.evidence.is_empty() && finding.culprit.endpoint == Endpoint::default() {
        // Nothing shows it, and nobody is named who could change it.
        return None;
    }
    let mut facts: Facts = std::mem::take(&mut finding.facts).into_iter().collect();
    let rtt_ns = endpoint.round_trips.base.quantile_ns(0.5);
    facts.extend((rtt_ns > 0).then_some(("rtt_ns", Fact::Ns(rtt_ns))));
    facts.extend((own.facts)(&mut finding, server, endpoint, tally));
    facts.extend(rows.as_ref().map(slow::sequence_facts).unwrap_or_default());
    let of_few = tail.facts(endpoint, cost_ns);
    let mut counted_ns = if tallied.exchanges == 0 { cost_ns } else { tallied.lost_ns };
    if rows.is_none() && !of_few.is_empty() {
        finding.affected.exchanges = tail.count;
        counted_ns = tail.ns;
        if tallied.exchanges == 0 {
            // The other exchanges do not show it.
            finding.confidence = confidence::of_many(cause, tail.count);
        }
        if let Some(tail) = endpoint.tails.of(cause).filter(|_| tallied.exchanges == 0) {
            let (all, needed_ns) = (&endpoint.all.latency, endpoint.round_trips.needed_ns());
            finding.counterfactual = prediction::of(all, &tail.now, &tail.without, needed_ns);
        }
        facts.extend(of_few);
    }
    // Other exchanges have the rest, each too little of it to be counted.
    if counted_ns < cost_ns && units::duration(counted_ns) != units::duration(cost_ns) {
        facts.insert("counted_ns", Fact::Ns(counted_ns));
    }
    facts.extend(of_very_few(&finding, &facts));
    if facts.contains_key("distance_max_ns") || facts.contains_key("unread") {
        finding.confidence = finding.confidence.min(AMBIGUOUS_CONFIDENCE_MAX);
    }
    finding.facts = facts.into_iter().collect();
    finding.ruled_out.extend((own.ruled_out)(server, endpoint, tally));
    Some(finding)
}

/// Completes a cost that is spread over all exchanges of an endpoint. Its evidence is the exchange
/// in which its share is greatest.
fn spread(of_endpoint: &EndpointCost<'_>, total_ns: u64, finding: &mut Finding) {
    let &EndpointCost { cause, endpoint, cost_ns, .. } = of_endpoint;
    finding.affected.exchanges = endpoint.all.exchanges;
    finding.affected.connections = endpoint.connections;
    finding.protocol = endpoint.identity.protocol;
    finding.software = endpoint.identity.software.clone().map(String::from);
    let likely = scaled(&finding.latency, 1.0 - cost_ns as f64 / total_ns as f64);
    let needed_ns = endpoint.round_trips.needed_ns();
    finding.counterfactual = prediction::of_each(&finding.latency, likely, needed_ns);
    finding.confidence = confidence::of_many(cause, endpoint.all.exchanges);
    if let Some((sample, show)) = endpoint.sample(cause).zip(rules_of_cost(cause).show) {
        let mut proof = Proof::default();
        show(sample, &mut proof);
        finding.evidence = proof.evidence();
        finding.evidence_flow = Some((sample.client, sample.server));
        finding.evidence_exchange = sample.exchange;
    }
}

/// Returns the facts of an application's time that was seen in one or two exchanges only, and
/// whether it may be a person's pause between two lines of an unknown protocol.
fn of_very_few(finding: &Finding, facts: &Facts) -> Facts {
    let is_think = finding.cause.family() == Family::Application;
    let exchanges = finding.affected.exchanges;
    if !is_think || exchanges > VERY_FEW_EXCHANGES || facts.contains_key("slow") {
        return Facts::new();
    }
    let mut few = Facts::from([("alone", Fact::Count(exchanges))]);
    let is_line = |it: &Evidence| (1..=TYPED_LINE_BYTES).contains(&it.payload_bytes);
    let lines = finding.evidence.iter().filter(|it| it.payload_bytes > 0);
    let is_typed = facts.contains_key("lines")
        && lines.clone().count() > 1
        && lines.clone().all(is_line)
        && finding.lost_ns >= exchanges * TYPED_MIN_NS;
    if is_typed {
        few.insert("typed_ns", Fact::Ns(finding.lost_ns / exchanges.max(1)));
    }
    few
}

/// Latency without a cost that is spread evenly over the exchanges.
pub(super) fn scaled(latency: &Latency, share: f64) -> Latency {
    let scale = |ns: u64| (ns as f64 * share) as u64;
    Latency {
        p50_ns: scale(latency.p50_ns),
        p90_ns: scale(latency.p90_ns),
        p99_ns: scale(latency.p99_ns),
        max_ns: scale(latency.max_ns),
    }
}
