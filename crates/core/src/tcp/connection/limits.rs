//! Differences between the capture and what was sent: truncated headers and data, joined segments,
//! steps of the clock. Also congestion marks of routers.

use crate::app::Side;
use crate::capture::{FrameId, LATEST_NS, STEP_NS};
use crate::judge::thresholds::{INITIAL_WINDOW_BYTES, QUEUE_DELAY_MIN_NS};
use crate::judge::{Gap, Turn};
use crate::model::{Owner, Slice, Slices};
use crate::tcp::connection::cold::CaptureFaults;
use crate::tcp::connection::{Connection, is_pure_ack};
use crate::tcp::exchange::Change;
use crate::tcp::sender::Sender;
use crate::tcp::thresholds::CLOCK_STEP_SAME_NS;
use crate::wire::{Segment, SegmentFlags, TcpFlags};

/// A response whose timestamp shows that it was queued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    sender: Side,
    frame: FrameId,
    /// Slice attributed to the queue.
    slice: Slice,
    /// Queueing delay, ns.
    queued_ns: u64,
    /// Time at which it passed, ns.
    time_ns: u64,
    /// Timestamp of the peer's last packet before it.
    heard_before: u32,
    /// The peer has sent a packet since.
    is_heard: bool,
    /// The sender itself had so much in flight that it can have filled the queue.
    is_own: bool,
}

impl Connection {
    /// Records properties that few packets have: truncated headers and congestion marks.
    #[cold]
    pub(super) fn note_rare_properties(&mut self, side: Side, segment: &Segment) {
        if segment.facts.has(SegmentFlags::TRUNCATED_HEADER) {
            self.faults_mut().cut_headers += 1;
        }
        if self.setup.lacks_ecn() {
            return;
        }
        let [own, peer] = [side, side.peer()].map(|side| side as usize);
        if segment.facts.has(SegmentFlags::ECN_CE) {
            self.senders[own].history_mut().ecn.marked += 1;
        }
        // On a SYN the flag negotiates ECN (RFC 3168 §6.1.1).
        if segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::SYN) {
            self.senders[peer].history_mut().ecn.echoed += 1;
        }
        // A sender reacts to a mark as to a loss, and announces it once (RFC 3168 §6.1.2).
        if segment.flags.has(TcpFlags::CWR) && !segment.flags.has(TcpFlags::SYN) {
            self.senders[own].reduce_window();
        }
    }

    /// Returns whether the capture's clock was set while the connection was open.
    pub(super) fn clock_was_set(&self) -> bool {
        self.cold(|cold| &cold.faults).is_some_and(|faults| faults.clock_set)
    }

    /// Returns whether the clock was not set in the last `ns` before `segment`.
    pub(super) fn is_timed(&self, segment: &Segment, ns: u64) -> bool {
        let set_ns = self.cold(|cold| &cold.faults).map_or(0, |faults| faults.clock_set_ns);
        segment.time_ns.saturating_sub(ns) > set_ns || set_ns == 0
    }

    /// Returns the segment with a time that never goes backward. If `clock_odd`, the clock was set
    /// an odd number of times before it. After a step of the capture's clock durations are right
    /// again; the duration across the step is unknown.
    #[cold]
    pub(super) fn with_forward_time(&mut self, segment: &Segment, clock_odd: bool) -> Segment {
        let last_ns = self.last.time_ns;
        let before = self.cold(|cold| &cold.faults).copied().unwrap_or_default();
        // The clock is still behind, unless it was set forward again.
        let behind_ns = if segment.time_ns >= last_ns { 0 } else { before.behind_ns };
        let time_ns = segment.time_ns.saturating_add(behind_ns).min(LATEST_NS);
        let back_ns = last_ns.saturating_sub(time_ns);
        let reversed = back_ns > 0 && back_ns < STEP_NS && self.is_reversed(segment, &before);
        let steps = back_ns >= STEP_NS || reversed;
        let time_ns = time_ns.max(last_ns);
        if reversed {
            let faults = self.faults_mut();
            (faults.reversed, faults.raised_ns) = (before.reversed + 1, time_ns);
            if !self.mid_stream && !self.setup.is_established() {
                // The stamp of the SYN-ACK may be the wrong one.
                self.path.forget(Side::Server);
            }
        } else if back_ns > 0 || before.raised_ns > 0 {
            self.faults_mut().raised_ns = if back_ns > 0 { time_ns } else { 0 };
        }
        if steps || behind_ns != before.behind_ns || clock_odd != before.clock_odd {
            let faults = self.faults_mut();
            faults.behind_ns = behind_ns.saturating_add(if steps { back_ns } else { 0 });
            (faults.clock_set, faults.clock_odd, faults.clock_set_ns) = (true, clock_odd, time_ns);
            self.senders.iter_mut().for_each(Sender::clock_stepped);
        }
        Segment { time_ns, ..*segment }
    }

    /// Returns whether `segment`, which is stamped earlier than the segment before it, is the first to
    /// acknowledge that: an effect has passed before its cause, so that one of the two stamps is wrong.
    /// Interfaces and processors of one host deliver frames late, with the right times, but no ACK
    /// leaves before what it acknowledges. The stamp before must be that of its frame.
    fn is_reversed(&self, segment: &Segment, before: &CaptureFaults) -> bool {
        let last_ns = self.last.time_ns;
        let is_client = segment.from_high() == self.client_is_high;
        let peer = if is_client { Side::Server } else { Side::Client };
        let peer = &self.senders[peer as usize];
        let syn_ns = match is_client {
            true => self.setup.syn_ack_first_ns(),
            false => self.setup.syn_first_ns(),
        };
        let opens = segment.flags.has(TcpFlags::SYN) || is_client;
        let answers_syn = !self.setup.is_established() && opens && syn_ns == Some(last_ns);
        let answers_data = peer.last.time_ns == last_ns && peer.space.is_first_acked_by(segment);
        segment.flags.has(TcpFlags::ACK)
            && last_ns != before.raised_ns
            && (answers_syn || answers_data)
    }

    /// Counts a segment whose data was truncated, or that consists of joined segments.
    pub(super) fn note_limits(&mut self, side: Side, segment: &Segment) {
        let truncated = segment.captured_len < segment.payload_len;
        let longer =
            u64::from(segment.payload_len) > self.senders[side as usize].sizes.captured_max();
        if truncated || longer {
            let faults = self.faults_mut();
            faults.truncated += u64::from(truncated);
            faults.super_packets += u64::from(longer);
        }
    }

    /// Checks the clock when `side` answers at `now_ns`. If all data of the peer is acknowledged,
    /// the answer was sent after that data had arrived. A timestamp that shows a longer queueing
    /// delay is wrong: the capture's clock was set forward, or the sender's host was suspended.
    pub(super) fn check_clock(&mut self, side: Side, now_ns: u64) {
        let requester = &self.senders[side.peer() as usize];
        // If the request was repeated, the answer may be to its first copy.
        let once = requester.last.time_ns > 0 && !requester.is_troubled();
        let answers = once && requester.space.una_seen() >= requester.space.nxt;
        let under_way_ns = now_ns.saturating_sub(requester.last.time_ns);
        if answers && self.senders[side as usize].clock.queued_ns() > under_way_ns {
            self.senders.iter_mut().for_each(Sender::clock_stepped);
        }
    }

    /// Keeps a response whose timestamp shows that it was queued, until later packets show whether
    /// this is right.
    pub(super) fn doubt_queue(&mut self, gap: &Gap, slices: &Slices) {
        let queued_ns = self.senders[gap.sender as usize].clock.queued_ns();
        if gap.turn == Turn::Continues || queued_ns < QUEUE_DELAY_MIN_NS {
            return;
        }
        let slice = slices.iter().find(|slice| slice.owner == Owner::Queueing);
        if let Some(&slice) = slice {
            let (sender, frame, time_ns) = (gap.sender, gap.next.frame, gap.next.time_ns);
            let heard_before = self.senders[sender.peer() as usize].packets.last.tsval;
            self.cold_mut().queued = Some(Box::new(Queued {
                sender,
                frame,
                slice,
                queued_ns,
                time_ns,
                heard_before,
                is_heard: false,
                is_own: gap.flight.before > INITIAL_WINDOW_BYTES,
            }));
        }
    }

    /// Decides about such a response when `side` sends `segment`.
    #[cold]
    pub(super) fn settle_queued(&mut self, side: Side, segment: &Segment) {
        let Some(queued) = self.cold(|cold| &cold.queued).copied() else { return };
        let now_ns = self.senders[side as usize].clock.queued_ns();
        if segment.time_ns.saturating_sub(queued.time_ns) >= queued.queued_ns {
            self.cold_mut().queued = None;
        }
        if queued.sender == side {
            return self.settle_aged(&queued, now_ns, segment);
        }
        if queued.is_heard {
            return;
        }
        // If the timestamp of the peer shows the same delay, the clocks of both senders did not
        // count that time: the capture's clock was set forward.
        if now_ns.abs_diff(queued.queued_ns) <= CLOCK_STEP_SAME_NS {
            self.deny_queue(&queued);
            self.senders.iter_mut().for_each(Sender::clock_stepped);
        } else if let Some(queued) = self.cold_mut().queued.as_mut() {
            queued.is_heard = true;
        }
    }

    /// Decides about a response when its sender sends `segment`, which is queued for `now_ns`. A
    /// path is first in, first out. The sender's kernel acknowledged at once what its peer sent behind
    /// the response, so that the response was the last in a queue that is now empty, although less
    /// time has passed than the delay. Nothing of the sender itself filled that queue. So either the
    /// timestamp was taken long before the response was sent, or the path stood still. Where a delay
    /// of this sender has stayed before, others fill a queue.
    fn settle_aged(&mut self, queued: &Queued, now_ns: u64, segment: &Segment) {
        let is_later = |echo: u32| echo.wrapping_sub(queued.heard_before) as i32 > 0;
        if !queued.is_heard || !segment.echoes().is_some_and(is_later) {
            return;
        }
        let lost_ns = queued.queued_ns.saturating_sub(now_ns);
        let passed_ns = segment.time_ns.saturating_sub(queued.time_ns);
        let is_at_once = is_pure_ack(segment) && passed_ns < lost_ns;
        let cold = self.cold_mut();
        cold.queued = None;
        let stays = &mut cold.queue_stays[queued.sender as usize];
        *stays |= queued.is_own || now_ns >= queued.queued_ns / 2;
        if !*stays && is_at_once {
            self.deny_queue(queued);
        }
    }

    /// Attributes the time of a queue that did not exist to no owner.
    fn deny_queue(&mut self, queued: &Queued) {
        let unknown = Slice::plain(Owner::Unknown, queued.slice.ns);
        let (sender, frame, from) = (queued.sender, queued.frame, queued.slice);
        self.timeline.revise_any(&Change::Slice { sender, frame, from, to: unknown });
        self.cold_mut().queued = None;
    }

    /// Returns whether a response is held back until it is known whether it was queued.
    pub(super) fn awaits_queue(&self) -> bool {
        self.cold(|cold| &cold.queued).is_some()
    }
}
