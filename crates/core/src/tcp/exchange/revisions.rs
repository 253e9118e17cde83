//! Later changes of an exchange's ledger, after its silences were judged, and the log of them for `--why`.

use crate::app::Side;
use crate::capture::FrameId;
use crate::judge::Gap;
use crate::model::{Cause, Ledger, Owner, Shares, Slice};
use crate::tcp::Exchange;
use crate::tcp::exchange::{CLOSED_OFTEN, Chain};
use std::collections::BTreeMap;
use std::panic::Location;

/// A later change of an exchange's ledger.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The place in the code that decided it.
    pub by: &'static Location<'static>,
    /// The reason for the change.
    pub why: &'static str,
    /// Owners whose time changed, by how much, ns.
    pub owners: Vec<(Owner, i64)>,
    /// Causes whose time changed, by how much, ns.
    pub causes: Vec<(Cause, i64)>,
}

/// The state of an exchange before a change.
pub(super) struct Before {
    ledger: Ledger,
    causes: BTreeMap<Cause, i64>,
}

impl Exchange {
    /// Keeps a log of revisions from here on.
    pub(in crate::tcp) fn log_revisions(&mut self) {
        self.revisions = Some(Box::default());
    }

    /// Begins an entry of the log; `None` where none is kept.
    pub(super) fn before(&self) -> Option<Before> {
        self.revisions.as_ref()?;
        Some(Before { ledger: self.ledger.ledger(), causes: self.by_cause() })
    }

    /// Ends the entry that `before` began.
    #[track_caller]
    pub(super) fn log(&mut self, before: Option<Before>, why: &'static str) {
        let Some(Before { ledger, causes }) = before else { return };
        let now = self.ledger.ledger();
        let changed = |owner: &Owner| signed(now.of(*owner)) - signed(ledger.of(*owner));
        let owners = Owner::ALL.iter().map(|owner| (*owner, changed(owner)));
        let owners: Vec<_> = owners.filter(|(_, ns)| *ns != 0).collect();
        let mut by_cause = self.by_cause();
        causes.into_iter().for_each(|(cause, ns)| *by_cause.entry(cause).or_default() -= ns);
        by_cause.retain(|_, ns| *ns != 0);
        if owners.is_empty() && by_cause.is_empty() {
            return;
        }
        let causes = by_cause.into_iter().collect();
        let revision = Revision { by: Location::caller(), why, owners, causes };
        self.revisions.iter_mut().for_each(|log| log.push(revision.clone()));
    }

    /// Renames cause `from` of `sender` to `to`, which has the same owner.
    #[track_caller]
    pub fn rename(&mut self, sender: Side, from: Cause, to: Cause) {
        let before = self.before();
        self.rename_unlogged(sender, from, to);
        self.log(before, "the same time has another cause");
    }

    pub(super) fn rename_unlogged(&mut self, sender: Side, from: Cause, to: Cause) {
        let same = |chain: &Chain| chain.cause == from && chain.sender == sender;
        while let Some(index) = self.chains.iter().position(same) {
            let mut chain = self.chains.swap_remove(index);
            chain.cause = to;
            if from == Cause::CongestionWindow {
                // The wait after a repair is caused by the loss, but is none itself.
                chain.count = 0;
                chain.longest_ns = 0;
            }
            self.join(chain);
        }
    }

    /// Replaces slice `was` by `is` for the gap of `sender` that `frame` ended.
    #[track_caller]
    pub fn revise(&mut self, sender: Side, frame: FrameId, was: Slice, is: Slice) {
        let before = self.before();
        self.revise_unlogged(sender, frame, was, is);
        self.log(before, "what came later shows another owner of that silence");
    }

    fn revise_unlogged(&mut self, sender: Side, frame: FrameId, was: Slice, is: Slice) {
        let same = |chain: &Chain| Some(chain.cause) == was.cause && chain.sender == sender;
        let found = self.chains.iter().position(same);
        let Some(index) = found.filter(|&index| self.chains[index].ns >= was.ns) else { return };
        let chain = &mut self.chains[index];
        let of_frame = chain.gap.next.frame == frame;
        let gap = if of_frame {
            chain.gap
        } else {
            Gap::between(sender, self.end_ns, self.end_ns + was.ns, self.last, self.last)
        };
        chain.ns -= was.ns;
        chain.count = chain.count.saturating_sub(1);
        if chain.ns == 0 {
            self.chains.swap_remove(index);
        }
        self.ledger.transfer(was.owner, is.owner, was.ns);
        if was.cause == Some(Cause::SlowStart) {
            self.provisional_ns = self.provisional_ns.saturating_sub(was.ns);
        }
        let Some(cause) = is.cause else { return };
        self.join(Chain::of(cause, sender, was.ns, gap));
    }

    /// Removes slice `was` of `sender` without a new owner; returns whether it was there.
    #[track_caller]
    pub fn disown(&mut self, sender: Side, was: Slice) -> bool {
        let before = self.before();
        let was_there = self.disown_unlogged(sender, was);
        self.log(before, "that silence had not ended yet");
        was_there
    }

    fn disown_unlogged(&mut self, sender: Side, was: Slice) -> bool {
        let same = |chain: &&mut Chain| {
            Some(chain.cause) == was.cause && chain.sender == sender && chain.ns >= was.ns
        };
        let Some(chain) = self.chains.iter_mut().find(same) else { return false };
        chain.ns -= was.ns;
        chain.count = chain.count.saturating_sub(1);
        self.chains.retain(|chain| chain.ns > 0);
        let mut ledger = Shares::default();
        for (owner, ns) in self.ledger.ledger().iter() {
            ledger.add(owner, if owner == was.owner { ns.saturating_sub(was.ns) } else { ns });
        }
        self.ledger = ledger;
        true
    }

    /// Moves all time of one owner and cause to another.
    #[track_caller]
    pub fn reassign(&mut self, from: (Owner, Cause), to: (Owner, Cause)) {
        let before = self.before();
        self.reassign_unlogged(from, to);
        self.log(before, "all time of the cause has another one");
    }

    fn reassign_unlogged(&mut self, from: (Owner, Cause), to: (Owner, Cause)) {
        for chain in self.chains.iter_mut().filter(|chain| chain.cause == from.1) {
            chain.cause = to.1;
            self.ledger.transfer(from.0, to.0, chain.ns);
        }
    }

    /// Moves the time of `cause` to the unknown owner.
    #[track_caller]
    pub fn forget(&mut self, (owner, cause): (Owner, Cause)) {
        let before = self.before();
        self.forget_unlogged((owner, cause));
        self.log(before, "nothing shows any more who owned that time");
    }

    fn forget_unlogged(&mut self, (owner, cause): (Owner, Cause)) {
        let taken = self.chains.iter().filter(|chain| chain.cause == cause);
        let ns = taken.map(|chain| chain.ns).sum();
        self.ledger.transfer(owner, Owner::Unknown, ns);
        self.chains.retain(|chain| chain.cause != cause);
        if ns > 0 && !self.response_seen {
            self.end_ns = self.start_ns;
        }
    }

    /// Attributes time of `sender`'s own windows and buffers to the offered window, which turned
    /// out to limit the flight.
    #[track_caller]
    pub fn reveal_window(&mut self, sender: Side) {
        let before = self.before();
        self.reveal_window_unlogged(sender);
        self.log(before, "the offered window turned out to limit the flight");
    }

    fn reveal_window_unlogged(&mut self, sender: Side) {
        let own =
            [(Owner::CongestionWindow, Cause::SlowStart), (Owner::SendBuffer, Cause::SendBuffer)];
        for (owner, cause) in own {
            let same = |chain: &&Chain| chain.cause == cause && chain.sender == sender;
            let ns = self.chains.iter().filter(same).map(|chain| chain.ns).sum();
            self.ledger.transfer(owner, Owner::ReceiveWindow, ns);
            self.rename_unlogged(sender, cause, Cause::ReceiveWindow);
        }
        self.provisional_ns = 0;
    }

    /// Attributes waits of `sender` in small windows to the reader that closes the window.
    #[track_caller]
    pub fn blame_reader(&mut self, sender: Side) {
        let before = self.before();
        self.blame_reader_unlogged(sender);
        self.log(before, "the reader closed the window time and again");
    }

    fn blame_reader_unlogged(&mut self, sender: Side) {
        let of = |cause| {
            let same = move |chain: &&Chain| chain.cause == cause && chain.sender == sender;
            self.chains.iter().find(same)
        };
        let closes = of(Cause::ZeroWindow).is_some_and(|closed| closed.count >= CLOSED_OFTEN);
        let small_ns = of(Cause::ReceiveWindow).map_or(0, |small| small.ns);
        if closes && small_ns > 0 {
            self.ledger.transfer(Owner::ReceiveWindow, Owner::ZeroWindow, small_ns);
            self.rename_unlogged(sender, Cause::ReceiveWindow, Cause::ZeroWindow);
        }
    }

    /// Attributes time of an opening window to the send buffer: the height of the flight turned
    /// out to be a ceiling.
    #[track_caller]
    pub fn confirm_ceiling(&mut self) {
        let before = self.before();
        self.confirm_ceiling_unlogged();
        self.log(before, "the height of the flight turned out to be that of a buffer");
    }

    fn confirm_ceiling_unlogged(&mut self) {
        let moved =
            self.ledger.transfer(Owner::CongestionWindow, Owner::SendBuffer, self.provisional_ns);
        self.provisional_ns = 0;
        let opening = self.chains.iter().position(|chain| chain.cause == Cause::SlowStart);
        let Some(index) = opening.filter(|_| moved > 0) else { return };
        let ceiling = Chain { cause: Cause::SendBuffer, ns: moved, ..self.chains[index].clone() };
        self.chains[index].ns = self.chains[index].ns.saturating_sub(moved);
        if self.chains[index].ns == 0 {
            self.chains.swap_remove(index);
        }
        self.join(ceiling);
    }

    fn by_cause(&self) -> BTreeMap<Cause, i64> {
        let mut causes = BTreeMap::new();
        for chain in &self.chains {
            *causes.entry(chain.cause).or_default() += signed(chain.ns);
        }
        causes
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
