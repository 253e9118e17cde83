//! What the kernel counts of lost packets without hooks, per network namespace: `/proc/net` and
//! netlink. Counters are named `GROUP:NAME` as nstat(8) and `conntrack -S` spell them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

use super::line::AcceptQueue;
use super::netlink;
use crate::diag::{Diag, State};

/// State of a network namespace at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// By name.
    pub(super) counters: BTreeMap<String, u64>,
    /// Connection tracking; `None` where the kernel has none.
    pub(super) conntrack: Option<ConntrackUse>,
    /// Addresses of its interfaces.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Sockets that count what they drop, by their number.
    pub(super) sockets: BTreeMap<Key, Counting>,
}

/// Names a socket while it exists.
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
    /// Of a listener.
    pub(super) queue: Option<AcceptQueue>,
}

/// Entries of connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ConntrackUse {
    /// Entries in use.
    pub count: u64,
    /// Entries at which new flows are dropped.
    pub max: u64,
}

/// Reads all of the calling thread's namespace. What cannot be read is missing.
pub(super) fn read() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let counters = &mut snapshot.counters;
    let file = |name: &str| {
        fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    };
    pairs(&file("netstat"), counters);
    pairs(&file("snmp"), counters);
    columns(&file("snmp6"), counters);
    // What cannot be listed is missing; the other counters still tell.
    let _ = netlink::read(counters);
    let _ = netlink::addresses(&mut snapshot.addresses);
    match file("stat/nf_conntrack") {
        // A kernel without CONFIG_NF_CONNTRACK_PROCFS.
        text if text.is_empty() => drop(netlink::conntrack(counters)),
        text => conntrack(&text, counters),
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
    softnet_dropped(&fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default())
}

/// One line a CPU, hexadecimal columns; the second counts drops.
fn softnet_dropped(text: &str) -> u64 {
    let dropped = text
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok());
    dropped.sum()
}

/// Pairs of lines: names, then values.
fn pairs(text: &str, counters: &mut BTreeMap<String, u64>) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let Some((group, names)) = names.split_once(':') else { return };
        let values = values.split_once(':').map_or("", |(_, values)| values);
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{group}:{name}"), value);
            }
        }
    }
}

/// A name and a value a line, as in `Udp6RcvbufErrors 0`.
fn columns(text: &str, counters: &mut BTreeMap<String, u64>) {
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(char::is_whitespace)
            && let Some((group, name)) = name.split_once('6')
            && let Ok(value) = value.trim().parse()
        {
            counters.insert(format!("{group}6:{name}"), value);
        }
    }
}

/// A line of names, then one of hexadecimal values a CPU.
fn conntrack(text: &str, counters: &mut BTreeMap<String, u64>) {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_ascii_whitespace()) {
            // The number of entries in use; it counts no events.
            if let Ok(value) = u64::from_str_radix(value, 16)
                && *name != "entries"
            {
                *counters.entry(format!("conntrack:{name}")).or_default() += value;
            }
        }
    }
}

fn conntrack_use() -> Option<ConntrackUse> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
        text.ok()?.trim().parse().ok()
    };
    Some(ConntrackUse { count: number("count")?, max: number("max")? })
}

/// `/proc/net/udp`: the last column counts what the socket dropped.
fn udp(text: &str) -> impl Iterator<Item = (Key, Counting)> + '_ {
    text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let inode = words.get(9)?.parse().ok()?;
        let drops = words.last()?.parse().ok()?;
        let local = hex_address(words.get(1)?)?;
        Some((Key::Udp(inode), Counting { local, inode, drops, queue: None }))
    })
}

/// `0100007F:0035`: words of the address in the host's byte order, the port as a number.
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
        diag.dump(&[State::Listen], |entry| {
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
    fn counters_of_proc_are_named_with_their_group() {
        let mut counters = BTreeMap::new();
        pairs(
            "TcpExt: ListenOverflows ListenDrops\nTcpExt: 7 9\nIpExt: A\nIpExt: 1\n",
            &mut counters,
        );
        columns("Udp6RcvbufErrors                \t3\nIp6InDiscards 4\n", &mut counters);
        conntrack(
            "entries  drop insert_failed\n0000000a 00000010 1\n0000000a 1 2\n",
            &mut counters,
        );
        let wanted = [
            ("Ip6:InDiscards", 4),
            ("IpExt:A", 1),
            ("TcpExt:ListenDrops", 9),
            ("TcpExt:ListenOverflows", 7),
            ("Udp6:RcvbufErrors", 3),
            ("conntrack:drop", 17),
            ("conntrack:insert_failed", 3),
        ];
        assert_eq!(counters, wanted.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn drops_of_all_cpus_are_added() {
        assert_eq!(softnet_dropped("00000033 0000000a 0\n000013e7 00000001 0\n"), 11);
        assert_eq!(softnet_dropped(""), 0);
    }

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
