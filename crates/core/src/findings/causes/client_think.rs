//! The client's own pause.
//!
//! Recognised in `judge/application.rs`: it is the time that no mechanism of TCP explains.

use super::application;
use super::rules::Cost;
use crate::app::Side;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;

/// How the time of this cause, added up over an endpoint, becomes a finding.
pub(super) const COST: Cost =
    Cost { sender: Side::Client, show: Some(Cost::add_ends), ..Cost::PLAIN };

/// Proves a pause by the last message before it and the request that ended it.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    application::prove(scene, ("flight_end", "request"), proof);
}
