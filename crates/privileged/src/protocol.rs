//! What the two processes say to each other.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tcpwhy_core::state::Served;
use tcpwhy_live::sample::Sample;

/// A request of the process that parses. What it does not name is known since before the two
/// processes parted ([`Permitted`](crate::Permitted)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A packet socket, which receives nothing yet.
    PacketSocket,
    /// A raw socket.
    RawSocket {
        /// `true` for IPv4, `false` for IPv6.
        is_ipv4: bool,
        /// Its protocol.
        protocol: Protocol,
    },
    /// The sockets of the connection between this port and that of the server.
    Connection {
        /// The port.
        local_port: u16,
    },
    /// All sockets that have the server's port.
    Server,
    /// An audit of a namespace in which a socket serves the port, with a report as document.
    Audit {
        /// Name of the namespace, as the socket had it.
        netns: Option<String>,
    },
    /// The ports of the process, if they have changed since the last time.
    Ports,
    /// To attach the hooks that stay attached.
    Attach,
    /// The sockets of the watched namespace.
    Look {
        /// Also the hook that follows requests, at the connections of this sample.
        follow: Option<Sample>,
        /// Also the hooks that are attached for a moment, at the connections of this sample.
        witness: Option<Sample>,
        /// Also the packets that the kernel dropped.
        drops: bool,
    },
}

/// Protocol of a raw socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// ICMP, of IPv6 ICMPv6.
    Icmp,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The message's descriptor is the socket.
    Socket,
    /// The message's descriptor is the document that was asked for, in JSON.
    Document,
    /// Ranges of ports; `None` if they have not changed.
    Ports(Option<Vec<(u16, u16)>>),
    /// The hooks are attached, or this is the reason why some are not.
    Attached(Option<String>),
    /// It cannot be done.
    Refused {
        /// The kernel's error, if it is one.
        os_error: Option<i32>,
        /// The reason in words.
        why: String,
    },
}

impl Answer {
    /// Returns the answer to a request that `why` refuses.
    pub fn refused(why: impl ToString) -> Self {
        Self::Refused { os_error: None, why: why.to_string() }
    }
}

impl From<io::Error> for Answer {
    fn from(error: io::Error) -> Self {
        Self::Refused { os_error: error.raw_os_error(), why: error.to_string() }
    }
}

/// The document of [`Request::Look`], without the sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// What hooks counted of sockets.
    pub hooked: Vec<SocketHooks>,
    /// Requests that servers answered while hooks looked.
    pub served: Vec<Served>,
    /// How long the reading took, ns.
    pub took_ns: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The reason, if hooks could not be attached.
    pub hooks_missing: Option<String>,
}

/// What hooks counted of one socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketHooks {
    /// Local address.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// How long received data lay unread, in all and at most, ns.
    pub unread_ns: Option<(u64, u64)>,
    /// How long senders waited for memory of the send buffer, ns, and the sender's process with its
    /// name.
    pub sndbuf_wait: Option<(u64, u32, String)>,
    /// Segments that a timer sent again, and those that duplicate ACKs did.
    pub retransmits: Option<(u64, u64)>,
}
