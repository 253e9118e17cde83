//! Send sequence space of one direction (RFC 9293 §3.3.1): the origin of its sequence numbers, how
//! far it was sent, seen and acknowledged, and the window that the receiver offers
//! (`window.rs`).

use crate::tcp::sequence::{Numbers, ORIGIN, Sequence, widen};
use crate::tcp::thresholds::WINDOW_MAX_BYTES;
use crate::wire::{Segment, SegmentFlags, TcpFlags};

/// Value of [`SendSpace::scale`]: the scale of the offered windows is unknown.
pub(super) const SCALE_UNKNOWN: u8 = u8::MAX;

/// The origin of the stream positions is known.
const STARTED: u8 = 1;
/// A FIN was sent: its position is set.
const FINISHED: u8 = 1 << 1;
/// A window of known size was offered: the right edge is set.
pub(super) const HAS_EDGE: u8 = 1 << 2;

/// Positions in the stream of one direction. Every open connection has two, so only the lower half
/// is stored of positions near SND.NXT.
#[derive(Clone, Copy, Debug)]
pub struct SendSpace {
    /// Highest position sent (SND.NXT).
    pub nxt: u64,
    /// Mapping of sequence numbers to positions, once it has begun.
    sequence: Sequence,
    /// Lower half of the highest position acknowledged as known to the sender (SND.UNA).
    una: u32,
    /// Lower half of the highest position acknowledged as seen at the vantage.
    una_seen: u32,
    /// Lower half of the position of the sender's FIN.
    fin: u32,
    /// Lower half of the right edge of the offered window as known to the sender.
    pub(super) right_edge: u32,
    /// Window field of the last ACK seen at the vantage.
    pub window_field: u16,
    /// Scale of the windows that the receiver offers, or [`SCALE_UNKNOWN`].
    pub(super) scale: u8,
    /// [`STARTED`], [`FINISHED`] and [`HAS_EDGE`].
    pub(super) known: u8,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<SendSpace>() == 32);

impl Default for SendSpace {
    fn default() -> Self {
        Self {
            nxt: 0,
            sequence: Sequence::default(),
            una: 0,
            una_seen: 0,
            fin: 0,
            right_edge: 0,
            window_field: 0,
            scale: SCALE_UNKNOWN,
            known: 0,
        }
    }
}

impl SendSpace {
    /// Position of the sender's FIN, if one was sent.
    pub fn fin(&self) -> Option<u64> {
        self.is_finished().then(|| widen(self.fin, self.nxt))
    }

    /// Returns whether a FIN was sent.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.known & FINISHED != 0
    }

    /// Records a FIN at `position`.
    pub fn finish(&mut self, position: u64) {
        self.known |= FINISHED;
        self.fin = position as u32;
    }

    /// Returns whether the position of the stream is known.
    #[inline]
    pub fn started(&self) -> bool {
        self.known & STARTED != 0
    }

    /// Number of bytes sent and, as the sender knows, not acknowledged (RFC 5681, FlightSize).
    #[inline]
    pub fn flight(&self) -> u64 {
        self.nxt.saturating_sub(self.una())
    }

    /// Highest position acknowledged, as seen at the vantage.
    #[inline]
    pub fn una_seen(&self) -> u64 {
        widen(self.una_seen, self.nxt)
    }

    /// Highest position acknowledged as the sender knows (SND.UNA).
    #[inline]
    pub fn una(&self) -> u64 {
        widen(self.una, self.nxt)
    }

    /// Advances SND.UNA to `una`.
    #[inline]
    pub(super) fn acknowledge(&mut self, una: u64) {
        self.una = una as u32;
    }

    /// Advances the highest position acknowledged at the vantage to `una`.
    #[inline]
    pub(super) fn acknowledge_seen(&mut self, una: u64) {
        self.una_seen = una as u32;
    }

    /// Takes back the acknowledgment of the data from `position` on, which has not reached the
    /// sender.
    pub fn unacknowledge(&mut self, position: u64) {
        (self.una, self.una_seen) = (position as u32, position as u32);
    }

    /// Returns the position of the sequence number `seq` of a header; the first one sets the
    /// origin.
    pub fn position(&mut self, seq: u32) -> u64 {
        if !self.started() {
            self.known |= STARTED;
            self.sequence = Sequence::new(seq);
            self.nxt = ORIGIN;
            (self.una, self.una_seen) = (ORIGIN as u32, ORIGIN as u32);
        }
        self.sequence.position(seq, self.nxt)
    }

    /// Starts the stream again at the sequence number `seq`, before any of its data was seen.
    pub fn restart_at(&mut self, seq: u32) {
        self.known &= !STARTED;
        self.position(seq);
    }

    /// Expects the stream to begin at the sequence number `seq`, of which no data was seen yet.
    pub(super) fn expect(&mut self, seq: u32) {
        self.sequence = Sequence::new(seq);
    }

    /// Starts a stream of which no data was captured yet behind `segment`, if that is a keep-alive
    /// and no data (RFC 9293 §3.8.4): its byte lies before the position of the ACKs so far, or it
    /// `is_first` of a connection that began before the capture, and not pushed. A sender pushes
    /// the end of what it has (RFC 9293 §3.9.1.2).
    #[inline]
    pub fn begin_behind_keep_alive(&mut self, segment: &Segment, is_first: bool) {
        if self.started() || segment.payload_len > 1 {
            return;
        }
        let end = segment.seq.wrapping_add(segment.payload_len);
        if is_first && segment.flags.0 == TcpFlags::ACK || end == self.sequence.first {
            self.position(end);
        }
    }

    /// Returns whether this sequence number lies beyond all that was sent.
    #[inline]
    pub fn is_ahead(&self, seq: u32) -> bool {
        self.started() && self.position_of(seq) > self.nxt
    }

    /// Returns the position of the sequence number `seq`, once the stream has begun.
    #[inline]
    pub fn position_of(&self, seq: u32) -> u64 {
        self.sequence.position(seq, self.nxt)
    }

    /// Returns whether data that begins with this sequence number was sent and is not yet
    /// acknowledged.
    pub fn is_under_way(&self, seq: u32) -> bool {
        let position = self.position_of(seq);
        self.started() && position >= self.una_seen() && position < self.nxt
    }

    /// Returns whether data before this sequence number may have been sent; up to one unscaled
    /// window (RFC 7323 §2.2) of it may not have been seen.
    pub fn may_have_sent(&self, seq: u32) -> bool {
        let position = self.position_of(seq);
        (self.una_seen()..=self.nxt + u64::from(u16::MAX)).contains(&position)
    }

    /// Extends the stream to `position`. The acknowledged position is no further behind than the
    /// greatest window, even if no ACK was captured.
    pub(super) fn extend_to(&mut self, position: u64) {
        let [una, una_seen] = [self.una(), self.una_seen()];
        let right_edge = self.right_edge().unwrap_or(una);
        self.nxt = position;
        let least = position.saturating_sub(WINDOW_MAX_BYTES);
        if una.min(una_seen).min(right_edge) < least {
            self.una = una.max(least) as u32;
            self.una_seen = una_seen.max(least) as u32;
            self.right_edge = right_edge.max(least) as u32;
        }
    }

    /// Sets the state in which only the data from `start` to `end` is in flight, and the window is
    /// known up to `right_edge`.
    pub(super) fn set_in_flight(&mut self, start: u64, end: u64, right_edge: Option<u64>) {
        self.nxt = end;
        (self.una, self.una_seen) = (start as u32, start as u32);
        self.right_edge = right_edge.map_or(self.right_edge, |edge| edge as u32);
    }

    /// Range of the sequence numbers that the sender used; the first one is known only if
    /// `seen_begin`.
    pub fn numbers(&self, seen_begin: bool) -> Numbers {
        let first = self.sequence.first;
        let next = self.fin().map_or(self.nxt, |fin| self.nxt.max(fin + 1));
        let known = seen_begin && next.wrapping_sub(ORIGIN) < 1 << 31;
        Numbers::new(first.wrapping_add(next as u32), known.then_some(first))
    }

    /// Sequence number in the header of the first segment seen.
    pub fn first_number(&self) -> Option<u32> {
        self.started().then_some(self.sequence.first)
    }

    /// Returns whether `segment`, which has no data, is a keep-alive (RFC 9293 §3.8.4).
    pub fn is_keep_alive(&self, segment: &Segment) -> bool {
        let position = self.position_of(segment.seq);
        self.started() && position + 1 == self.una_seen() && segment.flags.0 == TcpFlags::ACK
    }

    /// Returns whether all data is acknowledged, as seen at the vantage.
    #[inline]
    pub fn is_acked(&self) -> bool {
        self.una_seen() >= self.nxt
    }

    /// Returns whether a SACK block of `segment` (RFC 2018) ends where the stream ends.
    pub(super) fn is_end_sacked(&self, segment: &Segment) -> bool {
        let mut blocks = segment.sack.iter().take(usize::from(segment.sack_count));
        blocks.any(|block| self.position_of(block.right) == self.nxt)
    }

    /// Returns whether data sent last before, from `start` to `end`, may be a tail loss probe, which
    /// is sent with old data only if there is no new data (RFC 8985 §7.3). An RTO repeats the first
    /// unacknowledged segment, and then perhaps the rest.
    pub(super) fn may_be_tail_probe(&self, start: u64, end: u64) -> bool {
        let has_room = self.right_edge().is_some_and(|edge| edge > self.nxt);
        start > self.una() && end == self.nxt && has_room
    }

    /// Returns whether `ack`, not yet processed, only repeats that all data has arrived.
    pub fn acked_again(&self, ack: &Segment) -> bool {
        let una = self.position_of(ack.ack);
        ack.payload_len == 0
            && ack.flags.0 == TcpFlags::ACK
            && ack.sack_count == 0
            && ack.window == self.window_field
            && una == self.nxt
            && self.una_seen() == una
    }

    /// Returns whether `ack`, not yet processed, is the first to acknowledge all data.
    pub fn is_first_acked_by(&self, ack: &Segment) -> bool {
        self.started() && self.una_seen() < self.nxt && self.position_of(ack.ack) == self.nxt
    }

    /// Returns the timestamp value of `segment`, an ACK that this sender sent, if later segments of
    /// the peer echo this or a later value: the ACK has no data, and all data before it was
    /// acknowledged (RFC 7323 §4.3). Otherwise returns 0.
    #[inline]
    pub fn stamp_echoed(&self, segment: &Segment) -> u32 {
        let is_pure_ack = segment.payload_len == 0 && segment.flags.0 == TcpFlags::ACK;
        let all_acked = self.position_of(segment.seq) == self.una_seen();
        let has_timestamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
        if is_pure_ack && all_acked && has_timestamp { segment.tsval } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started_at(seq: u32) -> SendSpace {
        let mut space = SendSpace::default();
        space.position(seq);
        space
    }

    fn empty(seq: u32, flags: u8) -> Segment {
        Segment { seq, flags: TcpFlags(flags), ..Segment::default() }
    }

    #[test]
    fn the_first_number_sets_the_origin_until_the_stream_starts_again() {
        let mut space = started_at(u32::MAX);
        assert_eq!((space.position(9), space.first_number()), (ORIGIN + 10, Some(u32::MAX)));
        space.restart_at(500);
        assert_eq!((space.position_of(501), space.nxt), (ORIGIN + 1, ORIGIN));
    }

    #[test]
    fn nothing_stays_unacknowledged_for_longer_than_the_greatest_window() {
        let mut space = started_at(0);
        space.offer(ORIGIN + 1_000);
        space.extend_to(ORIGIN + WINDOW_MAX_BYTES + 5_000);
        let least = ORIGIN + 5_000;
        assert_eq!([space.una(), space.una_seen()], [least; 2]);
        assert_eq!((space.right_edge(), space.flight()), (Some(least), WINDOW_MAX_BYTES));
    }

    #[test]
    fn the_sender_knows_an_ack_later_than_the_vantage() {
        let mut space = started_at(0);
        space.extend_to(ORIGIN + 3_000);
        space.acknowledge_seen(ORIGIN + 2_000);
        assert_eq!((space.una_seen(), space.flight()), (ORIGIN + 2_000, 3_000));
        assert!(space.is_under_way(2_500) && !space.is_under_way(1_500));
        space.acknowledge(ORIGIN + 2_000);
        assert_eq!(space.flight(), 1_000);
        space.unacknowledge(ORIGIN + 500);
        assert_eq!([space.una(), space.una_seen()], [ORIGIN + 500; 2]);
    }

    #[test]
    fn a_segment_before_the_acknowledged_position_is_a_keep_alive() {
        let mut space = started_at(0);
        space.extend_to(ORIGIN + 100);
        space.acknowledge_seen(ORIGIN + 100);
        let is_keep_alive = |seq, flags| space.is_keep_alive(&empty(seq, flags));
        assert!(is_keep_alive(99, TcpFlags::ACK) && !is_keep_alive(100, TcpFlags::ACK));
        assert!(!is_keep_alive(99, TcpFlags::ACK | TcpFlags::FIN));
    }

    #[test]
    fn a_stream_begins_behind_the_byte_of_a_keep_alive() {
        let begins_at = |is_first, flags| {
            let mut space = SendSpace::default();
            let segment = Segment { payload_len: 1, ..empty(99, flags) };
            space.begin_behind_keep_alive(&segment, is_first);
            space.first_number()
        };
        assert_eq!(begins_at(true, TcpFlags::ACK), Some(100));
        assert_eq!(begins_at(false, TcpFlags::ACK), None);
        assert_eq!(begins_at(true, TcpFlags::ACK | TcpFlags::PSH), None, "data is pushed");
        let mut expected = SendSpace::default();
        expected.expect(100);
        let segment = Segment { payload_len: 1, ..empty(99, TcpFlags::ACK) };
        expected.begin_behind_keep_alive(&segment, false);
        assert!(expected.started());
    }

    #[test]
    fn the_last_segment_again_is_a_tail_probe_if_more_could_be_sent() {
        let mut space = started_at(0);
        space.extend_to(ORIGIN + 2_000);
        let may_be = |space: &SendSpace| space.may_be_tail_probe(ORIGIN + 1_000, ORIGIN + 2_000);
        assert!(!may_be(&space), "the window is unknown");
        space.offer(ORIGIN + 2_001);
        assert!(may_be(&space) && !space.may_be_tail_probe(ORIGIN, ORIGIN + 2_000));
    }

    #[test]
    fn the_numbers_of_a_stream_include_its_fin() {
        let mut space = started_at(7);
        space.extend_to(ORIGIN + 10);
        space.finish(ORIGIN + 10);
        assert!(space.numbers(true).contains(18) && !space.numbers(true).contains(19));
        assert!(space.numbers(true).began_with(7) && !space.numbers(false).began_with(7));
    }

    #[test]
    fn only_an_ack_of_a_sender_without_unacknowledged_data_is_sure_to_be_echoed() {
        let mut space = started_at(0);
        let facts = SegmentFlags(SegmentFlags::TIMESTAMPS);
        let ack = |seq| Segment { tsval: 7, facts, ..empty(seq, TcpFlags::ACK) };
        assert_eq!(space.stamp_echoed(&ack(0)), 7);
        space.extend_to(ORIGIN + 10);
        assert_eq!(space.stamp_echoed(&ack(10)), 0);
        assert_eq!(space.stamp_echoed(&Segment { payload_len: 1, ..ack(0) }), 0);
    }

    #[test]
    fn a_report_of_the_end_of_the_stream_leaves_only_holes_missing() {
        let mut space = started_at(0);
        space.extend_to(ORIGIN + 2_000);
        let mut segment = Segment { sack_count: 1, ..Segment::default() };
        segment.sack[0].right = 2_000;
        assert!(space.is_end_sacked(&segment));
        segment.sack[0].right = 1_999;
        assert!(!space.is_end_sacked(&segment) && !space.is_acked());
        space.acknowledge_seen(ORIGIN + 2_000);
        assert!(space.is_acked());
    }
}
