//! The state of a system as additional evidence: what its kernel reports about the sockets whose
//! packets were captured.
//!
//! [`State`] is the part of the output of `tcpwhy sockets --json` (`docs/sockets.schema.json`) with
//! which findings are weighed. [`weigh`] adds to each finding of a report the state that supports
//! or contradicts it, and names causes that packets alone cannot distinguish: a full accept queue,
//! a full connection tracking table, exhausted local ports.

mod rules;
#[cfg(any(test, feature = "schemas"))]
mod schema;
mod served;
pub mod thresholds;
mod weigh;
mod words;

pub use served::{Part, Parts, Served, ServerParts, by_server, parts_of, weigh_served};
pub use weigh::weigh;
pub use words::sentence;

use crate::wire::Endpoint;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Sockets and counters of a system at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct State {
    /// Time at which the state was read, nanoseconds since the Unix epoch; `None` if the file does
    /// not state it.
    #[serde(default)]
    pub read_ns: Option<u64>,
    /// Counters of each network namespace.
    #[serde(default)]
    pub netns: Vec<Netns>,
    /// TCP sockets of the system.
    pub sockets: Vec<Socket>,
    /// Packets that the kernel dropped while the system was watched, the most harmful kind first.
    #[serde(default)]
    pub drops: Vec<Drops>,
}

impl State {
    /// Returns access to the sockets by their two ends.
    pub fn by_ends(&mut self) -> ByEnds<'_> {
        let mut known = HashMap::new();
        for (index, socket) in self.sockets.iter().enumerate() {
            if let Some(peer) = socket.peer {
                known.entry(ends(socket.local, peer)).or_insert(index);
            }
        }
        ByEnds { state: self, known }
    }

    /// Parses the JSON of `tcpwhy sockets --json`; unknown fields are ignored.
    ///
    /// # Errors
    /// Fails with the position if it is not JSON, or not in that format.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

/// The sockets of a state, indexed by their two ends.
pub struct ByEnds<'a> {
    state: &'a mut State,
    known: HashMap<(SocketAddr, SocketAddr), usize>,
}

impl ByEnds<'_> {
    /// Returns the socket with these ends. Adds one if the list has none because the socket was
    /// closed meanwhile.
    pub fn socket(&mut self, local: SocketAddr, peer: SocketAddr) -> &mut Socket {
        let sockets = &mut self.state.sockets;
        let index = *self.known.entry(ends(local, peer)).or_insert_with(|| {
            sockets.push(Socket::between(local, peer));
            sockets.len() - 1
        });
        &mut sockets[index]
    }
}

/// Returns the ends with IPv4-mapped addresses of IPv6 sockets as IPv4 addresses.
fn ends(local: SocketAddr, peer: SocketAddr) -> (SocketAddr, SocketAddr) {
    let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    (canonical(local), canonical(peer))
}

/// Counters of one network namespace.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Netns {
    /// Name of the namespace; `None` for that of the process that read it.
    #[serde(default)]
    pub name: Option<String>,
    /// `ListenOverflows`: connections dropped because an accept queue was full.
    #[serde(default)]
    pub listen_overflows: u64,
    /// Connection tracking; `None` if the kernel does not use it.
    #[serde(default)]
    pub conntrack: Option<Conntrack>,
    /// Use of the local ports towards the destination that uses most of them.
    #[serde(default)]
    pub local_ports: Option<LocalPorts>,
}

/// Packets that the kernel dropped for one reason: a line of `tcpwhy drops --json`
/// (`docs/drops.schema.json`).
#[derive(Clone, Debug, Deserialize)]
pub struct Drops {
    /// `hurts`, `can_hurt` or `harmless`.
    pub harm: String,
    /// The kind of drop.
    pub subject: String,
    /// Number of packets.
    pub packets: u64,
    /// The socket that dropped, or that the packets were for.
    #[serde(default)]
    pub socket: Option<SocketAddr>,
    /// Flows of the packets; empty where only counters show them.
    #[serde(default)]
    pub flows: Vec<FlowDrops>,
    /// Number and reason of the drops as a sentence.
    pub sentence: String,
    /// Recommended change.
    #[serde(default)]
    pub change: String,
}

/// Dropped packets of one flow.
#[derive(Clone, Debug, Deserialize)]
pub struct FlowDrops {
    /// Sender of the packets.
    pub source: SocketAddr,
    /// Their receiver.
    pub destination: SocketAddr,
}

/// The kernel's connection tracking table.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Conntrack {
    /// Number of entries.
    pub count: u64,
    /// Maximum number of entries.
    pub max: u64,
    /// Packets dropped because the table was full, since boot.
    pub drop: u64,
    /// Entries that were not inserted because another one had the same addresses, since boot.
    pub insert_failed: u64,
}

/// Local ports in use from one address towards one destination.
#[derive(Clone, Debug, Deserialize)]
pub struct LocalPorts {
    /// The local address.
    pub local: IpAddr,
    /// Ports of `net.ipv4.ip_local_port_range` that are not reserved.
    pub available: u64,
    /// Number of them with a connection to `peer`, including TIME-WAIT.
    pub used: u64,
    /// The destination.
    pub peer: SocketAddr,
}

/// One socket.
#[derive(Clone, Debug, Deserialize)]
pub struct Socket {
    /// Local address and port of the socket.
    pub local: SocketAddr,
    /// Remote address and port; `None` for a listener.
    pub peer: Option<SocketAddr>,
    /// The socket is a listener, or was accepted by one.
    #[serde(default)]
    pub is_server: bool,
    /// Name of the network namespace of the socket.
    #[serde(default)]
    pub netns: Option<String>,
    /// The process that holds the socket.
    #[serde(default)]
    pub process: Option<Process>,
    /// The queues of a listener.
    #[serde(default)]
    pub listener: Option<Listener>,
    /// `TCP_NODELAY`; `None` if it could not be read.
    #[serde(default)]
    pub nodelay: Option<bool>,
    /// `true` if `TCP_CORK` is set.
    #[serde(default)]
    pub cork: Option<bool>,
    /// `SO_SNDBUF`, bytes, as the kernel reports it: twice the requested size.
    #[serde(default)]
    pub sndbuf_bytes: u64,
    /// The application set the send buffer size.
    #[serde(default)]
    pub sndbuf_locked: Option<bool>,
    /// `SO_RCVBUF`, bytes, as the kernel reports it: twice the requested size.
    #[serde(default)]
    pub rcvbuf_bytes: u64,
    /// The application set the receive buffer size.
    #[serde(default)]
    pub rcvbuf_locked: Option<bool>,
    /// Received bytes that the application has not read; `None` for a listener.
    #[serde(default)]
    pub unread_bytes: Option<u64>,
    /// Packets that the socket dropped.
    #[serde(default)]
    pub drops: u64,
    /// Counts of kernel hooks while the socket was watched.
    #[serde(default)]
    pub hooked: Hooked,
    /// Fields of `TCP_INFO` by name.
    #[serde(default)]
    pub tcp_info: Option<BTreeMap<String, Option<u64>>>,
}

impl Socket {
    /// Creates a socket of which only the ends are known.
    pub fn between(local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            local,
            peer: Some(peer),
            is_server: false,
            netns: None,
            process: None,
            listener: None,
            nodelay: None,
            cork: None,
            sndbuf_bytes: 0,
            sndbuf_locked: None,
            rcvbuf_bytes: 0,
            rcvbuf_locked: None,
            unread_bytes: None,
            drops: 0,
            hooked: Hooked::default(),
            tcp_info: None,
        }
    }

    /// Returns a field of `TCP_INFO`, if the kernel reports it.
    fn tcp_info(&self, field: &str) -> Option<u64> {
        self.tcp_info.as_ref()?.get(field).copied().flatten()
    }
}

/// Counts of kernel hooks for one socket while it was watched; 0 if they recorded nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Hooked {
    /// Time for which the sender waited for send buffer memory, ns.
    pub sndbuf_wait_ns: u64,
    /// Time for which received data was unread, ns.
    pub unread_ns: u64,
    /// Longest time for which received data was unread, ns.
    pub unread_max_ns: u64,
    /// Segments retransmitted after a retransmission timeout (RFC 6298 §5).
    pub rto_segments: u64,
    /// Segments retransmitted in fast recovery (RFC 6675, RFC 8985).
    pub fast_segments: u64,
}

/// The process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schemas"), derive(schemars::JsonSchema))]
pub struct Process {
    /// The id of the process.
    pub pid: u64,
    /// The command of the process, without arguments.
    pub command: String,
    /// The container that it runs in; `None` outside of containers.
    #[serde(default)]
    pub container: Option<String>,
    /// Its runtime and the number of its workers, where it shows them: `gunicorn, 2 workers`.
    #[serde(default)]
    pub runtime: Option<String>,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}", self.command, self.pid)?;
        if let Some(id) = &self.container {
            write!(f, ", container {id}")?;
        }
        match &self.runtime {
            Some(runtime) => write!(f, "; {runtime})"),
            None => write!(f, ")"),
        }
    }
}

/// Queues of a listening socket.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Listener {
    /// Established connections that wait to be accepted.
    pub accept_queue: u64,
    /// Limit of the accept queue: new connections are dropped if more than this wait.
    pub backlog: u64,
}

/// Returns whether `address` is the end that packets show as `endpoint`.
fn is_at(address: SocketAddr, endpoint: &Endpoint) -> bool {
    address.port() == endpoint.port && address.ip().to_canonical() == endpoint.ip()
}
