//! The same traffic captured at two places: assigns captures to places, calibrates their clocks,
//! finds losses between them, and joins two diagnoses into one.
//!
//! ```text
//! sources ─► survey ─► sites ─► one stream by one clock ─► a tracker for each place ─► two reports
//!                                                     └──► pairs: clocks, losses ────► agree ─► one
//! ```
//!
//! The first place is nearer the clients: the latency of requests is measured there.

mod agree;
mod clock;
pub(crate) mod datagrams;
mod flow_direction;
mod judge;
mod pairs;
mod sites;
pub mod thresholds;

pub use agree::Joint;
pub use clock::{Minima, Transit};
pub(crate) use datagrams::Datagrams;
pub(crate) use judge::Accounts;
pub use pairs::Pairs;
pub use sites::Sites;
