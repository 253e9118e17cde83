//! What needs rights, in a process of its own: opening raw and packet sockets, reading the sockets of
//! other processes and the settings of this host, kernel hooks. The process that sends, receives and
//! parses has given its rights up, and asks for these by typed requests over a pair of sockets.
//!
//! ```text
//! Permitted (from the command line) ─► start ─┬─► Helper   in the process that parses: asks
//!                                             │     │ ▲
//!                                    Request  │     ▼ │  Answer, a socket or a document
//!                                             └─► serve    in the process that has rights: does
//! ```
//!
//! The process with rights is a copy of the first (fork(2)), made before that has opened or read
//! anything. So it knows what the command line permits, and a request only chooses among that: none
//! has a path or the number of a process in it. It reads nothing that came from the network but the
//! report of [`Request::Audit`]. It keeps only the capabilities that its work needs, and ends when
//! the other end of its socket is closed.
//!
//! Where the command itself needs rights to its end, as one that changes the system, it is the other
//! way round: [`part`] starts a process that gives its rights up and parses.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod channel;
mod following;
mod helper;
mod protocol;
mod serve;
mod watching;

pub use channel::{Channel, Received, document, part, read};
pub use helper::{Helper, HelperError};
pub use protocol::{Looked, Protocol, Request, SocketHooks};

use tcpwhy_live::netns::Netns;
use tcpwhy_live::privileges::Capability;

/// What a process with rights may do for the other.
#[derive(Debug, Clone, Default)]
pub struct Permitted {
    /// Open packet sockets in its own network namespace.
    pub packets: bool,
    /// Open raw sockets for SYNs and echo requests.
    pub probes: bool,
    /// Read the sockets that have this port, and audit the namespaces of those that serve it.
    pub server_port: Option<u16>,
    /// Read the ports of this process and its children, whose sockets are in this namespace.
    pub ports: Option<(u32, Netns)>,
    /// Read the sockets of a namespace, and observe it by hooks.
    pub watched: Option<Watched>,
}

/// A namespace that is watched.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The namespace.
    pub netns: Netns,
    /// The process whose `setsockopt`, `bind` and `listen` calls are read.
    pub pid: Option<u32>,
    /// Share of one CPU that hooks may take which run at every call; `None` for any.
    pub part: Option<f64>,
}

impl Permitted {
    /// Returns the capabilities that this takes.
    fn capabilities(&self) -> Vec<Capability> {
        use Capability::{
            Bpf, DacReadSearch, NetAdmin, NetRaw, Perfmon, SysAdmin, SysPtrace, SysResource, Syslog,
        };
        let mut needed = Vec::new();
        if self.packets || self.probes {
            needed.push(NetRaw);
        }
        if self.server_port.is_some() || self.ports.is_some() || self.watched.is_some() {
            needed.extend([DacReadSearch, NetAdmin, SysAdmin, SysPtrace]);
        }
        if self.watched.is_some() {
            needed.extend([Bpf, Perfmon, SysResource, Syslog]);
        }
        needed
    }
}
