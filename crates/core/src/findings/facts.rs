//! Values for the texts of a finding.

use crate::findings::causes::no_answer::CLOSED;
use crate::findings::causes::rules;
use crate::findings::causes::server_think::BEFORE_GREETINGS_NS;
use crate::findings::tally::{CauseTally, EndpointTally, Key, LOST_SECOND};
use crate::judge::thresholds::{APPLICATION_TIMEOUT_MIN_NS, AT_ONCE_PART, HABIT_MIN};
use crate::model::{Cause, Fact, RuledOut};
use crate::wire::Side;
use std::collections::BTreeMap;

/// Values by name.
pub type Facts = BTreeMap<&'static str, Fact>;

/// Returns the values for the texts of a cause.
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
    facts.extend(limit_ns(key, cause, endpoint).map(|limit_ns| ("limit_ns", Fact::Ns(limit_ns))));
    if cause.exchanges == 1 {
        // Where a part of its waits was moved here from another cause, there are several of one exchange.
        let longest = Fact::Ns(cause.waits.latency().max_ns);
        facts.extend(["p50_ns", "p99_ns"].map(|name| (name, longest.clone())));
    }
    if cause.exchanges == 0 {
        facts.clear();
    }
    if (rules.count)(cause) == 0 {
        facts.remove("count");
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
    // No text says these; `selective` weighs the one, and the row of its cause the other.
    for name in [LOST_SECOND, BEFORE_GREETINGS_NS] {
        facts.remove(name);
    }
    if let Some(endpoint) = endpoint {
        facts.extend((rules.facts)(key, cause, endpoint));
    }
    let measured = cause.shown.measured("ack_delay_p50_ns") + cause.shown.count("prompt_acks");
    if measured < cause.count {
        // Of several waits of an exchange only one was measured.
        facts.remove("ack_delay_p50_ns");
    }
    if facts.contains_key("moved") {
        // A reader that lags behind does not need a wider buffer.
        facts.retain(|name, _| !["rate_bps", "bdp_bytes"].contains(name));
    }
    facts
}

/// Returns the time after which exchanges failed, ns, if they all took equally long, and as long as a
/// timeout of an application: work takes now longer and now shorter. Two durations differ by less than a
/// 64th part by chance once in 32 times; three of them, once in a thousand.
fn limit_ns(key: &Key, tally: &CauseTally, endpoint: Option<&EndpointTally>) -> Option<u64> {
    let ends_work = match key.cause {
        // A client that gives up has a timeout, too.
        Cause::NoAnswer => tally.shown.count(CLOSED) == tally.exchanges,
        Cause::ErrorResponses => {
            let mut codes = endpoint.into_iter().flat_map(|it| it.all.outcomes.codes());
            codes.all(|(code, _)| code.is_of_server())
        }
        Cause::Reset => key.sender == Side::Server,
        _ => false,
    };
    let (least_ns, _) = tally.waits.points().next().filter(|_| ends_work)?;
    let most_ns = tally.waits.latency().max_ns;
    let is_habit = tally.waits.count() >= HABIT_MIN.into();
    let is_alike = most_ns - least_ns.min(most_ns) <= least_ns / (AT_ONCE_PART * AT_ONCE_PART);
    let is_timeout = least_ns >= APPLICATION_TIMEOUT_MIN_NS;
    (is_habit && is_alike && is_timeout).then(|| tally.waits.quantile_ns(0.5))
}

/// Returns the greatest part of each answer that may be the round trip, if nothing shows that: no
/// connection has a captured handshake, or an ACK that did not wait for the response. It matters if most
/// responses took little more.
pub fn perhaps_distance(
    cause: &CauseTally,
    endpoint: &EndpointTally,
) -> Option<(&'static str, Fact)> {
    let most_ns = endpoint.round_trips.undivided_ns?;
    let matters = 2 * most_ns >= cause.waits.quantile_ns(0.5);
    matters.then_some(("distance_max_ns", Fact::Ns(most_ns)))
}

/// Returns the look-alikes that the clearest instance excludes, and those that only all instances
/// together exclude.
pub fn ruled_out(key: &Key, cause: &CauseTally, endpoint: Option<&EndpointTally>) -> Vec<RuledOut> {
    let proof = cause.worst.as_ref().map(|instance| &instance.proof);
    let mut all = proof.map(|proof| proof.ruled_out.clone()).unwrap_or_default();
    // A repeated SYN that met a full listener was at first not recognised as such.
    all.retain(|ruled_out| ruled_out.cause != key.cause);
    if endpoint.is_some_and(|endpoint| endpoint.sender(key.sender).retransmissions.spurious > 0) {
        // A D-SACK came after all, for this retransmission or another.
        all.retain(|it| !["not_acknowledged", "no_dsack", "not_late"].contains(&it.why));
    }
    all.extend((rules(key.cause).ruled_out)(cause, endpoint));
    all
}
