//! Two TCP stacks that are not Linux's talk over a simulated link, with known causes injected.
//!
//! The clock is virtual, so the truth is exact: what the client's application waited, and what
//! the same run takes without the injected cause. `config` says what can be injected, `link` and
//! `host` are the world, `world` runs it, `verdict` holds the reports at both ends against the
//! truth, and `grid` lists the runs.

mod config;
#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/diagnosis.rs"]
mod diagnosis;
#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/frames.rs"]
mod frames;
mod grid;
mod host;
mod link;
mod verdict;
mod world;
