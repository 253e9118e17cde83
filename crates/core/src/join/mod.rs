//! The same traffic captured at two places: which captures are of which place, how their clocks
//! differ, what was lost between them, and two diagnoses made into one.
//!
//! ```text
//! sources ─► survey ─► sites ─► one stream by one clock ─► a tracker for each place ─► two reports
//!                                                     └──► pairs: clocks, losses ────► agree ─► one
//! ```
//!
//! The first place is the one nearer the clients: what a request took is measured there.

mod agree;
mod clock;
pub(crate) mod datagrams;
mod judge;
mod lane;
mod pairs;
mod sites;
pub mod thresholds;

pub use agree::Joint;
pub use clock::{Minima, Way};
pub(crate) use datagrams::Datagrams;
pub(crate) use judge::Accounts;
pub use pairs::Pairs;
pub use sites::Sites;
