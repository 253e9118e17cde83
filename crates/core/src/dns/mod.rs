//! Name resolution: the look-ups that applications waited for, and the parts of their waiting time.
//!
//! Read first: RFC 1035 §4 (messages), resolv.conf(5) (`timeout`, `attempts`, `rotate`, `ndots`,
//! `search`, `single-request-reopen`).
//!
//! ```text
//! datagrams, Streams (TCP) ─► message (header, question, answers) ─► Tracker (queries) ─► Lookup ─► split()
//! ```

mod at_once;
mod early;
mod grouping;
mod lookup;
mod open;
mod streams;
#[cfg(test)]
mod tests;
pub mod thresholds;
mod tracker;
mod twice;
mod unasked;

pub use lookup::{Lookup, LookupOutcome, Query, QueryFlags};
pub use streams::{Streams, concerns};
pub use tracker::{DNS_PORT, MessageContext, Tracker, Transport};
pub(crate) use twice::unknown_to;
