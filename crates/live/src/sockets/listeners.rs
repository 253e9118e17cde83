//! Listening sockets: their queues, and the kernel's counters of all of them together.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

use crate::counters::Counters;
use crate::diag::{Entry, TcpState};

/// The queues of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Listener {
    /// Connections that are complete and wait to be accepted.
    pub accept_queue: u64,
    /// The backlog: the kernel drops connections that arrive while the accept queue is longer than
    /// this.
    pub backlog: u64,
    /// Connections of it that are half open (SYN-RECEIVED).
    pub half_open: u64,
}

/// Counters of all listeners of a network namespace (`TcpExt` in `/proc/net/netstat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ListenerCounters {
    /// `ListenOverflows`: connections dropped because an accept queue was full.
    pub listen_overflows: u64,
    /// `ListenDrops`: SYNs and connections dropped by a listener for any reason.
    pub listen_drops: u64,
    /// `SyncookiesSent`: SYNs answered without keeping state.
    pub syncookies_sent: u64,
    /// `TCPReqQFullDoCookies`: times that a full SYN queue led to cookies.
    pub req_q_full_do_cookies: u64,
    /// `TCPReqQFullDrop`: SYNs dropped because the SYN queue was full and cookies are off.
    pub req_q_full_drop: u64,
}

impl ListenerCounters {
    /// Takes its values from all counters of a namespace; 0 where a kernel does not have one.
    pub(super) fn of(counters: &Counters) -> Self {
        let counter = |name: &str| counters.of(&format!("TcpExt.{name}"));
        Self {
            listen_overflows: counter("ListenOverflows"),
            listen_drops: counter("ListenDrops"),
            syncookies_sent: counter("SyncookiesSent"),
            req_q_full_do_cookies: counter("TCPReqQFullDoCookies"),
            req_q_full_drop: counter("TCPReqQFullDrop"),
        }
    }
}

/// Returns the number of half-open connections of each listener: of its own address, or of the
/// wildcard address that accepted them.
pub fn half_open(entries: &[Entry]) -> HashMap<SocketAddr, u64> {
    let listening = Listening::of(entries);
    let mut counts = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.state == TcpState::SynReceived) {
        if let Some(listener) = listening.listener(entry.local) {
            *counts.entry(listener).or_default() += 1;
        }
    }
    counts
}

/// The addresses of all listeners.
pub struct Listening(HashSet<SocketAddr>);

impl Listening {
    /// Takes the listeners out of a list of sockets.
    pub fn of(entries: &[Entry]) -> Self {
        let listeners = entries.iter().filter(|entry| entry.state == TcpState::Listen);
        Self(listeners.map(|entry| entry.local).collect())
    }

    /// Returns whether a connection with the local end `local` was made to a listener. If the
    /// listener has been closed since, the connection counts as a client's.
    pub fn took(&self, local: SocketAddr) -> bool {
        self.listener(local).is_some()
    }

    /// Returns the listener at `local`, or else at the wildcard address: first that of the same IP
    /// version, then IPv6's, which accepts IPv4 as well unless `IPV6_V6ONLY` is set.
    fn listener(&self, local: SocketAddr) -> Option<SocketAddr> {
        let wildcards: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let skip = usize::from(local.is_ipv6());
        let places = std::iter::once(local.ip()).chain(wildcards.into_iter().skip(skip));
        let mut places = places.map(|ip| SocketAddr::new(ip, local.port()));
        places.find(|place| self.0.contains(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_listener_takes_connections_to_any_address() {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let listening = Listening(HashSet::from([end("0.0.0.0:80"), end("[::]:443")]));
        assert!(listening.took(end("10.0.0.1:80")));
        assert!(listening.took(end("10.0.0.1:443")), "IPv6's wildcard takes IPv4");
        assert!(!listening.took(end("[2001:db8::1]:80")), "IPv4's wildcard takes no IPv6");
        assert!(!listening.took(end("10.0.0.1:8080")));
    }
}
