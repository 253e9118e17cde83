//! The values that go into a finding's words.

use crate::app::Side;
use crate::findings::causes::rules;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Fact, RuledOut};
use std::collections::BTreeMap;

/// Values by name.
pub type Facts = BTreeMap<&'static str, Fact>;

/// Values for the words of a cause.
pub fn facts(key: &Key, cause: &CauseTally, endpoint: Option<&EndpointTally>) -> Facts {
    let rules = rules(key.cause);
    let mut facts = Facts::from([
        ("cases", Fact::Count(cause.exchanges)),
        ("of_cases", Fact::Count(endpoint.map_or(0, |endpoint| endpoint.all.exchanges))),
        ("count", Fact::Count((rules.count)(cause))),
        ("longest_ns", Fact::Ns(cause.waits.latency().max_ns)),
        ("p50_ns", Fact::Ns(cause.waits.quantile_ns(0.5))),
        ("p99_ns", Fact::Ns(cause.waits.quantile_ns(0.99))),
    ]);
    if cause.exchanges == 0 {
        facts.clear();
    }
    let (message, peer) = match key.sender {
        Side::Client => ("request", "server"),
        Side::Server => ("response", "client"),
    };
    facts.insert("message", Fact::Text(message.into()));
    facts.insert("peer", Fact::Text(peer.into()));
    if let Some(instance) = &cause.worst {
        facts.extend(instance.proof.facts.iter().cloned());
    }
    facts.extend(cause.shown.facts());
    if let Some(endpoint) = endpoint {
        facts.extend((rules.facts)(key, cause, endpoint));
    }
    if facts.contains_key("moved") {
        // A wider buffer is not what a reader needs who is behind.
        facts.retain(|name, _| !["rate_bps", "bdp_bytes"].contains(name));
    }
    facts
}

/// What every answer took at least, or the way is known to take at most, where nothing shows how
/// much of that is the way there and back: of no connection was the handshake captured, or an ACK
/// that did not wait for the answer. It matters where most answers took little more.
pub fn perhaps_distance(
    cause: &CauseTally,
    endpoint: &EndpointTally,
) -> Option<(&'static str, Fact)> {
    let (least_ns, _) = cause.waits.points().next()?;
    let least_ns = endpoint.server_leg_max_ns.map_or(least_ns, |max_ns| max_ns.min(least_ns));
    let matters = 2 * least_ns >= cause.waits.quantile_ns(0.5);
    (!endpoint.server_leg_known && matters).then_some(("distance_max_ns", Fact::Ns(least_ns)))
}

/// Look-alikes that the clearest instance excludes, and those that only all cases together do.
pub fn ruled_out(key: &Key, cause: &CauseTally, endpoint: Option<&EndpointTally>) -> Vec<RuledOut> {
    let proof = cause.worst.as_ref().map(|instance| &instance.proof);
    let mut all = proof.map(|proof| proof.ruled_out.clone()).unwrap_or_default();
    // A repeated SYN that met a full listener was not found to be that at first.
    all.retain(|ruled_out| ruled_out.cause != key.cause);
    if endpoint.is_some_and(|endpoint| endpoint.repeats[key.sender as usize][1] > 0) {
        // A D-SACK came after all, for this one or another.
        all.retain(|it| !["not_acknowledged", "no_dsack"].contains(&it.why));
    }
    all.extend((rules(key.cause).ruled_out)(cause, endpoint));
    all
}
