//! Waits of a sender with a full send buffer: it has nothing more to send until an ACK makes room
//! and the application writes again. Also counts whether a sender waits for messages of its peer
//! instead.

use crate::app::Side;
use crate::judge::thresholds::{AT_ONCE_PART, CLOCKED_SEGMENTS};
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Owner, Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Change;
use crate::tcp::sender::Near;
use crate::tcp::thresholds::TRAIN_PART;
use crate::wire::Segment;

/// A wait for an ACK that ended with less than a full segment; this segment emptied the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    slice: Slice,
    gap: Gap,
}

impl Connection {
    /// Keeps a wait for an ACK that ended with less than a full segment, until the next segment
    /// shows the cause of the wait. A sender with only a few segments in flight waits for something
    /// else.
    pub(super) fn note_blocked(&mut self, gap: &Gap, slices: &Slices) {
        let held = |slice: &&Slice| {
            let causes = [Cause::NagleDelayedAck, Cause::SlowStart, Cause::CongestionWindow];
            slice.cause.is_some_and(|cause| causes.contains(&cause))
        };
        let Some(&slice) = slices.iter().find(held) else { return };
        let emptied = gap.turn == Turn::Continues
            && !gap.repair.is_retransmission()
            && gap.next_small()
            && gap.ack_triggered()
            && !gap.window.limits(gap.next_segment())
            && gap.flight.before > CLOCKED_SEGMENTS * gap.smss;
        if emptied {
            self.cold_mut().blocked = Some(Box::new(Blocked { slice, gap: *gap }));
        }
    }

    /// Decides about such a wait when `side` sends `segment`. Data that the kernel holds back,
    /// because of the congestion window or Nagle's algorithm, is joined with data written later
    /// (RFC 9293 §3.8.6.2.1). If full segments directly follow a partial one, they were written
    /// only after the ACK made room.
    pub(super) fn settle_blocked(&mut self, side: Side, segment: &Segment) {
        let of_side = |blocked: &mut Box<Blocked>| blocked.gap.sender == side;
        let Some(blocked) = self.cold.as_mut().and_then(|it| it.blocked.take_if(of_side)) else {
            return;
        };
        let Blocked { slice, gap } = *blocked;
        let sender = &mut self.senders[side as usize];
        let apart_ns = segment.time_ns.saturating_sub(sender.last.time_ns);
        let goes_on = sender.last.frame == gap.next.frame
            && u64::from(segment.payload_len) >= sender.sizes.smss()
            && apart_ns <= gap.len_ns() / AT_ONCE_PART;
        if !goes_on {
            return;
        }
        if slice.cause == Some(Cause::NagleDelayedAck) {
            let nagle = &mut sender.history_mut().nagle.evidence;
            nagle.holds = nagle.holds.saturating_sub(1);
        }
        let bulk = sender.bulk.get_or_insert_default();
        bulk.note_full_buffer(&gap);
        let to = Slice::of(Owner::SendBuffer, Cause::SendBuffer, slice.ns);
        let (sender, frame, from) = (side, gap.next.frame, slice);
        self.timeline.revise(&Change::Slice { sender, frame, from, to });
    }

    /// Processes the ACK in `segment` for data of `side.peer()`; returns the round-trip sample of
    /// [`Sender::acked`]. For a bulk sender it also records when this last acknowledged data of its
    /// peer, and when that data had passed.
    pub(super) fn take_ack(&mut self, side: Side, segment: &Segment, near: Near) -> Option<u64> {
        let tsval = self.senders[side as usize].space.stamp_echoed(segment);
        let peer = &mut self.senders[side.peer() as usize];
        let (sample, peer_data_ns) = peer.acked(segment, near, tsval);
        if peer_data_ns > 0
            && let Some(bulk) = &mut self.senders[side as usize].bulk
        {
            bulk.peer_acked_ns = (segment.time_ns, peer_data_ns);
        }
        sample
    }

    /// Counts whether the sender of `gap`, which had data in flight all the time, continued just
    /// when data of its peer reached it, or at another time.
    pub(super) fn count_continuation(&mut self, gap: &Gap) {
        if TRAIN_PART * gap.len_ns() < gap.rtt.base_ns {
            return;
        }
        let Some(bulk) = &mut self.senders[gap.sender as usize].bulk else { return };
        let (at_ns, peer_data_ns) = bulk.peer_acked_ns;
        let reached_ns = peer_data_ns + gap.rtt.sender_ns;
        let at_once = reached_ns + gap.trigger_tolerance_ns() >= gap.end_ns;
        bulk.continuations[usize::from(!(at_once && at_ns >= gap.start_ns))] += 1;
    }
}
