//! Experiments as a third line of evidence: a client changes one thing and measures with and
//! without the change. The difference supports a cause or refutes it, even if the server cannot be
//! inspected.
//!
//! ```text
//! Experiment ─► weigh ─► findings of a report, with evidence of the kind `experiment`
//! Measured   ─► report   where no packets were captured: what the client's own sockets say
//! add_load   ─► findings that only many concurrent requests show
//! ```
//!
//! The caller makes the measurements; this module uses neither a clock nor a socket.

mod account;
mod limits;
mod loaded;
mod measured;
mod request;
mod weigh;
mod words;

pub use loaded::{add_load, shows_more};
pub use measured::{Measured, unresolved};
pub use request::{Failure, OwnRequest, PeerWindow, SendLimit, Sending};
pub use weigh::weigh;
pub use words::{conditions, sentence};

use crate::judge::thresholds::{ALIKE_PART, HOST_DELAY_NS};

/// Returns whether a wait of a client is one for the other end's reaction: a round trip at most, as far
/// as measurements of it are alike, and the delays of both hosts.
pub fn is_within_a_trip(wait_ns: u64, rtt_ns: u64) -> bool {
    wait_ns <= rtt_ns + rtt_ns / ALIKE_PART + 2 * HOST_DELAY_NS
}

/// Returns the median, the later of the two middle values, ns; 0 if there are none.
pub fn median_ns(times_ns: impl IntoIterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = times_ns.into_iter().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
pub mod thresholds;
