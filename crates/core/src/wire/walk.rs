//! The way through a frame: a position, an end, and the layers one after the other.

use super::ip::{Inner, Network, protocol};
use super::link::Layer;
use super::{DecodeError, FlowHasher, Other, Packet, Segment, SegmentFlags, icmp, tcp, udp};
use crate::capture::FrameId;

/// Tunnels in tunnels: more are refused, so that a crafted frame costs no more than a real one.
pub(super) const TUNNELS_MAX: u32 = 4;

/// Where a packet came from: what every record of it repeats.
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
    /// Where the next header begins.
    pub at: usize,
    /// Where the innermost packet ends on the wire; beyond `bytes` where the snap length cut it.
    pub end: usize,
    /// Where it ends by its own length, where the whole frame is shorter than that; else 0.
    pub claimed_end: usize,
    /// [`SegmentFlags`] that hold for whatever is inside.
    pub facts: u16,
}

/// Where segments go, and with which hash.
pub(super) struct Output<'o> {
    pub hasher: &'o FlowHasher,
    pub segment: &'o mut Segment,
}

/// What a transport header led to.
pub(super) enum Step<'a> {
    Done(Packet<'a>),
    /// A tunnel: what it carries begins with this layer.
    Tunnel(Layer),
}

impl<'a> Walk<'a> {
    /// The next `N` bytes, if captured and part of the packet. Does not move.
    #[inline]
    pub fn header<const N: usize>(&self, short: DecodeError) -> Result<&'a [u8; N], DecodeError> {
        self.rest().first_chunk().ok_or(short)
    }

    /// Moves `len` bytes on, which must be captured and part of the packet.
    #[inline]
    pub fn skip(&mut self, len: usize, short: DecodeError) -> Result<(), DecodeError> {
        if len > self.rest().len() {
            return Err(short);
        }
        self.at += len;
        Ok(())
    }

    /// The packet that begins here is `len` bytes long, whatever the layer around it says; but
    /// what lies beyond that layer's end (padding, trailers) is not its.
    pub fn set_len(&mut self, len: usize) {
        self.bytes = self.bytes.get(..self.end).unwrap_or(self.bytes);
        self.end = self.at + len;
    }

    /// The packet that begins here is `len` bytes long, or as long as the layer around it has room for,
    /// which is less where that layer's length is wrong or the packet's own is.
    #[inline]
    pub fn hold(&mut self, len: usize) {
        self.end = self.end.min(self.at + len);
    }

    /// The captured rest of the packet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..self.bytes.len().min(self.end)).unwrap_or_default()
    }

    /// Decodes what begins with `layer`.
    pub fn decode_layer(mut self, layer: Layer, mut output: Output<'_>) -> Packet<'a> {
        self.try_layers(layer, &mut output).unwrap_or_else(Packet::Malformed)
    }

    /// Decodes what follows an IP header, for packets put together from fragments.
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
            Step::Done(packet) => Ok(packet),
            Step::Tunnel(layer) => {
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
                Step::Done(packet) => return Ok(packet),
                Step::Tunnel(next) => layer = next,
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
    ) -> Result<Step<'a>, DecodeError> {
        let network = match inner {
            Inner::Whole(network) => network,
            Inner::Piece(piece) if piece.is_worth_reassembly() => {
                return Ok(Step::Done(Packet::Fragment(piece)));
            }
            Inner::Piece(_) => return Ok(Step::Done(Packet::Other(Other::Ip))),
        };
        match network.protocol {
            protocol::TCP => {
                let (bytes, at, ends) = (self.bytes, self.at, [self.end, self.claimed_end]);
                tcp::segment(self.origin, &network, bytes, at, ends, output)?;
                Ok(Step::Done(Packet::Tcp))
            }
            protocol::UDP => udp::datagram(self, &network),
            protocol::ICMP | protocol::ICMPV6 => {
                icmp::error(self, &network, output.hasher).map(Step::Done)
            }
            protocol::IPV4 | protocol::IPV6 => Ok(Step::Tunnel(Layer::Ip)),
            protocol::GRE => self.gre(),
            _ => Ok(Step::Done(Packet::Other(Other::Ip))),
        }
    }
}
