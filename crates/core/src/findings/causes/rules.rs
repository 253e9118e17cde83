//! The content of a row in the table of causes.

use super::lookup::LookupRules;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key, Sample, Tally};
use crate::findings::thresholds::COST_MIN_NS;
use crate::model::{Cause, Culprit, Finding, Owner, RuledOut};
use crate::tcp::Connection;
use crate::wire::{Endpoint, Side};

/// The rules for the findings of a cause.
pub(in crate::findings) struct Rules {
    /// The cause.
    pub cause: Cause,
    /// Adds the evidence for one instance: its frames, the facts in its text, and the look-alikes
    /// that it excludes.
    pub prove: fn(&Scene<'_>, &mut Proof),
    /// Adds an instance to what the report states about all instances together.
    pub add_up: fn(&Scene<'_>, &mut Shown),
    /// How the cause is recognised in a look-up, for a cause of look-ups.
    pub lookup: Option<&'static LookupRules>,
    /// How the time of the cause, added up over an endpoint, becomes a finding, for a cost that the
    /// owners of time show.
    pub cost: Option<&'static Cost>,
    /// Returns the culprit that packets show instead of the usual one, if that side was silent.
    pub culprit_seen: fn(&Connection, Side) -> Option<Culprit>,
    /// Returns whether a fault is a finding.
    pub is_finding: fn(&Case<'_>) -> bool,
    /// Returns whether a finding is only mentioned in an observation.
    pub is_minor: fn(&Case<'_>) -> bool,
    /// The order of faults without lost time; the least is first.
    pub severity: u8,
    /// Returns the number of cases that a finding states.
    pub count: fn(&CauseTally) -> u64,
    /// Returns facts that only the sums over all instances and over the endpoint show.
    pub facts: fn(&Key, &CauseTally, &EndpointTally) -> Facts,
    /// Returns the chance that something else looks as often like the cause, 0 to 1.
    pub chance: fn(&Key, &CauseTally, &EndpointTally) -> f64,
    /// Returns the look-alike that all instances together exclude.
    pub ruled_out: fn(&CauseTally, Option<&EndpointTally>) -> Option<RuledOut>,
    /// The owner of time at the endpoint that this cause explains: no cost is found in that time.
    pub covers: Option<Owner>,
    /// `true` if it matters which clients are affected: for causes of single connection attempts, and for
    /// losses, which may be those of a client's own network.
    pub counts_clients: bool,
    /// Name, in observations, of the event for which exchanges wait.
    pub waits_for: &'static str,
    /// The fact that the effect of an experiment is, for a cause that an experiment can show.
    pub effect_fact: Option<&'static str>,
}

impl Rules {
    /// Returns the rules of a cause that names none of its own.
    pub(super) const fn plain(cause: Cause) -> Self {
        Self {
            cause,
            prove: |scene, proof| proof.add_silence(scene.gap()),
            add_up: |_, _| {},
            lookup: None,
            cost: None,
            culprit_seen: |_, _| None,
            is_finding: |case| case.is_broad_or_deep(),
            is_minor: |case| case.is_single(),
            severity: 3,
            count: |cause| cause.count,
            facts: |_, _, _| Facts::new(),
            chance: |_, _, _| 0.0,
            ruled_out: |_, _| None,
            covers: None,
            counts_clients: false,
            waits_for: "place",
            effect_fact: None,
        }
    }
}

/// How the time of a cost, added up over an endpoint, becomes a finding.
pub(in crate::findings) struct Cost {
    /// The side that the time belongs to.
    pub sender: Side,
    /// The cost is reported from this many times the least cost on.
    pub floor_factor: u64,
    /// `true` if many short waits in a sequence of requests count like a long one.
    pub adds_up: bool,
    /// `true` if the tally of the cause contains only a part of the cost.
    pub is_partly_tallied: bool,
    /// Adds the evidence of the exchange with the longest time of this cost; `None` if the tally
    /// has an instance of its own.
    pub show: Option<fn(&Sample, &mut Proof)>,
    /// Returns the part of its owners' time at the endpoint that has another cause, ns.
    pub other_ns: fn(&EndpointTally) -> u64,
    /// Returns facts about the whole endpoint.
    pub facts: fn(&mut Finding, Endpoint, &EndpointTally, &Tally) -> Facts,
    /// Returns the look-alikes that the endpoint as a whole excludes.
    pub ruled_out: fn(Endpoint, &EndpointTally, &Tally) -> Vec<RuledOut>,
}

impl Cost {
    /// The rules of a cost that names none of its own.
    pub(in crate::findings) const PLAIN: Self = Self {
        sender: Side::Server,
        floor_factor: 1,
        adds_up: false,
        is_partly_tallied: false,
        show: None,
        other_ns: |_| 0,
        facts: |_, _, _, _| Facts::new(),
        ruled_out: |_, _, _| Vec::new(),
    };

    /// Adds the first frame of an exchange, and its last one if that is of the response.
    pub(super) fn add_ends(sample: &Sample, proof: &mut Proof) {
        proof.add_request(sample.first);
        proof.add_response(sample.last);
    }
}

/// A cost that the owners of time show, with the thresholds for every exchange.
#[derive(Clone, Copy)]
pub(in crate::findings) struct OwnedCost {
    /// The cause of the cost.
    pub cause: Cause,
    /// The owners whose time the cost shows.
    pub owners: &'static [Owner],
    /// The time from which on the cost makes an exchange slow, ns.
    pub slow_ns: u64,
    /// `true` if the exchange with the longest time of this cost is kept as its evidence.
    pub is_sampled: bool,
}

impl OwnedCost {
    /// Fills the table before its rows are computed.
    pub(super) const NONE: Self =
        Self { cause: Cause::PathRtt, owners: &[], slow_ns: 0, is_sampled: false };

    pub(super) const fn of(rules: &Rules) -> Option<Self> {
        let Some(cost) = rules.cost else { return None };
        Some(Self {
            cause: rules.cause,
            owners: rules.cause.owners(),
            slow_ns: cost.floor_factor * COST_MIN_NS,
            is_sampled: cost.show.is_some(),
        })
    }
}
