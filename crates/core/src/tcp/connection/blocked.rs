//! A sender whose buffer was full: it had nothing more to send until an ACK made room, and then its
//! application wrote on. Or one that only seems so, and waits for words of its peer.

use super::*;

/// What follows so many times sooner than the wait before it took was not waited for.
const AT_ONCE: u64 = 8;

/// A sender that was silent for a smaller part of a round trip went on within a train of ACKs.
const STOP_PART: u64 = 4;

/// A wait for an ACK that ended with less than a segment: all that was left in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    slice: Slice,
    gap: Gap,
}

impl Connection {
    /// Keeps a wait for an ACK that ended with less than a segment, until it is seen what follows. Who
    /// has few segments under way waits for something else.
    pub(super) fn note_blocked(&mut self, gap: &Gap, slices: &Slices) {
        let held = |slice: &&Slice| {
            let causes = [Cause::NagleDelayedAck, Cause::SlowStart, Cause::CongestionWindow];
            slice.cause.is_some_and(|cause| causes.contains(&cause))
        };
        let Some(&slice) = slices.iter().find(held) else { return };
        let emptied = gap.turn == Turn::Continues
            && gap.retransmission.is_none()
            && gap.next_small()
            && gap.ack_triggered()
            && !gap.window_limited()
            && gap.flight_before > 4 * gap.smss;
        if emptied {
            self.cold_mut().blocked = Some(Box::new(Blocked { slice, gap: *gap }));
        }
    }

    /// `side` goes on. What its kernel holds back, by its congestion window or Nagle's algorithm, it
    /// puts together with what is written later (RFC 9293 §3.8.6.2.1): where a part of a segment leaves
    /// and full ones right after it, these were not written before there was room for them.
    pub(super) fn settle_blocked(&mut self, side: Side, segment: &Segment) {
        let of_side = |blocked: &mut Box<Blocked>| blocked.gap.sender == side;
        let Some(blocked) = self.cold.as_mut().and_then(|it| it.blocked.take_if(of_side)) else {
            return;
        };
        let Blocked { slice, gap } = *blocked;
        let half = &mut self.senders[side as usize];
        let apart_ns = segment.time_ns.saturating_sub(half.last.time_ns);
        let goes_on = half.last.frame == gap.next.frame
            && u64::from(segment.payload_len) >= half.smss()
            && apart_ns <= gap.len_ns() / AT_ONCE;
        if !goes_on {
            return;
        }
        if slice.cause == Some(Cause::NagleDelayedAck) {
            let trouble = half.trouble_mut();
            trouble.nagle_holds = trouble.nagle_holds.saturating_sub(1);
        }
        let bulk = half.bulk.get_or_insert_default();
        bulk.was_full(&gap);
        let is = Slice::of(Owner::SendBuffer, Cause::SendBuffer, slice.ns);
        self.timeline.revise(side, gap.next.frame, slice, is);
    }

    /// An ACK of what `side.peer()` sent passes with `segment`. Answers what [`Sender::acked`] does; of a
    /// sender of bulk it is kept which words of its peer it acknowledged last.
    pub(super) fn take_ack(&mut self, side: Side, segment: &Segment, near: Near) -> Option<u64> {
        let tsval = self.senders[side as usize].stamp_echoed(segment);
        let peer = &mut self.senders[side.peer() as usize];
        let (sample, said_ns) = peer.acked(segment, near, tsval);
        if said_ns > 0
            && let Some(bulk) = &mut self.senders[side as usize].bulk
        {
            bulk.answered_ns = (segment.time_ns, said_ns);
        }
        sample
    }

    /// The sender of `gap`, which it waited out with a flight under way, goes on: notes whether what
    /// its peer had said had just come to it.
    pub(super) fn note_grant(&mut self, gap: &Gap) {
        if STOP_PART * gap.len_ns() < gap.rtt_base_ns {
            return;
        }
        let Some(bulk) = &mut self.senders[gap.sender as usize].bulk else { return };
        let (at_ns, said_ns) = bulk.answered_ns;
        let heard_ns = said_ns + gap.rtt_sender_ns;
        let at_once = heard_ns + gap.trigger_tolerance_ns() >= gap.end_ns;
        bulk.went_on[usize::from(!(at_once && at_ns >= gap.start_ns))] += 1;
    }
}
