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
        None => general(frame, output),
    }
}

/// TCP in unfragmented IPv4 without options in untagged Ethernet: nearly every frame of nearly
/// every capture. `None` leaves the frame to [`general`], which decides the same, and more.
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
fn general<'a>(frame: &Frame<'a>, output: Output<'_>) -> Packet<'a> {
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
    walk.decode_layer(layer, output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;

    /// An ordinary segment of ten bytes with timestamps.
    fn ordinary() -> Vec<u8> {
        let builder = etherparse::PacketBuilder::ethernet2([1; 6], [2; 6]);
        let tcp = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(40_000, 80, 1, 2);
        let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let mut bytes = Vec::new();
        tcp.options_raw(&options).unwrap().write(&mut bytes, &[7; 10]).unwrap();
        bytes
    }

    fn frame(bytes: &[u8]) -> Frame<'_> {
        let (id, link) = (FrameId::new(0, 1), LinkType::ETHERNET);
        Frame { id, time_ns: 1, original_len: bytes.len() as u32, link, bytes }
    }

    #[test]
    fn an_ordinary_segment_takes_the_common_path() {
        let (hasher, mut segment) = (FlowHasher::new(1), Segment::default());
        let mut output = Output { hasher: &hasher, segment: &mut segment };
        assert!(common(&frame(&ordinary()), &mut output).is_some());
        assert_eq!((segment.payload_len, segment.tsecr), (10, 2));
    }

    /// Every value of every header byte, captured whole and cut.
    #[test]
    fn the_common_path_decides_as_the_general_one() {
        let hasher = FlowHasher::new(1);
        let (mut short, mut long) = (Segment::default(), Segment::default());
        for (at, value) in (0..66).flat_map(|at| (0..=255).map(move |value| (at, value))) {
            let mut bytes = ordinary();
            bytes[at] = value;
            for snap in [54, 60, 66, 70, bytes.len()] {
                let frame = Frame { bytes: &bytes[..snap], ..frame(&bytes) };
                let mut output = Output { hasher: &hasher, segment: &mut short };
                if common(&frame, &mut output).is_some() {
                    let output = Output { hasher: &hasher, segment: &mut long };
                    let packet = general(&frame, output);
                    assert!(matches!(packet, Packet::Tcp), "byte {at} = {value}: {packet:?}");
                    assert_eq!(format!("{short:?}"), format!("{long:?}"));
                }
            }
        }
    }
}
