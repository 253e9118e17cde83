//! Parts of a silence and their owners.

use crate::model::{Cause, Owner};

/// A part of a silence with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Who owns it.
    pub owner: Owner,
    /// Why, where it is more than the plain cost of the owner.
    pub cause: Option<Cause>,
    /// How much, ns.
    pub ns: u64,
}

impl Slice {
    /// `ns` owned by `owner` because of `cause`.
    pub fn of(owner: Owner, cause: Cause, ns: u64) -> Self {
        Self { owner, cause: Some(cause), ns }
    }

    /// `ns` owned by `owner`, and nothing more to say about it.
    pub fn plain(owner: Owner, ns: u64) -> Self {
        Self { owner, cause: None, ns }
    }
}

/// A silence cut into slices; they sum to its length exactly.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    slices: [Slice; 5],
    len: usize,
    /// What no slice has yet, ns.
    pub rest_ns: u64,
}

impl Slices {
    /// All of `total_ns` without an owner so far.
    pub fn new(total_ns: u64) -> Self {
        Self { slices: [Slice::plain(Owner::Unknown, 0); 5], len: 0, rest_ns: total_ns }
    }

    /// Gives up to `slice.ns` of what is left; the last place takes all that is left.
    pub fn take(&mut self, slice: Slice) {
        let ns = if self.len + 1 == self.slices.len() { self.rest_ns } else { slice.ns };
        let ns = ns.min(self.rest_ns);
        if ns > 0 {
            self.slices[self.len] = Slice { ns, ..slice };
            self.len += 1;
            self.rest_ns -= ns;
        }
    }

    /// The causes among them, one bit each.
    pub fn causes(&self) -> u64 {
        let causes = self.iter().filter_map(|slice| slice.cause);
        causes.fold(0, |all, cause| all | 1 << cause as u64)
    }

    /// What was put down to `from` is `to`'s doing, with the same owner.
    pub fn rename(&mut self, from: Cause, to: Cause) {
        for slice in &mut self.slices[..self.len] {
            if slice.cause == Some(from) {
                slice.cause = Some(to);
            }
        }
    }

    /// What was put down to `cause` is nobody's, as far as is known.
    pub fn leave_open(&mut self, cause: Cause) {
        for slice in &mut self.slices[..self.len] {
            if slice.cause == Some(cause) {
                *slice = Slice::plain(Owner::Unknown, slice.ns);
            }
        }
    }

    /// The slices.
    pub fn iter(&self) -> impl Iterator<Item = &Slice> {
        self.slices[..self.len].iter()
    }
}
