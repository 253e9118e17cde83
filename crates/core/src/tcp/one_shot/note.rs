//! Compact record of a segment of a one-shot connection.

use crate::capture::FrameId;
use crate::wire::{FlowKey, Segment, SegmentFlags, TcpFlags};

/// Fields of a segment that segments of one-shot connections can have.
#[derive(Clone, Copy)]
pub(super) struct Note {
    time_ns: u64,
    frame: FrameId,
    /// Its sequence number.
    pub seq: u32,
    ack: u32,
    tsval: u32,
    tsecr: u32,
    /// Its payload's length, bytes.
    pub payload_len: u16,
    facts: SegmentFlags,
    mss: u16,
    window: u16,
    ip_id: u16,
    window_scale: u8,
    flags: TcpFlags,
    ttl: u8,
}

impl Note {
    #[inline]
    pub fn of(segment: &Segment) -> Self {
        Self {
            time_ns: segment.time_ns,
            frame: segment.frame,
            seq: segment.seq,
            ack: segment.ack,
            tsval: segment.tsval,
            tsecr: segment.tsecr,
            payload_len: segment.payload_len as u16,
            facts: segment.facts,
            mss: segment.mss,
            window: segment.window,
            ip_id: segment.ip_id,
            window_scale: segment.window_scale,
            flags: segment.flags,
            ttl: segment.ttl,
        }
    }

    /// Returns whether this segment and `segment` have timestamps of the same sender.
    pub fn is_of_sender(&self, segment: &Segment) -> bool {
        let own = |facts: SegmentFlags| {
            (facts.has(SegmentFlags::TIMESTAMPS), facts.has(SegmentFlags::FROM_HIGH))
        };
        own(self.facts) == own(segment.facts)
    }

    /// Timestamp, and time at which it passed, ns.
    pub fn stamp(&self) -> (u32, u64) {
        (self.tsval, self.time_ns)
    }

    /// The segment, with its payload at `payload_offset` of the recorded payload.
    pub fn segment(&self, flow: FlowKey, flow_hash: u64, payload_offset: u32) -> Segment {
        Segment {
            time_ns: self.time_ns,
            frame: self.frame,
            flow_hash,
            flow,
            facts: self.facts,
            seq: self.seq,
            ack: self.ack,
            payload_len: self.payload_len.into(),
            payload_offset,
            captured_len: self.payload_len.into(),
            tsval: self.tsval,
            tsecr: self.tsecr,
            mss: self.mss,
            window_scale: self.window_scale,
            window: self.window,
            ip_id: self.ip_id,
            flags: self.flags,
            ttl: self.ttl,
            ..Segment::default()
        }
    }
}
