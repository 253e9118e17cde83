//! Active measurement from the client's side: what ping, traceroute, dig, curl and wrk do by hand.
//!
//! ```text
//! target ─► http (requests, responses) ─► measurements ─► tcpwhy-core (evidence)
//!           budget (all that is sent)
//! ```

pub mod addresses;
pub mod budget;
#[cfg(target_os = "linux")]
pub mod dns;
#[cfg(target_os = "linux")]
pub mod experiment;
pub mod http;
pub mod load;
#[cfg(target_os = "linux")]
pub mod path;
mod route;
pub mod target;
pub mod tls;

pub use target::{Scheme, Target, TargetError};

/// Returns a duration in nanoseconds.
pub(crate) fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
