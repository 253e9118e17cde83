//! Effect of each later change on the ledger and the chains of an exchange. Each function returns
//! whether its change applied.

use super::revisions::Change;
use crate::capture::FrameId;
use crate::judge::thresholds::HABIT_MIN;
use crate::judge::{self, Gap};
use crate::model::{Cause, Owner, Slice};
use crate::tcp::Exchange;
use crate::tcp::exchange::{Chain, Concerned};
use crate::wire::Side;

impl Exchange {
    /// Applies `change` without logging it.
    pub(super) fn apply(&mut self, change: &Change) -> bool {
        match *change {
            Change::Slice { sender, frame, from, to } => self.replace(sender, frame, from, to),
            Change::NotEnded { sender, slice } => self.remove(sender, slice),
            Change::Renamed { sender, from, to } => self.rename(sender, from, to),
            Change::Moved { from, to } => self.reassign(from, to),
            Change::Unknown { from } => self.make_unknown(from),
            Change::UnseenLoss { sender } => self.shorten_unseen_loss(sender),
            Change::OfferedWindow { sender } => self.attribute_to_window(sender),
            Change::Reader { sender } => self.attribute_to_reader(sender),
            Change::SendBuffer => self.attribute_to_buffer(),
            Change::NoCeiling { sender } => self.forget_ceiling(sender),
            Change::Relayed { ns } => self.attribute_to_way(ns),
            Change::NoNagle { sender, is_driven } => {
                self.attribute_to_application(sender, is_driven)
            }
            Change::Absorbed { sender, ns } => self.absorb(sender, ns),
            Change::OwnPauses => self.remove_client_time(),
            Change::Waited { way_ns } => self.attribute_to_wait(way_ns),
        }
    }

    /// Renames cause `from` of `sender` to `to`, which has the same owner.
    fn rename(&mut self, sender: Side, from: Cause, to: Cause) -> bool {
        let is_known = || from.becomes().iter().any(|(cause, _)| *cause == to);
        debug_assert!(is_known(), "`becomes` in the row of {from:?} lacks {to:?}");
        let same = |chain: &Chain| chain.cause == from && chain.sender == sender;
        self.ledger.rename(sender, from, to);
        let mut renamed = false;
        while let Some(index) = self.chains.iter().position(same) {
            let mut chain = self.chains.swap_remove(index);
            chain.cause = to;
            if from == Cause::CongestionWindow {
                // The wait after a repair is due to the loss, but is no loss itself.
                chain.count = 0;
                chain.longest_ns = 0;
            }
            if from == Cause::FastRecovery {
                // More silences follow a repair: in them nothing was sent again.
                chain.count = chain.repairs;
            }
            self.join(chain);
            renamed = true;
        }
        renamed
    }

    /// Replaces slice `from` by `to` for the gap of `sender` that `frame` ended.
    fn replace(&mut self, sender: Side, frame: FrameId, from: Slice, to: Slice) -> bool {
        if from.cause.is_none() && to.cause.is_none() {
            // Time without a cause has no chain.
            let concerned = Concerned::of(from.owner, None).by(sender).at(frame);
            let is_here = from.ns > 0 && self.ledger.of(from.owner) >= from.ns;
            return is_here && self.ledger.transfer(concerned, Slice { ns: from.ns, ..to }) > 0;
        }
        let same = |chain: &Chain| Some(chain.cause) == from.cause && chain.sender == sender;
        let found = self.chains.iter().position(same);
        let Some(index) = found.filter(|&index| self.chains[index].ns >= from.ns) else {
            return false;
        };
        let chain = &mut self.chains[index];
        let of_frame = chain.gap.next.frame == frame;
        let gap = if of_frame {
            chain.gap
        } else {
            Gap::between(sender, self.end_ns, self.end_ns + from.ns, self.last, self.last)
        };
        chain.ns -= from.ns;
        chain.beyond_ns = chain.beyond_ns.min(chain.ns);
        chain.count = chain.count.saturating_sub(1);
        if chain.ns == 0 {
            self.chains.swap_remove(index);
        }
        let concerned = Concerned::of(from.owner, from.cause).by(sender).at(frame);
        self.ledger.transfer(concerned, Slice { ns: from.ns, ..to });
        if from.cause == Some(Cause::SlowStart) {
            self.provisional_ns = self.provisional_ns.saturating_sub(from.ns);
        }
        if let Some(cause) = to.cause {
            self.join(Chain::of(cause, sender, from.ns, gap));
        }
        true
    }

    /// Removes the slice `from` of `sender` without a new owner.
    fn remove(&mut self, sender: Side, from: Slice) -> bool {
        let same = |chain: &&mut Chain| {
            Some(chain.cause) == from.cause && chain.sender == sender && chain.ns >= from.ns
        };
        let Some(chain) = self.chains.iter_mut().find(same) else { return false };
        chain.ns -= from.ns;
        chain.count = chain.count.saturating_sub(1);
        self.chains.retain(|chain| chain.ns > 0);
        self.ledger.remove(Concerned::of(from.owner, from.cause).by(sender), from.ns);
        true
    }

    /// Moves all time of one owner and cause to another owner and cause.
    fn reassign(&mut self, from: (Owner, Cause), to: (Owner, Cause)) -> bool {
        let is_moved = |chain: &mut Chain| chain.cause == from.1;
        let moved: Vec<_> = self.chains.extract_if(.., is_moved).collect();
        let has_moved = !moved.is_empty();
        for mut chain in moved {
            chain.cause = to.1;
            let concerned = Concerned::of(from.0, from.1).by(chain.sender);
            self.ledger.transfer(concerned, Slice::of(to.0, to.1, chain.ns));
            // One exchange has a cause of one side once.
            self.join(chain);
        }
        has_moved
    }

    /// Moves the time of `cause` to [`Owner::Unknown`].
    fn make_unknown(&mut self, (owner, cause): (Owner, Cause)) -> bool {
        let taken = self.chains.iter().filter(|chain| chain.cause == cause);
        let ns = taken.map(|chain| chain.ns).sum();
        self.ledger.transfer(Concerned::of(owner, cause), Slice::plain(Owner::Unknown, ns));
        self.chains.retain(|chain| chain.cause != cause);
        let is_all = !self.connects && self.chains.is_empty();
        // A server that closed has ended the wait, if there was one.
        let may_be_none = is_all && self.outcome.by() != Some(Side::Server);
        if ns > 0 && !self.response_seen && may_be_none {
            self.end_ns = self.start_ns;
        }
        ns > 0
    }

    /// Moves the time of losses before the vantage beyond that of their timers to [`Owner::Unknown`].
    fn shorten_unseen_loss(&mut self, sender: Side) -> bool {
        let timed_out =
            |it: &&mut Chain| it.cause == Cause::RetransmissionTimeout && it.sender == sender;
        let Some(chain) = self.chains.iter_mut().find(timed_out) else { return false };
        let cause = Cause::RetransmissionTimeout;
        let concerned = Concerned::of(Owner::RetransmissionTimeout, cause).by(sender);
        // A silence that turned out to be no loss has taken its part with it.
        let beyond_ns = std::mem::take(&mut chain.beyond_ns).min(chain.ns);
        let moved = self.ledger.transfer(concerned, Slice::plain(Owner::Unknown, beyond_ns));
        chain.ns -= moved;
        chain.longest_ns = chain.longest_ns.min(chain.ns);
        moved > 0
    }

    /// Attributes the time of windows and buffers of `sender` to the offered window.
    fn attribute_to_window(&mut self, sender: Side) -> bool {
        let own =
            [(Owner::CongestionWindow, Cause::SlowStart), (Owner::SendBuffer, Cause::SendBuffer)];
        let mut moved = false;
        for (owner, cause) in own {
            let same = |chain: &&Chain| chain.cause == cause && chain.sender == sender;
            let ns = self.chains.iter().filter(same).map(|chain| chain.ns).sum();
            let to = Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, ns);
            self.ledger.transfer(Concerned::of(owner, cause).by(sender), to);
            moved |= self.rename(sender, cause, Cause::ReceiveWindow);
        }
        self.provisional_ns = 0;
        moved
    }

    /// Attributes waits of `sender` in small windows to the reader that closes the window.
    fn attribute_to_reader(&mut self, sender: Side) -> bool {
        let of = |cause| {
            let same = move |chain: &&Chain| chain.cause == cause && chain.sender == sender;
            self.chains.iter().find(same)
        };
        let closes = of(Cause::ZeroWindow).is_some_and(|closed| closed.count >= HABIT_MIN);
        let small_ns = of(Cause::ReceiveWindow).map_or(0, |small| small.ns);
        if !closes || small_ns == 0 {
            return false;
        }
        let small = Concerned::of(Owner::ReceiveWindow, Cause::ReceiveWindow).by(sender);
        let to = Slice::of(Owner::ZeroWindow, Cause::ZeroWindow, small_ns);
        self.ledger.transfer(small, to);
        self.rename(sender, Cause::ReceiveWindow, Cause::ZeroWindow)
    }

    /// Attributes the time of an opening window to the send buffer.
    fn attribute_to_buffer(&mut self) -> bool {
        if self.provisional_ns == 0 {
            return false;
        }
        let opening = Concerned::of(Owner::CongestionWindow, Cause::SlowStart);
        let to = Slice::of(Owner::SendBuffer, Cause::SendBuffer, self.provisional_ns);
        let moved = self.ledger.transfer(opening, to);
        self.provisional_ns = 0;
        let opening = self.chains.iter().position(|chain| chain.cause == Cause::SlowStart);
        let Some(index) = opening.filter(|_| moved > 0) else { return false };
        let ceiling = Chain { cause: Cause::SendBuffer, ns: moved, ..self.chains[index].clone() };
        self.chains[index].ns = self.chains[index].ns.saturating_sub(moved);
        if self.chains[index].ns == 0 {
            self.chains.swap_remove(index);
        }
        self.join(ceiling);
        true
    }

    /// Moves the time of a send buffer of `sender` to [`Owner::Unknown`].
    fn forget_ceiling(&mut self, sender: Side) -> bool {
        let same = |chain: &Chain| chain.cause == Cause::SendBuffer && chain.sender == sender;
        let Some(index) = self.chains.iter().position(same) else { return false };
        let chain = self.chains.swap_remove(index);
        let concerned = Concerned::of(Owner::SendBuffer, Cause::SendBuffer).by(sender);
        self.ledger.transfer(concerned, Slice::plain(Owner::Unknown, chain.ns));
        true
    }

    /// Moves `ns` of the server's time before its answer to the path.
    fn attribute_to_way(&mut self, ns: u64) -> bool {
        let same = |chain: &Chain| chain.cause == Cause::ServerThink;
        let Some(index) = self.chains.iter().position(same) else { return false };
        let chain = &mut self.chains[index];
        let answer = Concerned::of(Owner::Server, Cause::ServerThink).at(chain.gap.next.frame);
        let moved = self.ledger.transfer(answer, Slice::plain(Owner::Path, ns));
        chain.ns = chain.ns.saturating_sub(moved);
        chain.longest_ns = chain.longest_ns.saturating_sub(moved);
        if chain.ns == 0 {
            self.chains.swap_remove(index);
        }
        moved > 0
    }

    /// Attributes holds by Nagle's algorithm to the application, which worked or, if it `is_driven` by
    /// what comes, waited for a late ACK.
    fn attribute_to_application(&mut self, sender: Side, is_driven: bool) -> bool {
        let held = self
            .chains
            .iter()
            .find(|chain| chain.cause == Cause::NagleDelayedAck && chain.sender == sender);
        let Some(chain) = held else { return false };
        let (cause, owner) = match sender {
            _ if is_driven && chain.gap.waits_for_late_ack() => {
                (Cause::DelayedAck, Owner::DelayedAck)
            }
            Side::Client => (Cause::ClientThink, Owner::Client),
            Side::Server => (Cause::ServerThink, Owner::Server),
        };
        let held = Concerned::of(Owner::NagleDelayedAck, Cause::NagleDelayedAck).by(sender);
        self.ledger.transfer(held, Slice::of(owner, cause, chain.ns));
        self.rename(sender, Cause::NagleDelayedAck, cause)
    }

    /// Gives the time of earlier holds of `sender`, up to `ns`, to its application.
    fn absorb(&mut self, sender: Side, ns: u64) -> bool {
        let cause = Cause::NagleDelayedAck;
        let same = |chain: &Chain| chain.cause == cause && chain.sender == sender;
        let Some(index) = self.chains.iter().position(same) else { return false };
        let own = judge::busy(sender, ns.min(self.chains[index].ns));
        let held = Concerned::of(Owner::NagleDelayedAck, cause).by(sender);
        let moved_ns = self.ledger.transfer(held, own);
        let mut chain = self.chains[index].clone();
        let left = &mut self.chains[index];
        left.ns -= moved_ns;
        left.within_ns = left.within_ns.min(left.ns);
        left.longest_ns = left.longest_ns.min(left.ns);
        if left.ns == 0 {
            self.chains.swap_remove(index);
        }
        if let Some(own_cause) = own.cause {
            // The application pauses no more often than before: only the time moves.
            chain = Chain { cause: own_cause, ns: moved_ns, count: 0, long_count: 0, ..chain };
            chain.within_ns = chain.within_ns.min(moved_ns);
            chain.longest_ns = chain.longest_ns.min(moved_ns);
            self.join(chain);
        }
        moved_ns > 0
    }

    /// Removes the client's own time.
    fn remove_client_time(&mut self) -> bool {
        let paused_ns = self.ledger.of(Owner::Client);
        self.ledger.remove(Concerned::of(Owner::Client, Cause::ClientThink), paused_ns);
        self.chains.retain(|chain| chain.cause != Cause::ClientThink);
        paused_ns > 0
    }

    /// Gives the client's own time to the path, up to `way_ns`, and the rest to the server, which answers
    /// next.
    fn attribute_to_wait(&mut self, way_ns: u64) -> bool {
        let pause = Concerned::of(Owner::Client, Cause::ClientThink).by(Side::Client);
        let way_ns = self.ledger.transfer(pause, Slice::plain(Owner::Path, way_ns));
        let rest_ns = self.ledger.of(Owner::Client);
        self.waited_ns += self.ledger.transfer(pause, judge::busy(Side::Server, rest_ns));
        self.chains.retain(|chain| chain.cause != Cause::ClientThink);
        way_ns + rest_ns > 0
    }
}
