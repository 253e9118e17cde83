//! The rate of the bottleneck.
//!
//! No recogniser attributes a silence to it: `tcp/pipe.rs` measures the rate, and the time that the
//! outstanding bytes take at that rate is deducted from the start of each silence.

use super::rules::Cost;
use crate::findings::facts::Facts;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{EndpointTally, Sample, Tally};
use crate::model::{Fact, Finding};
use crate::wire::Endpoint;

/// How the time of this cause, added up over an endpoint, becomes a finding.
pub(super) const COST: Cost = Cost { show: Some(show), facts, ..Cost::PLAIN };

/// Measures how much was transferred.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let began = scene.exchange.began_at[scene.gap().sender as usize];
    shown.measure("bytes", scene.sender().nxt.saturating_sub(began));
}

/// Adds the request and the last frame of its answer to the evidence.
fn show(sample: &Sample, proof: &mut Proof) {
    proof.add_frame("request", sample.first);
    proof.add_frame("last", sample.last);
}

/// Returns the median rate of the busier direction.
fn facts(_: &mut Finding, _: Endpoint, endpoint: &EndpointTally, _: &Tally) -> Facts {
    let rates = endpoint.senders.iter().map(|sender| &sender.rates);
    let busier = rates.max_by_key(|rates| rates.count());
    let rate = busier.map_or(0, |rates| rates.quantile_ns(0.5));
    let known = (rate > 0).then(|| Fact::BitsPerSecond(rate.saturating_mul(8)));
    known.map(|rate| ("bottleneck_bps", rate)).into_iter().collect()
}
