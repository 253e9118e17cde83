//! Errors in reading a running system: each names the object, the failure and the remedy.

use std::io;

/// Error in reading the running system.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kernel has no socket monitoring, or a sandbox forbids it.
    #[error(
        "the kernel's socket list cannot be opened (NETLINK_SOCK_DIAG); in a container, run it on the host"
    )]
    Diag(#[source] io::Error),
    /// A dump stopped before its end.
    #[error("the kernel's socket list broke off")]
    Dump(#[source] io::Error),
    /// There is no process with this number.
    #[error("there is no process {pid}; `pgrep -a NAME` finds it")]
    NoProcess {
        /// The number asked for.
        pid: u32,
    },
    /// There is no network namespace of this name.
    #[error(
        "there is no network namespace {name}; `ip netns list` shows those with a name, and a process is named by its number"
    )]
    NoNetns {
        /// The name asked for.
        name: String,
    },
    /// A network namespace exists but may not be entered.
    #[error("network namespace {name} cannot be entered; it needs CAP_SYS_ADMIN: use sudo")]
    EnterNetns {
        /// Name of the object.
        name: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A packet socket is refused for lack of a privilege.
    #[error(
        "packets cannot be captured; it needs CAP_NET_RAW: use sudo, or once: sudo setcap cap_net_raw+ep PATH-OF-TCPWHY"
    )]
    NetRaw(#[source] io::Error),
    /// A packet socket cannot be opened, or no longer works.
    #[error("packets cannot be captured")]
    Packet(#[source] io::Error),
    /// The kernel has no room for the ring.
    #[error("the kernel gives no memory to capture into; use a smaller --buffer")]
    Ring(#[source] io::Error),
    /// The kernel does not take the filter.
    #[error("the kernel refuses the capture filter")]
    Filter(#[source] io::Error),
    /// There is no interface of this name.
    #[error("there is no network interface {name}; `ip link` shows them, and `any` is all of them")]
    NoInterface {
        /// The name asked for.
        name: String,
    },
    /// No process runs in this container.
    #[error(
        "no process runs in a container {id}; `docker ps --no-trunc` or `crictl ps` shows their ids"
    )]
    NoContainer {
        /// The id asked for.
        id: String,
    },
    /// A right cannot be given up.
    #[error("capabilities cannot be dropped")]
    Drop(#[source] io::Error),
    /// Signals cannot be taken notice of.
    #[error("Ctrl-C cannot be taken notice of")]
    Signals(#[source] io::Error),
}

impl LiveError {
    /// Returns the error for a packet socket that the kernel does not open.
    pub fn of_packet_socket(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NetRaw(error),
            _ => Self::Packet(error),
        }
    }
}
