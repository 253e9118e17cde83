//! Sums of time by owner.

use crate::model::Owner;

/// Time by owner, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Ledger(pub(super) [u64; Owner::ALL.len()]);

impl Default for Ledger {
    fn default() -> Self {
        Self([0; Owner::ALL.len()])
    }
}

impl Ledger {
    /// Adds `ns` to the time of `owner`.
    pub fn add(&mut self, owner: Owner, ns: u64) {
        let sum = &mut self.0[owner as usize];
        *sum = sum.saturating_add(ns);
    }

    /// Removes up to `ns` from the time of `owner`.
    pub fn remove(&mut self, owner: Owner, ns: u64) {
        let sum = &mut self.0[owner as usize];
        *sum = sum.saturating_sub(ns);
    }

    /// Returns the time of `owner`, ns.
    pub fn of(&self, owner: Owner) -> u64 {
        self.0[owner as usize]
    }

    /// Returns the sum over all owners, ns.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Moves up to `ns` from one owner to another; returns the amount moved.
    pub fn transfer(&mut self, from: Owner, to: Owner, ns: u64) -> u64 {
        let moved = ns.min(self.of(from));
        self.0[from as usize] -= moved;
        self.0[to as usize] += moved;
        moved
    }

    /// Returns the owners that have time, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, u64)> + '_ {
        Owner::ALL.iter().map(|&owner| (owner, self.of(owner))).filter(|&(_, ns)| ns > 0)
    }
}
