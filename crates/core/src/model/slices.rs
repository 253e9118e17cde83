//! Parts of a silence and their owners.

use crate::capture::FrameId;
use crate::model::{Cause, CauseSet, Owner};
use crate::wire::Side;

/// A part of a silence with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Slice {
    /// The owner of the time.
    pub owner: Owner,
    /// The cause; `None` if the owner has the time without a cause.
    pub cause: Option<Cause>,
    /// Length of the slice, ns.
    pub ns: u64,
}

impl Slice {
    /// Creates a slice of `ns` that `owner` has because of `cause`.
    pub fn of(owner: Owner, cause: Cause, ns: u64) -> Self {
        Self { owner, cause: Some(cause), ns }
    }

    /// Creates a slice of `ns` that `owner` has without a cause.
    pub fn plain(owner: Owner, ns: u64) -> Self {
        Self { owner, cause: None, ns }
    }
}

/// Time of one connection that got another owner after all connections were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Reassigned {
    /// The silent side, if only its silences are concerned.
    pub sender: Option<Side>,
    /// First frame of the exchange, if only one is concerned.
    pub exchange: Option<FrameId>,
    /// The owner so far.
    pub from: Owner,
    /// The amount of time, with its new owner and cause.
    pub to: Slice,
}

/// A silence divided into slices, whose sum is exactly its length.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    slices: [Slice; 5],
    len: usize,
    /// Time without a slice so far, ns.
    pub rest_ns: u64,
}

impl Slices {
    /// Begins with all of `total_ns` unattributed.
    pub fn new(total_ns: u64) -> Self {
        Self { slices: [Slice::plain(Owner::Unknown, 0); 5], len: 0, rest_ns: total_ns }
    }

    /// Adds a slice of at most the time that is left; the last slice that fits takes all of it.
    pub fn take(&mut self, slice: Slice) {
        let ns = if self.len + 1 == self.slices.len() { self.rest_ns } else { slice.ns };
        let ns = ns.min(self.rest_ns);
        if ns > 0 {
            self.slices[self.len] = Slice { ns, ..slice };
            self.len += 1;
            self.rest_ns -= ns;
        }
    }

    /// Returns the causes of the slices.
    pub fn causes(&self) -> CauseSet {
        self.iter().filter_map(|slice| slice.cause).collect()
    }

    /// Replaces the cause `from` by `to`, with the same owner.
    pub fn rename(&mut self, from: Cause, to: Cause) {
        for slice in &mut self.slices[..self.len] {
            if slice.cause == Some(from) {
                slice.cause = Some(to);
            }
        }
    }

    /// Makes the time of `cause` unattributed ([`Owner::Unknown`]).
    pub fn make_unknown(&mut self, cause: Cause) {
        for slice in &mut self.slices[..self.len] {
            if slice.cause == Some(cause) {
                *slice = Slice::plain(Owner::Unknown, slice.ns);
            }
        }
    }

    /// Removes the slices of `cause`. Returns their time, ns.
    pub fn remove(&mut self, cause: Cause) -> u64 {
        let mut removed_ns = 0;
        let all = std::mem::replace(self, Self::new(0));
        for slice in all.iter() {
            if slice.cause == Some(cause) {
                removed_ns += slice.ns;
            } else {
                self.slices[self.len] = *slice;
                self.len += 1;
            }
        }
        self.rest_ns = all.rest_ns;
        removed_ns
    }

    /// The slices.
    pub fn iter(&self) -> impl Iterator<Item = &Slice> {
        self.slices[..self.len].iter()
    }
}
