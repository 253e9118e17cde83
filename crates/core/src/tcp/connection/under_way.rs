//! Messages in progress when the capture began: the side that waits for such a message has waited
//! at least since then.

use super::feed::Feed;
use crate::app::Side;
use crate::tcp::connection::Connection;
use crate::tcp::shared::Shared;
use crate::tcp::timeline::At;
use crate::wire::{Segment, TcpFlags};

impl Connection {
    /// Returns whether data of `side` may continue a message whose beginning was not captured.
    #[inline]
    pub(super) fn may_be_under_way(&self, side: Side) -> bool {
        self.mid_stream && !self.timeline.has_begun() && self.senders[side as usize].space.started()
    }

    /// Returns whether `segment` is part of a response whose request was not captured: a full
    /// segment is; a single small one may be unsolicited.
    pub(super) fn may_continue_response(&self, side: Side, segment: &Segment) -> bool {
        side == Side::Server
            && u64::from(segment.payload_len) >= self.senders[side as usize].sizes.smss()
            && self.may_be_under_way(side)
    }

    /// Returns whether the timer of `side` repeats `segment` of a message that began before the
    /// capture or whose request was not captured: `side` waits for the ACK. The end of a connection
    /// is excluded, since nothing waits for it.
    pub(super) fn repeats_unacknowledged_message(&self, side: Side, segment: &Segment) -> bool {
        let ends = segment.flags.has(TcpFlags::FIN) || self.ending().fin[side as usize].is_some();
        !self.timeline.accrues()
            && !ends
            && self.may_be_under_way(side)
            && self.senders[side as usize].history().losses.repeating.doubles
    }

    /// Begins an exchange with `side` in the middle of a message, at `since_ns`.
    #[cold]
    pub(super) fn begin_mid_message(
        &mut self,
        side: Side,
        segment: &Segment,
        since_ns: u64,
        shared: &mut Shared,
    ) {
        let (_, _, feed) = self.feed(side, segment, shared);
        let Feed { framer, timeline, setup, at, .. } = feed;
        framer.begin_mid_message(side);
        let at = At { time_ns: since_ns, ..at };
        timeline.begin_mid_message(side, &at, setup);
        self.timeline.active = Some(side);
    }
}
