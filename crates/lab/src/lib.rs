//! Labelled captures of slow TCP, made on one machine with real software.
//!
//! A [`Case`] is a fault that can be switched on: the lab builds a client and a server namespace
//! joined by a [`Link`], starts the software with the fault, captures at both ends, runs a load
//! whose every request is timed by the client's own clock, and does the same again without the
//! fault. Captures go to `faulty/` and `healthy/`, each with a `labels.json` ([`Labels`]).
//!
//! # Add a case
//! 1. Write `cases/NAME.rs` with a `pub const CASE: Case`: its [`Knob`], its parameters (drawn
//!    from the seed, names ending in their unit), its link ([`plain_link`] where `rtt_ns` and
//!    `rate_bps` say it all), `act` and `truth`.
//! 2. In `act`: make further namespaces with [`Stage::namespace`], start the software ([`Server`], or [`Process`] with [`Netns::command`]), then
//!    `stage.start_captures()`, then [`client::run`] with a [`Load`]. Do the same for both
//!    [`Variant`]s but for the one knob that is the fault. `cases/programs.rs` starts nginx,
//!    Redis, PostgreSQL and JDKs, and runs `client.py`, which speaks more than HTTP.
//! 3. In `truth`: name the cause, the culprit and how the lost time is known: by the twin, by a
//!    clock around the knob, or by the relay's log and the kernel's counters. Return
//!    [`LabError::NotReproduced`] when those say that the fault did not happen.
//! 4. Add it to [`CASES`].
//!
//! Truth never comes from an analysis of the captures.
#![cfg(target_os = "linux")]

pub mod capture;
pub mod case;
pub mod cases;
pub mod cleanup;
pub mod client;
pub mod counters;
pub mod curl;
pub mod describe;
pub mod dns;
pub mod error;
pub mod group;
mod http;
pub mod labels;
pub mod netns;
pub mod on_wire;
pub mod params;
pub mod relay;
pub mod rng;
pub mod run;
pub mod score;
pub mod server;
pub mod sockets;
pub mod stage;
pub mod sys;
pub mod tables;
pub mod talk;
pub mod timekeeping;
pub mod treated;
pub mod verify;

pub use case::{Case, Observed, Ran, plain_link};
pub use cases::CASES;
pub use client::{Load, Request};
pub use describe::{Knob, Layer, Treat};
pub use error::LabError;
pub use labels::{Cause, Class, Labels, Role, Variant};
pub use netns::{Netns, Process};
pub use params::Params;
pub use relay::{Direction, DropRule, Kind, PathParams, RelayParams};
pub use run::{CaseResult, RunOptions, run};
pub use server::{Behaviour, Server};
pub use stage::{Link, Stage};

/// Returns the case with this name.
///
/// # Errors There is no such case.
pub fn find(name: &str) -> Result<&'static Case, LabError> {
    let case = CASES.iter().find(|c| c.name == name);
    case.ok_or_else(|| LabError::UnknownCase(name.to_owned()))
}
