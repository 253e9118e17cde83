//! From silences to owners, and from owners to findings.
//!
//! One file per mechanism, with its manual beside it (`<cause>.md`). A file here says how its
//! cause is recognised in a [`Gap`]: a chain of who waited for what, never a magic duration.
//! [`judge`] asks them in order, most specific first; what none of them claims was the
//! application's.

mod app_flow_control;
mod application;
mod assemble;
mod buffer_limits;
mod bufferbloat;
mod client_isolated;
mod confidence;
mod costs;
mod cross_traffic;
mod delayed_ack;
mod distance;
mod facts;
mod fallback;
mod flight;
mod forwarded;
mod http_100_continue;
mod legs;
pub(crate) mod lookup_proof;
mod lookups;
mod loss;
mod mtu_black_hole;
mod nagle_delayed_ack;
mod notes;
mod overflow;
mod pacing;
mod receive_window;
mod refusals;
mod resets;
mod retries;
mod route_change;
mod scans;
mod scene;
mod set_up;
mod settling;
mod shared_link;
mod slow;
mod syn_flood;
mod tally;
pub mod thresholds;
mod tls_handshake;
mod unblamed;
mod upstream_wait;
mod words;
mod worst;
mod zero_window;

pub use assemble::{Floors, arrange, assemble};
pub use confidence::of_many as confidence_of;
pub use delayed_ack::SEND_BUFFER as BLOCKED_BY_SEND_BUFFER;
pub use lookups::link;
pub use tally::Tally;
pub use words::{FixRow, ObservationWords, Words, manual, observation, observations, table, words};
pub use worst::Worst;
pub(crate) use worst::report as connection_report;
