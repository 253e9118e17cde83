//! Gaps whose owner is decided by the next segment: whether the sender's application was busy, or
//! its timer repaired a loss before the vantage.

use crate::app::Side;
use crate::capture::FrameId;
use crate::judge::{self, Gap, MissingPackets, Turn, busy, may_be_probe, may_be_timer, timed_out};
use crate::model::{Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Change;
use crate::tcp::sender::SinceDeparture;
use crate::wire::Segment;

/// A gap as judged at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubted {
    sender: Side,
    /// The departure that ended it.
    frame: FrameId,
    /// The slice in doubt.
    slice: Slice,
    /// Nothing had been lost before it.
    first_loss: bool,
    /// The departure lies ahead of the stream, and the one before it was not the end of what the
    /// sender had to send.
    skips: bool,
    /// The departure may be a tail loss probe.
    probes: bool,
    /// Packets missing in the gap.
    missing: MissingPackets,
    /// Data sent in the gap was not captured.
    unseen: bool,
}

impl Doubted {
    /// For a server that never had a loss: its response in `frame`, with `own_ns` of own time.
    pub fn of_answer(frame: FrameId, own_ns: u64) -> Self {
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

    /// The change of a doubt that is settled: the slice `is` another one.
    fn is(&self, is: Slice) -> Change {
        Change::Slice { sender: self.sender, frame: self.frame, was: self.slice, is }
    }

    /// Returns whether it is about the gap that `segment` ended.
    pub fn is_about(&self, segment: &Segment) -> bool {
        self.frame == segment.frame
    }
}

impl Connection {
    /// Takes the current doubt.
    pub(super) fn take_doubted(&mut self) -> Option<Doubted> {
        self.cold.as_mut()?.doubted.take().map(|doubted| *doubted)
    }

    /// Puts `doubted` back, if there is one.
    pub(super) fn give_back_doubt(&mut self, doubted: Option<Doubted>) {
        if let Some(doubted) = doubted {
            self.cold_mut().doubted = Some(Box::new(doubted));
        }
    }

    /// Returns whether `side` had more in its buffer after its last departure and a loss before
    /// the vantage would not show otherwise, because its packets have no identification.
    pub(super) fn more_queued(&self, side: Side, continues: bool) -> bool {
        let sender = &self.senders[side as usize];
        continues && sender.has_unsent() && sender.number() == 0 && !self.path.ends_here(side)
    }

    /// Decides whether the measured rate is only the pace of a sender that the receiver's window
    /// or its own buffer limits. The path was then busy for as long as the round trip shows. At
    /// the receiver, the sender's clock shows what sets the pace.
    pub(super) fn doubt_rate(&mut self, gap: &mut Gap, start: u64) {
        let rtt_receiver_ns = self.path.rtt_ns(gap.sender.peer());
        let known = self.setup.confirmed && !self.mid_stream;
        let arrives = self.beside_receiver(gap.sender);
        let half = &mut self.senders[gap.sender as usize];
        if arrives {
            gap.pace.by_limit = half.is_spaced_by_sender();
            return;
        }
        gap.pace.by_limit = half.paced_by_limit(gap, start, rtt_receiver_ns, known);
        if gap.pace.by_limit {
            gap.bottleneck.busy_ns =
                gap.bottleneck.busy_ns.min(half.rtt_recent_ns().saturating_sub(rtt_receiver_ns));
        }
    }

    /// Keeps the gap if it may have to be judged again.
    pub(super) fn doubt(&mut self, gap: &Gap, slices: &Slices) {
        let (busy, lost) = (busy(gap.sender, 0).cause, timed_out(0).cause);
        // Time before the timer can have started belongs to the application.
        let by_timer = slices.iter().find(|slice| slice.cause == lost);
        let doubted = by_timer.or(slices.iter().last()).filter(|_| may_be_timer(gap));
        let Some(&slice) = doubted.filter(|slice| [busy, lost].contains(&slice.cause)) else {
            self.cold.iter_mut().for_each(|cold| cold.doubted = None);
            return;
        };
        let half = &mut self.senders[gap.sender as usize];
        let first_loss = !half.history().losses.occurred;
        if slice.cause == lost {
            half.lost_unseen(gap.losses.missing.count);
        }
        let (sender, frame) = (gap.sender, gap.next.frame);
        let skips =
            gap.holed && gap.turn == Turn::Continues && !gap.last_small && !gap.unsent.drained;
        // At the receiver, an ACK that was lost has been seen.
        let may_be_lost = gap.acks.lost || !self.path.ends_here(sender.peer());
        // Once the capture's clock was set, the length of a gap shows no timer.
        let timed = !self.clock_was_set();
        let probes = timed && may_be_probe(gap) && slice.cause == busy && may_be_lost;
        let missing =
            if slice.cause == lost { gap.losses.missing } else { MissingPackets::default() };
        let seen =
            gap.losses.missing.any() || gap.repetition_triggered() || self.path.ends_here(sender);
        if seen && !probes && !missing.any() {
            self.cold.iter_mut().for_each(|cold| cold.doubted = None);
            return;
        }
        let unseen = gap.repair.unseen;
        let doubted = Doubted { sender, frame, slice, first_loss, skips, probes, missing, unseen };
        self.cold_mut().doubted = Some(Box::new(doubted));
    }

    /// Settles the doubt as `side` sends new data at position `start`.
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
        let half = &mut self.senders[side as usize];
        if half.last.frame != doubted.frame || doubted.missing.any() {
            return;
        }
        let (was, ns) = (doubted.slice, doubted.slice.ns);
        let clocked = since.acks.last.is_some_and(|ack| ack.acked_all);
        if was.cause == timed_out(0).cause {
            // A timeout leaves a window of one segment (RFC 5681 §3.1): several at once come from
            // an application that goes on.
            if !clocked && start == half.nxt {
                half.found_again(doubted.first_loss);
                self.timeline.revise(&doubted.is(busy(side, ns)));
            }
            return;
        }
        // The first ACK to arrive also covers the probe: the ACKs of the flight before it were
        // lost. Had they only been late, they would have come before it. If the window shrinks,
        // the application does not read, and Linux delays ACKs.
        let shrinks = half.window() < since.window_before;
        if doubted.probes && clocked && since.acks.count == 1 && !shrinks && start == half.nxt {
            self.timeline.revise(&doubted.is(timed_out(ns)));
            return;
        }
        // The sender waited for the ACK of that one segment and goes on far ahead of it: the data
        // in between had been sent before, unless the capture misses it.
        let hole = start.saturating_sub(half.nxt);
        let waited = segment.time_ns.saturating_sub(half.last.time_ns) >= self.path.rtt_ns(side);
        if whole && clocked && waited && hole >= half.smss() {
            let packets = hole.div_ceil(half.smss().max(1));
            half.lost_unseen(packets.min(u64::from(u32::MAX)) as u32);
            self.timeline.revise(&doubted.is(timed_out(ns)));
        }
    }

    /// Handles a late packet of `side` that was counted as missing: if all packets that indicated
    /// a loss have come, none was lost and the sender was busy.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_late(&mut self, side: Side, number: u16) {
        let doubted = self.cold.as_mut().and_then(|cold| cold.doubted.as_mut());
        let Some(doubted) = doubted.filter(|it| it.sender == side) else { return };
        if doubted.missing.arrived(number) && !doubted.missing.any() {
            self.find_again(side);
        }
    }

    /// Handles data of `side` that seemed lost and has arrived: only the capture misses it.
    pub(super) fn arrived_unseen(&mut self, side: Side) {
        let doubted = self.cold.as_ref().and_then(|cold| cold.doubted.as_deref());
        if doubted.is_some_and(|doubted| doubted.unseen) {
            self.find_again(side);
        }
    }

    /// Revises a loss of `side` to its application's time.
    #[cold]
    #[inline(never)]
    fn find_again(&mut self, side: Side) {
        let lost = timed_out(0).cause;
        let of_side = |it: &mut Box<Doubted>| it.sender == side && it.slice.cause == lost;
        let Some(doubted) = self.cold.as_mut().and_then(|cold| cold.doubted.take_if(of_side))
        else {
            return;
        };
        self.senders[side as usize].found_again(doubted.first_loss);
        let busy = busy(side, doubted.slice.ns);
        self.timeline.revise(&doubted.is(busy));
    }

    /// Handles a repair of skipped data by `side`, a round trip after a lone segment that ended
    /// such a gap: that segment was a probe for a flight whose end was lost before the vantage
    /// (RFC 8985 §7.3), or the first that the timer let go.
    pub(super) fn settle_skipped(&mut self, side: Side, segment: &Segment) {
        let of_side = |doubted: &mut Box<Doubted>| doubted.sender == side && doubted.skips;
        let doubted = self.cold.as_mut().and_then(|cold| cold.doubted.take_if(of_side));
        let Some(doubted) = doubted else { return };
        let last = &self.senders[side as usize].last;
        let waited = segment.time_ns.saturating_sub(last.time_ns) >= self.path.rtt_ns(side);
        let busy = busy(side, doubted.slice.ns);
        if last.frame == doubted.frame && waited && doubted.slice.cause == busy.cause {
            self.timeline.revise(&doubted.is(timed_out(busy.ns)));
        }
    }

    /// Revises a needless retransmission that ended `gap`: the sender's application was silent.
    pub(super) fn take_back(&mut self, gap: &Gap) {
        let lost = timed_out(0).cause;
        let slices = judge::judge(gap);
        let only = slices.iter().count() == 1 && slices.iter().all(|slice| slice.cause == lost);
        if gap.sender == Side::Client
            && gap.repair.tail
            && only
            && self.timeline.cursor_ns == gap.end_ns
        {
            // The client was waiting for the response all the time.
            self.timeline.continue_gap(gap.sender, timed_out(gap.len_ns()), gap.start_ns);
            return;
        }
        let ns = slices.iter().filter(|slice| slice.cause == lost).map(|slice| slice.ns).sum();
        let (sender, frame) = (gap.sender, gap.next.frame);
        let (was, is) = (timed_out(ns), busy(sender, ns));
        self.timeline.revise(&Change::Slice { sender, frame, was, is });
    }
}
