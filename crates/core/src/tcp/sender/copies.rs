//! Packets captured more than once: on a bridge, on `-i any`, or from a mirror port.

use crate::judge::thresholds::RTO_MIN_NS;
use crate::tcp::thresholds::{IDENTIFICATION_JUMP_MAX, NUMBERED_COPY_DELAY_MAX_NS, TIMER_MIN_NS};
use crate::wire::{Segment, SegmentFlags, TcpFlags, digest};

/// Number of packets of one direction that are remembered. The kernel takes up to 64 from a queue
/// before it serves another interface, where their copies are.
const COPIES_MAX: usize = 64;

/// The last packets of a direction of which some were captured twice.
#[derive(Clone, Debug)]
pub struct Copies {
    /// Fingerprint, time in µs, and TTL of each packet; the oldest is at `next`.
    seen: [(u32, u32, u8); COPIES_MAX],
    next: usize,
}

impl Copies {
    /// Creates the record after `first`, which was captured twice.
    pub fn after(first: &Segment) -> Box<Self> {
        let mut copies = Box::new(Self { seen: [(0, 0, 0); COPIES_MAX], next: 0 });
        copies.is_copy(first, true);
        copies
    }

    /// Returns whether `segment` was captured before, and remembers it. If `numbers`, IP
    /// identifications distinguish packets.
    pub fn is_copy(&mut self, segment: &Segment, numbers: bool) -> bool {
        let (print, now_us) = (fingerprint(segment), (segment.time_ns / 1_000) as u32);
        let late_ns = |ttl: u8| late_max_ns(segment, numbers, ttl != segment.ttl);
        let in_time =
            |then_us: u32, ttl: u8| u64::from(now_us.wrapping_sub(then_us)) * 1_000 < late_ns(ttl);
        let same = |&(seen, then_us, ttl): &_| seen == print && in_time(then_us, ttl);
        if self.seen.iter().any(same) {
            return true;
        }
        self.seen[self.next] = (print, now_us, segment.ttl);
        self.next = (self.next + 1) % COPIES_MAX;
        false
    }
}

/// Returns whether the packet has an IP identification, so that a retransmission has another. (RFC
/// 6864 allows to leave it zero in packets that must not be fragmented.)
pub(super) fn is_numbered(segment: &Segment) -> bool {
    segment.facts.has(SegmentFlags::IPV4) && segment.ip_id != 0
}

/// Longest delay of a copy of `segment`, ns. If `numbers`, IP identifications distinguish packets;
/// if `routed`, the TTLs differ.
pub(super) fn late_max_ns(segment: &Segment, numbers: bool, routed: bool) -> u64 {
    match numbers && is_numbered(segment) {
        true if routed || segment.flags.has(TcpFlags::SYN) => RTO_MIN_NS,
        true => NUMBERED_COPY_DELAY_MAX_NS,
        false => TIMER_MIN_NS,
    }
}

/// Hash of the fields that a copy shares with its original; routers change the other fields.
fn fingerprint(segment: &Segment) -> u32 {
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let [first, second, third] = segment.sack.map(|block| pair(block.left, block.right));
    digest([
        pair(segment.seq, segment.ack),
        pair(segment.tsval, segment.tsecr),
        pair(segment.payload_len, u32::from(segment.window) << 16 | u32::from(segment.ip_id)),
        segment.flags.0.into(),
        first,
        second,
        third,
    ]) as u32
}

/// The last packet of a direction, kept to recognise a copy that follows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastPacket {
    /// Lower half of the time in [`TICK_NS`]; only differences between near times are used.
    time: u32,
    seq: u32,
    ack: u32,
    len: u32,
    /// See [`Segment::tsval`].
    pub tsval: u32,
    /// Time of the first packet with this `tsval`, as `time`.
    tsval_time: u32,
    /// See [`Segment::ip_id`].
    pub ip_id: u16,
    flags: u8,
    /// TTL of the last packet that was no RST.
    pub ttl: u8,
}

/// Unit of `time`, ns: that of most captures, so that a time between two packets does not depend on when
/// the first of them was captured.
const TICK_NS: u64 = 1_000;

fn ticks(segment: &Segment) -> u32 {
    (segment.time_ns / TICK_NS) as u32
}

impl LastPacket {
    #[inline]
    pub fn after(&self, segment: &Segment) -> Self {
        let is_reset = segment.flags.has(TcpFlags::RST);
        // A packet with an older one was overtaken.
        let is_newer = self.tsval == 0 || segment.tsval.wrapping_sub(self.tsval) as i32 > 0;
        Self {
            tsval_time: if is_newer { ticks(segment) } else { self.tsval_time },
            ttl: if is_reset { self.ttl } else { segment.ttl },
            time: ticks(segment),
            seq: segment.seq,
            ack: segment.ack,
            len: segment.payload_len,
            tsval: segment.tsval,
            ip_id: segment.ip_id,
            flags: segment.flags.0,
        }
    }

    /// Returns the time from the first packet with the last timestamp to `segment` of the other side, if
    /// that echoes this timestamp, ns: the round trip to the other side takes no longer (RFC 7323 §4.1).
    #[inline]
    pub fn echoed_ago_ns(&self, segment: &Segment) -> Option<u64> {
        let is_echo = self.tsval != 0 && segment.echoes() == Some(self.tsval);
        let ticks = u64::from(ticks(segment).wrapping_sub(self.tsval_time));
        // A part of a tick is not known.
        is_echo.then_some((ticks + 1) * TICK_NS)
    }

    /// Returns whether `segment` is a copy of this packet. A pure ACK without an IP identification
    /// is none, since duplicate ACKs are alike too. If `numbers`, IP identifications distinguish
    /// packets.
    #[inline]
    pub fn is(&self, segment: &Segment, numbers: bool) -> bool {
        (self.seq, self.ack, self.tsval) == (segment.seq, segment.ack, segment.tsval)
            && (self.len, self.ip_id, self.flags)
                == (segment.payload_len, segment.ip_id, segment.flags.0)
            && self.age_ns(segment) < late_max_ns(segment, numbers, self.ttl != segment.ttl)
            && (numbers && is_numbered(segment) || segment.seg_len() > 0)
    }

    /// Returns whether the data in `segment` was sent before this packet, as sequence number,
    /// timestamp and IP identification agree.
    #[inline]
    pub fn was_sent_after(&self, segment: &Segment) -> bool {
        (segment.seq.wrapping_sub(self.seq) as i32) < 0
            && segment.payload_len > 0
            && is_numbered(segment)
            && (1..=IDENTIFICATION_JUMP_MAX).contains(&self.ip_id.wrapping_sub(segment.ip_id))
            && segment.tsval.wrapping_sub(self.tsval) as i32 <= 0
    }

    /// Returns whether the SYN `segment` is a copy of this one: it comes at once, or it has the
    /// same IP identification, as on both sides of a slow link.
    pub fn is_same_syn(&self, segment: &Segment) -> bool {
        let same = self.ip_id == segment.ip_id;
        self.age_ns(segment) < late_max_ns(segment, same, false)
    }

    /// Time from this packet to `segment`, ns; at most about an hour.
    #[inline]
    pub fn age_ns(&self, segment: &Segment) -> u64 {
        u64::from(ticks(segment).wrapping_sub(self.time)) * TICK_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns whether a packet with this identification is a copy of one captured so much before.
    fn is_copy_after(ns: u64, ip_id: u16, ttl: u8) -> bool {
        let facts = SegmentFlags(SegmentFlags::IPV4);
        let first = Segment {
            time_ns: 100 * MS,
            payload_len: 1_448,
            facts,
            ttl: 64,
            ip_id,
            ..Segment::default()
        };
        let again = Segment { time_ns: first.time_ns + ns, ttl, ..first };
        Copies::after(&first).is_copy(&again, true)
    }

    #[test]
    fn a_copy_comes_sooner_than_a_repetition() {
        assert!(is_copy_after(3 * MS / 2, 0, 64) && !is_copy_after(3 * MS, 0, 64));
    }

    #[test]
    fn an_echo_is_timed_from_the_first_packet_with_its_timestamp() {
        let facts = SegmentFlags(SegmentFlags::TIMESTAMPS);
        let packet = |at_ms: u64, tsval: u32, tsecr: u32| Segment {
            time_ns: 9_000_000 * MS + at_ms * MS,
            flags: TcpFlags(TcpFlags::ACK),
            facts,
            tsval,
            tsecr,
            ..Segment::default()
        };
        let ago = |tsvals: &[(u64, u32)], echo: u32| {
            let sent = tsvals.iter().fold(LastPacket::default(), |last, &(at_ms, tsval)| {
                last.after(&packet(at_ms, tsval, 0))
            });
            sent.echoed_ago_ns(&packet(30, 7, echo)).map(|ns| ns / MS)
        };
        // Clocks begin anywhere, also in the upper half of their range.
        for begin in [5, 0xf000_0000] {
            assert_eq!(ago(&[(0, begin), (4, begin)], begin), Some(30));
            assert_eq!(ago(&[(0, begin), (4, begin + 1), (6, begin + 1)], begin + 1), Some(26));
            assert_eq!(ago(&[(0, begin), (4, begin + 1)], begin), None);
        }
    }

    #[test]
    fn age_of_a_packet_does_not_depend_on_the_time_of_day() {
        let age_ns = |at_ms: u64| {
            let first = Segment { time_ns: at_ms * MS, ..Segment::default() };
            let again = Segment { time_ns: first.time_ns + 2_000_578, ..first };
            LastPacket::default().after(&first).age_ns(&again)
        };
        assert!((1..=1_024).all(|at_ms| age_ns(at_ms) == 2_000_000));
    }

    #[test]
    fn the_same_number_soon_after_is_a_copy() {
        assert!(is_copy_after(15 * MS, 9, 64) && !is_copy_after(30 * MS, 9, 64));
    }

    #[test]
    fn a_copy_behind_a_router_may_come_as_late_as_no_timer() {
        assert!(is_copy_after(150 * MS, 9, 63) && !is_copy_after(250 * MS, 9, 63));
    }
}
