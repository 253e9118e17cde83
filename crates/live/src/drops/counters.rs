//! Counters of lost packets that the kernel keeps without hooks, per network namespace: from
//! `/proc/net` and netlink.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

use super::line::AcceptQueue;
use super::netlink;
use crate::counters::Counters;
use crate::diag::{Diag, TcpState};

/// State of a network namespace at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// The counters, by name.
    pub(super) counters: Counters,
    /// Connection tracking; `None` where the kernel has none.
    pub(super) conntrack: Option<ConntrackUse>,
    /// Addresses of its interfaces.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Sockets that count what they drop, by their number.
    pub(super) sockets: BTreeMap<Key, Counting>,
}

/// Identifies a socket while it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A TCP listener by its cookie.
    Listener(u64),
    /// A UDP socket by its inode.
    Udp(u32),
}

/// A socket that counts what it drops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counting {
    pub(super) local: SocketAddr,
    pub(super) inode: u32,
    pub(super) drops: u64,
    /// Accept queue, of a listener.
    pub(super) queue: Option<AcceptQueue>,
}

/// Entries of connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ConntrackUse {
    /// Number of entries in use.
    pub count: u64,
    /// Entries at which new flows are dropped.
    pub max: u64,
}

/// Reads all counters of the calling thread's namespace, except those that cannot be read.
pub(super) fn read() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let counters = &mut snapshot.counters;
    let file = |name: &str| {
        fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    };
    counters.add_pairs(&file("netstat"));
    counters.add_pairs(&file("snmp"));
    counters.add_lines6(&file("snmp6"));
    // Counters that cannot be listed are missing from the snapshot; the others remain usable.
    let _ = netlink::read(counters);
    let _ = netlink::addresses(&mut snapshot.addresses);
    match file("stat/nf_conntrack") {
        // A kernel without CONFIG_NF_CONNTRACK_PROCFS.
        text if text.is_empty() => drop(netlink::conntrack(counters)),
        text => counters.add_columns("nf_conntrack", &text),
    }
    snapshot.conntrack = conntrack_use();
    for name in ["udp", "udp6"] {
        snapshot.sockets.extend(udp(&file(name)));
    }
    snapshot.sockets.extend(listeners());
    snapshot
}

/// Counters of the whole host: packets that a CPU dropped because its backlog was full.
pub(super) fn softnet() -> u64 {
    let mut counters = Counters::default();
    counters.add_softnet(&fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default());
    counters.of("softnet.dropped")
}

fn conntrack_use() -> Option<ConntrackUse> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
        text.ok()?.trim().parse().ok()
    };
    Some(ConntrackUse { count: number("count")?, max: number("max")? })
}

/// Parses `/proc/net/udp`, whose last column counts what the socket dropped.
fn udp(text: &str) -> impl Iterator<Item = (Key, Counting)> + '_ {
    text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let inode = words.get(9)?.parse().ok()?;
        let drops = words.last()?.parse().ok()?;
        let local = hex_address(words.get(1)?)?;
        Some((Key::Udp(inode), Counting { local, inode, drops, queue: None }))
    })
}

/// Parses `0100007F:0035`: words of the address in the host's byte order, the port as a number.
fn hex_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
        _ => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

fn listeners() -> Vec<(Key, Counting)> {
    let mut found = Vec::new();
    let dumped = Diag::open().and_then(|mut diag| {
        diag.dump(&[TcpState::Listen], |entry| {
            let drops = entry.memory.unwrap_or_default().drops;
            let (waiting, backlog) = (entry.recv_queue.into(), entry.send_queue.into());
            let queue = Some(AcceptQueue { waiting, backlog });
            let (local, inode) = (entry.local, entry.inode);
            found.push((Key::Listener(entry.cookie), Counting { local, inode, drops, queue }));
        })
    });
    // Without the list the counters of the namespace still show that a listener drops.
    if dumped.is_err() {
        found.clear();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_udp_socket_has_its_address_and_its_drops() {
        let text = "  sl  local_address …\n  \
            0: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        \
            0 4711 2 0000000000000000 42\n";
        let found: Vec<_> = udp(text).collect();
        let local = "127.0.0.1:53".parse().unwrap();
        let counting = Counting { local, inode: 4711, drops: 42, queue: None };
        assert_eq!(found, [(Key::Udp(4711), counting)]);
    }
}
