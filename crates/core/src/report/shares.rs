//! Time by owner where few owners have any: of one exchange, of one connection.

use super::Ledger;
use crate::cause::Owner;

/// A [`Ledger`] in a third of the memory: there is one for every open connection.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// Owners with their time; what does not fit is in `all`.
    few: [Share; FEW],
    all: Option<Box<Ledger>>,
}

/// Most exchanges have time of set-up, path, both applications and the link at most.
const FEW: usize = 5;

/// One owner's time, ns, below 2^56 (two years), and above it one more than the owner's number;
/// zero where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Share(u64);

const NS_BITS: u32 = 56;
const NS_MAX: u64 = (1 << NS_BITS) - 1;

impl Share {
    fn of(self, owner: Owner) -> Option<u64> {
        (self.0 >> NS_BITS == owner as u64 + 1).then_some(self.0 & NS_MAX)
    }

    fn owner(self) -> Option<Owner> {
        Owner::ALL.get((self.0 >> NS_BITS).checked_sub(1)? as usize).copied()
    }
}

impl Shares {
    /// Adds `ns` to what `owner` has.
    #[inline]
    pub fn add(&mut self, owner: Owner, ns: u64) {
        if let Some(all) = &mut self.all {
            return all.add(owner, ns);
        }
        if ns == 0 {
            return;
        }
        let mine = |share: &&mut Share| share.0 == 0 || share.of(owner).is_some();
        if let Some(share) = self.few.iter_mut().find(mine)
            && let Some(sum) = share.of(owner).unwrap_or(0).checked_add(ns)
            && sum <= NS_MAX
        {
            *share = Share((owner as u64 + 1) << NS_BITS | sum);
            return;
        }
        let mut all = self.ledger();
        all.add(owner, ns);
        self.all = Some(Box::new(all));
    }

    /// What `owner` has, ns.
    pub fn of(&self, owner: Owner) -> u64 {
        match &self.all {
            Some(all) => all.of(owner),
            None => self.few.iter().find_map(|share| share.of(owner)).unwrap_or(0),
        }
    }

    /// The sum over all owners, ns.
    pub fn total_ns(&self) -> u64 {
        match &self.all {
            Some(all) => all.total_ns(),
            None => self.few.iter().map(|share| share.0 & NS_MAX).sum(),
        }
    }

    /// Moves up to `ns` from one owner to another; answers how much was moved.
    pub fn transfer(&mut self, from: Owner, to: Owner, ns: u64) -> u64 {
        if let Some(all) = &mut self.all {
            return all.transfer(from, to, ns);
        }
        let moved = ns.min(self.of(from));
        if let Some(share) = self.few.iter_mut().find(|share| share.of(from).is_some()) {
            share.0 -= moved;
        }
        self.add(to, moved);
        moved
    }

    /// Owners with time.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, u64)> + '_ {
        let few = if self.all.is_some() { &[] } else { &self.few[..] };
        let few = few.iter().filter_map(|share| Some((share.owner()?, share.0 & NS_MAX)));
        few.chain(self.all.iter().flat_map(|all| all.iter()))
    }

    /// The same as a ledger.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.take(self);
        ledger
    }
}

impl Ledger {
    /// Adds all of `shares`.
    #[inline]
    pub fn take(&mut self, shares: &Shares) {
        match &shares.all {
            Some(all) => self.merge(all),
            None => shares.few.iter().for_each(|share| {
                let index = (share.0 >> NS_BITS).wrapping_sub(1) as usize;
                if let Some(mine) = self.0.get_mut(index) {
                    *mine += share.0 & NS_MAX;
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_add_up_like_a_ledger(
            steps in prop::collection::vec((0..Owner::ALL.len(), 0..Owner::ALL.len(), any::<u32>(), 0..28_u32), 0..20),
        ) {
            let (mut shares, mut ledger) = (Shares::default(), Ledger::default());
            for (owner, to, ns, shift) in steps {
                let (owner, to, ns) = (Owner::ALL[owner], Owner::ALL[to], u64::from(ns) << shift);
                shares.add(owner, ns);
                ledger.add(owner, ns);
                prop_assert_eq!(shares.transfer(owner, to, ns / 3), ledger.transfer(owner, to, ns / 3));
                prop_assert_eq!(shares.ledger(), ledger);
                prop_assert_eq!(shares.total_ns(), ledger.total_ns());
                prop_assert_eq!(shares.of(to), ledger.of(to));
            }
        }
    }
}
