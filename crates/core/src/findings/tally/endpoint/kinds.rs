//! Exchanges of one endpoint by kind of request.

use crate::app::Label;
use crate::findings::tally::history::are_too_many;
use crate::model::{Histogram, Ledger, Outcome, Outcomes, Owner};
use crate::tcp::{Exchange, SimpleExchange};
use hashbrown::HashMap;
use std::cmp::Reverse;

/// Number of request kinds kept per endpoint and shard; more are counted together. It is far
/// greater than the number that a report shows, so that the choice does not depend on the shards.
const KINDS_MAX: usize = 256;

/// The label of kinds beyond the maximum number of kinds.
pub const KIND_OTHER: &str = "(other)";

/// Sums of the exchanges of one endpoint, or of one kind of them.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Group {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Wall time of the exchanges by owner.
    pub ledger: Ledger,
    /// Latency of the exchanges.
    pub latency: Histogram,
    /// How the exchanges ended.
    pub outcomes: Outcomes,
}

impl Group {
    #[inline]
    pub(in crate::findings::tally) fn add(&mut self, exchange: &Exchange) {
        self.exchanges += 1;
        self.ledger.take(&exchange.ledger);
        self.latency.record(exchange.wall_ns());
        self.outcomes.add(exchange.outcome);
    }

    #[inline]
    pub(in crate::findings::tally) fn add_plain(&mut self, plain: &SimpleExchange<'_>) {
        self.exchanges += 1;
        self.ledger.add(Owner::Path, plain.path_ns);
        self.ledger.add(Owner::Server, plain.server_ns);
        self.latency.record(plain.wall_ns());
        self.outcomes.add(Outcome::Answered);
    }

    /// Counts an exchange with this ledger and outcome.
    pub(super) fn add_ledger(&mut self, ledger: &Ledger, outcome: Outcome) {
        self.exchanges += 1;
        self.ledger.merge(ledger);
        self.latency.record(ledger.total_ns());
        self.outcomes.add(outcome);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.exchanges += other.exchanges;
        self.ledger.merge(&other.ledger);
        self.latency.merge(&other.latency);
        self.outcomes.merge(&other.outcomes);
    }
}

/// The groups of all kinds of requests.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Kinds(HashMap<Label, Group>);

impl Kinds {
    /// Returns all kinds with their groups.
    pub fn iter(&self) -> impl Iterator<Item = (&Label, &Group)> {
        self.0.iter()
    }

    /// Number of kinds.
    pub(in crate::findings::tally) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns all groups.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.0.values()
    }

    /// Returns the group of a kind of request, or that of the other kinds if there are too many.
    pub(super) fn of(&mut self, kind: &Label) -> &mut Group {
        let full = self.0.len() >= KINDS_MAX && !self.0.contains_key(kind);
        let other;
        let kind = if full {
            other = KIND_OTHER.into();
            &other
        } else {
            kind
        };
        self.0.entry_ref(kind).or_default()
    }

    /// Returns the group of a kind, however many there are.
    pub(super) fn at(&mut self, kind: Label) -> &mut Group {
        self.0.entry(kind).or_default()
    }

    /// Returns the group of the kind with this digest ([`Label::digest`]), or that of the other
    /// kinds.
    pub(super) fn with_digest(&mut self, digest: u64) -> Option<&mut Group> {
        let known = self.0.keys().any(|kind| kind.digest() == digest);
        let digest = if known { digest } else { Label::from(KIND_OTHER).digest() };
        let kind = self.0.iter_mut().find(|(kind, _)| kind.digest() == digest);
        kind.map(|(_, group)| group)
    }

    /// Sums up the kinds beyond `room`, which are those that took the least time.
    pub(super) fn bound(&mut self, room: usize) {
        if !are_too_many(self.0.len(), room.min(KINDS_MAX)) {
            return;
        }
        let other = Label::from(KIND_OTHER);
        let ranked = self.0.iter().filter(|(kind, _)| **kind != other);
        let mut ranked: Vec<_> =
            ranked.map(|(kind, group)| (Reverse(group.ledger.total_ns()), *kind)).collect();
        ranked.sort_unstable();
        for (_, kind) in ranked.into_iter().skip(room.min(KINDS_MAX)) {
            if let Some(group) = self.0.remove(&kind) {
                self.0.entry(other).or_default().merge(&group);
            }
        }
        self.0.shrink_to_fit();
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        for (kind, group) in other.0 {
            self.at(kind).merge(&group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(ns: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.add(Owner::Server, ns);
        ledger
    }

    #[test]
    fn kinds_of_two_shards_are_added_by_name() {
        let [mut one, mut other] = [Kinds::default(), Kinds::default()];
        one.at("GET /".into()).add_ledger(&took(1), Outcome::Answered);
        other.at("GET /".into()).add_ledger(&took(2), Outcome::Answered);
        other.at("PUT /".into()).add_ledger(&took(4), Outcome::Answered);
        one.merge(other);
        assert_eq!(one.at("GET /".into()).ledger.total_ns(), 3);
        assert_eq!(one.groups().map(|group| group.exchanges).sum::<u64>(), 3);
    }

    #[test]
    fn kinds_beyond_the_limit_are_counted_together_the_cheapest_first() {
        let mut kinds = Kinds::default();
        for number in 0..2 * KINDS_MAX as u64 {
            kinds
                .at(format!("GET /{number}").as_str().into())
                .add_ledger(&took(number), Outcome::Answered);
        }
        kinds.bound(KINDS_MAX);
        assert_eq!(kinds.iter().count(), KINDS_MAX + 1);
        assert_eq!(kinds.at(KIND_OTHER.into()).exchanges, KINDS_MAX as u64);
        assert!(kinds.iter().any(|(kind, _)| **kind == *"GET /511"));
    }
}
