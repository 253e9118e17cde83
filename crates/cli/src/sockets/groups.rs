//! Sockets that belong together: the connections of a program at one service, or to one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tcpwhy_core::model::Cause;
use tcpwhy_live::diag::State;
use tcpwhy_live::sockets::{Socket, Strength, Verdict};

/// What the sockets of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Network namespace; `None` is the caller's own.
    pub netns: Option<String>,
    /// The service: of a server's socket its own end, of a client's the other end.
    pub service: SocketAddr,
    /// Which side of the service they are.
    pub side: Side,
    /// The program that holds them; empty where it is not known.
    pub command: String,
}

/// Which part a socket has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// It listens.
    Listener,
    /// It was accepted by a listener.
    Server,
    /// It connects.
    Client,
}

/// Sockets of one [`Key`].
#[derive(Debug, Default)]
pub struct Group<'a> {
    /// Its sockets.
    pub sockets: Vec<&'a Socket>,
}

/// Sorts sockets into groups; those with the strongest verdicts on most sockets come first.
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
        (State::Listen, _) => Side::Listener,
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
    /// How many sockets have a verdict that `is` so.
    pub fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.sockets.iter().filter(|socket| socket.verdicts.iter().any(&is)).count()
    }

    /// Each cause with its strength, how many sockets have it, and one of them: the one whose
    /// busy time it takes most of.
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

    /// The processes, by number.
    pub fn pids(&self) -> Vec<u32> {
        let pids = self.sockets.iter().filter_map(|socket| Some(socket.process.as_ref()?.pid));
        pids.collect::<BTreeSet<_>>().into_iter().collect()
    }
}
