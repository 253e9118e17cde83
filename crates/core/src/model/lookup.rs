//! A look-up as a drawing of the connection that waited for it shows it.

use crate::capture::FrameId;
use crate::wire::Side;
use std::net::IpAddr;

/// A look-up that the first request of a connection had to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct LookupReport {
    /// Time of the first query, ns.
    pub start_ns: u64,
    /// Time at which the client had the answer, ns.
    pub end_ns: u64,
    /// The queries and answers, in the order of time (bounded).
    pub messages: Vec<LookupMessage>,
}

/// A query or an answer of a look-up.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct LookupMessage {
    /// Capture time, ns.
    pub time_ns: u64,
    /// The frame.
    pub frame: FrameId,
    /// The side that sent it: the client, or the name server.
    pub from: Side,
    /// The type of record that is asked for: `A`.
    pub record: String,
    /// Whether it is a query, an answer or an error.
    pub step: LookupStep,
    /// The name server.
    pub server: IpAddr,
}

/// The kinds of messages of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum LookupStep {
    /// A query.
    Query,
    /// An answer.
    Answer,
    /// An ICMP error in place of an answer.
    Unreachable,
}
