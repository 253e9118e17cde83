//! Sets of causes.

use crate::model::Cause;

/// A set of causes, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseSet(u64);

const _: () = assert!(Cause::ALL.len() <= u64::BITS as usize);

impl CauseSet {
    /// The set without a cause.
    pub const EMPTY: Self = Self(0);

    /// The causes that the end of an exchange may replace or reduce.
    pub const REVISED: Self = {
        let (mut revised, mut at) = (Self::EMPTY, 0);
        while at < Cause::ALL.len() {
            if Cause::ALL[at].is_revised() {
                revised.insert(Cause::ALL[at]);
            }
            at += 1;
        }
        revised
    };

    /// Returns the set of these causes.
    pub const fn of(causes: &[Cause]) -> Self {
        let (mut set, mut at) = (Self::EMPTY, 0);
        while at < causes.len() {
            set = set.with(causes[at]);
            at += 1;
        }
        set
    }

    /// Returns the set with `cause` added.
    pub const fn with(self, cause: Cause) -> Self {
        Self(self.0 | 1 << cause as u64)
    }

    /// Adds `cause`.
    pub const fn insert(&mut self, cause: Cause) {
        *self = self.with(cause);
    }

    /// Returns whether it contains `cause`.
    pub const fn contains(self, cause: Cause) -> bool {
        self.0 & 1 << cause as u64 != 0
    }

    /// Returns whether it has a cause in common with `other`.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether it has only causes of `other`.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns its causes, in the order of [`Cause::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Cause> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let cause = Cause::ALL.get(left.trailing_zeros() as usize).copied()?;
            left &= left - 1;
            Some(cause)
        })
    }
}

impl FromIterator<Cause> for CauseSet {
    fn from_iter<T: IntoIterator<Item = Cause>>(causes: T) -> Self {
        causes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_causes_and_no_others() {
        let all: CauseSet = Cause::ALL.iter().copied().collect();
        assert!(all.iter().eq(Cause::ALL.iter().copied()));
        let set = CauseSet::of(&[Cause::ZeroWindow, Cause::Bufferbloat]);
        assert!(set.contains(Cause::ZeroWindow) && !set.contains(Cause::ServerThink));
        assert!(set.is_subset(all) && !all.is_subset(set));
        assert!(set.intersects(all) && !set.intersects(CauseSet::EMPTY));
        assert_eq!(CauseSet::EMPTY.iter().next(), None);
    }
}
