//! Time by owner if few owners have any: for one exchange or one connection.

use super::Ledger;
use crate::model::Owner;

/// A [`Ledger`] in a third of the memory: there is one for every open connection.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Shares {
    /// Owners with their time; `all` is used instead if they do not fit.
    few: [Share; FEW],
    /// Index in `few` of each owner, [`PLACE_BITS`] bits each: 0 for none, else the index plus one.
    places: u64,
    all: Option<Box<Ledger>>,
}

/// Maximum number of owners without a ledger. Most exchanges have time of at most set-up, path,
/// both applications and the link.
const FEW: usize = 5;

/// Bits of an index into `few`; the indices of all owners fit into one `u64`.
const PLACE_BITS: u32 = 3;
const _: () = assert!(FEW < 1 << PLACE_BITS && Owner::ALL.len() as u32 * PLACE_BITS <= u64::BITS);

/// Time of one owner: ns in the low 56 bits (two years), above them the owner's number plus one;
/// zero if unused.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
struct Share(u64);

const NS_BITS: u32 = 56;
const NS_MAX: u64 = (1 << NS_BITS) - 1;

impl Share {
    fn ns(self) -> u64 {
        self.0 & NS_MAX
    }

    /// Returns the owner's number, if the share is in use.
    fn number(self) -> Option<usize> {
        (self.0 >> NS_BITS).checked_sub(1).map(|number| number as usize)
    }
}

impl Shares {
    /// Adds `ns` to the time of `owner`.
    #[inline]
    pub fn add(&mut self, owner: Owner, ns: u64) {
        if let Some(share) = self.share(owner as usize)
            && share.ns() + ns.min(NS_MAX + 1) <= NS_MAX
        {
            share.0 += ns;
        } else {
            self.begin(owner as usize, ns);
        }
    }

    /// Returns the share of the owner with this number, if it is in `few`.
    #[inline]
    fn share(&mut self, number: usize) -> Option<&mut Share> {
        let place = self.places >> (number as u32 * PLACE_BITS) & ((1 << PLACE_BITS) - 1);
        self.few.get_mut((place as usize).wrapping_sub(1))
    }

    /// Adds `ns` to an owner that has no share in `few`, or whose sum does not fit there.
    #[inline]
    fn begin(&mut self, number: usize, ns: u64) {
        if ns == 0 {
            return;
        }
        let is_new = self.all.is_none() && self.share(number).is_none();
        let mut free = self.few.iter_mut().zip(1_u64..);
        match free.find(|(share, _)| share.0 == 0).filter(|_| is_new && ns <= NS_MAX) {
            Some((share, place)) => {
                *share = Share((number as u64 + 1) << NS_BITS | ns);
                self.places |= place << (number as u32 * PLACE_BITS);
            }
            None => self.spread(number, ns),
        }
    }

    /// Adds `ns` to an owner after a change to a full ledger.
    #[cold]
    #[inline(never)]
    fn spread(&mut self, number: usize, ns: u64) {
        if self.all.is_none() {
            self.all = Some(Box::new(self.ledger()));
            (self.few, self.places) = ([Share::default(); FEW], 0);
        }
        if let Some(all) = &mut self.all {
            all.0[number] = all.0[number].saturating_add(ns);
        }
    }

    /// Returns the time of `owner`, ns.
    #[inline]
    pub fn of(&self, owner: Owner) -> u64 {
        match &self.all {
            Some(all) => all.of(owner),
            None => {
                let place = self.places >> (owner as u32 * PLACE_BITS) & ((1 << PLACE_BITS) - 1);
                self.few.get((place as usize).wrapping_sub(1)).map_or(0, |share| share.ns())
            }
        }
    }

    /// Returns whether only `owners` have time.
    #[inline]
    pub fn is_of<const N: usize>(&self, owners: [Owner; N]) -> bool {
        let of = |owner: Owner| ((1_u64 << PLACE_BITS) - 1) << (owner as u32 * PLACE_BITS);
        let all = owners.into_iter().fold(0, |all, owner| all | of(owner));
        self.all.is_none() && self.places & !all == 0
    }

    /// Returns the sum over all owners, ns.
    #[inline]
    pub fn total_ns(&self) -> u64 {
        match &self.all {
            Some(all) => all.total_ns(),
            None => self.few.iter().map(|share| share.ns()).sum(),
        }
    }

    /// Moves up to `ns` from one owner to another; returns the amount moved.
    pub fn transfer(&mut self, from: Owner, to: Owner, ns: u64) -> u64 {
        if let Some(all) = &mut self.all {
            return all.transfer(from, to, ns);
        }
        let moved = ns.min(self.of(from));
        if let Some(share) = self.share(from as usize) {
            share.0 -= moved;
        }
        self.add(to, moved);
        moved
    }

    /// Adds all of `other`.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        match &other.all {
            None if self.places == 0 && self.all.is_none() => {
                (self.few, self.places) = (other.few, other.places);
            }
            Some(all) => all.iter().for_each(|(owner, ns)| self.add(owner, ns)),
            None => {
                for share in &other.few {
                    let Some(number) = share.number() else { return };
                    match self.share(number).filter(|mine| mine.ns() + share.ns() <= NS_MAX) {
                        Some(mine) => mine.0 += share.ns(),
                        None => self.begin(number, share.ns()),
                    }
                }
            }
        }
    }

    /// Returns the same times as a ledger.
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
            None => {
                for share in &shares.few {
                    if let Some(mine) = share.number().and_then(|number| self.0.get_mut(number)) {
                        *mine = mine.saturating_add(share.ns());
                    }
                }
            }
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
            let (mut twice, mut doubled) = (shares.clone(), ledger);
            twice.merge(&shares);
            doubled.merge(&ledger);
            prop_assert_eq!(twice.ledger(), doubled);
        }
    }
}
