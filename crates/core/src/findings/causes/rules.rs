//! The content of a row in the table of causes.

use super::lookup::LookupRules;
use crate::app::Side;
use crate::findings::confidence::Judged;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key, Sample, Tally};
use crate::findings::thresholds::COST_MIN_NS;
use crate::model::{Cause, Finding, Owner, RuledOut};
use crate::tcp::Connection;
use crate::wire::Endpoint;

/// Rules for the findings of a cause.
pub(in crate::findings) struct Rules {
    /// The cause.
    pub cause: Cause,
    /// Its manual, in Markdown. The tables of the manual are the words of the report.
    pub manual: &'static str,
    /// Proves one instance to the reader: its frames, the values for its words, and the look-alikes
    /// that it is not.
    pub prove: fn(&Scene<'_>, &mut Proof),
    /// Adds an instance to what all of them have in common.
    pub add_up: fn(&Scene<'_>, &mut Shown),
    /// Rule for recognising it in a look-up, for causes of look-ups.
    pub lookup: Option<&'static LookupRules>,
    /// Rule for its sum at an endpoint, for costs that the owners of time show.
    pub cost: Option<&'static Cost>,
    /// Returns the host that packets show to be at fault in place of the usual culprit, where
    /// that side was silent.
    pub elsewhere: fn(&Connection, Side) -> Option<Endpoint>,
    /// Returns whether a fault is a finding.
    pub is_finding: fn(&Case<'_>) -> bool,
    /// Returns whether what would be a finding is mentioned in an observation only.
    pub is_minor: fn(&Case<'_>) -> bool,
    /// Faults without lost time come in this order.
    pub severity: u8,
    /// Returns the number that a finding states.
    pub count: fn(&CauseTally) -> u64,
    /// Returns facts that only the sums of all instances and of the endpoint show.
    pub facts: fn(&Key, &CauseTally, &EndpointTally) -> Facts,
    /// Returns the look-alike that all instances together exclude.
    pub ruled_out: fn(&CauseTally, Option<&EndpointTally>) -> Option<RuledOut>,
    /// The owner whose time at the endpoint it explains, so that no cost is found in that.
    pub covers: Option<Owner>,
    /// `true` if clients are counted, for causes that concern single connection attempts.
    pub counts_clients: bool,
    /// The party that exchanges wait for, by its name in observations.
    pub waits_for: &'static str,
    /// Findings of it that were judged right, in one exchange and in more than one. See
    /// [`crate::findings::confidence`].
    pub measured: [Judged; 2],
}

impl Rules {
    /// The values that a row does not state.
    pub(super) const fn plain(cause: Cause, manual: &'static str) -> Self {
        Self {
            cause,
            manual,
            prove: |scene, proof| proof.see_silence(scene.gap()),
            add_up: |_, _| {},
            lookup: None,
            cost: None,
            elsewhere: |_, _| None,
            is_finding: |case| case.is_broad_or_deep(),
            is_minor: |case| case.is_single(),
            severity: 3,
            count: |cause| cause.count,
            facts: |_, _, _| Facts::new(),
            ruled_out: |_, _| None,
            covers: None,
            counts_clients: false,
            waits_for: "place",
            measured: [Judged::new(0, 0); 2],
        }
    }
}

/// Rule for the sum of a cost at an endpoint.
pub(in crate::findings) struct Cost {
    /// The side that takes the time.
    pub sender: Side,
    /// The cost is reported from this many times the least cost on.
    pub floor_factor: u64,
    /// Many small ones in a sequence of requests count like a long one.
    pub adds_up: bool,
    /// `true` if the tally of the cause contains only a part of the cost.
    pub is_partly_tallied: bool,
    /// Shows the exchange to which it mattered most; `None` where a tallied instance does.
    pub show: Option<fn(&Sample, &mut Proof)>,
    /// Returns the time of its owners that is of something else, ns.
    pub other_ns: fn(&EndpointTally) -> u64,
    /// Returns facts about the whole endpoint.
    pub facts: fn(&mut Finding, Endpoint, &EndpointTally, &Tally) -> Facts,
    /// Returns the look-alikes that the endpoint as a whole excludes.
    pub ruled_out: fn(Endpoint, &EndpointTally, &Tally) -> Vec<RuledOut>,
}

impl Cost {
    /// The values that a row does not state.
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

    /// Shows the first and the last frame of an exchange.
    pub(super) fn see_ends(sample: &Sample, proof: &mut Proof) {
        proof.see("request", sample.first);
        proof.see("response", sample.last);
    }
}

/// A cost that the owners of time show, with what is asked about every exchange.
#[derive(Clone, Copy)]
pub(in crate::findings) struct OwnedCost {
    /// Its cause.
    pub cause: Cause,
    /// The owners of its time.
    pub owners: &'static [Owner],
    /// Time from which on it makes an exchange slow, ns.
    pub slow_ns: u64,
    /// The exchange to which it mattered most is kept.
    pub is_sampled: bool,
}

impl OwnedCost {
    /// Fills a table before its rows are known.
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
