//! The client's own pause.
//!
//! Recognised in `judge/application.rs`: it is the time that no mechanism of TCP explains.

use super::application;
use super::rules::Cost;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::wire::Side;

/// How the time of this cause, added up over an endpoint, becomes a finding.
pub(super) const COST: Cost =
    Cost { sender: Side::Client, show: Some(Cost::add_ends), ..Cost::PLAIN };

/// Proves a pause by the last message before it and the request that ended it.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    application::prove(scene, ("flight_end", "request"), proof);
}

/// Counts the requests with a pause that is longer than what every host takes now and then.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    shown.add("pauses", u64::from(scene.chain.ns > HOST_DELAY_MAX_NS));
}
