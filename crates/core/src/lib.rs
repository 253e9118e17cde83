//! Packet captures in, causes of latency out: the pure core of tcpwhy.
//!
//! Five hops, one direction, no way around:
//!
//! ```text
//! bytes -> capture -> wire -> tcp ------------> cause -> report
//!          Frame      Segment  Exchange, Ledger  Finding  text, JSON
//! ```
//!
//! No sockets, no clock, no threads of its own making and no `unsafe`: time comes in as the
//! timestamps of the frames, parallelism is the caller's (see [`pipeline`]).
#![forbid(unsafe_code)]

pub mod anonymize;
pub mod app;
pub mod capture;
pub mod compare;
pub mod dns;
pub mod drill;
pub mod experiment;
pub mod filter;
pub mod findings;
pub mod graph;
pub mod join;
pub mod judge;
pub mod model;
pub mod picture;
pub mod pipeline;
mod queue;
pub mod report;
mod second_pass;
pub mod state;
pub mod survey;
pub mod tables;
pub mod tcp;
pub mod wire;
