//! One direction of a connection: what its sender sent, knows and waits for.

mod acked;
mod bulk;
mod copies;
mod departure;
mod effect;
mod losses;
mod marks;
mod pacer;
mod packet_count;
mod pieces;
mod positions;
mod restart;
mod scale;
mod since;
mod sizes;
mod spacing;
mod steady;
mod stream;
mod trouble;
mod unread;
mod waits;
mod window;

pub(super) use losses::{Stamp, is_among, too_early};
pub(super) use pieces::PAUSE_NS;
pub(super) use restart::IDLE_NS;
pub use restart::INITIAL_WINDOW_SEGMENTS;
pub use since::SinceDeparture;
pub(super) use steady::LoneSegment;
pub(super) use stream::Rtts;
pub use stream::{RTO_MIN_NS, tail_probe_ns};

use crate::app::Side;
use crate::report::DirectionReport;
use crate::tcp::acks::{Ack, Offer, PendingAcks, SCALE_MAX, scaled};
use crate::tcp::clock::SenderClock;
use crate::tcp::gap::{AckTrigger, Recovery};
use crate::tcp::sent::{SentLog, Sighting};
use crate::tcp::sequence::{Numbers, ORIGIN, Sequence, widen};
use crate::wire::{Segment, SegmentFlags, TcpFlags};
pub use bulk::{Bulk, Near};
pub(crate) use copies::Copies;
use copies::LastPacket;
pub use departure::Departure;
use marks::Marks;
pub(super) use packet_count::PacketCount;
pub(super) use sizes::smss_of;
use std::num::NonZeroU32;
pub use trouble::Held;
use trouble::{Hole, Trouble};

/// Least wait before a loss repaired without duplicate ACKs counts as found by timer. Linux's
/// RTO is at least 200 ms, its tail-loss probe two round trips.
const TIMER_FLOOR_NS: u64 = 2_000_000;

/// Enough for the round trips of a minute in 32 bits.
const RTT_UNIT_NS: u64 = 16;

/// ACKs closer than this arrived together: what the sender knew before the first of them is what
/// held it back.
const ACK_TRAIN_NS: u64 = 300_000;

/// No window is wider (RFC 7323 §2.3).
const WINDOW_MAX_BYTES: u64 = 1 << 30;

/// Linux puts no more into one buffer of a socket's queue (`GSO_MAX_SIZE`), and its limit may be
/// exceeded by one.
const SKB_MAX_BYTES: u64 = 1 << 16;

/// A stream that claims to be further ahead than this is not the same stream.
const ANNOUNCED_MAX: u64 = 1 << 30;

/// What a segment with payload is to its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data never seen here, at the end of the stream.
    New,
    /// Data seen here before.
    Retransmission(Recovery),
    /// Fills a hole with data that was lost before the vantage.
    Fill(Recovery),
    /// Fills a hole with data that was overtaken.
    Reordered,
    /// Data that was overtaken by its own repetition.
    Late,
    /// A probe of a closed window (RFC 9293 §3.8.6.1) or keep-alive (§3.8.4).
    Probe,
}

/// One direction of a connection: the sender's side of it, judged on the sender's clock. There
/// are two for every open connection: what few need is in boxes, and of positions near `nxt` the
/// lower half is kept.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// Whose it is.
    side: Side,
    marks: Marks,
    /// Stream positions, once it has started.
    sequence: Sequence,
    /// Receiver's window scale (of the *other* side's window field); `None` if unknown.
    pub window_scale: Option<u8>,
    /// Window field of the last ACK seen.
    acked_window: u16,
    /// Announced by the peer, less timestamps; 0 if unknown.
    smss_announced: u16,
    /// Length of consecutive full segments, below the announced.
    smss_seen: u16,
    /// What follows from both; 0 before either is known.
    smss: u16,
    /// Sender of the greatest window that its receiver has offered, as far as it matters.
    half_window: u16,
    /// Highest position sent (SND.NXT).
    pub nxt: u64,
    /// Highest position acknowledged as seen here: its lower half.
    una_seen: u32,
    /// When that ACK passed, ns.
    una_seen_ns: u64,
    /// Highest position acknowledged as the sender knows (SND.UNA): its lower half.
    una: u32,
    /// Right edge of the offered window as the sender knows: its lower half.
    right_edge: u32,
    pending: PendingAcks,
    /// The last data departure.
    pub last: Departure,
    /// What is known of the time since, where that outlasts a segment. ACKs take effect when the
    /// sender does something, and mostly that is a departure.
    since: Option<Box<SinceDeparture>>,
    /// End of the last small segment: its lower half.
    small_end: Option<NonZeroU32>,
    /// The last round-trip samples between the vantage and the receiver, in [`RTT_UNIT_NS`].
    rtts_last: [u32; 3],
    /// One segment being timed: the lower half of its end, and when it was seen, ns; 0 where none
    /// is (Karn: reset by retransmission).
    timed_end: u32,
    timed_ns: u64,
    /// Its packets by their identification field.
    packet_count: PacketCount,
    last_packet: LastPacket,
    /// The sender's timestamp clock against the capture's.
    clock: SenderClock,
    /// The last segments sent, cleared by a timeout.
    sent: SentLog,
    /// Greatest payload of one segment that was acknowledged, up to [`u16::MAX`]: no path has an
    /// MTU above that.
    acked_len_max: u16,
    /// Rounds and pipe, once there was enough data to need them.
    pub bulk: Option<Box<Bulk>>,
    trouble: Option<Box<Trouble>>,
    /// Packets sent.
    packets: u64,
    /// Payload sent, each byte counted once.
    unique_bytes: u64,
    /// Greatest flight, bytes, up to [`u32::MAX`]: a window is less than a quarter of that.
    flight_max: u32,
    /// Position of its FIN: the lower half.
    fin: u32,
}

impl Sender {
    /// The direction of what `side` sends.
    pub fn of(side: Side) -> Self {
        Self { side, ..Self::default() }
    }

    /// Its connection is set up once more: what it had sent counts nothing, but as packets.
    pub fn begin_again(&mut self) {
        let Self { side, packets, packet_count, last_packet, .. } = std::mem::take(self);
        *self = Self { side, packets, packet_count, last_packet, ..Self::default() };
    }

    /// What is kept of the time since the last departure, to be added to.
    #[cold]
    #[inline(never)]
    pub fn since_mut(&mut self) -> &mut SinceDeparture {
        self.since.get_or_insert_default()
    }

    /// When the first ACK since the last departure took effect, ns.
    pub fn first_ack_ns(&self) -> Option<u64> {
        self.since.as_ref().and_then(|since| since.first_ack_ns)
    }

    /// Takes what is kept of the time since the last departure, if anything, into `since`, for those
    /// who know more of it.
    #[inline]
    pub fn take_since(&mut self, since: &mut SinceDeparture) {
        if let Some(kept) = self.since.take() {
            *since = *kept;
        }
    }

    /// The time since the last departure is not over.
    pub fn keep_since(&mut self, since: SinceDeparture) {
        self.since = Some(Box::new(since));
    }

    /// The capture's clock was set.
    pub fn clock_stepped(&mut self) {
        self.clock.distrust();
        self.timed_ns = 0;
    }

    /// Whether anything ever went wrong.
    #[inline]
    pub fn is_troubled(&self) -> bool {
        self.trouble.is_some()
    }

    /// Whether nothing ever went wrong, and there was never much under way.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.trouble.is_none() && self.bulk.is_none()
    }

    /// What went wrong.
    pub fn trouble(&self) -> &Trouble {
        self.trouble.as_deref().unwrap_or(Trouble::none())
    }

    /// The same, to be added to.
    #[cold]
    #[inline(never)]
    pub fn trouble_mut(&mut self) -> &mut Trouble {
        self.trouble.get_or_insert_default()
    }

    /// What was counted; sizes and round trips are not set.
    pub fn counts(&self) -> DirectionReport {
        let trouble = self.trouble();
        DirectionReport {
            packets: self.packets,
            actual_data_bytes: self.unique_bytes + trouble.repeated_bytes,
            unique_bytes: self.unique_bytes,
            rexmt_data_packets: trouble.rexmt_data_packets,
            rto_count: trouble.rto_count,
            fast_retransmissions: trouble.fast_retransmissions,
            spurious_retransmissions: trouble.spurious_retransmissions,
            out_of_order_packets: trouble.out_of_order_packets,
            duplicate_acks: trouble.duplicate_acks,
            zero_window_advertisements: trouble.zero_window_advertisements,
            zero_window_probes: trouble.zero_window_probes,
            flight_size_max_bytes: self.flight_max.into(),
            ..DirectionReport::default()
        }
    }

    /// Reads a word of each of its parts, so that all of them come from memory at once.
    pub fn glance(&self) -> u64 {
        let sent = self.nxt ^ self.last.time_ns ^ self.una_seen_ns ^ self.packets;
        let known = u64::from(self.una) ^ u64::from(self.rtts_last[0]) ^ u64::from(self.flight_max);
        sent ^ known ^ self.since.as_ref().map_or(0, |since| since.closed_ns)
    }

    /// Payload sent, each byte counted once.
    pub fn sent_bytes(&self) -> u64 {
        self.unique_bytes
    }

    /// Whether any packet of this direction was seen.
    pub fn seen(&self) -> bool {
        self.packets > 0
    }

    /// Whether it has waited for the ACKs of full segments one or two at a time.
    pub fn steps(&self) -> bool {
        self.marks.has(Marks::STEPS)
    }

    /// It waits for the ACKs of full segments one or two at a time.
    pub fn note_steps(&mut self) {
        self.marks.note(Marks::STEPS, true);
    }

    /// Greatest payload of one segment that was acknowledged, bytes.
    pub fn acked_len_max(&self) -> u32 {
        self.acked_len_max.into()
    }

    /// When that ACK passed here, ns.
    pub fn una_seen_ns(&self) -> u64 {
        self.una_seen_ns
    }

    /// The timestamp of its ACK `segment`, if what its peer sends from then on echoes it, or a later
    /// one: it carries nothing, and all before it was acknowledged (RFC 7323 §4.3); else 0.
    #[inline]
    pub fn stamp_echoed(&self, segment: &Segment) -> u32 {
        let alone = segment.payload_len == 0 && segment.flags.0 == TcpFlags::ACK;
        let settled = self.sequence.position(segment.seq, self.nxt) == self.una_seen();
        let stamped = segment.facts.has(SegmentFlags::TIMESTAMPS);
        if alone && settled && stamped { segment.tsval } else { 0 }
    }

    /// Time to live of its last packet that was no RST; 0 if there was none.
    pub fn ttl(&self) -> u8 {
        self.last_packet.ttl
    }

    /// The timestamp of its last packet.
    #[inline]
    pub fn last_tsval(&self) -> u32 {
        self.last_packet.tsval
    }

    /// The identification of its last packet.
    #[inline]
    pub fn number(&self) -> u16 {
        self.last_packet.ip_id
    }

    /// Counts any packet of this direction, and says whether it was captured before. `others`: the
    /// identification of the last packet of the other direction.
    #[inline]
    pub fn packet(&mut self, segment: &Segment, others: u16) -> bool {
        let syn = segment.flags.has(TcpFlags::SYN) && self.first_number() == Some(segment.seq);
        if self.packets > 0
            && (self.last_packet.is(segment, self.packet_count.tells_apart())
                || syn && self.last_packet.is_same_syn(segment))
        {
            self.expect_copies(segment);
            return true;
        }
        if self.trouble.is_some() && self.is_copy(segment) {
            return true;
        }
        self.packets += 1;
        if segment.facts.has(SegmentFlags::IPV4) {
            self.count_packet(segment, others);
        }
        self.observe(segment);
        self.last_packet = self.last_packet.after(segment);
        false
    }

    /// `segment` was captured twice.
    #[cold]
    #[inline(never)]
    fn expect_copies(&mut self, segment: &Segment) {
        self.trouble_mut().copies.get_or_insert_with(|| Copies::after(segment));
    }

    /// Whether `segment` was captured before, where some were.
    #[inline(never)]
    fn is_copy(&mut self, segment: &Segment) -> bool {
        let known = self.trouble.as_deref_mut().and_then(|trouble| trouble.copies.as_mut());
        known.is_some_and(|copies| copies.is_copy(segment, self.packet_count.tells_apart()))
    }

    /// Its message ended with what was sent last.
    pub fn end_message(&mut self) {
        let unpushed = self.last.len > 0 && !self.last.pushed;
        self.marks.note(Marks::UNPUSHED_END, unpushed);
    }

    /// Whether it had nothing more buffered after its last departure, as far as PSH tells. Where that marks more than
    /// the ends of what is buffered, those are what is smaller than a full segment.
    pub fn drained(&self) -> bool {
        self.last.pushed && (self.last.small || !self.marks.has(Marks::PUSHES_EARLY))
    }

    /// Whether it is not known to end messages without PSH, so that its absence says something.
    pub fn marks_ends(&self) -> bool {
        !self.marks.has(Marks::UNPUSHED_END)
    }

    /// Whether it had more in its buffer after its last departure: that was no end of what was written.
    pub fn has_unsent(&self) -> bool {
        self.last.len > 0 && !self.drained() && self.marks_ends()
    }

    /// How much longer than the base round trip the ACK of the last departure took, ns; 0 if
    /// it has not come.
    pub fn latest_delay_ns(&self, rtt_receiver_ns: u64) -> u64 {
        if self.una_seen() < self.nxt {
            return 0;
        }
        self.una_seen_ns.saturating_sub(self.last.time_ns + rtt_receiver_ns)
    }

    /// How much longer than the fastest the last packet of this sender was under way to the
    /// vantage, by its timestamps, ns.
    pub fn queued_ns(&self) -> u64 {
        self.clock.queued_ns()
    }

    /// Whether its flight stood at a ceiling, and never went far beyond it: one that grows by half after
    /// all was held back by a congestion window, or by a buffer that the kernel lets grow.
    pub fn stood_at_ceiling(&self) -> bool {
        let ceiling = self.bulk.as_ref().map_or(0, |bulk| bulk.ceiling);
        let beyond = ceiling.min(SKB_MAX_BYTES.max(ceiling / 2));
        ceiling > 0 && u64::from(self.flight_max) < ceiling + beyond
    }

    /// Nothing is under way: gives back memory that is not in use.
    pub fn shrink(&mut self) {
        self.pending.shrink();
        self.sent.shrink();
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.pending.heap_bytes()
            + self.since.as_ref().map_or(0, |_| size_of::<SinceDeparture>())
            + self.trouble.as_ref().map_or(0, |trouble| {
                size_of::<Trouble>()
                    + trouble.holes.capacity() * size_of::<Hole>()
                    + trouble.copies.as_ref().map_or(0, |_| size_of::<Copies>())
            })
            + self.sent.heap_bytes()
            + self.bulk.as_ref().map_or(0, |_| size_of::<Bulk>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fin_takes_of_the_stream_is_no_hole() {
        let mut sender = Sender::default();
        let start = sender.position(100);
        sender.finish(start);
        sender.announce(&Segment { seq: 101, ..Segment::default() });
        assert!(sender.nxt == start + 1 && !sender.is_troubled());
        sender.announce(&Segment { seq: 103, ..Segment::default() });
        assert!(sender.nxt == start + 3 && sender.is_troubled());
    }

    /// One that is sent for hours in one direction of which no ACK is captured.
    #[test]
    fn positions_stay_right_far_beyond_what_32_bits_hold() {
        const LEN: u32 = 1 << 20;
        let mut sender = Sender::default();
        let flags = TcpFlags(TcpFlags::ACK);
        for number in 0..10_000_u32 {
            let seq = number.wrapping_mul(LEN);
            let time_ns = 1_000_000 * u64::from(number + 1);
            let segment = Segment { seq, payload_len: LEN, time_ns, flags, ..Segment::default() };
            let start = sender.position(seq);
            assert_eq!(start, ORIGIN + u64::from(number) * u64::from(LEN));
            sender.depart(&segment, (start, Kind::New), &SinceDeparture::default(), false);
            assert!(sender.una() <= start && sender.flight() <= WINDOW_MAX_BYTES);
        }
        let ack = 10_000_u32.wrapping_mul(LEN);
        let segment = Segment { ack, time_ns: 20_000_000_000, flags, ..Segment::default() };
        sender.acked(&segment, Near::Neither, 0);
        assert_eq!(sender.una_seen(), sender.nxt);
    }
}
