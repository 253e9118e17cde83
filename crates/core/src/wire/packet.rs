//! What a frame can turn out to be.

use super::{DecodeError, Endpoint, FlowKey, Fragment, Other, Segment, SegmentFlags};
use crate::capture::FrameId;

/// One decoded frame.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A TCP segment, written to where the caller asked for it. Its `payload_offset` counts from
    /// the start of the frame's bytes; see [`Segment::rebase`].
    Tcp,
    /// A UDP datagram from or to port 53.
    Udp(Datagram<'a>),
    /// An ICMP error about a TCP or UDP packet.
    IcmpError(IcmpError),
    /// A part of a packet, for the [`Reassembler`](super::Reassembler).
    Fragment(Fragment<'a>),
    /// Well-formed, and not followed.
    Other(Other),
    /// Not decodable.
    Malformed(DecodeError),
}

/// A UDP datagram that may be DNS.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Capture time, nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// The frame it came in (of its last fragment, if it was fragmented).
    pub frame: FrameId,
    /// Who sent it.
    pub source: Endpoint,
    /// Whom it was sent to.
    pub destination: Endpoint,
    /// The captured payload.
    pub payload: &'a [u8],
    /// Payload length on the wire, bytes; more than `payload.len()` where it was cut.
    pub payload_len: u32,
}

/// What an ICMP or ICMPv6 error says (RFC 792, RFC 4443), in one vocabulary for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// No way to the destination: network, host, address.
    Unreachable,
    /// Nobody listens on that UDP (or TCP) port.
    PortUnreachable,
    /// A filter or policy forbids it.
    Prohibited,
    /// Larger than the next link carries and not to be fragmented (RFC 1191, RFC 8201).
    PacketTooBig {
        /// What the next link carries, bytes; 0 from routers that do not say.
        mtu: u32,
    },
    /// Time to live or reassembly time exceeded.
    TimeExceeded,
    /// A header field was refused.
    ParameterProblem,
}

/// An ICMP or ICMPv6 error and the packet it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Capture time, nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// The frame it came in.
    pub frame: FrameId,
    /// What it says.
    pub kind: IcmpErrorKind,
    /// Who says so; port 0.
    pub reporter: Endpoint,
    /// Protocol of the packet it is about: 6 TCP, 17 UDP.
    pub protocol: u8,
    /// Flow of the packet it is about.
    pub flow: FlowKey,
    /// Hash of `flow`, as in [`Segment::flow_hash`].
    pub flow_hash: u64,
    /// Whether the packet it is about was sent by `flow.high`.
    pub from_high: bool,
    /// Sequence number of the segment it is about, if TCP.
    pub seq: Option<u32>,
}

impl Segment {
    /// Addresses the payload in a buffer where the frame's bytes begin at `frame_offset`.
    #[inline]
    pub fn rebase(&mut self, frame_offset: u32) {
        self.payload_offset = self.payload_offset.wrapping_add(frame_offset);
    }

    /// Takes over from the frame whether the capture's clock was set.
    #[inline(always)]
    pub(crate) fn note_clock(&mut self, clock_set: bool) {
        self.facts.0 |= if clock_set { SegmentFlags::CLOCK_SET } else { 0 };
    }
}
