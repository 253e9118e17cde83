//! One finding from the sums of its cause, one for each server.

use crate::findings::causes::rules;
use crate::findings::facts::Facts;
use crate::findings::floors::share_of;
use crate::findings::selective::Selective;
use crate::findings::tally::{CauseTally, EndpointTally, Part, Tally};
use crate::findings::{
    announced, client_isolated, confidence, facts, lossy_access, mute_hosts, prediction, refusals,
};
use crate::model::{Affected, Culprit, Fact, Finding, Histogram, Role};

/// Makes the finding of a cause at `culprit` from its `parts`, one for each server. Of a fault it says what
/// `selective` knows of its losses.
pub(super) fn finding(
    culprit: Culprit,
    parts: &[Part<'_>],
    tally: &Tally,
    wall_ns: u64,
    selective: Option<&Selective>,
) -> Finding {
    let key = parts[0].0;
    let cause = &sum(parts);
    let endpoints = parts.iter().filter_map(|(key, _)| tally.endpoints.get(&key.server));
    let (mut all, mut of_exchanges, mut of_connections) = (Histogram::default(), 0, 0);
    let mut needed_ns = u64::MAX;
    for endpoint in endpoints {
        all.merge(&endpoint.all.latency);
        of_exchanges += endpoint.all.exchanges;
        of_connections += endpoint.connections;
        needed_ns = endpoint.round_trips.needed_ns().min(needed_ns);
    }
    let endpoint = tally.endpoints.get(&key.server).map(|endpoint| &**endpoint);
    let chance = endpoint.map_or(0.0, |it| (rules(key.cause).chance)(key, cause, it));
    let worst = cause.worst.as_ref();
    Finding {
        cause: key.cause,
        culprit,
        // A cause that was moved to another one found the latter on some of its exchanges already.
        affected: Affected {
            exchanges: cause.exchanges.min(of_exchanges),
            of_exchanges,
            connections: cause.connections.min(of_connections),
        },
        lost_ns: cause.lost_ns,
        share: share_of(cause.lost_ns, wall_ns),
        latency: all.latency(),
        // An exchange with two parts of the same cause is counted twice.
        counterfactual: prediction::of(&all, &cause.now, &cause.without, needed_ns),
        confidence: confidence::of(key.cause, cause, tally.is_flawed(), chance),
        evidence: worst.map(|instance| instance.proof.evidence()).unwrap_or_default(),
        evidence_flow: worst.map(|instance| (instance.client, instance.server)),
        evidence_exchange: worst.map_or(0, |instance| instance.exchange),
        state: Vec::new(),
        ruled_out: facts::ruled_out(key, cause, endpoint),
        facts: facts_of(culprit, parts, cause, (endpoint, of_exchanges), selective)
            .into_iter()
            .collect(),
        software: worst.and_then(|instance| instance.software.clone()).map(String::from),
        protocol: worst.map(|instance| instance.protocol).unwrap_or_default(),
        sender: key.sender,
        sights: Vec::new(),
        experiments: Vec::new(),
        is_unseen: false,
        load: None,
    }
}

/// Returns the sums of all parts. Of equally clear instances, that of the greatest part is kept,
/// whatever its time.
fn sum(parts: &[Part<'_>]) -> CauseTally {
    let mut cause = parts[0].1.clone();
    parts[1..].iter().for_each(|(_, more)| cause.merge(more));
    let instances = parts.iter().filter_map(|(_, cause)| cause.worst.as_ref());
    cause.worst =
        instances.reduce(|one, other| if other.rank.0 > one.rank.0 { other } else { one }).cloned();
    cause
}

/// Returns the values for the texts of a finding. The servers of all parts have `of_exchanges`; that of
/// the greatest part is `endpoint`.
fn facts_of(
    culprit: Culprit,
    parts: &[Part<'_>],
    cause: &CauseTally,
    (endpoint, of_exchanges): (Option<&EndpointTally>, u64),
    selective: Option<&Selective>,
) -> Facts {
    let key = parts[0].0;
    let mut facts = facts::facts(key, cause, endpoint);
    if let Some(of_cases) = facts.get_mut("of_cases") {
        *of_cases = Fact::Count(of_exchanges);
    }
    facts.extend(refusals::facts(parts));
    facts.extend(client_isolated::facts(culprit, parts));
    let selected = selective.map(|it| it.facts(parts)).unwrap_or_default();
    if selected.is_empty() {
        facts.extend(lossy_access::facts(culprit, parts));
    }
    facts.extend(selected);
    facts.extend(announced::facts(culprit, parts));
    facts.extend(mute_hosts::facts(culprit, parts));
    if culprit.role == Role::Network && culprit.endpoint.address != key.server.address {
        let target = match parts.len() {
            1 => key.server.to_string(),
            servers => format!("{} and {} more", key.server, servers - 1),
        };
        facts.insert("target", Fact::Text(target));
    }
    facts
}
