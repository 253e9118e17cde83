//! Groups of sockets: the connections that one program accepts at a service or makes to one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tcpwhy_core::model::Cause;
use tcpwhy_live::diag::TcpState;
use tcpwhy_live::sockets::{Socket, Strength, Verdict};

/// The properties that the sockets of a group share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Network namespace; `None` is that of this process.
    pub netns: Option<String>,
    /// Address of the service: the local end of a server's socket, the remote end of a client's.
    pub service: SocketAddr,
    /// The side of the service on which the sockets are.
    pub side: Side,
    /// The program that holds the sockets; empty if it is not known.
    pub command: String,
}

/// The role of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The socket listens.
    Listener,
    /// A listener accepted the connection.
    Server,
    /// The socket connected to the service.
    Client,
}

/// Sockets with the same [`Key`].
#[derive(Debug, Default)]
pub struct Group<'a> {
    /// The sockets of the group.
    pub sockets: Vec<&'a Socket>,
}

/// Sorts sockets into groups. Those with the strongest verdicts on most sockets come first.
pub fn groups(sockets: &[Socket]) -> Vec<(Key, Group<'_>)> {
    let mut groups: BTreeMap<Key, Group<'_>> = BTreeMap::new();
    for socket in sockets {
        groups.entry(key(socket)).or_default().sockets.push(socket);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| {
        let limited = group.count(|verdict| verdict.strength == Strength::Limits);
        let possible = group.count(|_| true);
        (std::cmp::Reverse((limited, possible)), std::cmp::Reverse(group.sockets.len()))
    });
    groups
}

fn key(socket: &Socket) -> Key {
    let side = match (socket.state, socket.is_server) {
        (TcpState::Listen, _) => Side::Listener,
        (_, true) => Side::Server,
        (_, false) => Side::Client,
    };
    let service = match (side, socket.peer) {
        (Side::Client, Some(peer)) => peer,
        _ => socket.local,
    };
    let command = socket.process.as_ref().map(|it| it.command.clone()).unwrap_or_default();
    Key { netns: socket.netns.clone(), service, side, command }
}

impl<'a> Group<'a> {
    /// Returns the number of sockets with a verdict for which `is` holds.
    pub fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.sockets.iter().filter(|socket| socket.verdicts.iter().any(&is)).count()
    }

    /// Returns each cause with its strength, the number of sockets that have it, and as an example
    /// the socket with the largest share of its busy time.
    pub fn verdicts(&self) -> Vec<(&'a Verdict, usize, &'a Socket)> {
        let mut seen: BTreeMap<(Strength, Cause), (&'a Verdict, usize, &'a Socket)> =
            BTreeMap::new();
        for &socket in &self.sockets {
            for verdict in &socket.verdicts {
                let place =
                    seen.entry((verdict.strength, verdict.cause)).or_insert((verdict, 0, socket));
                place.1 += 1;
                if verdict.busy_share > place.0.busy_share {
                    (place.0, place.2) = (verdict, socket);
                }
            }
        }
        seen.into_values().collect()
    }

    /// Returns the processes' ids in ascending order.
    pub fn pids(&self) -> Vec<u32> {
        let pids = self.sockets.iter().filter_map(|socket| Some(socket.process.as_ref()?.pid));
        pids.collect::<BTreeSet<_>>().into_iter().collect()
    }
}
