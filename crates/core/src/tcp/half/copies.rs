//! Packets captured more than once: on a bridge, on `-i any`, from a mirror port.

use crate::wire::{Segment, SegmentFlags, TcpFlags};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Packets of one direction that are known again. The kernel takes up to 64 from a queue before
/// it turns to another interface, where their copies are.
const COPIES_MAX: usize = 64;

/// How late a copy is recognised by its header alone, ns: retransmissions take longer.
const COPY_NS: u64 = 2_000_000;

/// No SYN with a number is repeated sooner, ns (RFC 6298 §2.1: a second).
const SYN_AGAIN_NS: u64 = 400_000_000;

/// The last packets of a direction of which some were captured twice.
#[derive(Debug)]
pub struct Copies {
    /// Fingerprint and time, µs; the oldest is at `next`.
    seen: [(u32, u32); COPIES_MAX],
    next: usize,
}

impl Copies {
    /// Those after `first`, which was captured twice.
    pub fn after(first: &Segment) -> Box<Self> {
        let mut copies = Box::new(Self { seen: [(0, 0); COPIES_MAX], next: 0 });
        copies.is_copy(first, true);
        copies
    }

    /// Whether `segment` was seen before; it is remembered. `numbers`: identifications tell packets apart.
    pub fn is_copy(&mut self, segment: &Segment, numbers: bool) -> bool {
        let (print, now_us) = (fingerprint(segment), (segment.time_ns / 1_000) as u32);
        let in_time = |then_us: u32| {
            numbers && is_numbered(segment)
                || u64::from(now_us.wrapping_sub(then_us)) * 1_000 < COPY_NS
        };
        if self.seen.iter().any(|&(seen, then_us)| seen == print && in_time(then_us)) {
            return true;
        }
        self.seen[self.next] = (print, now_us);
        self.next = (self.next + 1) % COPIES_MAX;
        false
    }
}

/// Whether the packet has an identification: a repetition has another (RFC 6864 allows to leave
/// it out of what is not to be fragmented).
pub(super) fn is_numbered(segment: &Segment) -> bool {
    segment.facts.has(SegmentFlags::IPV4) && segment.ip_id != 0
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
            && self.is_near(segment)
            && (numbers && is_numbered(segment) || segment.seg_len() > 0)
    }

    /// Whether `segment` follows sooner than anything is repeated. Of a SYN, which is repeated after
    /// a second (RFC 6298 §2), that is enough to know a copy.
    #[inline]
    pub fn is_near(&self, segment: &Segment) -> bool {
        self.age_ns(segment) < COPY_NS
    }

    /// Whether the SYN `segment` is this one captured again: at once, or with the same number where
    /// SYNs have one, as on both sides of a slow link.
    pub fn is_same_syn(&self, segment: &Segment) -> bool {
        let same = is_numbered(segment) && self.ip_id == segment.ip_id;
        self.is_near(segment) || same && self.age_ns(segment) < SYN_AGAIN_NS
    }

    /// How long before `segment` it passed, ns, up to an hour.
    #[inline]
    pub fn age_ns(&self, segment: &Segment) -> u64 {
        u64::from(ticks(segment).wrapping_sub(self.time)) * TICK_NS
    }
}
