//! The exchanges that took longest.

use crate::capture::FrameId;
use crate::model::{Cause, Owner, SlowExchange};
use crate::tcp::{Connection, Exchange, SimpleExchange};
use crate::wire::Endpoint;
use std::cmp::Reverse;

/// Number of exchanges kept.
const KEPT_MAX: usize = 10;

/// Rank of an exchange: the longest first, and of equals, the first to begin.
type Rank = (Reverse<u64>, u64, FrameId);

/// The slowest exchanges, in no order.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Slowest {
    kept: Vec<(Rank, SlowExchange)>,
    /// If there is no room left: rank before which another exchange has to come.
    bar: Option<Rank>,
}

/// Returns `cause` if it is what made an exchange slow: it took half of its time or more.
fn main_cause(cause: Cause, ns: u64, wall_ns: u64) -> Option<Cause> {
    (ns > 0 && 2 * ns >= wall_ns).then_some(cause)
}

impl Slowest {
    /// Processes an exchange that is over.
    #[inline]
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let wall_ns = exchange.wall_ns();
        self.offer((Reverse(wall_ns), exchange.start_ns, exchange.first.frame), || {
            let chain = exchange.chains.iter().max_by_key(|chain| (chain.ns, Reverse(chain.cause)));
            SlowExchange {
                client: connection.client(),
                server: connection.server(),
                exchange: connection.totals.exchanges,
                kind: exchange.kind,
                start_ns: exchange.start_ns,
                wall_ns,
                server_ns: exchange.ledger.of(Owner::Server),
                cause: chain.and_then(|it| main_cause(it.cause, it.ns, wall_ns)),
            }
        });
    }

    /// Processes an exchange in which only the path and the server took time.
    #[inline]
    pub fn simple_exchange(&mut self, connection: &Connection, plain: &SimpleExchange<'_>) {
        let (wall_ns, (start_ns, frame)) = (plain.wall_ns(), plain.asked);
        self.offer((Reverse(wall_ns), start_ns, frame), || SlowExchange {
            client: connection.client(),
            server: connection.server(),
            // The exchange is not counted yet.
            exchange: connection.totals.exchanges + 1,
            kind: *plain.kind,
            start_ns,
            wall_ns,
            server_ns: plain.server_ns,
            cause: main_cause(Cause::ServerThink, plain.server_ns, wall_ns),
        });
    }

    #[inline]
    fn offer(&mut self, rank: Rank, one: impl FnOnce() -> SlowExchange) {
        if self.bar.is_none_or(|bar| rank < bar) {
            self.keep((rank, one()));
        }
    }

    #[cold]
    fn keep(&mut self, one: (Rank, SlowExchange)) {
        self.kept.push(one);
        if self.kept.len() >= 2 * KEPT_MAX {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.kept.sort_unstable_by_key(|(rank, _)| *rank);
        self.kept.truncate(KEPT_MAX);
        self.bar = self.kept.get(KEPT_MAX - 1).map(|(rank, _)| *rank);
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        other.kept.into_iter().for_each(|(rank, one)| self.offer(rank, || one));
    }

    /// Leaves out the exchanges with `server`.
    pub(in crate::findings) fn leave_out(&mut self, server: Endpoint) {
        self.kept.retain(|(_, one)| one.server != server);
    }

    /// Returns all exchanges, the slowest first.
    pub fn finish(mut self) -> Vec<SlowExchange> {
        self.settle();
        self.kept.into_iter().map(|(_, one)| one).collect()
    }
}
