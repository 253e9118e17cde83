//! Active measurement from the client's side: what ping, traceroute, dig, curl and wrk do by hand.
//!
//! ```text
//! target ─► http (requests, responses) ─► measurements ─► tcpwhy-core (evidence)
//! ```

#[cfg(target_os = "linux")]
pub mod experiment;
pub mod http;
pub mod load;
pub mod target;
pub mod tls;

pub use target::{Scheme, Target, TargetError};
