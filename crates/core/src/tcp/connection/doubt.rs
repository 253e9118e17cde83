//! Gaps whose owner only the next segment shows: either the sender's application was busy, or its
//! timer repaired a loss before the vantage.

use crate::app::Side;
use crate::capture::FrameId;
use crate::judge::{self, Gap, MissingPackets, Turn, busy, may_be_probe, may_be_timer, timed_out};
use crate::model::{Cause, Owner, Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Change;
use crate::tcp::sender::SinceDeparture;
use crate::wire::Segment;

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

    /// Returns the change that settles the doubt: the slice becomes `to`.
    fn change(&self, to: Slice) -> Change {
        Change::Slice { sender: self.sender, frame: self.frame, from: self.slice, to }
    }

    /// Returns whether the doubt concerns the gap that `segment` ended.
    pub fn is_about(&self, segment: &Segment) -> bool {
        self.frame == segment.frame
    }
}

impl Connection {
    /// Removes and returns the current doubt.
    pub(super) fn take_doubted(&mut self) -> Option<Doubted> {
        self.cold.as_mut()?.doubted.take().map(|doubted| *doubted)
    }

    /// Restores `doubted`, if there is one.
    pub(super) fn restore_doubt(&mut self, doubted: Option<Doubted>) {
        if let Some(doubted) = doubted {
            self.cold_mut().doubted = Some(Box::new(doubted));
        }
    }

    /// Returns whether `side` had more in its buffer after its last departure, and nothing else
    /// would show a loss before the vantage, because its packets carry no IP identification.
    pub(super) fn more_queued(&self, side: Side, continues: bool) -> bool {
        let sender = &self.senders[side as usize];
        continues
            && sender.habits.has_unsent(&sender.last)
            && sender.packets.last.ip_id == 0
            && !self.path.ends_here(side)
    }

    /// Decides whether the measured rate is only the pace of a sender that the receiver's window or
    /// its own buffer limits. The path was then busy for as long as the round trip shows. If the
    /// vantage is at the receiver, the sender's clock shows what sets the pace.
    pub(super) fn doubt_rate(&mut self, gap: &mut Gap, start: u64) {
        let rtt_receiver_ns = self.path.rtt_ns(gap.sender.peer());
        let known = self.setup.confirmed && !self.mid_stream;
        let arrives = self.beside_receiver(gap.sender);
        let sender = &mut self.senders[gap.sender as usize];
        if arrives {
            let bulk = sender.bulk.as_ref();
            gap.pace.by_limit = bulk.is_some_and(|bulk| bulk.is_spaced_by_sender());
            return;
        }
        let recent_ns = sender.rtts.recent_ns();
        let is_paced = sender
            .bulk
            .as_mut()
            .is_some_and(|bulk| bulk.is_paced_by_limit(gap, start, recent_ns, rtt_receiver_ns));
        gap.pace.by_limit = is_paced && known;
        if gap.pace.by_limit {
            gap.bottleneck.busy_ns =
                gap.bottleneck.busy_ns.min(sender.rtts.recent_ns().saturating_sub(rtt_receiver_ns));
        }
    }

    /// Keeps the gap if it may have to be judged again.
    pub(super) fn doubt(&mut self, gap: &Gap, slices: &Slices) {
        let (busy, lost) = (busy(gap.sender, 0).cause, timed_out(0).cause);
        // Time before the earliest start of the timer belongs to the application.
        let by_timer = slices.iter().find(|slice| slice.cause == lost);
        let doubted = by_timer.or(slices.iter().last()).filter(|_| may_be_timer(gap));
        let Some(&slice) = doubted.filter(|slice| [busy, lost].contains(&slice.cause)) else {
            self.cold.iter_mut().for_each(|cold| cold.doubted = None);
            return;
        };
        let sender = &mut self.senders[gap.sender as usize];
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
        let may_be_lost = gap.acks.lost || !self.path.ends_here(sender.peer());
        // Once the capture's clock was set, the length of a gap shows no timer.
        let timed = !self.clock_was_set();
        let probes = timed && may_be_probe(gap) && slice.cause == busy && may_be_lost;
        let missing =
            if slice.cause == lost { gap.losses.missing } else { MissingPackets::default() };
        let seen = gap.losses.missing.any()
            || gap.retransmission_triggered()
            || self.path.ends_here(sender);
        if seen && !probes && !missing.any() {
            self.cold.iter_mut().for_each(|cold| cold.doubted = None);
            return;
        }
        let unseen = gap.repair.unseen;
        let doubted = Doubted { sender, frame, slice, first_loss, skips, probes, missing, unseen };
        self.cold_mut().doubted = Some(Box::new(doubted));
    }

    /// Settles the doubt when `side` sends new data at position `start`.
    #[inline(never)]
    pub(super) fn settle_doubt(
        &mut self,
        side: Side,
        start: u64,
        segment: &Segment,
        since: &SinceDeparture,
    ) {
        let cold = self.cold.as_mut();
        let doubted = cold.and_then(|cold| cold.doubted.take_if(|doubted| doubted.sender == side));
        let Some(doubted) = doubted else { return };
        let whole = self.faults().missing_bytes == 0;
        let sender = &mut self.senders[side as usize];
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
                self.timeline.revise(&doubted.change(busy(side, ns)));
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
            self.timeline.revise(&doubted.change(timed_out(ns)));
            return;
        }
        // The sender waited for the ACK of that one segment and continues far ahead of it: the data
        // in between had been sent before, unless it is missing in the capture.
        let hole = start.saturating_sub(sender.space.nxt);
        let waited = segment.time_ns.saturating_sub(sender.last.time_ns) >= self.path.rtt_ns(side);
        if whole && clocked && waited && hole >= sender.sizes.smss() {
            let packets = hole.div_ceil(sender.sizes.smss().max(1));
            sender.note_unseen_loss(packets.min(u64::from(u32::MAX)) as u32);
            self.timeline.revise(&doubted.change(timed_out(ns)));
        }
    }

    /// Processes a late packet of `side` that was counted as missing. If all packets that indicated
    /// a loss have come, none was lost and the sender was busy.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_late(&mut self, side: Side, number: u16) {
        let doubted = self.cold.as_mut().and_then(|cold| cold.doubted.as_mut());
        let Some(doubted) = doubted.filter(|it| it.sender == side) else { return };
        if doubted.missing.arrived(number) && !doubted.missing.any() {
            self.revoke_loss(side);
        }
    }

    /// Processes data of `side` that seemed lost and has arrived: it is missing only in the
    /// capture.
    pub(super) fn arrived_unseen(&mut self, side: Side) {
        let doubted = self.cold.as_ref().and_then(|cold| cold.doubted.as_deref());
        if doubted.is_some_and(|doubted| doubted.unseen) {
            self.revoke_loss(side);
        }
    }

    /// Attributes a supposed loss of `side` to the time of its application.
    #[cold]
    #[inline(never)]
    fn revoke_loss(&mut self, side: Side) {
        let lost = timed_out(0).cause;
        let of_side = |it: &mut Box<Doubted>| it.sender == side && it.slice.cause == lost;
        let Some(doubted) = self.cold.as_mut().and_then(|cold| cold.doubted.take_if(of_side))
        else {
            return;
        };
        self.senders[side as usize].history_mut().losses.revoke_unseen(doubted.first_loss);
        let busy = busy(side, doubted.slice.ns);
        self.timeline.revise(&doubted.change(busy));
    }

    /// Processes a repair of skipped data by `side`, a round trip after the single segment that
    /// ended such a gap. That segment was a probe for a flight whose end was lost before the
    /// vantage (RFC 8985 §7.3), or the first that the timer sent.
    pub(super) fn settle_skipped(&mut self, side: Side, segment: &Segment) {
        let of_side = |doubted: &mut Box<Doubted>| doubted.sender == side && doubted.skips;
        let doubted = self.cold.as_mut().and_then(|cold| cold.doubted.take_if(of_side));
        let Some(doubted) = doubted else { return };
        let last = &self.senders[side as usize].last;
        let waited = segment.time_ns.saturating_sub(last.time_ns) >= self.path.rtt_ns(side);
        let busy = busy(side, doubted.slice.ns);
        if last.frame == doubted.frame && waited && doubted.slice.cause == busy.cause {
            self.timeline.revise(&doubted.change(timed_out(busy.ns)));
        }
    }

    /// Revises the attribution of `gap`, which ended with a fast retransmission of data that later
    /// segments had only overtaken. A client that has sent nothing since was waiting for the response,
    /// as if it had not sent the data again.
    pub(super) fn revise_overtaken(&mut self, gap: &Gap) {
        let lost = Cause::FastRecovery;
        let slices = judge::judge(gap);
        let only = slices.iter().all(|slice| slice.cause == Some(lost));
        if gap.sender == Side::Client && only && self.timeline.cursor_ns == gap.end_ns {
            let slice = Slice::of(Owner::FastRecovery, lost, gap.len_ns());
            self.timeline.continue_gap(gap.sender, slice, gap.start_ns);
            return;
        }
        let of_loss = slices.iter().filter(|slice| slice.cause == Some(lost));
        let ns = of_loss.map(|slice| slice.ns).sum();
        let (sender, frame) = (gap.sender, gap.next.frame);
        let (from, to) = (Slice::of(Owner::FastRecovery, lost, ns), judge::overtaken(ns));
        self.timeline.revise(&Change::Slice { sender, frame, from, to });
    }

    /// Revises the attribution of `gap`, which ended with a spurious retransmission: the sender's
    /// application was silent.
    pub(super) fn revise_spurious(&mut self, gap: &Gap) {
        let lost = timed_out(0).cause;
        let slices = judge::judge(gap);
        let only = slices.iter().count() == 1 && slices.iter().all(|slice| slice.cause == lost);
        if gap.sender == Side::Client
            && gap.repair.tail
            && only
            && self.timeline.cursor_ns == gap.end_ns
        {
            // The client was waiting for the response during the whole gap.
            self.timeline.continue_gap(gap.sender, timed_out(gap.len_ns()), gap.start_ns);
            return;
        }
        let ns = slices.iter().filter(|slice| slice.cause == lost).map(|slice| slice.ns).sum();
        let (sender, frame) = (gap.sender, gap.next.frame);
        let (from, to) = (timed_out(ns), busy(sender, ns));
        self.timeline.revise(&Change::Slice { sender, frame, from, to });
    }
}
