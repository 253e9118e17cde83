//! From ledgers to findings: sums by endpoint, cause and culprit, and the findings that follow from
//! them.
//!
//! [`Tally`] adds up exchanges, [`assemble()`] makes findings of the sums. The rules and the proof
//! of each cause are in its row and its file in `causes`, with its manual beside it.

mod announced;
mod answers;
mod app_flow_control;
mod asked;
mod assemble;
mod attempts;
mod blocked;
mod buffer_limits;
mod by_name;
pub(crate) mod causes;
mod client_isolated;
mod confidence;
mod costs;
mod cross_traffic;
mod cuts;
mod distance;
mod endpoints;
mod errors;
mod facts;
mod failed_upstream;
mod fallback;
mod finding;
mod first_requests;
mod floors;
mod forward_proxies;
mod forwarded;
mod harmless_waits;
mod held_by_attempt;
mod left_waiting;
mod legs;
mod listeners;
mod loaded_line;
mod lookups;
mod lossy_access;
mod mute_hosts;
mod nested;
mod notes;
mod numbers;
mod opened;
mod overflow;
pub mod prediction;
mod proof;
mod quic;
mod refusals;
mod released;
mod retries;
mod route_change;
mod scans;
mod scene;
mod selective;
mod serial;
mod settling;
mod shared_link;
mod slow;
mod stamps;
mod tally;
mod texts;
pub mod thresholds;
mod unheard;
mod upstream_wait;
mod words;
mod worst;

pub(crate) use assemble::confirm;
pub use assemble::{arrange, assemble};
pub use causes::delayed_ack::SEND_BUFFER as BLOCKED_BY_SEND_BUFFER;
pub use causes::repair::{DROPPER, is_loss};
pub use causes::slow_start::INITCWND;
pub use confidence::{cases, judged, of_many as confidence_of};
pub use errors::error_in;
pub use floors::{Floors, share_of};
pub use lookups::link;
pub use numbers::Numbers;
pub use quic::add_handshakes;
pub use stamps::{Stamps, are_made_up, says_made_up};
pub use tally::Tally;
pub use texts::{IntoFact, Table, in_words, row, say, template, term};
pub use words::{
    FixRow, ObservationWords, Words, effect_fact, manual, observation, observations, table, words,
};
pub use worst::Worst;
pub(crate) use worst::report as connection_report;

/// Facts which say that the capture at a host has packets that the host's TCP did not receive.
pub const NOT_RECEIVED: [&str; 3] =
    [attempts::ARRIVED, causes::repair::IN_HOST, causes::repair::DEAF];
