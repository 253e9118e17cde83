//! Thresholds above which findings are worth a reader's time.

use crate::findings::tally::{CauseTally, EndpointTally, Key, Tally};
use crate::findings::thresholds::{
    COST_MIN_NS, COST_SHARE_MIN, DEEP_FACTOR, DEEP_SHARE, FAULT_MIN_NS, FAULT_SHARE_MIN,
};

/// The least costs and faults that are findings.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Floors {
    /// A cost is a finding from this share of the wall time of its endpoint on.
    pub cost_share: f64,
    /// A cost is a finding if it takes at least this much of a typical exchange, ns.
    pub cost_ns: u64,
    /// A fault is a finding from this share of the wall time of its endpoint on,
    pub fault_share: f64,
    /// and if it takes at least this much of each exchange that it affects, ns.
    pub fault_ns: u64,
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            cost_share: COST_SHARE_MIN,
            cost_ns: COST_MIN_NS,
            fault_share: FAULT_SHARE_MIN,
            fault_ns: FAULT_MIN_NS,
        }
    }
}

/// Returns the share of `ns` in `wall_ns`, 0 to 1.
pub fn share_of(ns: u64, wall_ns: u64) -> f64 {
    ns as f64 / wall_ns.max(1) as f64
}

/// A fault at one culprit, with everything that decides whether it is a finding.
pub(super) struct Case<'a> {
    /// The fault and its culprit.
    pub key: &'a Key,
    /// Sums of the fault.
    pub cause: &'a CauseTally,
    /// Sums of the whole capture.
    pub tally: &'a Tally,
    /// The floors.
    pub floors: &'a Floors,
}

impl<'a> Case<'a> {
    /// Returns the sums of the endpoint of the fault.
    pub fn endpoint(&self) -> Option<&'a EndpointTally> {
        self.tally.endpoints.get(&self.key.server).map(|endpoint| &**endpoint)
    }

    /// Returns the share of `ns` in the time at the endpoint.
    pub fn share_of(&self, ns: u64) -> f64 {
        let wall_ns = self.endpoint().map_or(0, |endpoint| endpoint.all.ledger.total_ns());
        share_of(ns, wall_ns)
    }

    /// Returns whether the fault takes a large share of the time, and matters in each exchange that
    /// it affects.
    pub fn is_broad(&self) -> bool {
        let mean_ns = self.cause.lost_ns / self.cause.exchanges.max(1);
        self.endpoint().is_some()
            && self.share_of(self.cause.lost_ns) >= self.floors.fault_share
            && mean_ns >= self.floors.fault_ns
    }

    /// Returns whether the fault takes most of one exchange: one request that hung is one too many,
    /// however many did not.
    pub fn is_deep(&self) -> bool {
        self.endpoint().is_some()
            && self.cause.share_max >= DEEP_SHARE
            && self.cause.share_max_ns >= DEEP_FACTOR * self.floors.fault_ns
    }

    /// Returns whether the fault is broad or deep.
    pub fn is_broad_or_deep(&self) -> bool {
        self.is_broad() || self.is_deep()
    }

    /// Returns whether the fault was seen once and cost less than any timer of TCP waits. (The
    /// shortest is 40 ms for a delayed ACK; half of it is the floor of a cost.)
    pub fn is_single(&self) -> bool {
        let is_cheap = self.cause.lost_ns < self.floors.cost_ns;
        !self.key.cause.makes_exchanges_fail() && self.cause.count <= 1 && is_cheap
    }
}
