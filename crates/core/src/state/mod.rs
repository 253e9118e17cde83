//! The state of a system as a second line of evidence: what its kernel says of the sockets whose packets
//! were captured.
//!
//! [`State`] is what `tcpwhy sockets --json` prints (`docs/sockets.schema.json`), as far as findings can be
//! weighed with it. [`weigh`] adds to each finding of a report what the state says for or against it, and
//! names causes that packets alone cannot tell apart: a full accept queue, a full table of connection
//! tracking, used-up local ports.

mod rules;
pub mod thresholds;
mod weigh;
mod words;

pub use weigh::weigh;
pub use words::sentence;

use crate::wire::Endpoint;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

/// Sockets and counters of a system, as they were at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct State {
    /// When it was read, nanoseconds since the Unix epoch; `None` where the file does not say.
    #[serde(default)]
    pub read_ns: Option<u64>,
    /// Counters of each network namespace.
    #[serde(default)]
    pub netns: Vec<Netns>,
    /// Its TCP sockets.
    pub sockets: Vec<Socket>,
}

impl State {
    /// Its sockets by their ends.
    pub fn by_ends(&mut self) -> ByEnds<'_> {
        let mut known = HashMap::new();
        for (index, socket) in self.sockets.iter().enumerate() {
            if let Some(peer) = socket.peer {
                known.entry(ends(socket.local, peer)).or_insert(index);
            }
        }
        ByEnds { state: self, known }
    }

    /// Reads the JSON of `tcpwhy sockets --json`; fields that are not known are ignored.
    ///
    /// # Errors
    /// It is not JSON, or not of that form; says where.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

/// The sockets of a state, found by their ends.
pub struct ByEnds<'a> {
    state: &'a mut State,
    known: HashMap<(SocketAddr, SocketAddr), usize>,
}

impl ByEnds<'_> {
    /// The socket with these ends; one is added where the list has none, as it was closed meanwhile.
    pub fn socket(&mut self, local: SocketAddr, peer: SocketAddr) -> &mut Socket {
        let sockets = &mut self.state.sockets;
        let index = *self.known.entry(ends(local, peer)).or_insert_with(|| {
            sockets.push(Socket::between(local, peer));
            sockets.len() - 1
        });
        &mut sockets[index]
    }
}

/// The same for an address of IPv4 and for that on a socket of IPv6.
fn ends(local: SocketAddr, peer: SocketAddr) -> (SocketAddr, SocketAddr) {
    let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    (canonical(local), canonical(peer))
}

/// Counters of one network namespace.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Netns {
    /// Its name; `None` is that of the process that read it.
    #[serde(default)]
    pub name: Option<String>,
    /// `ListenOverflows`: connections dropped because an accept queue was full.
    #[serde(default)]
    pub listen_overflows: u64,
    /// Connection tracking, where the kernel does it.
    #[serde(default)]
    pub conntrack: Option<Conntrack>,
    /// Use of the local ports towards the destination that takes most of them.
    #[serde(default)]
    pub local_ports: Option<LocalPorts>,
}

/// The kernel's table of tracked connections.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Conntrack {
    /// Entries.
    pub count: u64,
    /// Entries that there is room for.
    pub max: u64,
    /// Packets dropped because there was no room, since boot.
    pub drop: u64,
    /// Entries that could not be made because another one had the same addresses, since boot.
    pub insert_failed: u64,
}

/// Local ports in use from one address towards one destination.
#[derive(Clone, Debug, Deserialize)]
pub struct LocalPorts {
    /// The address.
    pub local: IpAddr,
    /// Ports of `net.ipv4.ip_local_port_range` that are not reserved.
    pub available: u64,
    /// How many of them have a connection to `peer`, those in TIME-WAIT included.
    pub used: u64,
    /// The destination.
    pub peer: SocketAddr,
}

/// One socket.
#[derive(Clone, Debug, Deserialize)]
pub struct Socket {
    /// This end.
    pub local: SocketAddr,
    /// The other end; `None` where it listens.
    pub peer: Option<SocketAddr>,
    /// It listens, or was made to a listener.
    #[serde(default)]
    pub is_server: bool,
    /// The name of its network namespace.
    #[serde(default)]
    pub netns: Option<String>,
    /// What holds it.
    #[serde(default)]
    pub process: Option<Process>,
    /// Queues, where it listens.
    #[serde(default)]
    pub listener: Option<Listener>,
    /// `TCP_NODELAY`; `None` where it could not be read.
    #[serde(default)]
    pub nodelay: Option<bool>,
    /// `TCP_CORK`.
    #[serde(default)]
    pub cork: Option<bool>,
    /// `SO_SNDBUF`, bytes, as the kernel states it: twice what was asked for.
    #[serde(default)]
    pub sndbuf_bytes: u64,
    /// The application has fixed it.
    #[serde(default)]
    pub sndbuf_locked: Option<bool>,
    /// `SO_RCVBUF`, bytes, likewise.
    #[serde(default)]
    pub rcvbuf_bytes: u64,
    /// The application has fixed it.
    #[serde(default)]
    pub rcvbuf_locked: Option<bool>,
    /// Received and not read by the application, bytes; `None` where it listens.
    #[serde(default)]
    pub unread_bytes: Option<u64>,
    /// Packets that the socket dropped.
    #[serde(default)]
    pub drops: u64,
    /// What kernel hooks counted while it was watched.
    #[serde(default)]
    pub hooked: Hooked,
    /// Fields of `TCP_INFO` by name.
    #[serde(default)]
    pub tcp_info: Option<BTreeMap<String, Option<u64>>>,
}

impl Socket {
    /// A socket of which only its ends are known.
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

    /// A field of `TCP_INFO`, where the kernel knows it.
    fn tcp_info(&self, field: &str) -> Option<u64> {
        self.tcp_info.as_ref()?.get(field).copied().flatten()
    }
}

/// What kernel hooks counted of one socket while it was watched; 0 where they saw nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Hooked {
    /// Time that its sender waited for memory of the send buffer, ns.
    pub sndbuf_wait_ns: u64,
    /// Time that received data lay unread, ns.
    pub unread_ns: u64,
    /// The longest that some lay unread, ns.
    pub unread_max_ns: u64,
    /// Segments that it sent again after a retransmission timeout (RFC 6298 §5).
    pub rto_segments: u64,
    /// Segments that it sent again in fast recovery (RFC 6675, RFC 8985).
    pub fast_segments: u64,
}

/// What holds a socket.
#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    /// Its process id.
    pub pid: u64,
    /// Its command, without arguments.
    pub command: String,
    /// The container that it runs in; `None` outside of one.
    #[serde(default)]
    pub container: Option<String>,
}

/// Queues of a listening socket.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Listener {
    /// Connections that are complete and wait to be accepted.
    pub accept_queue: u64,
    /// The kernel drops what comes while more than this wait.
    pub backlog: u64,
}

/// Whether `address` is the end that packets show as `endpoint`.
fn is_at(address: SocketAddr, endpoint: &Endpoint) -> bool {
    address.port() == endpoint.port && address.ip().to_canonical() == endpoint.ip()
}
