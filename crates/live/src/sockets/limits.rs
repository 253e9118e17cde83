//! Limits of a network namespace for new connections: the table of connection tracking, and the
//! local ports towards one destination.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use crate::counters::Counters;
use crate::diag::{Entry, TcpState};

/// The table of connection tracking (`nf_conntrack`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Conntrack {
    /// Number of entries.
    pub count: u64,
    /// Entries that there is room for; beyond, packets of new connections are dropped.
    pub max: u64,
    /// Packets dropped because there was no room, since the namespace was made.
    pub drop: u64,
    /// Entries removed to make room, likewise.
    pub early_drop: u64,
    /// Entries that could not be made, because another has the same addresses or there was no
    /// room, likewise.
    pub insert_failed: u64,
}

impl Conntrack {
    /// Reads the table of the calling thread's namespace, whose counters are `counters`; `None` if
    /// the kernel tracks no connections.
    pub(super) fn read(counters: &Counters) -> Option<Self> {
        let limit = |name: &str| number(&format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
        let counter = |name: &str| counters.of(&format!("nf_conntrack.{name}"));
        Some(Self {
            count: limit("count")?,
            max: limit("max")?,
            drop: counter("drop"),
            early_drop: counter("early_drop"),
            insert_failed: counter("insert_failed"),
        })
    }
}

/// Use of the local ports from one address towards the destination that takes most of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct LocalPorts {
    /// The local address.
    pub local: IpAddr,
    /// The destination.
    pub peer: SocketAddr,
    /// Ports of `net.ipv4.ip_local_port_range` that are not reserved.
    pub available: u64,
    /// Number of ports with a connection to the destination, including those in TIME-WAIT.
    pub used: u64,
}

impl LocalPorts {
    /// Reads the ports of the calling thread's namespace, whose sockets are `entries`; `None` if no
    /// port of the range is in use.
    pub(super) fn read(entries: &[Entry]) -> Option<Self> {
        let text = |name: &str| {
            fs::read_to_string(format!("/proc/sys/net/ipv4/ip_local_{name}")).unwrap_or_default()
        };
        Self::of(entries, Range::parse(&text("port_range"), &text("reserved_ports"))?)
    }

    fn of(entries: &[Entry], range: Range) -> Option<Self> {
        let mut used: HashMap<(IpAddr, SocketAddr), HashSet<u16>> = HashMap::new();
        let is_of_range = |it: &&Entry| it.state != TcpState::Listen && range.has(it.local.port());
        for entry in entries.iter().filter(is_of_range) {
            used.entry((entry.local.ip(), entry.peer)).or_default().insert(entry.local.port());
        }
        let most = used.into_iter().max_by_key(|(ends, ports)| (ports.len(), *ends));
        let ((local, peer), ports) = most?;
        Some(Self { local, peer, available: range.available(), used: ports.len() as u64 })
    }
}

/// The local ports that the kernel gives to connections.
struct Range {
    first: u16,
    last: u16,
    reserved: HashSet<u16>,
}

impl Range {
    /// Parses `ip_local_port_range` and `ip_local_reserved_ports`.
    fn parse(range: &str, reserved: &str) -> Option<Self> {
        let mut ends = range.split_whitespace().map_while(|end| end.parse().ok());
        let (first, last) = (ends.next()?, ends.next()?);
        let spans = reserved.trim().split(',').filter_map(|span| {
            let (from, to) = span.split_once('-').unwrap_or((span, span));
            Some(from.parse().ok()?..=to.parse().ok()?)
        });
        let is_inside = |port: &u16| (first..=last).contains(port);
        Some(Self { first, last, reserved: spans.flatten().filter(is_inside).collect() })
    }

    fn has(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port) && !self.reserved.contains(&port)
    }

    fn available(&self) -> u64 {
        (u64::from(self.last) + 1).saturating_sub(u64::from(self.first))
            - self.reserved.len() as u64
    }
}

/// Returns the number in a file of /proc.
fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_are_not_available() {
        let range = Range::parse("32768\t60999\n", "40000-40009,50000,80\n").expect("a range");
        assert_eq!(range.available(), 28_232 - 11);
        assert!(range.has(32_768) && range.has(60_999) && range.has(40_010));
        assert!(!range.has(40_009) && !range.has(50_000) && !range.has(80));
        assert_eq!(Range::parse("1024 65535", "").expect("a range").available(), 64_512);
        assert!(Range::parse("", "").is_none());
    }

    #[test]
    fn the_destination_with_most_ports_is_named() {
        let entry = |local: &str, peer: &str, state| Entry {
            local: local.parse().expect("an address"),
            peer: peer.parse().expect("an address"),
            state,
            cookie: 0,
            inode: 0,
            timer_ms: 0,
            uid: 0,
            recv_queue: 0,
            send_queue: 0,
            tcp_info: None,
            memory: None,
            congestion_control: None,
        };
        let entries = [
            entry("10.0.0.1:40000", "10.0.0.2:80", TcpState::Established),
            entry("10.0.0.1:40001", "10.0.0.2:80", TcpState::TimeWait),
            entry("10.0.0.1:40001", "10.0.0.3:80", TcpState::TimeWait),
            entry("10.0.0.1:80", "10.0.0.9:40000", TcpState::Established),
            entry("0.0.0.0:40002", "0.0.0.0:0", TcpState::Listen),
        ];
        let range = || Range::parse("40000 40009", "").expect("a range");
        let most = LocalPorts::of(&entries, range()).expect("ports in use");
        assert_eq!(most.peer, "10.0.0.2:80".parse().expect("an address"));
        assert_eq!((most.used, most.available), (2, 10));
        assert_eq!(LocalPorts::of(&entries[3..], range()), None);
    }
}
