//! The exchanges that took longest.

use crate::app::Protocol;
use crate::capture::FrameId;
use crate::model::{Cause, Ledger, Outcome};
use crate::tcp::{Connection, Exchange};
use crate::wire::Endpoint;
use std::cmp::Reverse;

/// Maximum number of exchanges listed.
const EXCHANGES_MAX: usize = 2_000;

/// One exchange.
#[derive(Clone, Debug)]
pub struct ExchangeRow {
    /// Endpoint that opened the connection of the exchange.
    pub client: Endpoint,
    /// Endpoint that accepted the connection.
    pub server: Endpoint,
    /// The application protocol.
    pub protocol: Protocol,
    /// Number of the exchange on the connection, from 1.
    pub number: u64,
    /// Kind of the request; empty if it could not be read.
    pub kind: String,
    /// First frame with data.
    pub first: FrameId,
    /// Last frame of the exchange.
    pub last: FrameId,
    /// Start of the exchange, ns.
    pub start_ns: u64,
    /// Duration of the exchange, without a look-up before it, ns.
    pub wall_ns: u64,
    /// Time of the exchange by owner.
    pub ledger: Ledger,
    /// Causes that contributed to the exchange, the longest first.
    pub causes: Vec<Cause>,
    /// How the exchange ended.
    pub outcome: Outcome,
}

/// The longest exchanges, whatever the order in which they end.
#[derive(Clone, Debug, Default)]
pub struct Exchanges {
    /// Longest first, after [settling](Self::settle).
    pub rows: Vec<ExchangeRow>,
    /// Total number of exchanges.
    pub seen: u64,
    /// Minimum duration of a listed exchange, ns.
    bar_ns: u64,
}

impl Exchanges {
    pub(super) fn add(&mut self, connection: &Connection, exchange: &Exchange) {
        self.seen += 1;
        let wall_ns = exchange.wall_ns();
        if wall_ns < self.bar_ns {
            return;
        }
        self.rows.push(row(connection, exchange));
        if self.rows.len() >= 2 * EXCHANGES_MAX {
            self.settle();
            self.bar_ns = self.rows.last().map_or(0, |row| row.wall_ns);
        }
    }

    pub(super) fn settle(&mut self) {
        self.rows.sort_by_key(|row| (Reverse(row.wall_ns), row.first));
        self.rows.truncate(EXCHANGES_MAX);
    }
}

/// Returns the listed values of one exchange.
pub(crate) fn row(connection: &Connection, exchange: &Exchange) -> ExchangeRow {
    let mut chains: Vec<_> = exchange.chains.iter().map(|it| (Reverse(it.ns), it.cause)).collect();
    chains.sort_unstable();
    let mut causes: Vec<Cause> = Vec::new();
    for (_, cause) in chains {
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    ExchangeRow {
        client: connection.client(),
        server: connection.server(),
        protocol: connection.framer.protocol(),
        number: connection.totals.exchanges,
        kind: exchange.kind.to_string(),
        first: exchange.first.frame,
        last: exchange.last.frame,
        start_ns: exchange.start_ns,
        wall_ns: exchange.wall_ns(),
        ledger: exchange.ledger.ledger(),
        causes,
        outcome: exchange.outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Owner, Sighting, Slice};
    use crate::tcp::GapPlace;
    use crate::wire::Segment;

    #[test]
    fn the_longest_are_kept_whatever_the_order() {
        let connection = Connection::new(&Segment::default());
        let exchange = |ns: u64| {
            let mut exchange = Exchange::default();
            let place = GapPlace::of_both(0, FrameId::default());
            exchange.ledger.add(Slice::plain(Owner::Server, ns), place);
            exchange.first = Sighting { frame: FrameId::new(0, ns), ..Sighting::default() };
            exchange
        };
        let count = 5 * EXCHANGES_MAX as u64;
        let kept = |order: &mut dyn Iterator<Item = u64>| {
            let mut exchanges = Exchanges::default();
            order.for_each(|ns| exchanges.add(&connection, &exchange(ns)));
            exchanges.settle();
            assert_eq!(exchanges.seen, count);
            exchanges.rows.iter().map(|row| row.wall_ns).collect::<Vec<_>>()
        };
        let longest: Vec<u64> = (1..=count).rev().take(EXCHANGES_MAX).collect();
        assert_eq!(kept(&mut (1..=count)), longest);
        assert_eq!(kept(&mut (1..=count).rev()), longest);
        // 7919 is a prime: every number occurs once.
        assert_eq!(kept(&mut (0..count).map(|at| 1 + at * 7919 % count)), longest);
    }
}
