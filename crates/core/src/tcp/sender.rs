//! One direction of a connection: the data that its sender sent, what the sender knows, and what it
//! waits for.

mod bulk;
mod copies;
mod departure;
mod effect;
mod habits;
mod history;
mod holes;
mod in_gap;
mod loss_state;
mod losses;
mod nagle_history;
mod pacer;
mod packet_count;
mod path_mtu;
mod pieces;
mod repeats;
mod restart;
mod rtt;
mod scale;
mod since;
mod sizes;
mod space;
mod spacing;
mod stamp;
mod steady;
mod stream;
mod unread;
mod waits;
mod window;
mod window_history;

pub use since::{SinceDeparture, StoredSince};
pub(super) use stamp::{Stamp, too_early};
pub(super) use steady::LoneSegment;
pub(super) use stream::Rtts;

use crate::app::Side;
use crate::judge::Recovery;
use crate::model::DirectionReport;
use crate::tcp::acks::PendingAcks;
use crate::tcp::clock::SenderClock;
use crate::tcp::sent::SentLog;
use crate::tcp::sequence::ORIGIN;
use crate::tcp::thresholds::SKB_MAX_BYTES;
use crate::wire::{Segment, SegmentFlags, TcpFlags};
pub use bulk::{Bulk, Near};
pub(crate) use copies::Copies;
use copies::{LastPacket, late_max_ns};
pub use departure::Departure;
use habits::Habits;
use history::History;
pub use loss_state::Tail;
pub use nagle_history::Held;
use packet_count::PacketCount;
use rtt::RttSamples;
use sizes::SegmentSizes;
pub use space::SendSpace;
use std::num::NonZeroU32;

/// Classification of a segment with payload by its position in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data not seen before, at the end of the stream.
    New,
    /// Data that was seen before.
    Retransmission(Recovery),
    /// Data that fills a hole: the original was lost before the vantage.
    Fill(Recovery),
    /// Data that fills a hole: later data overtook it.
    Reordered,
    /// Data that its own retransmission overtook.
    Late,
    /// A probe of a closed window (RFC 9293 §3.8.6.1) or keep-alive (§3.8.4).
    Probe,
}

/// One direction of a connection: the sender's state, on the sender's clock. Every open connection
/// has two, so rarely needed parts are boxed, and only the lower half is stored of positions near
/// `nxt`.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// The side that sends.
    side: Side,
    /// What its earlier segments have shown.
    pub habits: Habits,
    /// Positions in its stream.
    pub space: SendSpace,
    /// Lengths of the sender's segments.
    pub sizes: SegmentSizes,
    /// Time at which the highest ACK passed the vantage, ns.
    pub una_seen_ns: u64,
    /// ACKs that passed the vantage and have not yet taken effect at the sender.
    pub pending: PendingAcks,
    /// The last data departure.
    pub last: Departure,
    /// State since the last departure.
    pub since: StoredSince,
    /// Lower half of the end of the last small segment.
    small_end: Option<NonZeroU32>,
    /// Round-trip samples between the vantage and the receiver.
    rtts: RttSamples,
    /// Counter of packets by their IP identification.
    packet_count: PacketCount,
    last_packet: LastPacket,
    /// Comparison of the sender's timestamp clock with the capture's clock.
    clock: SenderClock,
    /// The last segments sent; a timeout clears the log.
    sent: SentLog,
    /// State of a bulk sender; `None` until enough data was in flight.
    pub bulk: Option<Box<Bulk>>,
    /// Losses and other faults, if there were any.
    history: Option<Box<History>>,
    /// Number of packets sent.
    pub packets: u64,
    /// Payload sent, each byte counted once.
    unique_bytes: u64,
    /// Greatest flight, bytes, up to [`u32::MAX`]. Windows are less than a quarter of that.
    pub flight_max: u32,
}

impl Sender {
    /// Creates the state of a direction whose data `side` sends.
    pub fn of(side: Side) -> Self {
        Self { side, ..Self::default() }
    }

    /// Resets all but the packet counts, for a connection that starts again.
    pub fn reset(&mut self) {
        let Self { side, packets, packet_count, last_packet, .. } = std::mem::take(self);
        *self = Self { side, packets, packet_count, last_packet, ..Self::default() };
    }

    /// Processes a step of the capture's clock.
    pub fn clock_stepped(&mut self) {
        self.clock.stop_using();
        self.rtts.stop();
    }

    /// Returns whether a loss or another fault ever occurred.
    #[inline]
    pub fn is_troubled(&self) -> bool {
        self.history.is_some()
    }

    /// Losses and other faults so far.
    pub fn history(&self) -> &History {
        self.history.as_deref().unwrap_or(History::none())
    }

    /// Returns the history for changes; creates it if there is none.
    #[cold]
    #[inline(never)]
    pub fn history_mut(&mut self) -> &mut History {
        self.history.get_or_insert_default()
    }

    /// Counts for the report, without sizes and round trips.
    pub fn counts(&self) -> DirectionReport {
        let (counts, window) = (&self.history().counts, &self.history().window);
        DirectionReport {
            packets: self.packets,
            actual_data_bytes: self.unique_bytes + counts.repeated_bytes,
            unique_bytes: self.unique_bytes,
            rexmt_data_packets: counts.rexmt_data_packets,
            rto_count: counts.rto_count,
            fast_retransmissions: counts.fast_retransmissions,
            spurious_retransmissions: counts.spurious_retransmissions,
            out_of_order_packets: counts.out_of_order_packets,
            duplicate_acks: counts.duplicate_acks,
            zero_window_advertisements: window.zero_advertisements,
            zero_window_probes: window.probes,
            flight_size_max_bytes: u64::from(self.flight_max),
            ..DirectionReport::default()
        }
    }

    /// Sender maximum segment size (RFC 5681 §2), bytes, as announced or observed.
    #[inline]
    pub fn smss(&self) -> u64 {
        self.sizes.smss()
    }

    /// The least of the last round-trip samples, ns.
    pub fn rtt_recent_ns(&self) -> u64 {
        self.rtts.recent_ns()
    }

    /// Payload sent, each byte counted once.
    pub fn sent_bytes(&self) -> u64 {
        self.unique_bytes
    }

    /// Counts payload: `unique` bytes were sent for the first time, after which `flight` bytes are
    /// unacknowledged.
    #[inline]
    fn send(&mut self, unique: u64, flight: u64) {
        self.unique_bytes += unique;
        self.flight_max = self.flight_max.max(u32::try_from(flight).unwrap_or(u32::MAX));
    }

    /// Returns whether any packet of this direction was seen.
    pub fn seen(&self) -> bool {
        self.packets > 0
    }

    /// TTL of the sender's last packet that was no RST; 0 if there was none.
    pub fn ttl(&self) -> u8 {
        self.last_packet.ttl
    }

    /// Timestamp value of the sender's last packet.
    #[inline]
    pub fn last_tsval(&self) -> u32 {
        self.last_packet.tsval
    }

    /// IP identification of the sender's last packet.
    #[inline]
    pub fn number(&self) -> u16 {
        self.last_packet.ip_id
    }

    /// Counts a packet of this direction. Returns `true`, without counting it, if it was captured
    /// before. `peer_number` is the IP identification of the other direction's last packet.
    #[inline]
    pub fn packet(&mut self, segment: &Segment, peer_number: u16) -> bool {
        let syn =
            segment.flags.has(TcpFlags::SYN) && self.space.first_number() == Some(segment.seq);
        let numbers = self.packet_count.distinguishes();
        if self.packets > 0
            && (self.last_packet.is(segment, numbers)
                || syn && self.last_packet.is_same_syn(segment)
                || numbers && self.last_packet.was_sent_after(segment) && self.has_passed(segment))
        {
            self.expect_copies(segment);
            return true;
        }
        if self.history.is_some() && self.is_copy(segment) {
            return true;
        }
        self.packets += 1;
        if segment.facts.has(SegmentFlags::IPV4) {
            self.count_packet(segment, peer_number);
        }
        self.observe(segment);
        self.last_packet = self.last_packet.after(segment);
        false
    }

    /// Records that `segment` was captured twice, so that other segments may be too.
    #[cold]
    #[inline(never)]
    fn expect_copies(&mut self, segment: &Segment) {
        self.history_mut().copies.get_or_insert_with(|| Copies::after(segment));
    }

    /// Returns whether all data of `segment`, which was sent before the last packet, was captured so
    /// short a time ago that this is a copy. The original of a retransmission that overtook it is
    /// none.
    #[cold]
    #[inline(never)]
    fn has_passed(&self, segment: &Segment) -> bool {
        if !self.space.started() {
            return false;
        }
        let start = self.space.position_of(segment.seq);
        let end = start + u64::from(segment.payload_len);
        let repair = self.history().losses.repair;
        let is_original =
            repair.is_some_and(|(_, ip_id)| (segment.ip_id.wrapping_sub(ip_id) as i16) < 0);
        let is_known = start >= ORIGIN
            && end <= self.space.nxt
            && self.history().holes.overlapped(start, end).is_none()
            && !is_original;
        let passed_ns = self.original(start).map_or(self.una_seen_ns, |it| it.time_ns);
        let is_routed = segment.ttl != self.last_packet.ttl;
        let late_ns = segment.time_ns.saturating_sub(passed_ns);
        is_known && late_ns < late_max_ns(segment, true, is_routed)
    }

    /// Returns whether `segment` was captured before, on a connection where this has happened.
    #[inline(never)]
    fn is_copy(&mut self, segment: &Segment) -> bool {
        let known = self.history.as_deref_mut().and_then(|history| history.copies.as_mut());
        known.is_some_and(|copies| copies.is_copy(segment, self.packet_count.distinguishes()))
    }

    /// Delay of the last departure's ACK beyond the base round trip, ns; 0 if that ACK has not
    /// come.
    pub fn latest_delay_ns(&self, rtt_receiver_ns: u64) -> u64 {
        if self.space.una_seen() < self.space.nxt {
            return 0;
        }
        self.una_seen_ns.saturating_sub(self.last.time_ns + rtt_receiver_ns)
    }

    /// Queueing delay of this sender's last packet before the vantage, by its timestamps, ns.
    pub fn queued_ns(&self) -> u64 {
        self.clock.queued_ns()
    }

    /// Returns whether the flight reached a ceiling and never went far above it. A flight that
    /// still grows by half was limited by a congestion window, or by a buffer that the kernel
    /// enlarges.
    pub fn stood_at_ceiling(&self) -> bool {
        let ceiling = self.bulk.as_ref().map_or(0, |bulk| bulk.ceiling);
        let beyond = ceiling.min(SKB_MAX_BYTES.max(ceiling / 2));
        ceiling > 0 && u64::from(self.flight_max) < ceiling + beyond
    }

    /// Releases memory that is not in use.
    pub fn shrink(&mut self) {
        self.pending.shrink();
        self.sent.shrink();
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.pending.heap_bytes()
            + self.since.heap_bytes()
            + self.history.as_ref().map_or(0, |it| size_of::<History>() + it.heap_bytes())
            + self.sent.heap_bytes()
            + self.bulk.as_ref().map_or(0, |_| size_of::<Bulk>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::thresholds::WINDOW_MAX_BYTES;

    #[test]
    fn the_position_of_a_fin_is_no_hole() {
        let mut sender = Sender::default();
        let start = sender.space.position(100);
        sender.space.finish(start);
        sender.announce(&Segment { seq: 101, ..Segment::default() });
        assert!(sender.space.nxt == start + 1 && !sender.is_troubled());
        sender.announce(&Segment { seq: 103, ..Segment::default() });
        assert!(sender.space.nxt == start + 3 && sender.is_troubled());
    }

    /// Data is sent for hours in one direction, and no ACK is captured.
    #[test]
    fn positions_stay_correct_beyond_32_bits() {
        const LEN: u32 = 1 << 20;
        let mut sender = Sender::default();
        let flags = TcpFlags(TcpFlags::ACK);
        for number in 0..10_000_u32 {
            let seq = number.wrapping_mul(LEN);
            let time_ns = 1_000_000 * u64::from(number + 1);
            let segment = Segment { seq, payload_len: LEN, time_ns, flags, ..Segment::default() };
            let start = sender.space.position(seq);
            assert_eq!(start, ORIGIN + u64::from(number) * u64::from(LEN));
            sender.depart(&segment, (start, Kind::New), &SinceDeparture::default(), false);
            assert!(sender.space.una() <= start && sender.space.flight() <= WINDOW_MAX_BYTES);
        }
        let ack = 10_000_u32.wrapping_mul(LEN);
        let segment = Segment { ack, time_ns: 20_000_000_000, flags, ..Segment::default() };
        sender.acked(&segment, Near::Neither, 0);
        assert_eq!(sender.space.una_seen(), sender.space.nxt);
    }

    #[test]
    fn a_position_beyond_the_greatest_window_belongs_to_another_stream() {
        let announced = |ahead: u32| {
            let mut sender = Sender::default();
            let start = sender.space.position(100);
            sender.announce(&Segment { seq: 100 + ahead, ..Segment::default() });
            sender.space.nxt - start
        };
        let [within, beyond] = [3 << 28, 3 << 29];
        assert_eq!([within, beyond].map(announced), [within.into(), 0]);
    }
}
