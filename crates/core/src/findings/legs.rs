//! Round trips that connections of the same two hosts share.
//!
//! If the handshake of a connection was not captured, and all its ACKs came with data or may have
//! been delayed, nothing on it shows how much of the wait for a response is the round trip to the
//! server. Another connection of the same hosts may show it. If none does, that time is the path's or the
//! server's, and nobody can say whose: its owner is unknown.

use crate::capture::FrameId;
use crate::findings::tally::{Key, Tally};
use crate::judge::Turn;
use crate::judge::thresholds::RTO_INITIAL_NS;
use crate::model::{Cause, Histogram, Owner, Reassigned, Slice};
use crate::tcp::{Chain, Connection, Exchange};
use crate::wire::{Endpoint, Side};
use hashbrown::{HashMap, HashSet};

/// Addresses of client and server.
type Hosts = [[u8; 16]; 2];

/// Number of exchanges kept per shard whose round trip is not known, the first of each connection;
/// later ones stay as they are.
const OPEN_MAX: usize = 1 << 10;

/// Number of pairs of hosts known per shard from connections without a handshake.
const HOSTS_MAX: usize = 1 << 10;

/// Number of kinds of requests at their endpoints, kept per shard, whose round trip is not known.
const KINDS_MAX: usize = 1 << 10;

/// Round trips that connections without a handshake show, and the exchanges that wait for one.
#[derive(Clone, Default, serde::Deserialize, serde::Serialize)]
pub struct Legs {
    /// Least round trips between the vantage and the server, ns.
    known: HashMap<Hosts, u64>,
    open: Vec<Open>,
    /// Exchanges over an unknown round trip, by their key in the tally and the digest of their kind.
    undivided: HashMap<(Key, u64), Undivided>,
}

/// Times of exchanges over an unknown round trip.
#[derive(Clone, Default, serde::Deserialize, serde::Serialize)]
struct Undivided {
    /// The server's part before the response began.
    before: Histogram,
    /// The longest silence of each exchange, where that is the one before the response.
    longest: Histogram,
}

/// Time that is taken from a cause, and its silences before and after that.
#[derive(Default)]
struct Moved {
    ns: u64,
    silences: Histogram,
    shorter: Histogram,
}

/// An exchange whose response came over an unknown round trip.
#[derive(Clone, serde::Deserialize, serde::Serialize)]
struct Open {
    hosts: Hosts,
    /// First frames of the connection and of the exchange.
    frames: [FrameId; 2],
    /// Key of the exchange in the tally: its endpoint and cause.
    key: Key,
    /// Digest of the kind of request, see [`crate::app::Label::digest`].
    kind: u64,
    /// A response was seen.
    is_answered: bool,
    /// Wall time of the exchange, ns.
    wall_ns: u64,
    /// The server's part of the wall time, ns.
    server_ns: u64,
    /// Part of that before the response began, ns.
    before_ns: u64,
    /// Longest silence of the exchange, if it is that before the response, ns.
    longest_ns: Option<u64>,
}

impl Open {
    /// Returns the change by which up to `may_be_ns` of the wait for the response becomes time of `to`,
    /// with the first frame of the connection.
    fn given_to(&self, to: Owner, may_be_ns: u64) -> (FrameId, Reassigned) {
        let [connection, exchange] = self.frames;
        let to = Slice::plain(to, may_be_ns.min(self.before_ns));
        let (sender, exchange) = (Some(Side::Server), Some(exchange));
        (connection, Reassigned { sender, exchange, from: Owner::Server, to })
    }
}

fn hosts(client: Endpoint, server: Endpoint) -> Hosts {
    [client.address, server.address]
}

impl Legs {
    /// Returns whether the time for which responses of `connection` were awaited may be its round
    /// trip. There is none between two ends on one host.
    pub fn is_open(connection: &Connection) -> bool {
        connection.mid_stream
            && !connection.path.is_known(Side::Server)
            && !connection.key.is_within_host()
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
        let Some(chain) = chains.find(before_response) else { return };
        let key = Key::of(chain.cause, chain.sender, connection).within(place);
        let of_kind = (key.clone(), exchange.kind.digest());
        let has_room = self.undivided.len() < KINDS_MAX || self.undivided.contains_key(&of_kind);
        if has_room && exchange.response_seen {
            let undivided = self.undivided.entry(of_kind).or_default();
            undivided.before.record(chain.ns - chain.within_ns);
            if chain.gap.turn == Turn::Answers {
                undivided.longest.record(chain.longest_ns);
            }
        }
        if self.open.len() >= OPEN_MAX {
            return;
        }
        self.open.push(Open {
            hosts: hosts(connection.client(), connection.server()),
            frames: [connection.first_frame, exchange.first.frame],
            key,
            kind: exchange.kind.digest(),
            is_answered: exchange.response_seen,
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
        if self.undivided.len() > KINDS_MAX {
            self.undivided = HashMap::new();
        }
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        for (hosts, rtt_ns) in other.known {
            let known_ns = self.known.entry(hosts).or_insert(rtt_ns);
            *known_ns = rtt_ns.min(*known_ns);
        }
        self.open.extend(other.open);
        for (of_kind, more) in other.undivided {
            let undivided = self.undivided.entry(of_kind).or_default();
            undivided.before.merge(&more.before);
            undivided.longest.merge(&more.longest);
        }
    }
}

/// Moves to the path the time that responses spent on the leg to their server, as other connections
/// of the same hosts show it; where none does, what that leg may have taken to the time of no owner.
pub(super) fn settle(tally: &mut Tally) {
    let Legs { mut known, open, undivided } = std::mem::take(&mut tally.legs);
    if open.is_empty() && undivided.is_empty() {
        return;
    }
    for first in tally.firsts.iter().filter(|first| first.rtt_server_ns > 0) {
        let known_ns = known.entry([first.client, first.server.address]);
        let known_ns = known_ns.or_insert(first.rtt_server_ns);
        *known_ns = first.rtt_server_ns.min(*known_ns);
    }
    let mut of_connections = Vec::new();
    let mut others = Vec::new();
    for one in open {
        let Some(&rtt_ns) = known.get(&one.hosts) else {
            others.push(one);
            continue;
        };
        of_connections.push(one.given_to(Owner::Path, rtt_ns));
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
    let counted: HashSet<_> = undivided.keys().cloned().collect();
    leave_undivided(tally, undivided);
    let is_counted =
        |one: &&Open| one.is_answered && counted.contains(&(one.key.clone(), one.kind));
    for one in others.iter().filter(is_counted) {
        let endpoint = tally.endpoints.get(&one.key.server);
        if let Some(ns) = endpoint.and_then(|it| it.round_trips.undivided_ns) {
            of_connections.push(one.given_to(Owner::Unknown, ns));
        }
    }
    tally.worst.reassign_exchanges(of_connections);
}

/// Moves to the time of no owner what may be the round trip to the servers whose leg no connection shows.
/// A response that carries the only ACK of its request does not divide the path's time from the server's.
fn leave_undivided(tally: &mut Tally, undivided: HashMap<(Key, u64), Undivided>) {
    let mut least_ns: HashMap<Endpoint, u64> = HashMap::new();
    for ((key, _), Undivided { before, .. }) in &undivided {
        let least_ns = least_ns.entry(key.server).or_insert(u64::MAX);
        *least_ns = before.points().next().map_or(*least_ns, |(ns, _)| ns.min(*least_ns));
    }
    let mut moved: HashMap<Key, Moved> = HashMap::new();
    for ((key, kind), Undivided { before, longest }) in undivided {
        let Some(endpoint) = tally.endpoints.get_mut(&key.server) else { continue };
        if endpoint.round_trips.leg_known {
            continue;
        }
        let may_be_ns = *endpoint.round_trips.undivided_ns.get_or_insert_with(|| {
            leg_bound_ns(endpoint.round_trips.leg_max_ns, least_ns[&key.server])
        });
        let ns = before.points().map(|(ns, count)| ns.min(may_be_ns) * count).sum();
        endpoint.transfer(kind, Owner::Server, Owner::Unknown, ns);
        let moved = moved.entry(key).or_default();
        moved.ns += ns;
        for (ns, count) in longest.points() {
            moved.shorter.record_many(ns - ns.min(may_be_ns), count);
        }
        moved.silences.merge(&longest);
    }
    for (key, Moved { ns, silences, shorter }) in moved {
        let Some(cause) = tally.causes.get_mut(&key) else { continue };
        cause.lost_ns = cause.lost_ns.saturating_sub(ns);
        cause.without = cause.without.shifted(ns / cause.exchanges.max(1));
        cause.waits = cause.waits.exchanged(&silences, &shorter);
        if cause.lost_ns == 0 {
            tally.causes.remove(&key);
        }
    }
}

/// Returns the greatest round trip of a leg that takes `max_ns` at most, if that is known, and whose
/// server took at least `least_ns` for an answer. A host repeats data that is not acknowledged within
/// the initial RTO (RFC 6298 §2.1): a longer silence is no round trip.
fn leg_bound_ns(max_ns: Option<u64>, least_ns: u64) -> u64 {
    max_ns.unwrap_or(least_ns).min(RTO_INITIAL_NS)
}
