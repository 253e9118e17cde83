//! The core of tcpwhy: finds the causes of latency in packet captures.
//!
//! Data passes through the modules in one direction, and each module imports only those below it
//! (ARCHITECTURE.md has the picture):
//!
//! ```text
//! bytes -> capture -> wire -> tcp (asks judge) -> findings -> report
//!          Frame      Segment  Exchange, Ledger    Finding     text, JSON
//! ```
//!
//! The core has no sockets, no clock, no threads of its own and no `unsafe`: times are the
//! timestamps of the frames, and the caller decides about parallelism (see [`pipeline`]).
#![forbid(unsafe_code)]

pub mod anonymize;
pub mod app;
pub mod capture;
pub mod check;
pub mod compare;
pub mod dns;
pub mod drill;
pub mod experiment;
pub mod filter;
pub mod findings;
mod graph;
pub mod join;
mod judge;
pub mod keys;
mod literal;
pub mod model;
pub mod page;
pub mod picture;
pub mod pipeline;
mod queue;
pub mod quic;
pub mod report;
mod second_pass;
pub mod stages;
pub mod state;
pub mod survey;
pub mod tables;
mod tcp;
pub mod wire;

/// What tests and fuzz targets of the analysis itself need; no interface of the crate.
#[doc(hidden)]
pub mod internals {
    pub use crate::tcp::{Connection, Exchange, Sink, Tracker};
}
