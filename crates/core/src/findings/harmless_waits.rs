//! Waits that look like faults in the ledger but are none: which side is waited for, and why it is
//! not at fault.
//!
//! A cost below its floors needs no explanation. But if an owner with the name of a fault takes
//! much of the time and no finding explains it, an observation does.

use crate::findings::buffer_limits::{self, NoFaultReason};
use crate::findings::causes::rules;
use crate::findings::facts::facts;
use crate::findings::floors::{Floors, share_of};
use crate::findings::tally::{Part, Tally};
use crate::findings::thresholds::DOMINANT_FACTOR;
use crate::model::{Class, Fact, Observation, units};
use crate::wire::Endpoint;
use std::collections::{BTreeMap, HashSet};

/// Returns one observation for each cause, server and side for which exchanges waited as long as
/// for a fault, without one of `faults`.
pub(super) fn observe(
    tally: &Tally,
    floors: &Floors,
    wall_ns: u64,
    faults: &[Part<'_>],
) -> Vec<Observation> {
    let blamed: HashSet<_> = faults.iter().map(|(key, _)| *key).collect();
    let mut groups: BTreeMap<_, Vec<Part<'_>>> = BTreeMap::new();
    for (key, cause) in tally.causes.iter() {
        let is_wait = key.cause.class() == Class::Fault && !key.cause.makes_exchanges_fail();
        if is_wait && !blamed.contains(key) {
            groups.entry((key.server, key.cause, key.sender)).or_default().push((key, cause));
        }
    }
    let mut all: Vec<_> =
        groups.values().filter_map(|parts| observation(parts, tally, floors, wall_ns)).collect();
    all.sort_by_key(|(lost_ns, _)| std::cmp::Reverse(*lost_ns));
    all.into_iter().map(|(_, observation)| observation).collect()
}

/// Returns observations of what would be a fault if it had happened more than once or cost more.
pub(super) fn observe_once(once: &[Part<'_>], wall_ns: u64) -> Vec<Observation> {
    let mut once = once.to_vec();
    once.sort_by_key(|(key, cause)| (std::cmp::Reverse(cause.lost_ns), (*key).clone()));
    let observation = |(key, cause): &Part<'_>| {
        let share = share_of(cause.lost_ns, wall_ns);
        let facts = vec![
            ("cause", Fact::Text(key.cause.id().into())),
            ("lost_ns", Fact::Ns(cause.lost_ns)),
            ("share", Fact::Share(share)),
            ("server", Fact::Text(units::endpoint_or_others(&key.server))),
        ];
        let evidence = cause.worst.as_ref().map(|instance| instance.proof.evidence());
        let frames = evidence.unwrap_or_default().iter().map(|it| it.frame).collect();
        Observation { id: "seen_once", facts, frames }
    };
    once.iter().map(observation).collect()
}

/// Returns the observation about the time for which exchanges waited for all these culprits.
fn observation(
    parts: &[Part<'_>],
    tally: &Tally,
    floors: &Floors,
    wall_ns: u64,
) -> Option<(u64, Observation)> {
    let &(key, greatest) = parts.iter().max_by_key(|(_, cause)| cause.lost_ns)?;
    let endpoint = tally.endpoints.get(&key.server)?;
    let lost_ns: u64 = parts.iter().map(|(_, cause)| cause.lost_ns).sum();
    let exchanges: u64 = parts.iter().map(|(_, cause)| cause.exchanges).sum();
    // An exchange that waited for two of them counts once.
    let exchanges = exchanges.clamp(1, endpoint.all.exchanges.max(1));
    let share = share_of(lost_ns, wall_ns);
    if share < DOMINANT_FACTOR * floors.fault_share || lost_ns / exchanges < floors.cost_ns {
        return None;
    }
    let mut cause = greatest.clone();
    let others = parts.iter().filter(|(other, _)| *other != key);
    others.for_each(|(_, other)| cause.merge(other));
    let mut facts: Vec<_> = facts(key, &cause, Some(endpoint))
        .into_iter()
        .filter(|(name, _)| {
            ["window_bytes", "ceiling_bytes", "rtt_ns", buffer_limits::READ].contains(name)
        })
        .collect();
    let at = match (key.culprit.endpoint, parts.len() - 1) {
        (Endpoint { port: 0, .. }, 0) => key.culprit.endpoint.ip().to_string(),
        (Endpoint { port: 0, .. }, more) => {
            format!("{} and {more} more", key.culprit.endpoint.ip())
        }
        (at, _) => at.to_string(),
    };
    facts.extend([
        (rules(key.cause).waits_for, Fact::Text(at)),
        ("cause", Fact::Text(key.cause.id().into())),
        ("lost_ns", Fact::Ns(lost_ns)),
        ("share", Fact::Share(share)),
        ("exchanges", Fact::Count(exchanges)),
        ("count", Fact::Count(cause.count)),
        ("wait_mean_ns", Fact::Ns(lost_ns / cause.count.max(1))),
    ]);
    facts.extend(match buffer_limits::no_fault_reason(key, &cause, endpoint) {
        NoFaultReason::Work { late_ns } => Some(("late_ns", Fact::Ns(late_ns))),
        NoFaultReason::Short { wait_ns } => Some(("short_ns", Fact::Ns(wait_ns))),
        NoFaultReason::Opens => Some(("opens", Fact::Count(cause.count))),
        NoFaultReason::SwitchedOff { connections } => {
            Some(("switched_off", Fact::Count(connections)))
        }
        NoFaultReason::Few => None,
    });
    if let Some(rate_bps) = buffer_limits::rate_bps(&cause) {
        facts.push(("read_bps", Fact::BitsPerSecond(rate_bps)));
    }
    let evidence = greatest.worst.as_ref().map(|instance| instance.proof.evidence());
    let frames = evidence.unwrap_or_default().iter().map(|it| it.frame).collect();
    Some((lost_ns, Observation { id: "waits_without_fault", facts, frames }))
}
