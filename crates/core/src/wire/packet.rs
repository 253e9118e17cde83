//! The possible results of decoding a frame.

use super::{DecodeError, Endpoint, FlowKey, Fragment, Other, Segment, SegmentFlags};
use crate::capture::FrameId;

/// One decoded frame.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A TCP segment, written to the slot that the caller passed. Its `payload_offset` counts from
    /// the start of the frame's bytes; see [`Segment::rebase`].
    Tcp,
    /// A UDP datagram from or to port 53.
    Udp(Datagram<'a>),
    /// A UDP datagram that begins with a QUIC packet with a long header.
    Quic(Datagram<'a>),
    /// A UDP datagram that begins like a QUIC packet with a short header, which only its connection
    /// tells from other protocols.
    MayBeQuic(Datagram<'a>),
    /// An ICMP error about a TCP or UDP packet.
    IcmpError(IcmpError),
    /// A fragment of a packet, for the [`Reassembler`](super::Reassembler).
    Fragment(Fragment<'a>),
    /// Well-formed, but not analysed.
    Other(Other),
    /// Not decodable.
    Malformed(DecodeError),
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Capture time, nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// The frame that carried it (its last fragment, if it was fragmented).
    pub frame: FrameId,
    /// The endpoint that sent it.
    pub source: Endpoint,
    /// The endpoint that it was sent to.
    pub destination: Endpoint,
    /// The captured payload.
    pub payload: &'a [u8],
    /// Payload length on the wire, bytes; more than `payload.len()` if it was cut.
    pub payload_len: u32,
    /// Time to live, or hop limit; 0 if it is unknown.
    pub ttl: u8,
}

/// The meaning of an ICMP or ICMPv6 error (RFC 792, RFC 4443), in one vocabulary for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum IcmpErrorKind {
    /// No route to the destination: network, host, address.
    Unreachable,
    /// No socket listens on that UDP (or TCP) port.
    PortUnreachable,
    /// A filter or policy forbids it.
    Prohibited,
    /// The packet exceeds the MTU of the next link and must not be fragmented (RFC 1191, RFC 8201).
    PacketTooBig {
        /// MTU of the next link, bytes; 0 if the router does not state it.
        mtu: u32,
    },
    /// Time to live or reassembly time exceeded.
    TimeExceeded,
    /// A header field is invalid.
    ParameterProblem,
}

/// An ICMP or ICMPv6 error and the packet that it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct IcmpError {
    /// Capture time, nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// The frame that carried it.
    pub frame: FrameId,
    /// The meaning of the error.
    pub kind: IcmpErrorKind,
    /// The host that sent the error; port 0.
    pub reporter: Endpoint,
    /// Protocol of the quoted packet: 6 TCP, 17 UDP.
    pub protocol: u8,
    /// Flow of the quoted packet.
    pub flow: FlowKey,
    /// Hash of `flow`, as in [`Segment::flow_hash`].
    pub flow_hash: u64,
    /// `true` if the quoted packet was sent by `flow.high`.
    pub from_high: bool,
    /// Sequence number of the quoted segment, if it is TCP.
    pub seq: Option<u32>,
}

impl Segment {
    /// Moves the payload's position to a buffer in which the frame begins at `frame_offset`.
    #[inline]
    pub fn rebase(&mut self, frame_offset: u32) {
        self.payload_offset = self.payload_offset.wrapping_add(frame_offset);
    }

    /// Copies from the frame whether the capture's clock was set.
    #[inline(always)]
    pub(crate) fn note_clock(&mut self, clock_set: bool) {
        self.facts.0 |= if clock_set { SegmentFlags::CLOCK_SET } else { 0 };
    }
}
