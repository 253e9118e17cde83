//! Waits of a sender with a full send buffer: it has nothing more to send until an ACK makes room
//! and the application writes again. Also counts whether a sender waits for messages of its peer
//! instead.

use crate::judge::thresholds::{AT_ONCE_PART, CLOCKED_SEGMENTS};
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Owner, Slice, Slices};
use crate::tcp::connection::questions::{Questions, Settling};
use crate::tcp::exchange::Change;
use crate::tcp::sender::{Near, Sender};
use crate::tcp::thresholds::TRAIN_PART;
use crate::wire::{BySide, Segment, Side};

/// A wait for an ACK that ended with less than a full segment; this segment emptied the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    slice: Slice,
    gap: Gap,
}

impl Blocked {
    /// Returns what is kept of a wait for an ACK that ended with less than a full segment, until the
    /// next segment shows the cause of the wait. A sender with only a few segments in flight waits
    /// for something else.
    pub fn of(gap: &Gap, slices: &Slices) -> Option<Self> {
        let held = |slice: &&Slice| {
            let causes = [Cause::NagleDelayedAck, Cause::SlowStart, Cause::CongestionWindow];
            slice.cause.is_some_and(|cause| causes.contains(&cause))
        };
        let &slice = slices.iter().find(held)?;
        let emptied = gap.turn == Turn::Continues
            && !gap.repair.is_retransmission()
            && gap.next_small()
            && gap.ack_triggered()
            && !gap.window.limits(gap.next_segment())
            && gap.flight.before > CLOCKED_SEGMENTS * gap.smss;
        emptied.then_some(Self { slice, gap: *gap })
    }
}

impl Questions {
    /// Decides about such a wait when `side` sends `segment`. Data that the kernel holds back,
    /// because of the congestion window or Nagle's algorithm, is joined with data written later
    /// (RFC 9293 §3.8.6.2.1). If full segments directly follow a partial one, they were written
    /// only after the ACK made room.
    pub fn settle_blocked(&mut self, side: Side, segment: &Segment, by: &mut Settling<'_>) {
        let of_side = |blocked: &mut Box<Blocked>| blocked.gap.sender == side;
        let Some(blocked) = self.blocked.take_if(of_side) else { return };
        let Blocked { slice, gap } = *blocked;
        let sender = &mut by.senders[side];
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
        by.timeline.exchanges.revise(&Change::Slice { sender, frame, from, to });
    }
}

/// Processes the ACK in `segment` for data of `side.peer()`; returns the round-trip sample of
/// [`Sender::acked`]. For a bulk sender it also records when this last acknowledged data of its
/// peer, and when that data had passed.
pub(super) fn take_ack(
    senders: &mut BySide<Sender>,
    side: Side,
    segment: &Segment,
    near: Near,
) -> Option<u64> {
    let tsval = senders[side].space.stamp_echoed(segment);
    let (sample, peer_data_ns) = senders[side.peer()].acked(segment, near, tsval);
    if peer_data_ns > 0
        && let Some(bulk) = &mut senders[side].bulk
    {
        bulk.peer_acked_ns = (segment.time_ns, peer_data_ns);
    }
    sample
}

/// Counts whether the `sender` of `gap`, which had data in flight all the time, continued just when
/// data of its peer reached it, or at another time.
pub(super) fn count_continuation(sender: &mut Sender, gap: &Gap) {
    if TRAIN_PART * gap.len_ns() < gap.rtt.base_ns {
        return;
    }
    let Some(bulk) = &mut sender.bulk else { return };
    let (at_ns, peer_data_ns) = bulk.peer_acked_ns;
    let reached_ns = peer_data_ns + gap.rtt.sender_ns;
    let at_once = reached_ns + gap.trigger_tolerance_ns() >= gap.end_ns;
    bulk.continuations[usize::from(!(at_once && at_ns >= gap.start_ns))] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::connection::questions::tests::{Waiting, frame};

    const NS: u64 = 40_000_000;

    /// Returns the time of a full buffer after a segment that comes `apart_ns` after the partial one.
    fn buffer_ns(apart_ns: u64) -> u64 {
        let slice = Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, NS);
        let mut waiting = Waiting::attributed_to(slice);
        let mut gap = Gap { sender: Side::Server, end_ns: NS, ..Gap::default() };
        gap.next.frame = frame();
        let blocked = Some(Box::new(Blocked { slice, gap }));
        let mut questions = Questions { blocked, ..Questions::default() };
        let last = &mut waiting.senders[Side::Server].last;
        (last.frame, last.time_ns) = (frame(), NS);
        let full = Segment { time_ns: NS + apart_ns, payload_len: 60_000, ..Segment::default() };
        questions.settle_blocked(Side::Server, &full, &mut waiting.settling());
        assert!(questions.blocked.is_none());
        waiting.ns_of(Owner::SendBuffer)
    }

    #[test]
    fn full_segments_directly_behind_a_partial_one_were_written_after_the_ack() {
        assert_eq!(buffer_ns(1_000), NS);
        assert_eq!(buffer_ns(NS), 0);
    }
}
