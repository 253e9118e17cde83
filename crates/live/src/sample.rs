//! Samples of connections. A capture and the hooks at sockets choose by the same hash, so that what the
//! hooks see belongs to connections that are captured.

use std::hash::{BuildHasher, RandomState};

use serde::{Deserialize, Serialize};
use tcpwhy_core::wire::FlowKey;

/// The connections that are looked at: a share of them, chosen by a hash of their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Share of the connections.
    pub share: Share,
    /// Secret of the hash: those who send packets must not know which connections are looked at.
    pub seed: u32,
}

impl Default for Sample {
    fn default() -> Self {
        Self::all()
    }
}

impl Sample {
    /// Returns all connections, with a new secret.
    pub fn all() -> Self {
        Self { share: Share::ALL, seed: RandomState::new().hash_one(0) as u32 }
    }

    /// Returns whether it includes this connection, by the same arithmetic as in the kernel.
    pub fn has(&self, flow: &FlowKey) -> bool {
        let Some(limit) = self.share.limit() else { return true };
        let (low, high) = (&flow.low, &flow.high);
        let words = |address: &[u8; 16]| u128::from_be_bytes(*address);
        let mut folded = words(&low.address) ^ words(&high.address);
        folded ^= folded >> 64;
        let addresses = (folded ^ folded >> 32) as u32;
        let ports = u32::from(low.port ^ high.port).wrapping_mul(PORT_FACTOR);
        let mut hash = addresses.wrapping_mul(ADDRESS_FACTOR) ^ ports ^ self.seed;
        for (shift, factor) in MIXING {
            hash = (hash ^ hash >> shift).wrapping_mul(factor);
        }
        hash < limit
    }
}

/// Odd numbers without a pattern, by which hashes are multiplied.
pub(crate) const PORT_FACTOR: u32 = 0x85eb_ca6b;
pub(crate) const ADDRESS_FACTOR: u32 = 0x9e37_79b1;
/// Shifts and factors that spread each bit over the word.
pub(crate) const MIXING: [(u32, u32); 2] = [(15, 0xc2b2_ae35), (13, 0x27d4_eb2f)];

/// A share of connections: one of 2ⁿ. Those of a smaller share are among those of a larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share(u32);

impl Share {
    /// Every connection.
    pub const ALL: Self = Self(0);
    /// One connection of eight.
    pub const EIGHTH: Self = Self(3);
    /// The smallest share, one connection of 4096.
    pub const LEAST: Self = Self(12);

    /// Returns the smallest share that is not below `part`.
    pub fn not_below(part: f64) -> Self {
        let mut share = Self::ALL;
        while share != Self::LEAST && share.halved().value() >= part {
            share = share.halved();
        }
        share
    }

    /// Returns this share, or `most` if that is smaller.
    pub fn at_most(self, most: Self) -> Self {
        Self(self.0.max(most.0))
    }

    /// Returns half of this share.
    pub fn halved(self) -> Self {
        Self(self.0 + 1).min(Self::LEAST)
    }

    /// Returns twice this share.
    pub fn doubled(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    fn min(self, least: Self) -> Self {
        Self(self.0.min(least.0))
    }

    /// Returns the share as a number, 1 for all.
    pub fn value(self) -> f64 {
        1.0 / f64::from(1u32 << self.0)
    }

    /// Returns the factor that converts a count of captured connections to an estimate for all.
    pub fn scale(self) -> u64 {
        1 << self.0
    }

    /// Hashes below this are kept; `None` is all of them.
    pub(crate) fn limit(self) -> Option<u32> {
        (self.0 > 0).then(|| 1 << (32 - self.0))
    }

    /// Returns whether the share is less than all.
    pub fn is_part(self) -> bool {
        self.0 > 0
    }
}
