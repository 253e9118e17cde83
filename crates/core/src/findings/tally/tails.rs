//! Time that costs take in the exchanges that they make slow.
//!
//! A cost may take nothing of a typical exchange, and nearly all of a few, which sums and means
//! hide. So for each cost those exchanges are counted in which it takes as much time as a finding
//! requires.

use crate::findings::causes::COSTS;
use crate::findings::thresholds::COST_MIN_NS;
use crate::model::{Cause, Histogram, Owner};
use crate::tcp::{Exchange, SimpleExchange};

/// The exchanges of one endpoint that a cost made slow.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Tail {
    /// Time of the cost in these exchanges, ns.
    pub ns: u64,
    /// Time of the cost in each exchange.
    pub parts: Histogram,
    /// Wall time of each exchange.
    pub now: Histogram,
    /// Wall time that each exchange would have without the cost.
    pub without: Histogram,
}

impl Tail {
    /// Number of exchanges.
    pub fn count(&self) -> u64 {
        self.parts.count()
    }

    fn add(&mut self, wall_ns: u64, ns: u64) {
        self.ns = self.ns.saturating_add(ns);
        self.parts.record(ns);
        self.now.record(wall_ns);
        self.without.record(wall_ns.saturating_sub(ns));
    }

    fn merge(&mut self, other: &Self) {
        self.ns = self.ns.saturating_add(other.ns);
        self.parts.merge(&other.parts);
        self.now.merge(&other.now);
        self.without.merge(&other.without);
    }
}

/// Returns the time from which on a cost makes an exchange slow, ns.
pub const fn slow_ns(cause: Cause) -> u64 {
    let mut at = 0;
    while at < COSTS.len() {
        if COSTS[at].cause as usize == cause as usize {
            return COSTS[at].slow_ns;
        }
        at += 1;
    }
    COST_MIN_NS
}

/// The slow exchanges of one endpoint, by cost.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Tails([Option<Box<Tail>>; COSTS.len()]);

impl Tails {
    /// Returns the exchanges that `cause` made slow.
    pub fn of(&self, cause: Cause) -> Option<&Tail> {
        let place = COSTS.iter().position(|cost| cost.cause == cause)?;
        self.0[place].as_deref()
    }

    /// Counts an exchange of `wall_ns`; `of` returns the time of each owner.
    fn add(&mut self, wall_ns: u64, of: impl Fn(Owner) -> u64) {
        for (cost, tail) in COSTS.iter().zip(&mut self.0) {
            let ns = cost.owners.iter().map(|&owner| of(owner)).sum();
            if ns >= cost.slow_ns {
                tail.get_or_insert_default().add(wall_ns, ns);
            }
        }
    }

    /// Counts `exchange`.
    pub fn exchange(&mut self, exchange: &Exchange) {
        self.add(exchange.wall_ns(), |owner| exchange.ledger.of(owner));
    }

    /// Counts an exchange in which only the path and the server took time.
    pub fn simple_exchange(&mut self, plain: &SimpleExchange<'_>) {
        self.add(plain.wall_ns(), |owner| match owner {
            Owner::Path => plain.path_ns,
            Owner::Server => plain.server_ns,
            _ => 0,
        });
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(&theirs);
            }
        }
    }
}
