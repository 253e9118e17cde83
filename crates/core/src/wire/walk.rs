//! Parses a frame layer by layer, with a position and an end.

use super::ip::{Inner, Network, protocol};
use super::link::Layer;
use super::{DecodeError, FlowHasher, Other, Packet, Segment, SegmentFlags, icmp, tcp, udp};
use crate::capture::FrameId;

/// Maximum depth of nested tunnels, so that a crafted frame costs no more than a real one.
pub(super) const TUNNELS_MAX: u32 = 4;

/// Time and frame of a packet, which all its records repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub time_ns: u64,
    pub frame: FrameId,
}

/// A position in a frame's bytes.
///
/// Invariant: `at <= end`, and `at <= bytes.len()`.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub origin: Origin,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Start of the next header.
    pub at: usize,
    /// End of the innermost packet on the wire; beyond `bytes` if the snap length cut it.
    pub end: usize,
    /// End of the packet by its own length if that is after the end of the frame; otherwise 0.
    pub claimed_end: usize,
    /// [`SegmentFlags`] that apply to all inner packets.
    pub facts: u32,
}

/// The destination of segments, and the hasher of their flows.
pub(super) struct Output<'o> {
    pub hasher: &'o FlowHasher,
    pub segment: &'o mut Segment,
}

/// The result of parsing a transport header.
pub(super) enum ParsedHeader<'a> {
    Done(Packet<'a>),
    /// A tunnel, whose content begins with this layer.
    Tunnel(Layer),
}

impl<'a> Walk<'a> {
    /// Returns the next `N` bytes, if captured and part of the packet. Does not advance.
    #[inline]
    pub fn header<const N: usize>(&self, short: DecodeError) -> Result<&'a [u8; N], DecodeError> {
        self.rest().first_chunk().ok_or(short)
    }

    /// Advances by `len` bytes, which must be captured and part of the packet.
    #[inline]
    pub fn skip(&mut self, len: usize, short: DecodeError) -> Result<(), DecodeError> {
        if len > self.rest().len() {
            return Err(short);
        }
        self.at += len;
        Ok(())
    }

    /// Sets the length of the packet that begins here to `len`, whatever the outer layer states;
    /// bytes after the end of the outer layer (padding, trailers) are not part of it.
    pub fn set_len(&mut self, len: usize) {
        self.bytes = self.bytes.get(..self.end).unwrap_or(self.bytes);
        self.end = self.at + len;
    }

    /// Sets the length of the packet that begins here to `len`, limited to the end of the outer
    /// layer, which comes first if one of the two lengths is wrong.
    #[inline]
    pub fn hold(&mut self, len: usize) {
        self.end = self.end.min(self.at + len);
    }

    /// Returns the captured rest of the packet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..self.bytes.len().min(self.end)).unwrap_or_default()
    }

    /// Decodes a packet that begins with `layer`.
    pub fn decode_layer(mut self, layer: Layer, output: &mut Output<'_>) -> Packet<'a> {
        self.try_layers(layer, output).unwrap_or_else(Packet::Malformed)
    }

    /// Decodes the content after an IP header, for reassembled packets.
    pub fn decode_network(mut self, network: Network, mut output: Output<'_>) -> Packet<'a> {
        self.try_network(network, &mut output).unwrap_or_else(Packet::Malformed)
    }

    fn try_network(
        &mut self,
        network: Network,
        output: &mut Output<'_>,
    ) -> Result<Packet<'a>, DecodeError> {
        let inner = self.extensions(network)?;
        match self.transport(inner, output)? {
            ParsedHeader::Done(packet) => Ok(packet),
            ParsedHeader::Tunnel(layer) => {
                self.facts |= SegmentFlags::TUNNELLED;
                self.try_layers(layer, output)
            }
        }
    }

    #[inline(always)]
    fn try_layers(
        &mut self,
        layer: Layer,
        output: &mut Output<'_>,
    ) -> Result<Packet<'a>, DecodeError> {
        let mut layer = layer;
        for _ in 0..=TUNNELS_MAX {
            if !self.link(layer)? {
                return Ok(Packet::Other(Other::NonIp));
            }
            let inner = self.ip()?;
            match self.transport(inner, output)? {
                ParsedHeader::Done(packet) => return Ok(packet),
                ParsedHeader::Tunnel(next) => layer = next,
            }
            self.facts |= SegmentFlags::TUNNELLED;
        }
        Err(DecodeError::TunnelTooDeep)
    }

    #[inline(always)]
    fn transport(
        &mut self,
        inner: Inner<'a>,
        output: &mut Output<'_>,
    ) -> Result<ParsedHeader<'a>, DecodeError> {
        let network = match inner {
            Inner::Whole(network) => network,
            Inner::Piece(piece) if piece.is_worth_reassembly() => {
                return Ok(ParsedHeader::Done(Packet::Fragment(piece)));
            }
            Inner::Piece(_) => return Ok(ParsedHeader::Done(Packet::Other(Other::Ip))),
        };
        match network.protocol {
            protocol::TCP => {
                let (bytes, at, ends) = (self.bytes, self.at, [self.end, self.claimed_end]);
                tcp::segment(self.origin, &network, bytes, at, ends, output)?;
                Ok(ParsedHeader::Done(Packet::Tcp))
            }
            protocol::UDP => udp::datagram(self, &network),
            protocol::ICMP | protocol::ICMPV6 => {
                icmp::error(self, &network, output.hasher).map(ParsedHeader::Done)
            }
            protocol::IPV4 | protocol::IPV6 => Ok(ParsedHeader::Tunnel(Layer::Ip)),
            protocol::GRE => self.gre(),
            _ => Ok(ParsedHeader::Done(Packet::Other(Other::Ip))),
        }
    }
}
