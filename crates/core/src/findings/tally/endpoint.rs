//! Sums of one server endpoint.

mod ceilings;
mod clients;
mod continuations;
mod handshakes;
mod identity;
mod kinds;
mod nagle;
mod retransmissions;
mod round_trips;
mod samples;
mod sender;
mod set_ups;
mod under_way;
mod window_limits;

pub use clients::Clients;
pub use handshakes::Handshakes;
pub use identity::Identity;
pub use kinds::{Group, KIND_OTHER, Kinds};
pub use nagle::Holds;
pub use round_trips::RoundTrips;
pub use samples::{Sample, Samples};
pub use sender::SenderTally;
pub use set_ups::SetUps;
pub use under_way::UnderWay;

use crate::app::Label;
use crate::findings::tally::{Rows, Tails, Waits};
use crate::model::{Cause, Ledger, Outcome, Owner};
use crate::tcp::{Connection, Exchange};
use crate::wire::{BySide, Side};

/// Sums of one server endpoint, in groups by mechanism.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct EndpointTally {
    /// Sums of all exchanges with the endpoint. In a shard only `kinds` is filled, of which this is
    /// the sum.
    pub all: Group,
    /// Sums of the exchanges by kind of request.
    pub kinds: Kinds,
    /// Number of connections to the endpoint.
    pub connections: u64,
    /// Number of connections that begin as those of SOCKS.
    pub socks: u64,
    /// Number of requests of an unknown protocol that were answered although their client had closed
    /// its side right behind them.
    pub half_closed: u64,
    /// Identity of the server, as its packets show it.
    pub identity: Identity,
    /// Clients that connect more than once.
    pub clients: Clients,
    /// Sums of connection set-ups.
    pub set_ups: SetUps,
    /// Sums of TLS handshakes.
    pub handshakes: Handshakes,
    /// Round trips to the endpoint.
    pub round_trips: RoundTrips,
    /// Events at the senders of its connections, indexed by side.
    pub senders: BySide<SenderTally>,
    /// The exchanges to which costs mattered most.
    samples: Samples,
    /// Times at which exchanges with the server took long.
    pub waits: Waits,
    /// Exchanges that costs made slow.
    pub tails: Tails,
    /// Exchanges that followed each other back to back.
    pub rows: Rows,
    /// The earliest exchanges that took long, which show whether clients have several under way at a time.
    pub under_way: UnderWay,
}

/// Returns whether `exchange` was not delayed by a queue, and one before it on its connection was.
fn has_drained(connection: &Connection, exchange: &Exchange) -> bool {
    let met = connection.totals.causes.iter().any(|it| it.contains(Cause::Bufferbloat));
    met && exchange.chains.iter().all(|chain| chain.cause != Cause::Bufferbloat)
}

impl EndpointTally {
    /// Counts an exchange with the endpoint.
    pub(super) fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.set_ups.exchange(connection, exchange);
        self.clients.exchange(connection, exchange);
        self.round_trips.exchange(exchange, has_drained(connection, exchange));
        self.samples.exchange(connection, exchange);
        self.handshakes.exchange(connection, exchange);
        self.waits.exchange(connection, exchange);
        self.kinds.of(&exchange.kind).add(exchange);
    }

    /// Counts a connection to the endpoint.
    pub(super) fn connection(&mut self, connection: &Connection) {
        self.connections += 1;
        self.socks += u64::from(connection.framer.is_of_socks());
        self.identity.connection(connection);
        let is_closed_idle = self.set_ups.connection(connection);
        self.clients.connection(connection, is_closed_idle);
        self.round_trips.connection(connection);
        self.waits.add_stream(connection);
        for side in Side::ALL {
            self.senders[side].connection(connection, side);
        }
    }

    /// Returns the events at the senders of `side`.
    pub(in crate::findings) fn sender(&self, side: Side) -> &SenderTally {
        &self.senders[side]
    }

    /// Returns the exchange to which a cost mattered most.
    pub(in crate::findings) fn sample(&self, cause: Cause) -> Option<&Sample> {
        self.samples.of(cause)
    }

    /// Returns the group of a kind of request.
    pub(super) fn kind(&mut self, kind: &Label) -> &mut Group {
        self.kinds.of(kind)
    }

    /// Sums up the kinds beyond `room`.
    pub(super) fn bound_kinds(&mut self, room: usize) {
        self.kinds.bound(room);
    }

    /// Returns the group of the kind with this digest ([`Label::digest`]), or that of the other
    /// kinds.
    pub(in crate::findings) fn kind_with_digest(&mut self, digest: u64) -> Option<&Group> {
        self.kinds.with_digest(digest).map(|group| &*group)
    }

    /// Returns the group of all exchanges, and that of the kind with this digest
    /// ([`Label::digest`]).
    fn all_and_kind(&mut self, digest: u64) -> impl Iterator<Item = &mut Group> {
        std::iter::once(&mut self.all).chain(self.kinds.with_digest(digest))
    }

    /// Adds `before`, for which an exchange of `kind` and `wall_ns` had to wait.
    pub(in crate::findings) fn prepend(&mut self, kind: u64, wall_ns: u64, before: &Ledger) {
        for group in self.all_and_kind(kind) {
            group.ledger.merge(before);
            group.latency.replace(wall_ns, wall_ns + before.total_ns());
        }
    }

    /// Changes the wall time of an exchange of `kind` by time of `owner`.
    pub(in crate::findings) fn set_wall(
        &mut self,
        kind: u64,
        (from_ns, to_ns): (u64, u64),
        owner: Owner,
    ) {
        for group in self.all_and_kind(kind) {
            group.ledger.add(owner, to_ns.saturating_sub(from_ns));
            group.ledger.remove(owner, from_ns.saturating_sub(to_ns));
            group.latency.replace(from_ns, to_ns);
        }
    }

    /// Counts the outcome of an exchange that took no time and belongs to no latency.
    pub(super) fn unclear(&mut self, exchange: &Exchange) {
        self.kinds.of(&exchange.kind).outcomes.add(exchange.outcome);
    }

    /// Counts an exchange of `kind` that had not been counted.
    pub(in crate::findings) fn add_late(&mut self, kind: u64, ledger: &Ledger, outcome: Outcome) {
        for group in self.all_and_kind(kind) {
            group.add_ledger(ledger, outcome);
        }
    }

    /// Removes the outcome of an exchange of `kind` that turned out not to be unclear, and counts
    /// `outcome` in its place, if there is one.
    pub(in crate::findings) fn clear_up(&mut self, kind: u64, outcome: Option<Outcome>) {
        for group in self.all_and_kind(kind) {
            group.outcomes.take_unclear();
            outcome.into_iter().for_each(|outcome| group.outcomes.add(outcome));
        }
    }

    /// Moves time of an exchange of `kind` from one owner to another.
    pub(in crate::findings) fn transfer(&mut self, kind: u64, from: Owner, to: Owner, ns: u64) {
        for group in self.all_and_kind(kind) {
            group.ledger.transfer(from, to, ns);
        }
    }

    /// Removes all exchanges.
    pub(in crate::findings) fn clear(&mut self) {
        (self.all, self.kinds) = Default::default();
    }

    /// Counts an exchange that belongs to no connection.
    pub(in crate::findings) fn add(&mut self, kind: &str, ledger: &Ledger, outcome: Outcome) {
        self.all.add_ledger(ledger, outcome);
        self.kinds.at(kind.into()).add_ledger(ledger, outcome);
    }

    /// Adds the sums of a shard.
    pub(super) fn merge(&mut self, other: Self) {
        other.kinds.groups().for_each(|group| self.all.merge(group));
        self.kinds.merge(other.kinds);
        self.connections += other.connections;
        self.socks += other.socks;
        self.half_closed += other.half_closed;
        self.identity.merge(&other.identity);
        self.clients.merge(&other.clients);
        self.set_ups.merge(&other.set_ups);
        self.handshakes.merge(&other.handshakes);
        self.round_trips.merge(&other.round_trips);
        for (mine, theirs) in self.senders.iter_mut().zip(&other.senders) {
            mine.merge(theirs);
        }
        self.samples.merge(other.samples);
        self.waits.merge(&other.waits);
        self.tails.merge(other.tails);
        self.rows.merge(&other.rows);
        self.under_way.merge(&other.under_way);
    }
}
