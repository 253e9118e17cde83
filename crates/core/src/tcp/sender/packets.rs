//! Packets of one direction, whether they carry data or not: copies in the capture, and packets
//! that did not pass.

use crate::judge::thresholds::{INITIAL_WINDOW_SEGMENTS, RETRANSMISSION_MIN_NS, RTO_MIN_NS};
use crate::tcp::sender::Sender;
use crate::tcp::sender::copies::{LastPacket, late_max_ns};
use crate::tcp::sender::history::History;
use crate::tcp::sender::packet_count::PacketCount;
use crate::tcp::sequence::ORIGIN;
use crate::wire::{Segment, SegmentFlags, TcpFlags};

/// The last packet of a direction, and the counter of packets by their IP identification.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets {
    /// Counter of packets.
    pub ids: PacketCount,
    pub last: LastPacket,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Packets>() == 32);

impl Packets {
    /// Returns whether `segment` is a copy of the last packet. If `is_syn`, it is the SYN of the
    /// connection.
    #[inline]
    fn is_repeated_by(&self, segment: &Segment, is_syn: bool) -> bool {
        self.last.is(segment, self.ids.distinguishes()) || is_syn && self.last.is_same_syn(segment)
    }

    /// Returns whether `segment`, by its numbers, was sent before the last packet.
    #[inline]
    fn is_preceded_by(&self, segment: &Segment) -> bool {
        self.ids.distinguishes() && self.last.was_sent_after(segment)
    }

    /// Compares the number of `segment` with those of the last packets of both directions. Returns
    /// how many packets before it are missing by that number.
    fn compare(&mut self, segment: &Segment, peer_number: u16) -> u16 {
        self.ids.compare(segment, self.last.ip_id, peer_number);
        self.ids.jump(segment)
    }

    /// Counts `segment`, which was expected, as one more of `packets` packets.
    #[inline]
    pub fn pass(&mut self, segment: &Segment, packets: &mut u64) {
        *packets += 1;
        if segment.facts.has(SegmentFlags::IPV4) && !self.ids.take_next(segment) {
            self.ids.follow(segment, 1, *packets, false);
        }
        self.last = self.last.after(segment);
    }
}

/// What is known when packets are missing before a segment that continues the stream.
struct BeforeMissing {
    /// All data before the segment is acknowledged.
    all_acked: bool,
    /// The sender knows of a loss.
    is_loss_reported: bool,
    /// The least of the last round-trip samples, ns; 0 if there is none.
    rtt_ns: u64,
}

impl BeforeMissing {
    /// Least time from the packet before `segment` at which one of the `packets` missing in between
    /// can have carried lost data, ns.
    fn repair_min_ns(&self, segment: &Segment, packets: u64) -> u64 {
        let probe_ns = (2 * self.rtt_ns).clamp(RETRANSMISSION_MIN_NS, RTO_MIN_NS);
        match segment.seg_len() {
            // All data before it is acknowledged.
            0 if self.all_acked => u64::MAX,
            _ if self.is_loss_reported => RETRANSMISSION_MIN_NS,
            0 if self.rtt_ns == 0 => RTO_MIN_NS,
            0 => probe_ns,
            // A probe for a lost flight repeats the last segment; a segment that continues the
            // stream is the only probe.
            _ if self.all_acked && packets > 1 => RTO_MIN_NS,
            _ if self.all_acked => probe_ns,
            _ => RETRANSMISSION_MIN_NS,
        }
    }
}

impl Sender {
    /// Counts a packet of this direction. Returns `true`, without counting it, if it was captured
    /// before. `peer_number` is the IP identification of the other direction's last packet.
    #[inline]
    pub fn packet(&mut self, segment: &Segment, peer_number: u16) -> bool {
        let is_syn =
            segment.flags.has(TcpFlags::SYN) && self.space.first_number() == Some(segment.seq);
        if self.volume.has_packets()
            && (self.packets.is_repeated_by(segment, is_syn)
                || self.packets.is_preceded_by(segment) && self.has_passed(segment))
        {
            self.history_mut().expect_copies(segment);
            return true;
        }
        if let Some(history) = &mut self.history
            && history.is_copy(segment, self.packets.ids.distinguishes())
        {
            return true;
        }
        self.volume.packets += 1;
        if segment.facts.has(SegmentFlags::IPV4) {
            let may_be_next =
                self.volume.packets > 1 && u64::from(segment.payload_len) <= self.sizes.smss();
            if !(may_be_next && self.packets.ids.take_next(segment)) {
                self.count_jump(segment, peer_number);
            }
        }
        self.clock.observe_packet(segment);
        self.packets.last = self.packets.last.after(segment);
        false
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
        let History { holes, losses, .. } = self.history();
        let is_original =
            losses.repair.is_some_and(|(_, ip_id)| (segment.ip_id.wrapping_sub(ip_id) as i16) < 0);
        let is_known = start >= ORIGIN
            && end <= self.space.nxt
            && holes.overlapped(start, end).is_none()
            && !is_original;
        let passed_ns = self.original(start).map_or(self.una_seen_ns, |it| it.time_ns);
        let is_routed = segment.ttl != self.packets.last.ttl;
        let late_ns = segment.time_ns.saturating_sub(passed_ns);
        is_known && late_ns < late_max_ns(segment, true, is_routed)
    }

    /// Follows the IP identification up to `segment`, and records packets that did not pass. None of
    /// them can have carried lost data if the segment continues the stream, and comes too soon after
    /// the previous packet for a retransmission, or more packets than a flight are missing.
    /// `peer_number` is the last identification of the other direction.
    #[inline(never)]
    fn count_jump(&mut self, segment: &Segment, peer_number: u16) {
        let jump = self.packets.compare(segment, peer_number);
        let (len, smss) = (u64::from(segment.payload_len), self.sizes.smss());
        let packets = if len <= smss { 1 } else { len.div_ceil(smss) };
        let space = &self.space;
        let in_order = space.started() && space.position_of(segment.seq) == space.nxt;
        let lossless = jump != 0 && in_order && {
            let History { losses, mtu, .. } = self.history();
            let in_recovery = losses.is_repairing(space.una());
            let before = BeforeMissing {
                all_acked: space.is_acked(),
                is_loss_reported: losses.duplicates.count > 0 || in_recovery || mtu.reported,
                rtt_ns: self.rtts.recent_ns(),
            };
            let age_ns = self.packets.last.age_ns(segment);
            let flight = 2 * u64::from(self.volume.flight_max) / smss;
            age_ns < before.repair_min_ns(segment, jump.into())
                || u64::from(jump) > flight.max(INITIAL_WINDOW_SEGMENTS)
        };
        let number = self.volume.packets;
        let missing = self.packets.ids.follow(segment, packets as u16, number, lossless);
        if missing > 0 {
            self.since.stored_mut().missing.add(missing, segment.ip_id);
        } else if self.packets.ids.came_late() {
            self.since.arrived(segment.ip_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn numbered(ip_id: u16, seq: u32, at_ms: u64) -> Segment {
        let facts = SegmentFlags(SegmentFlags::IPV4);
        let (time_ns, flags) = (at_ms * MS, TcpFlags(TcpFlags::ACK));
        Segment {
            seq,
            payload_len: 100,
            ip_id,
            ttl: 64,
            time_ns,
            flags,
            facts,
            ..Segment::default()
        }
    }

    #[test]
    fn a_packet_captured_twice_is_counted_once() {
        let mut sender = Sender::default();
        let packet = numbered(1, 0, 10);
        assert!(!sender.packet(&packet, 0) && sender.packet(&packet, 0));
        assert!(!sender.packet(&numbered(2, 100, 11), 0), "it has another number");
        assert_eq!((sender.volume.packets, sender.packets.last.ip_id), (2, 2));
    }

    #[test]
    fn packets_missing_by_their_numbers_are_kept_until_they_arrive() {
        let mut sender = Sender::default();
        for number in 1..=20 {
            sender.packet(&numbered(number, 0, 300 * u64::from(number)), 0);
        }
        sender.packet(&numbered(23, 500, 9_000), 0);
        assert_eq!(sender.since.stored_mut().missing.count, 2);
        sender.packet(&numbered(22, 400, 9_001), 0);
        assert_eq!(sender.since.stored_mut().missing.count, 1);
        assert!(sender.packets.ids.take_late() && !sender.packets.ids.take_late());
    }

    #[test]
    fn missing_packets_carried_no_lost_data_if_the_next_comes_too_soon() {
        let before =
            |all_acked, rtt_ns| BeforeMissing { all_acked, is_loss_reported: false, rtt_ns };
        let data = numbered(9, 0, 0);
        let empty = Segment { payload_len: 0, ..data };
        assert_eq!(before(true, 50 * MS).repair_min_ns(&empty, 1), u64::MAX);
        assert_eq!(before(false, 0).repair_min_ns(&empty, 1), RTO_MIN_NS);
        assert_eq!(before(true, 50 * MS).repair_min_ns(&data, 1), 100 * MS);
        assert_eq!(before(true, 50 * MS).repair_min_ns(&data, 2), RTO_MIN_NS);
        assert_eq!(before(false, 50 * MS).repair_min_ns(&data, 1), RETRANSMISSION_MIN_NS);
    }
}
