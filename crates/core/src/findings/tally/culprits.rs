//! Sums of one cause at one culprit.

use crate::app::Protocol;
use crate::capture::FrameId;
use crate::findings::causes::rules;
use crate::findings::floors::share_of;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::AffectedClients;
use crate::model::{Cause, Culprit, Histogram, Ledger, Role, Vantage};
use crate::tcp::{Chain, Connection, Exchange};
use crate::wire::{Endpoint, Side};
use std::hash::{Hash, Hasher};

/// A cause at one culprit. In their order, those of one server are adjacent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
pub struct Key {
    /// Server endpoint of the exchanges.
    pub server: Endpoint,
    /// The cause.
    pub cause: Cause,
    /// The side that was silent.
    pub sender: Side,
    /// The role and endpoint that has to change something.
    pub culprit: Culprit,
}

impl Hash for Key {
    /// Hashes as few numbers as possible, because the key of every silence with a cause is looked
    /// up.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { server, cause, sender, culprit } = self;
        let ports = u64::from(server.port) << 16 | u64::from(culprit.endpoint.port);
        let what = (*cause as u64) << 16 | (*sender as u64) << 8 | culprit.role as u64;
        state.write_u128(u128::from_ne_bytes(server.address));
        state.write_u128(u128::from_ne_bytes(culprit.endpoint.address));
        state.write_u64(ports << 32 | what);
    }
}

impl Key {
    /// Returns the key of `cause` on `connection`, if `sender` was silent.
    pub(in crate::findings) fn of(cause: Cause, sender: Side, connection: &Connection) -> Self {
        let (client, server) = (connection.client(), connection.server());
        let culprit = match (rules(cause).culprit_seen)(connection, sender) {
            Some(culprit) => culprit,
            None => cause.culprit(sender, client, server),
        };
        Self { server, cause, sender, culprit }
    }

    /// Returns the same key in the row of `server`, which may represent many servers.
    pub(in crate::findings) fn within(mut self, server: Endpoint) -> Self {
        if self.server != server {
            if self.culprit.endpoint == self.server {
                self.culprit.endpoint = server;
            }
            self.server = server;
        }
        self
    }

    /// Returns the key that sorts before all others of `server`.
    pub(super) fn lowest(server: Endpoint) -> Self {
        let culprit = Culprit { role: Role::ALL[0], endpoint: Endpoint::default() };
        Self { server, cause: Cause::ALL[0], sender: Side::Client, culprit }
    }
}

/// Sums of one cause at one culprit.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct CauseTally {
    /// Number of exchanges with the cause.
    pub exchanges: u64,
    /// Number of connections with the cause.
    pub connections: u64,
    /// First frame of the connection that [`CauseTally::count_connection`] has counted last.
    #[serde(skip)]
    pub(in crate::findings) counted: Option<FrameId>,
    /// Number of silences.
    pub count: u64,
    /// Cost of the cause, ns.
    pub lost_ns: u64,
    /// Wall time of the exchanges with the cause.
    pub now: Histogram,
    /// Wall time that these exchanges would have without the cause.
    pub without: Histogram,
    /// Longest silence of each exchange.
    pub waits: Histogram,
    /// The clearest instance.
    pub worst: Option<Instance>,
    /// Greatest share of the cause in the wall time of one exchange.
    pub share_max: f64,
    /// Time of the cause in that exchange, ns.
    pub share_max_ns: u64,
    /// Number of exchanges in which the cause held back a request rather than a response.
    pub requests: u64,
    /// Number of silences that a retransmission ended.
    pub repairs: u64,
    /// Number of segments that were retransmitted, if the cause is a repair.
    pub repaired: u64,
    /// Number of exchanges whose clearest silence ended with a late ACK, for which the sender waited.
    pub late_ack_waits: u64,
    /// Facts that the instances of the cause share.
    pub shown: Shown,
    /// Affected clients, for causes of connection attempts.
    pub affected_clients: AffectedClients,
    /// Time of owners that the cause explains, for costs that are computed from the same owners.
    pub covers: Ledger,
}

/// A cause at one culprit, with one server.
pub type Part<'a> = (&'a Key, &'a CauseTally);

/// One instance of a cause.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Instance {
    /// Rank by clearness: the longest silence, ns, and the frame that ended it.
    pub rank: Rank,
    /// Evidence of the instance.
    pub proof: Proof,
    /// The connection's client.
    pub client: Endpoint,
    /// The connection's server.
    pub server: Endpoint,
    /// Number of the exchange on its connection, from 1; 0 if it belongs to none.
    pub exchange: u64,
    /// Vantage of the connection.
    pub vantage: Vantage,
    /// Name of the software that the culprit's side states.
    pub software: Option<Box<str>>,
    /// Protocol of the connection.
    pub protocol: Protocol,
}

impl CauseTally {
    /// Adds the cost of `chain` to `exchange`.
    pub(super) fn add(&mut self, exchange: &Exchange, chain: &Chain) {
        let wall_ns = exchange.wall_ns();
        self.exchanges += 1;
        self.count += u64::from(chain.count);
        self.lost_ns = self.lost_ns.saturating_add(chain.ns);
        self.now.record(wall_ns);
        self.without.record(wall_ns.saturating_sub(chain.ns).max(chain.least_ns).min(wall_ns));
        self.repairs += u64::from(chain.repairs);
        self.repaired += u64::from(chain.segments);
        self.late_ack_waits += u64::from(chain.gap.waits_for_late_ack());
        self.waits.record(chain.longest_ns);
        self.requests += u64::from(chain.sender == Side::Client);
        if let Some(owner) = rules(chain.cause).covers {
            self.covers.add(owner, chain.ns);
        }
        self.note_share(chain.ns, wall_ns);
    }

    /// Counts the connection of an exchange with the cause: once, though several of its exchanges, which
    /// are counted one after the other, have the cause.
    pub(in crate::findings) fn count_connection(&mut self, connection: &Connection) {
        let counted = Some(connection.first_frame);
        self.connections += u64::from(self.counted != counted);
        self.counted = counted;
    }

    /// Counts one silence that cost an exchange of `wall_ns` the time `lost_ns`, without its
    /// instance.
    #[inline]
    pub(in crate::findings) fn add_one(&mut self, wall_ns: u64, lost_ns: u64) {
        self.exchanges += 1;
        self.count += 1;
        self.lost_ns = self.lost_ns.saturating_add(lost_ns);
        self.now.record(wall_ns);
        self.without.record(wall_ns - lost_ns);
        self.waits.record(lost_ns);
        self.note_share(lost_ns, wall_ns);
    }

    /// Records `ns` of an exchange of `wall_ns` if they are the greatest share so far.
    pub(in crate::findings) fn note_share(&mut self, ns: u64, wall_ns: u64) {
        if ns > self.share_max_ns {
            self.share_max = share_of(ns, wall_ns);
            self.share_max_ns = ns;
        }
    }

    /// Counts only the silences that a retransmission ended: in the others, which follow a repair,
    /// nothing was sent again.
    pub(in crate::findings) fn count_repairs_only(&mut self) {
        self.count = self.repairs;
        self.repaired = 0;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.exchanges += other.exchanges;
        self.connections += other.connections;
        self.count += other.count;
        self.lost_ns = self.lost_ns.saturating_add(other.lost_ns);
        self.now.merge(&other.now);
        self.without.merge(&other.without);
        self.waits.merge(&other.waits);
        self.requests += other.requests;
        self.repairs += other.repairs;
        self.repaired += other.repaired;
        self.late_ack_waits += other.late_ack_waits;
        self.shown.merge(&other.shown);
        self.affected_clients.merge(&other.affected_clients);
        self.covers.merge(&other.covers);
        if other.share_max_ns > self.share_max_ns {
            self.share_max = other.share_max;
            self.share_max_ns = other.share_max_ns;
        }
        if let Some(instance) = &other.worst {
            self.offer(instance.clone());
        }
    }

    /// Keeps the instance with the longest silence.
    pub(in crate::findings) fn offer(&mut self, instance: Instance) {
        if self.wants(instance.rank) {
            self.worst = Some(instance);
        }
    }

    /// Returns whether an instance with this rank is clearer than the present one.
    pub(super) fn wants(&self, rank: Rank) -> bool {
        self.worst.as_ref().is_none_or(|worst| rank > worst.rank)
    }
}

impl Scene<'_> {
    /// Collects the proof of this instance for the finding of `key`.
    #[cold]
    #[inline(never)]
    pub(super) fn instance(&self, key: &Key, rank: Rank) -> Instance {
        let connection = self.connection;
        let side = if key.culprit.role == Role::Client { Side::Client } else { Side::Server };
        Instance {
            rank,
            proof: self.proof(),
            client: connection.client(),
            server: connection.server(),
            exchange: connection.totals.exchanges,
            vantage: connection.path.vantage(),
            software: connection.view().software(side).map(Box::from),
            protocol: connection.framer.protocol(),
        }
    }
}

/// Order of instances by clearness: the longest silence, and the first of equals.
pub type Rank = ((bool, bool, u64), std::cmp::Reverse<(u64, FrameId)>);
