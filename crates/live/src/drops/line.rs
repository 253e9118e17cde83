//! The report of drops: one line per kind of drop, reason, function and socket.

use serde::Serialize;
use std::net::SocketAddr;
use tcpwhy_core::model::Cause;

use super::subject::{Harm, Subject};
use crate::hooks::Flow;
use crate::process::Process;

/// Drops of one kind in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Line {
    /// Harm of the drops.
    pub harm: Harm,
    /// The kind.
    pub subject: Subject,
    /// The cause that they can be, by its public id.
    pub cause: Option<Cause>,
    /// Number of packets: those that hooks recorded, else the increase of the counter.
    pub packets: u64,
    /// `true` if hooks recorded the packets, `false` if only counters show them.
    pub by_hook: bool,
    /// The kernel's reason, where hooks saw them.
    pub reason: Option<String>,
    /// The kernel's function, where hooks saw them and its symbols can be read.
    pub function: Option<String>,
    /// Name of the network namespace; `None` is the caller's own.
    pub netns: Option<String>,
    /// The socket that dropped, or that the packets were for.
    pub socket: Option<SocketAddr>,
    /// Accept queue of the listener at the last look.
    pub accept_queue: Option<AcceptQueue>,
    /// The process that holds it.
    pub process: Option<Process>,
    /// Network interface and queue, where counters name one.
    pub interface: Option<String>,
    /// Flows, the most dropped first; at most ten.
    pub flows: Vec<FlowDrops>,
    /// Number of further flows.
    pub flows_omitted: u64,
    /// Counters that grew with it.
    pub counters: Vec<Increase>,
    /// The finding as a sentence.
    pub sentence: String,
    /// Recommended change; empty if none is needed.
    pub change: &'static str,
}

/// Flows kept of one line.
pub const FLOWS_MAX: usize = 10;

/// The accept queue of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct AcceptQueue {
    /// Connections that wait to be accepted.
    pub waiting: u64,
    /// The backlog: connections that arrive while the queue is longer are dropped.
    pub backlog: u64,
}

/// Dropped packets of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct FlowDrops {
    /// Flow of the packets.
    #[serde(flatten)]
    pub flow: Flow,
    /// Number of packets.
    pub packets: u64,
    /// TCP packets that open a connection.
    pub syns: u64,
    /// Number of TCP packets with payload.
    pub with_data: u64,
}

/// Increase of a counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Increase {
    /// `GROUP:NAME`.
    pub name: String,
    /// The increase.
    pub by: u64,
}
