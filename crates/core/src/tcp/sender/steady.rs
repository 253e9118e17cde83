//! Fast path of a sender for an expected segment: one small segment with nothing else in flight,
//! after which no loss has ever occurred. Its effects are the same as without the fast path, but no
//! other case is considered (header prediction: V. Jacobson, "4BSD TCP header prediction", 1990;
//! RFC 7323 appendix D.2).

use crate::capture::FrameId;
use crate::tcp::acks::{Ack, Offer, PendingAcks, scaled};
use crate::tcp::sender::departure::Departure;
use crate::tcp::sender::{Sender, SinceDeparture};
use crate::wire::{Segment, SegmentFlags, TcpFlags};

/// Record of a segment with nothing else in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct LoneSegment {
    /// Time at which it passed the vantage, ns.
    pub time_ns: u64,
    /// Frame of the segment.
    pub frame: FrameId,
    /// Position of its end in the stream of its sender.
    pub end: u64,
    /// Length of the payload, bytes.
    pub len: u32,
    /// Window field of its header.
    pub window: u16,
}

impl LoneSegment {
    /// Creates the record of `segment`, which ends at position `end`.
    #[inline]
    pub fn of(segment: &Segment, end: u64) -> Self {
        let &Segment { time_ns, frame, payload_len: len, window, .. } = segment;
        Self { time_ns, frame, end, len, window }
    }

    /// Position of its first byte.
    pub fn start(&self) -> u64 {
        self.end - u64::from(self.len)
    }

    /// Recreates the segment, with the fields that matter.
    pub fn segment(&self) -> Segment {
        let &Self { time_ns, frame, len: payload_len, window, .. } = self;
        let flags = TcpFlags(TcpFlags::ACK | TcpFlags::PSH);
        Segment { time_ns, frame, payload_len, window, flags, ..Segment::default() }
    }
}

impl Sender {
    /// Returns whether the sender has only the state that the fast path covers.
    fn is_plain(&self) -> bool {
        let knows_window = self.space.right_edge().is_some() == self.space.window_scale().is_some();
        self.is_calm() && self.last.pushed && knows_window
    }

    /// Returns whether all data but `segment`, a single small segment, is acknowledged, and the
    /// sender's window is known.
    pub(in crate::tcp) fn has_sent_alone(&self, segment: &Segment) -> bool {
        let start = self.space.nxt - u64::from(segment.payload_len);
        self.is_plain()
            && self.space.position_of(segment.seq) == start
            && self.last.frame == segment.frame
            && (self.last.small, self.last.apart) == (true, 0)
            && (self.space.una(), self.space.una_seen()) == (start, start)
            && self.rtts.is_timing(self.space.nxt, segment.time_ns)
            && self.volume.small.ends_at(self.space.nxt)
            && self.sent.is_one()
            && self.pending.is_unused()
    }

    /// Returns whether `segment` acknowledges all data in flight, and this ACK has not yet taken
    /// effect at the sender.
    pub(in crate::tcp) fn is_cleared_by(&self, segment: &Segment) -> bool {
        let acks_all = |ack: Ack| ack.frame == segment.frame && ack.una == self.space.nxt;
        let plain = |ack: &Ack| !(ack.duplicate || ack.paced);
        self.is_plain()
            && self.space.una() < self.space.nxt
            && self.space.una_seen() == self.space.nxt
            && self.rtts.is_idle()
            && self.sent.is_unused()
            && self.pending.only(self.space.nxt).filter(plain).is_some_and(acks_all)
    }

    /// Returns whether `segment` is one more small segment of this sender, in answer to `last`, and
    /// exceeds earlier ones in nothing. `right_edge` is that of the window as the sender knows it,
    /// if the scale is known.
    #[inline]
    pub(in crate::tcp) fn expects(
        &self,
        segment: &Segment,
        start: u64,
        (last, right_edge): (&LoneSegment, Option<u64>),
    ) -> bool {
        let len = segment.payload_len;
        let has_room = match (self.space.window_scale(), right_edge) {
            (Some(scale), Some(edge)) => {
                let offered = scaled(last.window, scale);
                edge >= start + u64::from(len)
                    && offered >= self.sizes.smss()
                    && self.sizes.knows_window(offered)
            }
            (None, None) => true,
            _ => false,
        };
        has_room
            && u64::from(len) < self.sizes.smss()
            && u64::from(len)
                <= u64::from(self.volume.flight_max).min(self.sizes.acked_max().into())
            && (!segment.facts.has(SegmentFlags::IPV4) || self.packets.ids.is_expected(segment))
    }

    /// Sets the state in which `alone` is in flight and the window is known up to `right_edge`. If
    /// `noted`, the round trip of `alone` is already recorded.
    pub(in crate::tcp) fn set_in_flight(
        &mut self,
        alone: &LoneSegment,
        right_edge: Option<u64>,
        noted: bool,
    ) {
        let &LoneSegment { time_ns, frame, end, len, .. } = alone;
        self.volume.unique_bytes += end - self.space.nxt;
        self.space.set_in_flight(alone.start(), end, right_edge);
        self.rtts.time_only(end, (!noted).then_some(time_ns));
        self.volume.small.note(end);
        self.pending = PendingAcks::default();
        self.sent.clear();
        self.sent.push(end, &alone.segment(), true);
        self.last = Departure { time_ns, frame, len, small: true, pushed: true, apart: 0 };
    }

    /// Processes the ACK in `segment` that [`is_cleared_by`](Self::is_cleared_by) recognised. It
    /// answers data that had arrived, so the round trip is no shorter than known, and no sample of
    /// the path.
    #[inline]
    pub(in crate::tcp) fn take_full_ack(&mut self, segment: &Segment) {
        let una = self.space.nxt;
        let (longest, _) = self.sent.arrived(una);
        self.sizes.acknowledge(longest);
        self.pending.push(&Ack {
            seen_ns: segment.time_ns,
            frame: segment.frame,
            una,
            offer: Offer::of(una, segment.window, self.space.window_scale()),
            payload_bytes: segment.payload_len,
            duplicate: false,
            paced: false,
            tsval: 0,
        });
        self.space.window_field = segment.window;
        self.advance_una_seen(segment.time_ns, una, self.habits.shows_arrival(false));
    }

    /// Applies the ACK of [`take_full_ack`](Self::take_full_ack) at the sender.
    pub(in crate::tcp) fn apply_full_ack(
        &mut self,
        since: &mut SinceDeparture,
        rtt_sender_ns: u64,
        rtt_peer_ns: u64,
    ) {
        if let Some(ack) = self.pending.pop_until(u64::MAX, self.space.nxt) {
            self.take_effect(since, ack, rtt_sender_ns, rtt_peer_ns);
        }
    }

    /// Adds the data of `segment` in the same way as [`depart`](Self::depart), for a new, small
    /// segment with nothing else in flight.
    #[inline]
    pub(in crate::tcp) fn depart_alone(&mut self, segment: &Segment) {
        let len = u64::from(segment.payload_len);
        let end = self.space.nxt + len;
        self.volume.send(len, len);
        self.sizes.begin_with(len);
        self.space.nxt = end;
        self.rtts.time(end, segment.time_ns);
        self.volume.small.note(end);
        self.sent.push(end, segment, true);
        self.last = Departure {
            time_ns: segment.time_ns,
            frame: segment.frame,
            len: segment.payload_len,
            small: true,
            pushed: true,
            apart: 0,
        };
    }
}
