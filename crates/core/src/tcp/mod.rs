//! Segments to exchanges: follows every connection and records which side was silent, for how
//! long, and what ended the silence.
//!
//! Read first: RFC 9293 (TCP), RFC 7323 (window scale, timestamps), RFC 2018 and 2883 (SACK),
//! RFC 6298 (RTO), RFC 5681 (congestion control), RFC 8985 (RACK-TLP).
//!
//! Everything is judged on the *sender's* clock. A segment seen here left its sender a little
//! earlier, an ACK seen here reaches the sender a little later; together that is one round trip
//! between the vantage and the sender. So an ACK seen at `t` can have caused what is seen at
//! `t + rtt(vantage, sender)`, and nothing earlier. [`path`] estimates that round trip, [`acks`]
//! applies it, and a [`Gap`] states what the sender knew when it was silent.
//!
//! ```text
//! Segment -> Tracker -> Connection -> Sender (one per direction) -> Gap --judge--> Ledger
//!                                \--> Framer marks -> Exchange ------------------> Sink
//! ```

mod acks;
mod ceiling;
mod clock;
mod connection;
mod early;
mod exchange;
mod owed;
mod path;
mod pause;
mod pipe;
mod reassembly;
mod row;
mod sender;
mod sent;
mod sequence;
mod series;
mod setup;
mod shared;
mod sink;
pub mod thresholds;
mod timeline;
mod trace;
mod tracker;

pub use connection::{Connection, IcmpReport};
pub(crate) use early::EarlyBytes;
pub(crate) use exchange::{Account, Concerned, GapPlace, Part};
pub use exchange::{Chain, Exchange, Revision};
pub use path::Path;
pub(crate) use sender::{Copies, Kind, window_opened_by};
pub use sender::{Held, Sender};

pub(crate) use reassembly::Reassembly;
pub use row::{Link, Row};
pub(crate) use sequence::{ORIGIN, Sequence};
pub use series::Series;
pub use setup::{Setup, Syn, SynMarks};
pub use shared::Shared;
pub use sink::{SimpleExchange, Sink};
pub use tracker::Tracker;
