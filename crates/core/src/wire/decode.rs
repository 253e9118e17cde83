//! From a frame to a packet: the common path first, every other way behind it.

use super::ip::{Network, protocol};
use super::link::{Layer, ether_type};
use super::walk::{Origin, Output, Walk};
use super::{DecodeError, FlowHasher, Packet, Segment, tcp};
use crate::capture::{Frame, LinkType};

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const TCP_LEN: usize = 20;

/// Decodes one frame. Does not allocate, and does not fail: what cannot be decoded is
/// [`Packet::Malformed`].
///
/// A TCP segment is written to `segment`, which is left alone otherwise. It is not returned by
/// value because copying the fresh record stalls the processor (wide loads of narrow stores) for
/// longer than decoding takes: let the segment be the next slot of the buffer it is to go to.
#[inline]
pub fn decode<'a>(frame: &Frame<'a>, hasher: &FlowHasher, segment: &mut Segment) -> Packet<'a> {
    let mut output = Output { hasher, segment };
    match common(frame, &mut output) {
        Some(()) => Packet::Tcp,
        None => any(frame, output),
    }
}

/// TCP in unfragmented IPv4 without options in untagged Ethernet: nearly every frame of nearly
/// every capture. `None` leaves the frame to [`any`], which decides the same, and more.
#[inline(always)]
fn common(frame: &Frame<'_>, output: &mut Output<'_>) -> Option<()> {
    let headers = frame.bytes.first_chunk::<{ ETHERNET_LEN + IPV4_LEN + TCP_LEN }>()?;
    let ip: &[u8; IPV4_LEN] = headers.get(ETHERNET_LEN..)?.first_chunk()?;
    let total_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let is_common = frame.link == LinkType::ETHERNET
        && u16::from_be_bytes([headers[12], headers[13]]) == ether_type::IPV4
        && ip[0] == 0x45
        && u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0
        && ip[9] == protocol::TCP
        && total_len >= IPV4_LEN + TCP_LEN;
    if !is_common {
        return None;
    }
    let origin = Origin { time_ns: frame.time_ns, frame: frame.id };
    let (at, end) = (ETHERNET_LEN + IPV4_LEN, ETHERNET_LEN + total_len);
    tcp::segment(origin, &Network::from_ipv4(ip, 0), frame.bytes, at, end, output).ok()
}

#[inline(never)]
fn any<'a>(frame: &Frame<'a>, output: Output<'_>) -> Packet<'a> {
    let Some(layer) = Layer::of(frame.link) else {
        return Packet::Malformed(DecodeError::LinkTypeUnsupported);
    };
    let walk = Walk {
        origin: Origin { time_ns: frame.time_ns, frame: frame.id },
        bytes: frame.bytes,
        at: 0,
        end: frame.bytes.len().max(frame.original_len as usize),
        facts: 0,
    };
    walk.from_layer(layer, output)
}
