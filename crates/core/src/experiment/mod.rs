//! Experiments as a third line of evidence: a client changes one thing, measures with and without
//! it, and the difference speaks for a cause or against it, also at a server that nobody can look
//! into.
//!
//! ```text
//! Experiment ─► weigh ─► findings of a report, with evidence of the kind `experiment`
//! Measured   ─► report   where no packets were captured: what the client's own sockets say
//! add_load   ─► findings that only many requests at a time show
//! ```
//!
//! The measurement itself is the caller's: there is neither a clock nor a socket here.

mod loaded;
mod measured;
mod weigh;
mod words;

pub use loaded::{add_load, shows_more};
pub use measured::{Failure, Measured, OwnRequest, PeerWindow, unresolved};
pub use weigh::weigh;
pub use words::{conditions, sentence};

/// The median of some times, the later one of the two in the middle, ns; 0 of none.
pub fn median_ns(times_ns: impl IntoIterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = times_ns.into_iter().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
pub mod thresholds;
