//! Experiments: a client changes one thing, sends requests with and without the change on new
//! connections in random order, and tests whether the difference is chance.
//!
//! ```text
//! kinds (what is changed) ─► trials (pairs in random order) ─► statistics (is it chance?) ─► Experiment
//!                            connection (clock around each call)
//! ```
//!
//! Read first: `statistics` on when an experiment stops, tcp(7) on `TCP_QUICKACK`. The verdict is
//! evidence for the core ([`tcpwhy_core::experiment`]).

pub mod connection;
mod error;
mod kinds;
mod requests;
mod resolver;
mod statistics;
mod streams;
mod trials;
#[cfg(target_os = "linux")]
mod window;

pub use connection::{Connection, Kernel, Settings, Subject, Timing};
pub use error::{ExchangeError, RequestStep};
pub use kinds::{Kind, Occasion, Others, Skipped, make};
pub use statistics::{Coin, PAIRS_MIN};
pub use streams::Together;
pub use trials::Bounds;
