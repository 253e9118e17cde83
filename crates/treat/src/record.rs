//! The journal's record of a treatment.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::namespace::Namespace;
use super::setting::{Setting, Value};

/// Version of the journal's format.
pub const VERSION: u32 = 2;

/// A treatment: the changes, their author and time, and the old values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the format: [`VERSION`].
    pub version: u32,
    /// Number by which a user names it.
    pub id: u32,
    /// Object of the treatment.
    pub what: What,
    /// Tells whether it ends with the process that made it.
    pub state: Lifetime,
    /// Process that made the treatment.
    pub by: By,
    /// Time at which it was made.
    pub since: Since,
    /// Changed objects. The list is written before the changes are made, so an object may still be
    /// unchanged.
    pub changes: Vec<Change>,
}

/// Object of a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// An option of sockets.
    Sockets {
        /// The option and its value.
        setting: Setting,
        /// The sockets.
        scope: Scope,
        /// The kernel's file with the changes of the hook that this record does not list yet. It is
        /// absent if the hook could not be attached, or has no changes to undo.
        #[serde(default)]
        hook_map: Option<PathBuf>,
    },
    /// A kernel setting.
    Sysctl {
        /// The name of the setting, as `sysctl` shows it.
        name: String,
    },
    /// Options of a resolver library.
    Resolver {
        /// The file.
        path: String,
    },
    /// The defences of a listener against a SYN flood.
    SynFlood {
        /// The port of the listener.
        port: u16,
    },
    /// The accept queue of a listener.
    Backlog {
        /// The port of the listener.
        port: u16,
    },
    /// The initial windows of a route.
    Cwnd {
        /// The prefix of the route.
        route: String,
    },
}

/// The sockets to treat; empty fields select all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The network namespace.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// Port at either end.
    pub port: Option<u16>,
    /// The process that holds them, or a parent of it.
    pub pid: Option<u32>,
    /// The control group of the processes that hold them.
    pub cgroup: Option<String>,
    /// The other end.
    pub peer: Option<String>,
    /// The side of the connection.
    pub side: Side,
}

/// Side of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// A socket that a listener accepted.
    Server,
    /// A socket that connected.
    Client,
    /// Either side.
    #[default]
    Both,
}

impl Scope {
    /// Returns whether a socket can be in both scopes.
    pub fn overlaps(&self, other: &Self) -> bool {
        fn meet<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        let sides = self.side == Side::Both || other.side == Side::Both || self.side == other.side;
        self.namespace.is(&other.namespace)
            && sides
            && meet(self.port.as_ref(), other.port.as_ref())
            && meet(self.peer.as_ref(), other.peer.as_ref())
    }

    /// Returns a description: "port 8080 in network namespace edge".
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        match self.side {
            Side::Server => parts.push("of servers".to_owned()),
            Side::Client => parts.push("of clients".to_owned()),
            Side::Both => {}
        }
        parts.extend(self.port.map(|port| format!("port {port}")));
        parts.extend(self.pid.map(|pid| format!("process {pid}")));
        parts.extend(self.cgroup.as_ref().map(|path| format!("control group {path}")));
        parts.extend(self.peer.as_ref().map(|peer| format!("peer {peer}")));
        parts.extend(
            self.namespace.netns_name.as_ref().map(|name| format!("network namespace {name}")),
        );
        if parts.is_empty() { "all of this network namespace".into() } else { parts.join(", ") }
    }
}

/// Lifetime of a treatment: until its process ends, or longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// The process undoes the treatment when it ends.
    Running,
    /// The treatment stays until it is undone.
    Kept,
}

/// Process that made a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// User id.
    pub uid: u32,
    /// Name of the user, or of the user who called `sudo`, if that is known.
    pub user: Option<String>,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
}

/// Begin of a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Nanoseconds since the Unix epoch.
    pub unix_ns: u64,
}

/// A changed thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// An option of a socket.
    Socket(SocketChange),
    /// A kernel setting.
    Sysctl(SysctlChange),
    /// The accept queue of a listening socket.
    Listener(ListenerChange),
    /// The content of a file.
    File(FileChange),
    /// A caching resolver that runs for the time.
    Cache(CacheChange),
    /// A table of the packet filter for the duration of the treatment.
    Filter(FilterChange),
    /// A program at a network interface for the duration of the treatment.
    Xdp(XdpChange),
    /// A route.
    Route(RouteChange),
}

/// An option of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketChange {
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// Local address.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The process that held it; `None` where the kernel hook changed it when it opened.
    pub pid: Option<u32>,
    /// The descriptor of the socket in that process.
    pub fd: Option<u32>,
    /// Command of that process.
    pub command: Option<String>,
    /// Value before the change.
    pub before: Value,
    /// Value after the change.
    pub set: Value,
}

/// A kernel setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysctlChange {
    /// The name of the setting.
    pub name: String,
    /// The network namespace.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// Value before the change.
    pub before: String,
    /// Value after the change.
    pub set: String,
}

/// The accept queue of a listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerChange {
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// Local address.
    pub local: SocketAddr,
    /// The network namespace.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// A process that holds it.
    pub pid: u32,
    /// Command of that process.
    pub command: String,
    /// Length before the change, connections.
    pub before: u32,
    /// Length after the change, connections.
    pub set: u32,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file.
    pub path: String,
    /// Inode of the mount namespace in which the file is seen, if that is not the caller's own. The
    /// path is `/proc/PID/root/…` then.
    pub mounts: Option<u64>,
    /// Complete content before the change.
    pub before: String,
    /// Complete content after the change.
    pub set: String,
}

/// A caching resolver (dnsmasq) that runs for the time of a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheChange {
    /// Address of the cache, at port 53.
    pub address: IpAddr,
    /// The name servers that the cache asks.
    pub upstream: Vec<IpAddr>,
    /// The network namespace.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// File that has the number of its process.
    pub pid_file: String,
    /// Its process; `None` before it is started.
    pub process: Option<Process>,
}

/// A process of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Number of the process.
    pub pid: u32,
    /// Start of the process, clock ticks after boot (proc_pid_stat(5), field 22), because process
    /// ids are reused.
    pub pid_start_ticks: u64,
}

/// A table of the packet filter that limits SYNs, for the time of a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterChange {
    /// The network namespace.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// Name of the table, of family `inet`.
    pub table: String,
    /// Port that it counts SYNs to.
    pub port: u16,
    /// SYNs a second that one source address may send.
    pub syns_per_second: u32,
    /// The table as nft lists it, without what it counts; `None` before it is made.
    pub made: Option<String>,
}

/// An XDP program that limits SYNs, for the time of a treatment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpChange {
    /// The network namespace.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// The network interface.
    pub device: String,
    /// The kernel's file that keeps the program attached.
    pub pin: PathBuf,
    /// Port that it counts SYNs to.
    pub port: u16,
    /// SYNs a second that one source may send.
    pub syns_per_second: u32,
    /// The kernel's number of the program; `None` before it is attached.
    pub program: Option<u32>,
}

/// A route of the main table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteChange {
    /// The network namespace.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// `true` for IPv6.
    pub is_ipv6: bool,
    /// The prefix of the route.
    pub prefix: String,
    /// The route before the change, in words of `ip route`.
    pub before: String,
    /// The route before the change as the kernel takes it: the body of an `RTM_NEWROUTE`, in
    /// hexadecimal digits.
    pub before_message: String,
    /// The route after the change, in words of `ip route`.
    pub set: String,
    /// The route after the change as the kernel takes it.
    pub set_message: String,
}

impl Change {
    /// Returns the network namespace of the object, if it belongs to one.
    pub(super) fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Sysctl(change) => Some(&change.namespace),
            Self::Listener(change) => Some(&change.namespace),
            Self::Cache(change) => Some(&change.namespace),
            Self::Filter(change) => Some(&change.namespace),
            Self::Xdp(change) => Some(&change.namespace),
            Self::Route(change) => Some(&change.namespace),
            // That of a socket is in the scope of its treatment.
            Self::Socket(_) | Self::File(_) => None,
        }
    }

    /// Returns the name of the changed object for a reader.
    pub fn words(&self) -> String {
        match self {
            Self::Socket(change) => format!("socket {} – {}", change.local, change.peer),
            Self::Sysctl(change) => change.name.clone(),
            Self::Listener(change) => {
                let (local, command, pid) = (change.local, &change.command, change.pid);
                format!("accept queue of {local}, {command} (pid {pid})")
            }
            Self::File(change) => change.path.clone(),
            Self::Cache(change) => format!("dnsmasq at {}", change.address),
            Self::Filter(change) => format!("nftables table inet {}", change.table),
            Self::Xdp(change) => format!("XDP program at {}", change.device),
            Self::Route(change) => format!("route {}", change.prefix),
        }
    }

    /// Returns the value before the change, for a person who has to restore it.
    pub fn before_words(&self) -> String {
        match self {
            Self::Socket(change) => change.before.words(),
            Self::Sysctl(change) => change.before.clone(),
            Self::Listener(change) => change.before.to_string(),
            Self::File(change) => format!("`{}`", change.before.trim_end()),
            Self::Route(change) => format!("`{}`", change.before),
            Self::Cache(_) | Self::Filter(_) | Self::Xdp(_) => "none".into(),
        }
    }

    /// Returns the value that the treatment set.
    pub fn set_words(&self) -> String {
        match self {
            Self::Socket(change) => change.set.words(),
            Self::Sysctl(change) => change.set.clone(),
            Self::Listener(change) => change.set.to_string(),
            Self::File(change) => format!("`{}`", change.set.trim_end()),
            Self::Route(change) => format!("`{}`", change.set),
            Self::Filter(change) => format!("`{}`", change.made.as_deref().unwrap_or_default()),
            Self::Cache(_) | Self::Xdp(_) => self.from_to(),
        }
    }

    /// Returns the old and the new value as text.
    pub fn from_to(&self) -> String {
        match self {
            Self::Socket(change) => {
                format!("from {} to {}", change.before.words(), change.set.words())
            }
            Self::Sysctl(change) => format!("from {} to {}", change.before, change.set),
            Self::Listener(change) => format!("from {} to {}", change.before, change.set),
            Self::File(change) => {
                let has = |text: &str, line: &str| text.lines().any(|it| it == line);
                let gone = change.before.lines().filter(|line| !has(&change.set, line));
                let new = change.set.lines().filter(|line| !has(&change.before, line));
                let gone = gone.map(|line| format!("without `{line}`"));
                let new = new.map(|line| format!("with `{line}`"));
                gone.chain(new).collect::<Vec<_>>().join(", ")
            }
            Self::Cache(change) => {
                let upstream: Vec<String> =
                    change.upstream.iter().map(ToString::to_string).collect();
                format!("started, asks {}", upstream.join(", "))
            }
            Self::Filter(change) => format!(
                "added: at most {} SYNs a second to port {} from one address",
                change.syns_per_second, change.port
            ),
            Self::Xdp(change) => format!(
                "added: at most {} SYNs a second to port {} from one address",
                change.syns_per_second, change.port
            ),
            Self::Route(change) => format!("from `{}` to `{}`", change.before, change.set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_overlap_unless_something_keeps_them_apart() {
        let namespace = |netns| Namespace { netns, ..Namespace::default() };
        let scope = |port, side| Scope { namespace: namespace(1), port, side, ..Scope::default() };
        let one = scope(Some(80), Side::Server);
        assert!(one.overlaps(&scope(None, Side::Both)));
        assert!(!one.overlaps(&scope(Some(81), Side::Server)));
        assert!(!one.overlaps(&scope(Some(80), Side::Client)));
        assert!(!one.overlaps(&Scope { namespace: namespace(2), ..one.clone() }));
        // A process may hold a socket of any port.
        assert!(one.overlaps(&Scope { pid: Some(7), ..scope(Some(80), Side::Both) }));
    }
}
