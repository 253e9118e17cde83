//! The reasons why packets cannot be decoded, and their counts.

use super::Packet;
use crate::capture::FrameId;
use std::fmt;

/// The reason why a frame could not be decoded. Names are stable: they are keys of the report's
/// `totals.decode_errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DecodeError {
    /// The frame's link type is not supported.
    LinkTypeUnsupported,
    /// The link-layer header does not fit into the captured bytes.
    LinkTruncated,
    /// More VLAN tags or MPLS labels than occur in practice.
    LinkTooDeep,
    /// The IP header does not fit into the captured bytes.
    IpTruncated,
    /// The version nibble contradicts the layer below.
    IpVersion,
    /// IPv4 header length below 20, or beyond the total length (RFC 791 §3.1).
    IpHeaderLength,
    /// The IP header states an end of a TCP packet beyond that of its frame (RFC 791 §3.1, RFC 8200
    /// §3).
    IpLength,
    /// An IPv6 extension header or AH does not fit into the captured bytes.
    ExtensionTruncated,
    /// More extension headers than occur in practice (RFC 8200 §4.1).
    ExtensionsTooMany,
    /// An invalid fragment: unaligned, or beyond the largest datagram (RFC 791 §3.2).
    FragmentImpossible,
    /// Fragments of one datagram overlap (forbidden by RFC 5722; an evasion in IPv4).
    FragmentOverlap,
    /// More fragments of a packet than occur in practice.
    FragmentsTooMany,
    /// A datagram whose fragments did not all arrive in time.
    FragmentIncomplete,
    /// The tunnel header does not fit into the captured bytes.
    TunnelTruncated,
    /// Tunnels nested too deeply.
    TunnelTooDeep,
    /// A tunnel of a kind that is not read.
    TunnelUnsupported,
    /// The captured part is shorter than the fixed TCP header.
    TcpTruncated,
    /// TCP data offset below 5 words, or beyond the IP packet (RFC 9293 §3.1).
    TcpHeaderLength,
    /// The UDP header does not fit into the captured bytes.
    UdpTruncated,
    /// UDP length below 8 (RFC 768).
    UdpLength,
    /// The ICMP message, or the packet that it quotes, is cut before the ports.
    IcmpTruncated,
}

impl DecodeError {
    /// Every kind, in order of declaration.
    pub const ALL: [Self; 21] = [
        Self::LinkTypeUnsupported,
        Self::LinkTruncated,
        Self::LinkTooDeep,
        Self::IpTruncated,
        Self::IpVersion,
        Self::IpHeaderLength,
        Self::IpLength,
        Self::ExtensionTruncated,
        Self::ExtensionsTooMany,
        Self::FragmentImpossible,
        Self::FragmentOverlap,
        Self::FragmentsTooMany,
        Self::FragmentIncomplete,
        Self::TunnelTruncated,
        Self::TunnelTooDeep,
        Self::TunnelUnsupported,
        Self::TcpTruncated,
        Self::TcpHeaderLength,
        Self::UdpTruncated,
        Self::UdpLength,
        Self::IcmpTruncated,
    ];

    /// Returns the stable name, as in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::LinkTypeUnsupported => "link_type_unsupported",
            Self::LinkTruncated => "link_truncated",
            Self::LinkTooDeep => "link_too_deep",
            Self::IpTruncated => "ip_truncated",
            Self::IpVersion => "ip_version",
            Self::IpHeaderLength => "ip_header_length",
            Self::IpLength => "ip_length",
            Self::ExtensionTruncated => "extension_truncated",
            Self::ExtensionsTooMany => "extensions_too_many",
            Self::FragmentImpossible => "fragment_impossible",
            Self::FragmentOverlap => "fragment_overlap",
            Self::FragmentsTooMany => "fragments_too_many",
            Self::FragmentIncomplete => "fragment_incomplete",
            Self::TunnelTruncated => "tunnel_truncated",
            Self::TunnelTooDeep => "tunnel_too_deep",
            Self::TunnelUnsupported => "tunnel_unsupported",
            Self::TcpTruncated => "tcp_truncated",
            Self::TcpHeaderLength => "tcp_header_length",
            Self::UdpTruncated => "udp_truncated",
            Self::UdpLength => "udp_length",
            Self::IcmpTruncated => "icmp_truncated",
        }
    }

    /// Returns whether a packet contradicts its own lengths, so that no host accepts it.
    pub fn is_damage(self) -> bool {
        matches!(
            self,
            Self::IpHeaderLength | Self::IpLength | Self::TcpHeaderLength | Self::UdpLength
        )
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for DecodeError {}

/// Well-formed traffic that is only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Other {
    /// ARP, LLC, LLDP, PPP control and similar protocols.
    NonIp,
    /// UDP that is neither DNS nor SIP, and begins with no long header of QUIC.
    Udp,
    /// SIP over UDP.
    Sip,
    /// ICMP other than errors about TCP or UDP.
    Icmp,
    /// Any other IP protocol, including encrypted ones.
    Ip,
}

/// Number of frames by result. The counts of parts of a capture can be added
/// ([`merge`](Self::merge)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
pub struct DecodeCounts {
    /// TCP segments.
    pub tcp: u64,
    /// DNS-port UDP datagrams.
    pub datagrams: u64,
    /// UDP datagrams that begin with a QUIC packet with a long header.
    pub quic: u64,
    /// ICMP errors about a TCP or UDP packet.
    pub icmp_errors: u64,
    /// IP fragments.
    pub fragments: u64,
    /// [`Other::NonIp`].
    pub non_ip: u64,
    /// [`Other::Udp`].
    pub udp_other: u64,
    /// [`Other::Sip`].
    pub sip: u64,
    /// [`Other::Icmp`].
    pub icmp_other: u64,
    /// [`Other::Ip`].
    pub ip_other: u64,
    errors: [u64; DecodeError::ALL.len()],
    /// The first [damaged](DecodeError::is_damage) packet.
    first_damaged: Option<FrameId>,
}

impl DecodeCounts {
    /// Counts the result of [decoding](super::decode) `frame`.
    #[inline]
    pub fn add(&mut self, packet: &Packet<'_>, frame: FrameId) {
        match packet {
            Packet::Tcp => self.tcp += 1,
            Packet::Udp(_) => self.datagrams += 1,
            Packet::Quic(_) => self.quic += 1,
            Packet::IcmpError(_) => self.icmp_errors += 1,
            Packet::Fragment(_) => self.fragments += 1,
            Packet::Other(Other::NonIp) => self.non_ip += 1,
            Packet::MayBeQuic(_) | Packet::Other(Other::Udp) => self.udp_other += 1,
            Packet::Other(Other::Sip) => self.sip += 1,
            Packet::Other(Other::Icmp) => self.icmp_other += 1,
            Packet::Other(Other::Ip) => self.ip_other += 1,
            Packet::Malformed(error) => self.add_error(*error, frame),
        }
    }

    /// Counts an error in `frame`.
    pub fn add_error(&mut self, error: DecodeError, frame: FrameId) {
        self.add_errors(error, 1);
        if error.is_damage() {
            self.note_damage(Some(frame));
        }
    }

    /// Counts `count` errors, no [damage](DecodeError::is_damage), that belong to no frame.
    pub fn add_errors(&mut self, error: DecodeError, count: u64) {
        if let Some(sum) = self.errors.get_mut(error as usize) {
            *sum += count;
        }
    }

    fn note_damage(&mut self, frame: Option<FrameId>) {
        let both = [self.first_damaged, frame];
        self.first_damaged = both.into_iter().flatten().min();
    }

    /// The first [damaged](DecodeError::is_damage) packet, by file and number.
    pub fn first_damaged(&self) -> Option<FrameId> {
        self.first_damaged
    }

    /// Adds the counts of another part of the capture.
    pub fn merge(&mut self, part: &Self) {
        self.tcp += part.tcp;
        self.datagrams += part.datagrams;
        self.quic += part.quic;
        self.icmp_errors += part.icmp_errors;
        self.fragments += part.fragments;
        self.non_ip += part.non_ip;
        self.udp_other += part.udp_other;
        self.sip += part.sip;
        self.icmp_other += part.icmp_other;
        self.ip_other += part.ip_other;
        for (sum, count) in self.errors.iter_mut().zip(part.errors) {
            *sum += count;
        }
        self.note_damage(part.first_damaged);
    }

    /// Returns the errors that occurred, with their counts.
    pub fn errors(&self) -> impl Iterator<Item = (DecodeError, u64)> + '_ {
        DecodeError::ALL.into_iter().zip(self.errors).filter(|(_, count)| *count > 0)
    }
}
