//! Round trips that connections of the same two hosts share.
//!
//! If the handshake of a connection was not captured, and all its ACKs came with data or may have
//! been delayed, nothing on it shows how much of the wait for a response is the round trip to the
//! server. Another connection of the same hosts may show it.

use crate::findings::tally::{Key, Tally};
use crate::judge::Turn;
use crate::model::{Cause, Owner};
use crate::tcp::{Chain, Connection, Exchange};
use crate::wire::{Endpoint, Side};
use hashbrown::HashMap;

/// Addresses of client and server.
type Hosts = [[u8; 16]; 2];

/// Number of exchanges kept per shard whose round trip is not known, the first of each connection;
/// later ones stay as they are.
const OPEN_MAX: usize = 1 << 10;

/// Number of pairs of hosts known per shard from connections without a handshake.
const HOSTS_MAX: usize = 1 << 10;

/// Round trips that connections without a handshake show, and the exchanges that wait for one.
#[derive(Clone, Default, serde::Deserialize, serde::Serialize)]
pub struct Legs {
    /// Least round trips between the vantage and the server, ns.
    known: HashMap<Hosts, u64>,
    open: Vec<Open>,
}

/// An exchange whose response came over an unknown round trip.
#[derive(Clone, serde::Deserialize, serde::Serialize)]
struct Open {
    hosts: Hosts,
    /// Key of the exchange in the tally: its endpoint and cause.
    key: Key,
    /// Digest of the kind of request, see [`crate::app::Label::digest`].
    kind: u64,
    /// Wall time of the exchange, ns.
    wall_ns: u64,
    /// The server's part of the wall time, ns.
    server_ns: u64,
    /// Part of that before the response began, ns.
    before_ns: u64,
    /// Longest silence of the exchange, if it is that before the response, ns.
    longest_ns: Option<u64>,
}

fn hosts(client: Endpoint, server: Endpoint) -> Hosts {
    [client.address, server.address]
}

impl Legs {
    /// Returns whether the time for which responses of `connection` were awaited may be its round
    /// trip.
    pub fn is_open(connection: &Connection) -> bool {
        connection.mid_stream && !connection.path.is_known(Side::Server)
    }

    /// Processes `connection`, which is over.
    pub fn connection(&mut self, connection: &Connection) {
        if !connection.mid_stream || !connection.path.is_known(Side::Server) {
            return;
        }
        let hosts = hosts(connection.client(), connection.server());
        if self.known.len() < HOSTS_MAX || self.known.contains_key(&hosts) {
            let rtt_ns = connection.path.known_rtt_ns(Side::Server);
            let known_ns = self.known.entry(hosts).or_insert(rtt_ns);
            *known_ns = rtt_ns.min(*known_ns);
        }
    }

    /// Processes an exchange of `connection`, which is over and is counted at `place`.
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange, place: Endpoint) {
        let mut chains = exchange.chains.iter();
        // The longest silence may be another one, within the response.
        let before_response = |it: &&Chain| it.cause == Cause::ServerThink && it.ns > it.within_ns;
        let answered = chains.find(before_response).filter(|_| self.open.len() < OPEN_MAX);
        let Some(chain) = answered else { return };
        let key = Key::of(chain.cause, chain.sender, connection).within(place);
        self.open.push(Open {
            hosts: hosts(connection.client(), connection.server()),
            key,
            kind: exchange.kind.digest(),
            wall_ns: exchange.wall_ns(),
            server_ns: chain.ns,
            before_ns: chain.ns - chain.within_ns,
            longest_ns: (chain.gap.turn == Turn::Answers).then_some(chain.longest_ns),
        });
    }

    /// Keeps room for later hosts and exchanges: when all room is taken, the known ones are
    /// dropped.
    pub fn bound(&mut self) {
        if self.known.len() > HOSTS_MAX {
            self.known = HashMap::new();
        }
        if self.open.len() > OPEN_MAX {
            self.open = Vec::new();
        }
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        for (hosts, rtt_ns) in other.known {
            let known_ns = self.known.entry(hosts).or_insert(rtt_ns);
            *known_ns = rtt_ns.min(*known_ns);
        }
        self.open.extend(other.open);
    }
}

/// Moves to the path the time that responses spent on the leg to their server, as other connections
/// of the same hosts show it.
pub(super) fn settle(tally: &mut Tally) {
    let Legs { mut known, open } = std::mem::take(&mut tally.legs);
    if open.is_empty() {
        return;
    }
    for first in tally.firsts.iter().filter(|first| first.rtt_server_ns > 0) {
        let known_ns = known.entry([first.client, first.server.address]);
        let known_ns = known_ns.or_insert(first.rtt_server_ns);
        *known_ns = first.rtt_server_ns.min(*known_ns);
    }
    for one in &open {
        let Some(&rtt_ns) = known.get(&one.hosts) else { continue };
        let ns = rtt_ns.min(one.before_ns);
        if let Some(endpoint) = tally.endpoints.get_mut(&one.key.server) {
            endpoint.round_trips.leg_known = true;
            endpoint.transfer(one.kind, Owner::Server, Owner::Path, ns);
        }
        if let Some(cause) = tally.causes.get_mut(&one.key) {
            cause.lost_ns = cause.lost_ns.saturating_sub(ns);
            let without_ns = one.wall_ns.saturating_sub(one.server_ns);
            cause.without.replace(without_ns, without_ns + ns);
            if let Some(longest_ns) = one.longest_ns {
                cause.waits.replace(longest_ns, longest_ns.saturating_sub(ns));
            }
        }
    }
}
