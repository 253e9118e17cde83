//! Messages that were under way when the capture began: who waits for them has waited since then at
//! least.

use super::feed::Feed;
use super::*;

impl Connection {
    /// Whether what `side` sends may go on with a message whose beginning was not captured.
    #[inline]
    pub(super) fn may_be_under_way(&self, side: Side) -> bool {
        self.mid_stream && !self.timeline.has_spoken() && self.senders[side as usize].started()
    }

    /// A full segment of a server that nobody is seen to have asked is a part of an answer; a single
    /// small one may have come unasked.
    pub(super) fn goes_on(&self, side: Side, segment: &Segment) -> bool {
        side == Side::Server
            && u64::from(segment.payload_len) >= self.senders[side as usize].smss()
            && self.may_be_under_way(side)
    }

    /// Whether `side` repeats `segment` by its timer, which began before the capture, or which nobody is seen to have
    /// asked for: it waits for that to be acknowledged. For the end of a connection nobody waits.
    pub(super) fn repeats_what_nobody_hears(&self, side: Side, segment: &Segment) -> bool {
        let ends = segment.flags.has(TcpFlags::FIN) || self.ending().fin[side as usize].is_some();
        !self.timeline.accrues()
            && !ends
            && self.may_be_under_way(side)
            && self.senders[side as usize].timer_doubles()
    }

    /// `side` is in the middle of a message, and somebody waits for the rest of it.
    #[cold]
    pub(super) fn take_up(
        &mut self,
        side: Side,
        segment: &Segment,
        since_ns: u64,
        shared: &mut Shared,
    ) {
        let (_, _, feed) = self.feed(side, segment, shared);
        let Feed { framer, timeline, setup, spare, at, .. } = feed;
        framer.take_up(side);
        let at = At { time_ns: since_ns, ..at };
        timeline.take_up(side, &at, setup, spare);
        self.timeline.active = Some(side);
    }
}
