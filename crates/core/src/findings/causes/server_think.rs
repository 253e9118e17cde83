//! The server's own work.
//!
//! Recognised in `judge/application.rs`: it is the time that no mechanism of TCP explains.

use super::{application, statements};
use crate::findings::facts::{Facts, perhaps_distance};
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Group, Key};
use crate::findings::thresholds::{FEW_SHARE, MOST_SHARE};
use crate::judge::Turn;
use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Fact, Histogram, Outcome, Owner, units};
use crate::wire::Side;

/// Name of the number of exchanges whose longest silence was within the response.
const WITHIN_RESPONSE: &str = "amid";

/// Name of the time in silences within responses, where another silence is the longest.
const WITHIN_NS: &str = "amid_ns";

/// Names of the number of exchanges without a byte of a response, and of the time that they took.
const LEFT: &str = "left";
const LEFT_NS: &str = "left_ns";

/// Names of the number of waits for the end of a connection that alone ends a response, and of their
/// time.
const UNSTATED: &str = "unstated_ends";
const UNSTATED_NS: &str = "unstated_ends_ns";

/// Kind of the exchange in which the server speaks first.
const GREETING: &str = "greeting";

/// Name of the sum of the server's time before such greetings, ns.
pub const BEFORE_GREETINGS_NS: &str = "before_greetings_ns";

/// Greatest number of kinds of requests that a finding names.
const KINDS_NAMED: usize = 3;

/// Proves the server's work by the request and the response.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    application::prove(scene, ("request", "response"), proof);
}

/// Counts the silences within responses, and the exchanges without one.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    // A server that answers several requests continues with the next response.
    let has_begun = scene.gap().end_ns > scene.exchange.answered_ns;
    let is_within = scene.gap().turn == Turn::Continues && has_begun;
    shown.add(WITHIN_RESPONSE, u64::from(is_within));
    if !is_within {
        shown.add(WITHIN_NS, scene.chain.within_ns.min(scene.chain.ns));
    }
    if &*scene.exchange.kind == GREETING {
        shown.add(BEFORE_GREETINGS_NS, scene.chain.ns.saturating_sub(scene.chain.within_ns));
    }
    if application::waits_for_unstated_end(scene.gap()) {
        shown.add(UNSTATED, 1);
        shown.add(UNSTATED_NS, scene.gap().len_ns());
    }
    let has_ended =
        matches!(scene.exchange.outcome, Outcome::Closed { by: Side::Client } | Outcome::Open);
    if has_ended && !scene.exchange.response_seen {
        shown.add(LEFT, 1);
        shown.add(LEFT_NS, scene.gap().len_ns());
    }
}

/// Returns the requests on which the server spent its time, and how the time was distributed.
pub(super) fn facts(_: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let mut facts = facts_of_longest(&cause.waits);
    if let Some(kinds) = slowest_kinds(endpoint) {
        facts.insert("kinds", Fact::Text(kinds));
    }
    let greeting_ns = cause.shown.count(BEFORE_GREETINGS_NS);
    if 2 * greeting_ns > cause.lost_ns {
        facts.insert("greeting_ns", Fact::Ns(greeting_ns));
    }
    facts.extend(statements::facts(endpoint));
    facts.extend(perhaps_distance(cause, endpoint));
    let is_unread = application::is_unread_in(cause);
    if is_unread && application::is_read(endpoint.identity.protocol) {
        facts.insert(application::UNREAD, application::unread_in_part());
    }
    let (trips, connections) = (&endpoint.round_trips, endpoint.connections);
    let wait_ns = cause.waits.quantile_ns(0.5);
    if trips.are_acknowledged_nearer(connections)
        || trips.may_be_behind_nearer(connections, wait_ns)
    {
        facts.extend([nearer_host()]);
    }
    let left = cause.shown.count(LEFT);
    let (within, within_ns) = (cause.shown.count(WITHIN_RESPONSE), cause.shown.count(WITHIN_NS));
    if within == 0 && within_ns >= cause.lost_ns / ALIKE_PART {
        facts.insert("pauses_ns", Fact::Ns(within_ns));
    }
    if cause.shown.count(UNSTATED_NS) > cause.lost_ns / 2 {
        facts.insert("unstated", Fact::Count(cause.shown.count(UNSTATED)));
        let place = "from the last data of a response to the end of the connection";
        facts.insert("where", Fact::Text(place.into()));
    } else if let Some(place) = place(cause.exchanges, within, left, is_unread) {
        facts.insert("where", Fact::Text(place.into()));
    }
    if cause.shown.count(LEFT_NS) > cause.lost_ns / 2 {
        facts.insert("unanswered", Fact::Count(left));
    }
    facts
}

/// Returns the fact that a host nearer than the server acknowledges in its name.
pub(super) fn nearer_host() -> (&'static str, Fact) {
    ("hidden", Fact::Text("its ACKs come sooner than its SYN-ACK".into()))
}

/// Returns where the longest silences of `exchanges` lie, of which `within` are within the response
/// and `left` are in exchanges without one; `None` if all lie before the response. If the protocol
/// `is_unread`, it is not known what is a request, and what a response.
fn place(exchanges: u64, within: u64, left: u64, is_unread: bool) -> Option<&'static str> {
    match (within, left) {
        (0, 0) if is_unread => Some("after what its client sent"),
        (_, 0) if is_unread => Some("after what either side sent"),
        _ if is_unread => {
            Some("after what either side sent, or none until the client leaves or the capture ends")
        }
        (0, 0) => None,
        (_, 0) if within >= exchanges => Some("in the midst of a response that has begun"),
        (_, 0) => Some(
            "from the end of the request to the start of the response, or in the midst of a \
             response that has begun",
        ),
        (0, _) if left >= exchanges => {
            Some("from the end of the request until the client leaves or the capture ends")
        }
        (0, _) => Some(
            "from the end of the request to the start of the response, or until the client \
             leaves or the capture ends",
        ),
        _ => Some(
            "from the end of the request to the start of the response, in the midst of a \
             response that has begun, or until the client leaves or the capture ends",
        ),
    }
}

/// Returns facts about the longest waits if a tenth of the waits have most of the time, because the
/// median then says little.
fn facts_of_longest(waits: &Histogram) -> Facts {
    let (count, least_ns) = waits.longest(MOST_SHARE);
    if count == 0 || count as f64 > FEW_SHARE * waits.count() as f64 {
        return Facts::new();
    }
    Facts::from([("few", Fact::Count(count)), ("few_least_ns", Fact::Ns(least_ns))])
}

/// Returns the kinds of requests on which the server spent most of its time, with the mean of its
/// time for each. A kind is named only if that mean is not below the mean of all exchanges, of
/// which many may be of no known kind: then it is not below that of the exchanges left unnamed.
fn slowest_kinds(endpoint: &EndpointTally) -> Option<String> {
    let spent_ns = |group: &Group| group.ledger.of(Owner::Server);
    let all = &endpoint.all;
    let is_slow = |group: &Group| {
        let [kind, all] = [(group, all), (all, group)]
            .map(|(of, times)| u128::from(spent_ns(of)) * u128::from(times.exchanges));
        kind >= all
    };
    let mut kinds: Vec<_> = endpoint
        .kinds
        .iter()
        .filter(|(name, group)| !name.is_empty() && spent_ns(group) > 0 && is_slow(group))
        .collect();
    kinds.sort_by_key(|(name, group)| (std::cmp::Reverse(spent_ns(group)), *name));
    let named = kinds.iter().take(KINDS_NAMED).map(|(name, group)| {
        let mean_ns = spent_ns(group) / group.exchanges.max(1);
        let count = units::count(group.exchanges);
        format!("{name} ({count} × {})", units::duration(mean_ns))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_waits_are_few() {
        let is_of_few = |long: u64| {
            let mut waits = Histogram::default();
            (0..100 - long).for_each(|_| waits.record(1_000_000));
            (0..long).for_each(|_| waits.record(1_000_000_000));
            !facts_of_longest(&waits).is_empty()
        };
        assert!(is_of_few(8) && !is_of_few(15));
    }
}
