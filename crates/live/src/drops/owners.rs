//! Finds the local socket that a dropped packet was for or came from, and the process that holds
//! it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::diag::{Diag, Entry, TcpState};
use crate::hooks::Flow;
use crate::process::{Holders, Process};

const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;

/// Sockets of one network namespace by their ends.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    connections: HashMap<(SocketAddr, SocketAddr), u32>,
    listeners: HashMap<SocketAddr, u32>,
    udp: HashMap<SocketAddr, u32>,
}

impl Sockets {
    /// Lists the TCP sockets of the calling thread's namespace and adds its UDP sockets.
    pub(super) fn read(udp: HashMap<SocketAddr, u32>) -> Self {
        let mut sockets = Self { udp, ..Self::default() };
        let states =
            [TcpState::Established, TcpState::SynSent, TcpState::CloseWait, TcpState::Listen];
        let dumped =
            Diag::open().and_then(|mut diag| diag.dump(&states, |entry| sockets.add(&entry)));
        // Without the list no process is named.
        if dumped.is_err() {
            return Self { udp: sockets.udp, ..Self::default() };
        }
        sockets
    }

    fn add(&mut self, entry: &Entry) {
        if entry.state == TcpState::Listen {
            self.listeners.insert(entry.local, entry.inode);
        } else {
            self.connections.insert((entry.local, entry.peer), entry.inode);
        }
    }

    /// Returns the owner of the local socket of a flow.
    pub(super) fn of(&self, flow: &Flow) -> Option<Owner> {
        let Flow { source, destination, protocol } = *flow;
        match protocol {
            IPPROTO_TCP => {
                let ends = [(destination, source), (source, destination)];
                let connected = ends.into_iter().find_map(|(local, peer)| {
                    let inode = *self.connections.get(&(local, peer))?;
                    Some(Owner { inode, service: at(&self.listeners, local).map(|it| it.0) })
                });
                connected.or_else(|| service(at(&self.listeners, destination)))
            }
            IPPROTO_UDP => {
                let socket = at(&self.udp, destination).or_else(|| at(&self.udp, source));
                service(socket)
            }
            _ => None,
        }
    }
}

/// A local socket that a packet was for, or came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    /// The listener or UDP socket; `None` for the connection of a client, whose port is chance.
    pub(super) service: Option<SocketAddr>,
    pub(super) inode: u32,
}

fn service(found: Option<(SocketAddr, u32)>) -> Option<Owner> {
    found.map(|(service, inode)| Owner { service: Some(service), inode })
}

/// Returns the socket at an address, or at the wildcard address of its port.
fn at(sockets: &HashMap<SocketAddr, u32>, end: SocketAddr) -> Option<(SocketAddr, u32)> {
    let wildcards: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let places = std::iter::once(end.ip()).chain(wildcards);
    let mut places = places.map(|ip| SocketAddr::new(ip, end.port()));
    places.find_map(|place| Some((place, *sockets.get(&place)?)))
}

/// Returns the process that holds a socket.
pub(super) fn process(holders: &Holders, inode: u32) -> Option<&Process> {
    let holder = holders.by_inode.get(&inode).filter(|_| inode != 0)?;
    holders.processes.get(holder.process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_listener_and_a_client_by_its_process_alone() {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut sockets = Sockets::default();
        sockets.listeners.insert(end("0.0.0.0:80"), 1);
        sockets.connections.insert((end("10.0.0.1:80"), end("10.0.0.9:5000")), 2);
        sockets.connections.insert((end("10.0.0.1:6000"), end("10.0.0.9:443")), 3);
        sockets.udp.insert(end("127.0.0.1:53"), 4);
        let of = |source: &str, destination: &str, protocol| {
            let (source, destination) = (end(source), end(destination));
            let owner = sockets.of(&Flow { source, destination, protocol });
            owner.map(|owner| (owner.service, owner.inode))
        };
        let web = Some(end("0.0.0.0:80"));
        assert_eq!(of("10.0.0.9:5000", "10.0.0.1:80", 6), Some((web, 2)));
        assert_eq!(of("10.0.0.1:80", "10.0.0.9:5000", 6), Some((web, 2)));
        assert_eq!(of("10.0.0.8:7000", "10.0.0.1:80", 6), Some((web, 1)), "a SYN");
        assert_eq!(of("10.0.0.1:6000", "10.0.0.9:443", 6), Some((None, 3)));
        assert_eq!(of("10.0.0.8:7000", "10.0.0.1:81", 6), None);
        let dns = Some(end("127.0.0.1:53"));
        assert_eq!(of("127.0.0.1:7000", "127.0.0.1:53", 17), Some((dns, 4)));
    }
}
