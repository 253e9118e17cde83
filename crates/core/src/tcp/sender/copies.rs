//! Packets captured more than once: on a bridge, on `-i any`, from a mirror port.

use super::RTO_MIN_NS;
use crate::wire::{Segment, SegmentFlags, TcpFlags};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Packets of one direction that are known again. The kernel takes up to 64 from a queue before
/// it turns to another interface, where their copies are.
const COPIES_MAX: usize = 64;

/// How late a copy is recognised by its header alone, ns: retransmissions take longer.
const COPY_NS: u64 = 2_000_000;

/// The same where its identification is equal as well, ns: both sides of a switch are not further apart. Some
/// middleboxes give retransmissions the same number.
const NUMBERED_COPY_NS: u64 = 20_000_000;

/// The same of a SYN, or where a router lies between both, which has taken one off the time to live, ns: no
/// timer of TCP is shorter (Linux: TCP_RTO_MIN).
const ROUTED_COPY_NS: u64 = RTO_MIN_NS;

/// The last packets of a direction of which some were captured twice.
#[derive(Clone, Debug)]
pub struct Copies {
    /// Fingerprint, time, µs, and time to live; the oldest is at `next`.
    seen: [(u32, u32, u8); COPIES_MAX],
    next: usize,
}

impl Copies {
    /// Those after `first`, which was captured twice.
    pub fn after(first: &Segment) -> Box<Self> {
        let mut copies = Box::new(Self { seen: [(0, 0, 0); COPIES_MAX], next: 0 });
        copies.is_copy(first, true);
        copies
    }

    /// Whether `segment` was seen before; it is remembered. `numbers`: identifications tell packets apart.
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

/// Whether the packet has an identification: a repetition has another (RFC 6864 allows to leave
/// it out of what is not to be fragmented).
pub(super) fn is_numbered(segment: &Segment) -> bool {
    segment.facts.has(SegmentFlags::IPV4) && segment.ip_id != 0
}

/// How much later than `segment` a copy of it is still recognised, ns. `numbers`: identifications tell
/// packets apart; `routed`: both differ in their time to live.
fn late_max_ns(segment: &Segment, numbers: bool, routed: bool) -> u64 {
    match numbers && is_numbered(segment) {
        true if routed || segment.flags.has(TcpFlags::SYN) => ROUTED_COPY_NS,
        true => NUMBERED_COPY_NS,
        false => COPY_NS,
    }
}

/// Of what a copy has in common with its original: routers between them change other fields.
fn fingerprint(segment: &Segment) -> u32 {
    let mut hasher = DefaultHasher::new();
    let sack = segment.sack.map(|block| (block.left, block.right));
    (segment.seq, segment.ack, segment.payload_len, segment.flags.0, segment.window)
        .hash(&mut hasher);
    (segment.tsval, segment.tsecr, sack, segment.ip_id).hash(&mut hasher);
    hasher.finish() as u32
}

/// What is kept of the last packet of a direction, to know a copy that follows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastPacket {
    /// In [`TICK_NS`], the lower half: what is near is told by a difference.
    time: u32,
    seq: u32,
    ack: u32,
    len: u32,
    /// See [`Segment::tsval`].
    pub tsval: u32,
    /// See [`Segment::ip_id`].
    pub ip_id: u16,
    flags: u8,
    /// Time to live of the last one that was no RST.
    pub ttl: u8,
}

/// A power of two: it is asked for every packet.
const TICK_NS: u64 = 1 << 10;

fn ticks(segment: &Segment) -> u32 {
    (segment.time_ns / TICK_NS) as u32
}

impl LastPacket {
    #[inline]
    pub fn after(&self, segment: &Segment) -> Self {
        let is_reset = segment.flags.has(TcpFlags::RST);
        Self {
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

    /// Whether `segment` is this packet once more. Without an identification a pure ACK is not:
    /// duplicate ACKs are alike, too. `numbers`: identifications tell packets apart.
    #[inline]
    pub fn is(&self, segment: &Segment, numbers: bool) -> bool {
        (self.seq, self.ack, self.tsval) == (segment.seq, segment.ack, segment.tsval)
            && (self.len, self.ip_id, self.flags)
                == (segment.payload_len, segment.ip_id, segment.flags.0)
            && self.age_ns(segment) < late_max_ns(segment, numbers, self.ttl != segment.ttl)
            && (numbers && is_numbered(segment) || segment.seg_len() > 0)
    }

    /// Whether the SYN `segment` is this one captured again: at once, or with the same number where
    /// SYNs have one, as on both sides of a slow link.
    pub fn is_same_syn(&self, segment: &Segment) -> bool {
        let same = self.ip_id == segment.ip_id;
        self.age_ns(segment) < late_max_ns(segment, same, false)
    }

    /// How long before `segment` it passed, ns, up to an hour.
    #[inline]
    pub fn age_ns(&self, segment: &Segment) -> u64 {
        u64::from(ticks(segment).wrapping_sub(self.time)) * TICK_NS
    }
}
