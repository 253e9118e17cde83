//! The values that go into a finding's words.

use crate::app::Side;
use crate::findings::scene::AMID;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::findings::thresholds::MOST_SHARE;
use crate::findings::{buffer_limits, fallback, overflow};
use crate::model::{Cause, Fact, Histogram, Owner, RuledOut};
use std::collections::BTreeMap;

/// Values by name.
pub type Facts = BTreeMap<&'static str, Fact>;

/// Values for the words of a cause.
pub fn facts(key: &Key, cause: &CauseTally, endpoint: Option<&EndpointTally>) -> Facts {
    // An attempt is one, however often it was repeated.
    let count = match key.cause {
        Cause::SynRetransmit | Cause::AcceptQueueOverflow => cause.exchanges,
        // Segments are lost, and several of them are repaired in one silence.
        Cause::FastRecovery => cause.count.max(cause.repaired),
        _ => cause.count,
    };
    let mut facts = Facts::from([
        ("cases", Fact::Count(cause.exchanges)),
        ("of_cases", Fact::Count(endpoint.map_or(0, |endpoint| endpoint.all.exchanges))),
        ("count", Fact::Count(count)),
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
    if key.cause == Cause::Http100Continue {
        facts.insert("wait_p50_ns", Fact::Ns(cause.waits.quantile_ns(0.5)));
    }
    if let Some(endpoint) = endpoint {
        facts.extend(compared(key, cause, endpoint));
    }
    if facts.contains_key("moved") {
        // A wider buffer is not what a reader needs who is behind.
        facts.retain(|name, _| !["rate_bps", "bdp_bytes"].contains(name));
    }
    facts
}

/// Latency of the other exchanges at the same endpoint.
fn compared(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let mut facts = Facts::new();
    let others = endpoint.established.saturating_sub(cause.connections);
    match key.cause {
        Cause::SynRetransmit if others > 0 && cause.shown.count(fallback::FALLBACKS) == 0 => {
            facts.insert("answered", Fact::Count(others));
        }
        Cause::ReceiveWindow => {
            let [level, all] = endpoint.window_stands[key.sender as usize];
            if !buffer_limits::is_fixed([level, all]) {
                facts.insert("moved", Fact::Count(all.into()));
            }
        }
        Cause::NagleDelayedAck => {
            let missed = endpoint.nagle_missed[key.sender as usize];
            facts.insert("waits", Fact::Count(cause.count + missed));
        }
        Cause::Refused if endpoint.established > 0 => {
            facts.insert("accepted", Fact::Count(endpoint.established));
        }
        Cause::ServerThink => {
            if let Some(kinds) = slowest_kinds(endpoint) {
                facts.insert("kinds", Fact::Text(kinds));
            }
            facts.extend(few_long(&cause.waits));
            facts.extend(perhaps_distance(cause, endpoint));
            if 2 * cause.shown.count(AMID) > cause.exchanges {
                facts.insert(
                    "where",
                    Fact::Text("in the midst of a response that has begun".into()),
                );
            }
        }
        _ => {}
    }
    facts
}

/// Facts for a cost of which a tenth of the waits have most of the time, so that the median says
/// little.
fn few_long(waits: &Histogram) -> Facts {
    let (count, least_ns) = waits.longest(MOST_SHARE);
    if count == 0 || count * 10 > waits.count() {
        return Facts::new();
    }
    Facts::from([("few", Fact::Count(count)), ("few_least_ns", Fact::Ns(least_ns))])
}

/// Kinds of requests named.
const KINDS_NAMED: usize = 3;

/// The kinds of requests on which the server spent most of its time, with a mean for each.
fn slowest_kinds(endpoint: &EndpointTally) -> Option<String> {
    let spent_ns = |group: &super::tally::Group| group.ledger.of(Owner::Server);
    let mut kinds: Vec<_> = endpoint
        .kinds
        .iter()
        .filter(|(name, group)| !name.is_empty() && spent_ns(group) > 0)
        .collect();
    kinds.sort_by_key(|(name, group)| (std::cmp::Reverse(spent_ns(group)), *name));
    let named = kinds.iter().take(KINDS_NAMED).map(|(name, group)| {
        let mean_ns = spent_ns(group) / group.exchanges.max(1);
        let count = crate::model::units::count(group.exchanges);
        format!("{name} ({count} × {})", crate::model::units::duration(mean_ns))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(", "))
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
    let established = endpoint.map_or(0, |endpoint| endpoint.established);
    let names = [overflow::FULL, overflow::EMPTY, overflow::OPEN];
    let [full, empty, open] = names.map(|name| cause.shown.count(name) > 0);
    let more = match key.cause {
        Cause::SynRetransmit if open => (Cause::AcceptQueueOverflow, "queue_open", true),
        Cause::SynRetransmit => (Cause::AcceptQueueOverflow, "queue_empty", empty),
        Cause::AcceptQueueOverflow => (Cause::SynRetransmit, "queue_full", full),
        Cause::Refused => (Cause::AcceptQueueOverflow, "always", established == 0),
        _ => return all,
    };
    if more.2 {
        all.push(RuledOut { cause: more.0, why: more.1 });
    }
    all
}
