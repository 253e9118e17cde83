//! Gaps whose owner only the next segment shows: either the sender's application was busy, or its
//! timer repaired a loss before the vantage.

use crate::capture::FrameId;
use crate::judge::{self, Gap, MissingPackets, Turn, busy, may_be_probe, may_be_timer, timed_out};
use crate::model::{Cause, Owner, Slice, Slices};
use crate::tcp::connection::cold::Cold;
use crate::tcp::connection::questions::{Questions, Settling};
use crate::tcp::exchange::Change;
use crate::tcp::path::Path;
use crate::tcp::sender::{Sender, SinceDeparture};
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Segment, Side};

/// A gap that was judged at its end, and whose owner may still change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubted {
    sender: Side,
    /// The departure that ended the gap.
    frame: FrameId,
    /// The slice in doubt.
    slice: Slice,
    /// Nothing had been lost before the gap.
    first_loss: bool,
    /// The departure leaves a hole in the stream, and the one before it was not the end of what the
    /// sender had to send.
    skips: bool,
    /// The departure may be a tail loss probe (RFC 8985 §7).
    probes: bool,
    /// Packets missing in the gap.
    missing: MissingPackets,
    /// Data sent in the gap was not captured.
    unseen: bool,
}

impl Doubted {
    /// Creates the doubt about a server that never had a loss: its response in `frame` came after
    /// `own_ns` of its own time.
    pub fn of_response(frame: FrameId, own_ns: u64) -> Self {
        let slice = busy(Side::Server, own_ns);
        let [skips, probes] = [false; 2];
        let sender = Side::Server;
        Self {
            sender,
            frame,
            slice,
            first_loss: true,
            skips,
            probes,
            missing: MissingPackets::default(),
            unseen: false,
        }
    }

    /// Returns the doubt about `gap`, which `sender` ended, if it may have to be judged again. Once
    /// the capture's clock was set (`clock_set`), the length of a gap shows no timer.
    pub fn of(
        gap: &Gap,
        slices: &Slices,
        sender: &mut Sender,
        path: &Path,
        clock_set: bool,
    ) -> Option<Self> {
        let (busy, lost) = (busy(gap.sender, 0).cause, timed_out(0).cause);
        // Time before the earliest start of the timer belongs to the application.
        let by_timer = slices.iter().find(|slice| slice.cause == lost);
        let doubted = by_timer.or(slices.iter().last()).filter(|_| may_be_timer(gap));
        let &slice = doubted.filter(|slice| [busy, lost].contains(&slice.cause))?;
        let first_loss = !sender.history().losses.occurred;
        if slice.cause == lost {
            sender.note_unseen_loss(gap.losses.missing.count);
        }
        let (sender, frame) = (gap.sender, gap.next.frame);
        let skips = gap.misses_data
            && gap.turn == Turn::Continues
            && !gap.last_small
            && !gap.unsent.drained;
        // If the vantage is at the receiver, a lost ACK has been seen.
        let may_be_lost = gap.acks.lost || !path.ends_here(sender.peer());
        let probes = !clock_set && may_be_probe(gap) && slice.cause == busy && may_be_lost;
        let missing =
            if slice.cause == lost { gap.losses.missing } else { MissingPackets::default() };
        let seen =
            gap.losses.missing.any() || gap.retransmission_triggered() || path.ends_here(sender);
        let unseen = gap.repair.unseen;
        let doubted = Self { sender, frame, slice, first_loss, skips, probes, missing, unseen };
        (!seen || probes || missing.any()).then_some(doubted)
    }

    /// Returns the change that settles the doubt: the slice becomes `to`.
    fn change(&self, to: Slice) -> Change {
        Change::Slice { sender: self.sender, frame: self.frame, from: self.slice, to }
    }

    /// Returns whether the doubt concerns the gap that `segment` ended.
    pub fn is_about(&self, segment: &Segment) -> bool {
        self.frame == segment.frame
    }
}

impl Questions {
    /// Settles the doubt when `side` sends new data at position `start`. The capture `is_whole` if
    /// nothing was acknowledged that it does not contain.
    #[inline(never)]
    pub fn settle_doubt(
        &mut self,
        side: Side,
        (start, segment): (u64, &Segment),
        since: &SinceDeparture,
        is_whole: bool,
        by: &mut Settling<'_>,
    ) {
        let Some(doubted) = self.doubted.take_if(|doubted| doubted.sender == side) else { return };
        let sender = &mut by.senders[side];
        if sender.last.frame != doubted.frame || doubted.missing.any() {
            return;
        }
        let (was, ns) = (doubted.slice, doubted.slice.ns);
        let clocked = since.acks.last.is_some_and(|ack| ack.acked_all);
        if was.cause == timed_out(0).cause {
            // A timeout leaves a window of one segment (RFC 5681 §3.1): several segments at once
            // come from an application that continues.
            if !clocked && start == sender.space.nxt {
                sender.history_mut().losses.revoke_unseen(doubted.first_loss);
                by.timeline.exchanges.revise(&doubted.change(busy(side, ns)));
            }
            return;
        }
        // The first ACK to arrive also covers the probe: the ACKs of the flight before it were
        // lost. Had they only been late, they would have come before it. If the window shrinks, the
        // application does not read, and Linux delays ACKs.
        let shrinks = sender.space.window() < since.window_before;
        if doubted.probes
            && clocked
            && since.acks.count == 1
            && !shrinks
            && start == sender.space.nxt
        {
            by.timeline.exchanges.revise(&doubted.change(timed_out(ns)));
            return;
        }
        // The sender waited for the ACK of that one segment and continues far ahead of it: the data
        // in between had been sent before, unless it is missing in the capture.
        let hole = start.saturating_sub(sender.space.nxt);
        let waited = segment.time_ns.saturating_sub(sender.last.time_ns) >= by.path.rtt_ns(side);
        if is_whole && clocked && waited && hole >= sender.sizes.smss() {
            let packets = hole.div_ceil(sender.sizes.smss().max(1));
            sender.note_unseen_loss(packets.min(u64::from(u32::MAX)) as u32);
            by.timeline.exchanges.revise(&doubted.change(timed_out(ns)));
        }
    }

    /// Processes a late packet of `side` that was counted as missing. If all packets that indicated
    /// a loss have come, none was lost and the sender was busy.
    #[cold]
    #[inline(never)]
    pub fn settle_late(&mut self, side: Side, number: u16, by: &mut Settling<'_>) {
        let Some(doubted) = self.doubted.as_mut().filter(|it| it.sender == side) else { return };
        if doubted.missing.arrived(number) && !doubted.missing.any() {
            self.revoke_loss(side, by);
        }
    }

    /// Processes data of `side` that seemed lost and has arrived: it is missing only in the
    /// capture.
    pub fn arrived_unseen(&mut self, side: Side, by: &mut Settling<'_>) {
        if self.doubted.as_deref().is_some_and(|doubted| doubted.unseen) {
            self.revoke_loss(side, by);
        }
    }

    /// Attributes a supposed loss of `side` to the time of its application.
    #[cold]
    #[inline(never)]
    fn revoke_loss(&mut self, side: Side, by: &mut Settling<'_>) {
        let lost = timed_out(0).cause;
        let of_side = |it: &mut Box<Doubted>| it.sender == side && it.slice.cause == lost;
        let Some(doubted) = self.doubted.take_if(of_side) else { return };
        by.senders[side].history_mut().losses.revoke_unseen(doubted.first_loss);
        let busy = busy(side, doubted.slice.ns);
        by.timeline.exchanges.revise(&doubted.change(busy));
    }

    /// Processes a repair of skipped data by `side`, a round trip after the single segment that
    /// ended such a gap. That segment was a probe for a flight whose end was lost before the
    /// vantage (RFC 8985 §7.3), or the first that the timer sent.
    pub fn settle_skipped(&mut self, side: Side, segment: &Segment, by: &mut Settling<'_>) {
        let of_side = |doubted: &mut Box<Doubted>| doubted.sender == side && doubted.skips;
        let Some(doubted) = self.doubted.take_if(of_side) else { return };
        let last = &by.senders[side].last;
        let waited = segment.time_ns.saturating_sub(last.time_ns) >= by.path.rtt_ns(side);
        let busy = busy(side, doubted.slice.ns);
        if last.frame == doubted.frame && waited && doubted.slice.cause == busy.cause {
            by.timeline.exchanges.revise(&doubted.change(timed_out(busy.ns)));
        }
    }
}

/// Returns whether `sender`, which `continues`, had more in its buffer after its last departure, and
/// nothing else would show a loss before the vantage, because its packets carry no IP
/// identification.
pub(super) fn more_queued(sender: &Sender, path: &Path, side: Side, continues: bool) -> bool {
    continues
        && sender.habits.has_unsent(&sender.last)
        && sender.packets.last.ip_id == 0
        && !path.ends_here(side)
}

/// Decides whether the measured rate is only the pace of a sender that the receiver's window or its
/// own buffer limits. The path was then busy for as long as the round trip to the receiver
/// shows. If the vantage is at the receiver, where all data `arrives`, the sender's clock shows what
/// sets the pace. The window is known from its beginning if `is_known`.
pub(super) fn doubt_rate(
    gap: &mut Gap,
    start: u64,
    senders: &mut BySide<Sender>,
    path: &Path,
    (arrives, is_known): (bool, bool),
) {
    let sender = &mut senders[gap.sender];
    let rtt_receiver_ns = path.rtt_ns(gap.sender.peer());
    if arrives {
        gap.pace.by_limit = sender.bulk.as_ref().is_some_and(|bulk| bulk.is_spaced_by_sender());
        return;
    }
    let recent_ns = sender.rtts.recent_ns();
    let is_paced = sender
        .bulk
        .as_mut()
        .is_some_and(|bulk| bulk.is_paced_by_limit(gap, start, recent_ns, rtt_receiver_ns));
    gap.pace.by_limit = is_paced && is_known;
    if gap.pace.by_limit {
        gap.bottleneck.busy_ns =
            gap.bottleneck.busy_ns.min(sender.rtts.recent_ns().saturating_sub(rtt_receiver_ns));
    }
}

/// Revises the attribution of `gap`, which ended with a fast retransmission of data that later
/// segments had only overtaken. A client that has sent nothing since was waiting for the response,
/// as if it had not sent the data again.
pub(super) fn revise_overtaken(timeline: &mut Timeline, gap: &Gap) {
    let lost = Cause::FastRecovery;
    let slices = judge::judge(gap);
    let only = slices.iter().all(|slice| slice.cause == Some(lost));
    if gap.sender == Side::Client && only && timeline.cursor_ns == gap.end_ns {
        let slice = Slice::of(Owner::FastRecovery, lost, gap.len_ns());
        timeline.continue_gap(gap.sender, slice, gap.start_ns);
        return;
    }
    let of_loss = slices.iter().filter(|slice| slice.cause == Some(lost));
    let ns = of_loss.map(|slice| slice.ns).sum();
    let (sender, frame) = (gap.sender, gap.next.frame);
    let (from, to) = (Slice::of(Owner::FastRecovery, lost, ns), judge::overtaken(ns));
    timeline.exchanges.revise(&Change::Slice { sender, frame, from, to });
}

/// Revises the attribution of `gap`, which ended with a spurious retransmission: the sender's
/// application was silent.
pub(super) fn revise_spurious(timeline: &mut Timeline, gap: &Gap) {
    let lost = timed_out(0).cause;
    let slices = judge::judge(gap);
    let only = slices.iter().count() == 1 && slices.iter().all(|slice| slice.cause == lost);
    if gap.sender == Side::Client && gap.repair.tail && only && timeline.cursor_ns == gap.end_ns {
        // The client was waiting for the response during the whole gap.
        timeline.continue_gap(gap.sender, timed_out(gap.len_ns()), gap.start_ns);
        return;
    }
    let ns = slices.iter().filter(|slice| slice.cause == lost).map(|slice| slice.ns).sum();
    let (sender, frame) = (gap.sender, gap.next.frame);
    let (from, to) = (timed_out(ns), busy(sender, ns));
    timeline.exchanges.revise(&Change::Slice { sender, frame, from, to });
}

/// Keeps `gap` if it may have to be judged again.
pub(super) fn note_doubt(
    cold: &mut Cold,
    senders: &mut BySide<Sender>,
    path: &Path,
    gap: &Gap,
    slices: &Slices,
) {
    let sender = &mut senders[gap.sender];
    let clock_set = cold.clock_was_set();
    cold.set_doubt(Doubted::of(gap, slices, sender, path, clock_set));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Owner;
    use crate::tcp::connection::questions::tests::{Waiting, frame};

    const NS: u64 = 300_000_000;

    fn doubted(slice: Slice) -> Questions {
        let doubted = Doubted { slice, unseen: true, ..Doubted::of_response(frame(), NS) };
        Questions { doubted: Some(Box::new(doubted)), ..Questions::default() }
    }

    #[test]
    fn data_that_has_arrived_was_not_lost() {
        let mut waiting = Waiting::attributed_to(timed_out(NS));
        let mut questions = doubted(timed_out(NS));
        questions.arrived_unseen(Side::Server, &mut waiting.settling());
        assert_eq!(waiting.ns_of(Owner::RetransmissionTimeout), 0);
        assert_eq!(waiting.ns_of(Owner::Server), NS);
        assert!(questions.doubted.is_none());
    }

    #[test]
    fn a_doubt_about_one_side_is_not_settled_by_the_other() {
        let mut waiting = Waiting::attributed_to(timed_out(NS));
        let mut questions = doubted(timed_out(NS));
        questions.arrived_unseen(Side::Client, &mut waiting.settling());
        assert_eq!(waiting.ns_of(Owner::RetransmissionTimeout), NS);
        assert!(questions.doubted.is_some());
    }

    #[test]
    fn a_repair_of_skipped_data_a_round_trip_later_shows_a_timeout() {
        let mut waiting = Waiting::attributed_to(busy(Side::Server, NS));
        let mut questions = doubted(busy(Side::Server, NS));
        if let Some(doubted) = &mut questions.doubted {
            doubted.skips = true;
        }
        waiting.senders[Side::Server].last.frame = frame();
        let repair = Segment { time_ns: 2 * NS, ..Segment::default() };
        questions.settle_skipped(Side::Server, &repair, &mut waiting.settling());
        assert_eq!(waiting.ns_of(Owner::RetransmissionTimeout), NS);
    }
}
