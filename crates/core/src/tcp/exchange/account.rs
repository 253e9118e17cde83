//! Time of an exchange by owner and, if the exchange is to be drawn, where that time lies.

use crate::capture::FrameId;
use crate::model::{Cause, Owner, Shares, Slice};
use crate::wire::Side;
use std::ops::Deref;

/// Time of an exchange by owner. If its parts are recorded, they sum to it by owner: every method
/// that changes the one changes the other.
#[derive(Clone, Debug, Default)]
pub struct Account {
    shares: Shares,
    parts: Option<Box<Parts>>,
}

/// The recorded parts of an exchange's time, in the order in which they were added.
#[derive(Clone, Debug, Default)]
struct Parts(Vec<Part>);

/// A part of an exchange's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where the part lies.
    pub at: GapPlace,
    /// Its length and owner.
    pub slice: Slice,
}

/// Where a part of an exchange's time lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapPlace {
    /// The silent side, if one side was silent.
    pub sender: Option<Side>,
    /// Its start, ns.
    pub start_ns: u64,
    /// The frame that ended the silence, or that was the last one before it if nothing ended it.
    pub frame: FrameId,
}

/// The time that a change concerns: all of an owner, and rather the parts with this cause, sender
/// and frame.
#[derive(Clone, Copy, Debug)]
pub struct Concerned {
    /// The owner so far.
    pub owner: Owner,
    /// The cause so far.
    pub cause: Option<Cause>,
    /// The silent side.
    pub sender: Option<Side>,
    /// The frame that ended the silence.
    pub frame: Option<FrameId>,
}

/// Greatest number of parts of one exchange that keep their places. The time of any more is added to
/// the last part of the same owner and cause.
const PARTS_MAX: usize = 1 << 16;

impl GapPlace {
    /// The place of time from `start_ns` until or after `frame`, in which both sides took part.
    pub fn of_both(start_ns: u64, frame: FrameId) -> Self {
        Self { sender: None, start_ns, frame }
    }
}

impl Concerned {
    /// All time of `owner`, and rather that with `cause`.
    pub fn of(owner: Owner, cause: impl Into<Option<Cause>>) -> Self {
        Self { owner, cause: cause.into(), sender: None, frame: None }
    }

    /// Prefers the silences of `sender`.
    pub fn by(self, sender: Side) -> Self {
        Self { sender: Some(sender), ..self }
    }

    /// Prefers the silence that `frame` ended.
    pub fn at(self, frame: FrameId) -> Self {
        Self { frame: Some(frame), ..self }
    }

    /// Rank of `part` among the parts that the change may concern: the least first.
    fn rank(&self, part: &Part) -> [bool; 3] {
        [
            part.slice.cause != self.cause,
            self.sender.is_some() && part.at.sender != self.sender,
            self.frame.is_some_and(|frame| part.at.frame != frame),
        ]
    }
}

impl Deref for Account {
    type Target = Shares;

    fn deref(&self) -> &Shares {
        &self.shares
    }
}

impl Account {
    /// Begins to record the parts of the time.
    pub fn record(&mut self) {
        self.parts = Some(Box::default());
    }

    /// The sums by owner.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The recorded parts; none if they are not recorded.
    pub fn parts(&self) -> &[Part] {
        self.parts.as_ref().map_or(&[], |parts| &parts.0)
    }

    /// Adds a slice that lies `at` this place.
    #[inline]
    pub fn add(&mut self, slice: Slice, at: GapPlace) {
        self.shares.add(slice.owner, slice.ns);
        if let Some(parts) = &mut self.parts {
            parts.add(slice, at);
        }
    }

    /// Adds time of `owner` after the last byte, which passed in `frame` at `end_ns`: it follows what
    /// was added there before.
    #[inline]
    pub fn add_after(&mut self, owner: Owner, ns: u64, (end_ns, frame): (u64, FrameId)) {
        let after = self.parts().iter().filter(|part| part.at.start_ns >= end_ns);
        let start_ns = after.map(Part::end_ns).max().unwrap_or(end_ns);
        self.add(Slice::plain(owner, ns), GapPlace::of_both(start_ns, frame));
    }

    /// Moves up to `ns` of the time that is `concerned` to another owner and cause. Returns the
    /// amount moved.
    pub fn transfer(&mut self, concerned: Concerned, to: Slice) -> u64 {
        let moved_ns = self.shares.transfer(concerned.owner, to.owner, to.ns);
        if let Some(parts) = &mut self.parts {
            parts.change(concerned, moved_ns, Some(to));
        }
        moved_ns
    }

    /// Time that a change of `concerned` prefers, ns: its cause, sender and frame are as given.
    pub fn preferred_ns(&self, concerned: Concerned) -> u64 {
        let of_owner = self.parts().iter().filter(|part| part.slice.owner == concerned.owner);
        let preferred = of_owner.filter(|part| concerned.rank(part) == [false; 3]);
        preferred.map(|part| part.slice.ns).sum()
    }

    /// Removes up to `ns` of the time that is `concerned`.
    pub fn remove(&mut self, concerned: Concerned, ns: u64) {
        let removed_ns = ns.min(self.shares.of(concerned.owner));
        let mut left = Shares::default();
        for (owner, all_ns) in self.shares.ledger().iter() {
            let is_concerned = owner == concerned.owner;
            left.add(owner, if is_concerned { all_ns - removed_ns } else { all_ns });
        }
        self.shares = left;
        if let Some(parts) = &mut self.parts {
            parts.change(concerned, removed_ns, None);
        }
    }

    /// Gives the time of `sender` with cause `from` the cause `to`, of the same owner.
    pub fn rename(&mut self, sender: Side, from: Cause, to: Cause) {
        for part in self.parts.iter_mut().flat_map(|parts| &mut parts.0) {
            if part.slice.cause == Some(from) && part.at.sender == Some(sender) {
                part.slice.cause = Some(to);
            }
        }
    }
}

impl Part {
    /// End of the part, ns.
    pub fn end_ns(&self) -> u64 {
        self.at.start_ns.saturating_add(self.slice.ns)
    }

    /// Cuts the part in two at `time_ns`, which lies in it.
    pub fn cut_at(&self, time_ns: u64) -> [Self; 2] {
        let [mut before, mut after] = [*self; 2];
        before.slice.ns = time_ns.saturating_sub(self.at.start_ns).min(self.slice.ns);
        after.slice.ns -= before.slice.ns;
        after.at.start_ns = time_ns;
        [before, after]
    }
}

impl Parts {
    #[cold]
    fn add(&mut self, slice: Slice, at: GapPlace) {
        if slice.ns == 0 {
            return;
        }
        let is_full = self.0.len() >= PARTS_MAX;
        let same =
            |part: &&mut Part| (part.slice.owner, part.slice.cause) == (slice.owner, slice.cause);
        match self.0.iter_mut().rev().find(same).filter(|_| is_full) {
            Some(part) => part.slice.ns = part.slice.ns.saturating_add(slice.ns),
            None => self.0.push(Part { at, slice }),
        }
    }

    /// Gives `ns` of the time that is `concerned` the owner and cause of `to`, or removes it. Of a
    /// part that is longer, the beginning changes.
    #[cold]
    fn change(&mut self, concerned: Concerned, mut ns: u64, to: Option<Slice>) {
        let of_owner = |&index: &usize| self.0[index].slice.owner == concerned.owner;
        let mut order: Vec<_> = (0..self.0.len()).filter(of_owner).collect();
        order.sort_by_key(|&index| concerned.rank(&self.0[index]));
        for index in order {
            let part = &mut self.0[index];
            let (changed, moved_ns) = (*part, ns.min(part.slice.ns));
            part.at.start_ns = part.at.start_ns.saturating_add(moved_ns);
            part.slice.ns -= moved_ns;
            ns -= moved_ns;
            if let Some(to) = to {
                self.add(Slice { ns: moved_ns, ..to }, changed.at);
            }
            if ns == 0 {
                break;
            }
        }
        self.0.retain(|part| part.slice.ns > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(slices: &[Slice]) -> Account {
        let mut account = Account::default();
        account.record();
        for (slice, number) in slices.iter().zip(1..) {
            let (start_ns, frame) = (100 * number, FrameId::new(0, number));
            account.add(*slice, GapPlace { sender: Some(Side::Server), start_ns, frame });
        }
        account
    }

    fn sums_to_parts(account: &Account) -> bool {
        let of = |owner| account.parts().iter().filter(move |it| it.slice.owner == owner);
        let ns_of = |owner| of(owner).map(|it| it.slice.ns).sum::<u64>();
        Owner::ALL.iter().all(|&owner| account.of(owner) == ns_of(owner))
    }

    const SLOW_START: Slice =
        Slice { owner: Owner::CongestionWindow, cause: Some(Cause::SlowStart), ns: 40 };

    #[test]
    fn the_parts_of_the_named_silence_change_first() {
        let mut account = recorded(&[SLOW_START, SLOW_START]);
        let second = Concerned::of(Owner::CongestionWindow, Cause::SlowStart);
        let to = Slice::of(Owner::SendBuffer, Cause::SendBuffer, 30);
        assert_eq!(account.transfer(second.by(Side::Server).at(FrameId::new(0, 2)), to), 30);
        let changed = account.parts().iter().find(|it| it.slice.owner == Owner::SendBuffer);
        assert_eq!(changed.map(|it| (it.at.start_ns, it.slice)), Some((200, to)));
        let rest = account.parts().iter().find(|it| it.at.start_ns == 230);
        assert_eq!(rest.map(|it| it.slice), Some(Slice { ns: 10, ..SLOW_START }));
        assert!(sums_to_parts(&account));
    }

    #[test]
    fn more_than_an_owner_has_is_not_moved() {
        let mut account = recorded(&[SLOW_START]);
        let all = Concerned::of(Owner::CongestionWindow, None);
        assert_eq!(account.transfer(all, Slice::plain(Owner::Bandwidth, 90)), 40);
        assert!(sums_to_parts(&account) && account.parts().len() == 1);
        account.remove(Concerned::of(Owner::Bandwidth, None), 90);
        assert!(sums_to_parts(&account) && account.parts().is_empty());
    }

    #[test]
    fn a_cause_of_the_same_owner_changes_no_sum() {
        let mut account = recorded(&[SLOW_START]);
        account.rename(Side::Client, Cause::SlowStart, Cause::CongestionWindow);
        assert_eq!(account.parts()[0].slice.cause, Some(Cause::SlowStart));
        account.rename(Side::Server, Cause::SlowStart, Cause::CongestionWindow);
        assert_eq!(account.parts()[0].slice.cause, Some(Cause::CongestionWindow));
        assert!(sums_to_parts(&account));
    }

    #[test]
    fn time_without_a_place_of_its_own_is_kept() {
        let mut account = recorded(&vec![SLOW_START; PARTS_MAX + 5]);
        account.add(Slice::plain(Owner::Path, 7), GapPlace::of_both(0, FrameId::default()));
        assert!(sums_to_parts(&account) && account.parts().len() == PARTS_MAX + 1);
    }

    #[test]
    fn what_comes_after_the_last_byte_follows_one_another() {
        let mut account = recorded(&[SLOW_START]);
        let end = (140, FrameId::new(0, 1));
        account.add_after(Owner::Queueing, 10, end);
        account.add_after(Owner::Path, 5, end);
        let starts: Vec<_> = account.parts().iter().map(|it| it.at.start_ns).collect();
        assert_eq!(starts, [100, 140, 150]);
    }
}
