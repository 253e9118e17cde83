//! Which local socket a dropped packet was for, or came from, and which process holds it.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::diag::{Diag, Entry, State};
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
        let states = [State::Established, State::SynSent, State::CloseWait, State::Listen];
        let dumped =
            Diag::open().and_then(|mut diag| diag.dump(&states, |entry| sockets.add(&entry)));
        // Without the list no process is named.
        if dumped.is_err() {
            return Self { udp: sockets.udp, ..Self::default() };
        }
        sockets
    }

    fn add(&mut self, entry: &Entry) {
        if entry.state == State::Listen {
            self.listeners.insert(entry.local, entry.inode);
        } else {
            self.connections.insert((entry.local, entry.peer), entry.inode);
        }
    }

    /// The local socket of a flow: its address and inode.
    pub(super) fn of(&self, flow: &Flow) -> Option<(SocketAddr, u32)> {
        let Flow { source, destination, protocol } = *flow;
        match protocol {
            IPPROTO_TCP => {
                let ends = [(destination, source), (source, destination)];
                let connected = ends.into_iter().find_map(|(local, peer)| {
                    Some((local, *self.connections.get(&(local, peer))?))
                });
                connected.or_else(|| at(&self.listeners, destination))
            }
            IPPROTO_UDP => at(&self.udp, destination).or_else(|| at(&self.udp, source)),
            _ => None,
        }
    }
}

/// The socket at an address, or at the wildcard address of its port.
fn at(sockets: &HashMap<SocketAddr, u32>, end: SocketAddr) -> Option<(SocketAddr, u32)> {
    let wildcards = ["0.0.0.0", "::"].map(|ip| ip.parse().expect("an address"));
    let places = std::iter::once(end.ip()).chain(wildcards);
    let mut places = places.map(|ip| SocketAddr::new(ip, end.port()));
    places.find_map(|place| Some((place, *sockets.get(&place)?)))
}

/// The process that holds a socket.
pub(super) fn process(holders: &Holders, inode: u32) -> Option<Process> {
    let holder = holders.by_inode.get(&inode).filter(|_| inode != 0)?;
    Some(holders.processes[holder.process].clone())
}
