//! Decodes a frame to a packet: the fast path first, then the general one.

use super::ip::{Network, protocol};
use super::link::{self, Layer, ether_type};
use super::walk::{Origin, Output, Walk};
use super::{DecodeError, FlowHasher, Packet, Segment, SegmentFlags, tcp};
use crate::capture::{Frame, LinkType};

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// Decodes one frame. Does not allocate or fail: a frame that cannot be decoded is
/// [`Packet::Malformed`].
///
/// A TCP segment is written to `segment`, which is not changed otherwise. It is not returned by
/// value because copying the fresh record stalls the processor (wide loads of narrow stores) for
/// longer than decoding takes: pass the next slot of the destination buffer.
#[inline]
pub fn decode<'a>(frame: &Frame<'a>, hasher: &FlowHasher, segment: &mut Segment) -> Packet<'a> {
    let mut output = Output { hasher, segment };
    if short(frame, &mut output).is_none() {
        return general(frame, output);
    }
    note_padding(frame, segment);
    (segment.time_ns, segment.frame) = (frame.time_ns, frame.id);
    Packet::Tcp
}

/// Like [`decode`] without the fast path. It is slower and gives the same result; tests compare the
/// two.
pub fn decode_long_way<'a>(
    frame: &Frame<'a>,
    hasher: &FlowHasher,
    segment: &mut Segment,
) -> Packet<'a> {
    general(frame, Output { hasher, segment })
}

/// Decodes TCP in IPv4 or IPv6 after any common link header. The caller sets time and frame of the
/// segment.
#[inline(never)]
fn short(frame: &Frame<'_>, output: &mut Output<'_>) -> Option<()> {
    let Frame { bytes, link, .. } = *frame;
    let ether_type = |at: usize| bytes.get(at..)?.first_chunk().map(|it| u16::from_be_bytes(*it));
    let (announced, at) = match link {
        LinkType::ETHERNET => match ether_type(12)? {
            ether_type::VLAN => (ether_type(16)?, 18),
            announced => (announced, ETHERNET_LEN),
        },
        LinkType::LINUX_SLL => (ether_type(14)?, 16),
        LinkType::LINUX_SLL2 => (ether_type(0)?, 20),
        LinkType::RAW => (ether_type::IPV4, 0),
        _ => return None,
    };
    if !matches!(announced, ether_type::IPV4 | ether_type::IPV6) {
        return None;
    }
    // The version decides, not which of the two was announced.
    match bytes.get(at)? >> 4 {
        4 => ipv4(frame, at, output),
        6 => ipv6(frame, at, output),
        _ => None,
    }
}

/// Returns the length of a frame on the wire.
#[inline(always)]
fn wire_len(frame: &Frame<'_>) -> usize {
    frame.bytes.len().max(frame.original_len as usize)
}

/// Decodes an unfragmented packet without options that fits into its frame, if all of the TCP
/// header was captured.
#[inline(always)]
fn ipv4(frame: &Frame<'_>, at: usize, output: &mut Output<'_>) -> Option<()> {
    let bytes = frame.bytes;
    let ip: &[u8; IPV4_LEN] = bytes.get(at..)?.first_chunk()?;
    let is_common =
        ip[0] == 0x45 && u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0 && ip[9] == protocol::TCP;
    if !is_common {
        return None;
    }
    let end = at + usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if end > wire_len(frame) {
        return None;
    }
    let network = Network::from_ipv4(ip, link::facts(frame.link, bytes));
    let ports = tcp::common(&network, bytes, at + IPV4_LEN, end, output.segment)?;
    tcp::set_way(&output.hasher.way_ipv4(ip, ports), output.segment);
    Some(())
}

/// Decodes a packet without extension headers that fits into its frame, if all of the TCP header
/// was captured.
fn ipv6(frame: &Frame<'_>, at: usize, output: &mut Output<'_>) -> Option<()> {
    let bytes = frame.bytes;
    let ip: &[u8; IPV6_LEN] = bytes.get(at..)?.first_chunk()?;
    let payload_len = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    let network = Network::from_ipv6(ip, link::facts(frame.link, bytes));
    let (at, end) = (at + IPV6_LEN, at + IPV6_LEN + payload_len);
    if network.protocol != protocol::TCP || payload_len == 0 || end > wire_len(frame) {
        return None;
    }
    let ports = tcp::common(&network, bytes, at, end, output.segment)?;
    tcp::set_way(&output.hasher.way(&network, ports), output.segment);
    Some(())
}

/// Least length of an Ethernet frame without its check sequence (IEEE 802.3 §3.2.8), bytes.
const ETHERNET_LEAST_LEN: usize = 60;

/// Notes whether `frame`, which carries `segment`, is shorter than Ethernet allows, or was padded to
/// the least length. Untagged frames only: a tag that is added or removed changes the length.
#[inline(always)]
fn note_padding(frame: &Frame<'_>, segment: &mut Segment) {
    let len = wire_len(frame);
    if len > ETHERNET_LEAST_LEN
        || frame.link != LinkType::ETHERNET
        || frame.bytes.get(12..14) != Some(&ether_type::IPV4.to_be_bytes())
    {
        return;
    }
    let end = segment.payload_offset as usize + segment.payload_len as usize;
    segment.facts.0 |= match len {
        ETHERNET_LEAST_LEN if end < len => SegmentFlags::PADDED,
        ETHERNET_LEAST_LEN => 0,
        // A tool may have removed payload that the IP header still counts.
        _ if end > len => 0,
        _ => SegmentFlags::UNPADDED,
    };
}

#[inline(never)]
fn general<'a>(frame: &Frame<'a>, mut output: Output<'_>) -> Packet<'a> {
    let Some(layer) = Layer::of(frame.link) else {
        return Packet::Malformed(DecodeError::LinkTypeUnsupported);
    };
    let walk = Walk {
        origin: Origin { time_ns: frame.time_ns, frame: frame.id },
        bytes: frame.bytes,
        at: 0,
        end: wire_len(frame),
        claimed_end: 0,
        facts: 0,
    };
    let packet = walk.decode_layer(layer, &mut output);
    if let Packet::Tcp = packet {
        note_padding(frame, output.segment);
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;
    use crate::wire::{Endpoint, FlowKey, SackBlock, TcpFlags};
    use proptest::prelude::*;

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

    /// Returns the segment that the fast path decodes, if it accepts the frame.
    fn by_short(frame: &Frame<'_>) -> Option<Segment> {
        let (hasher, mut segment) = (FlowHasher::new(1), unclean());
        let mut output = Output { hasher: &hasher, segment: &mut segment };
        short(frame, &mut output)?;
        note_padding(frame, &mut segment);
        let (time_ns, id) = (frame.time_ns, frame.id);
        Some(Segment { time_ns, frame: id, ..segment })
    }

    /// Returns the segment that the general path decodes, if it is one.
    fn long(frame: &Frame<'_>) -> Option<Segment> {
        let (hasher, mut segment) = (FlowHasher::new(1), Segment::default());
        let packet = decode_long_way(frame, &hasher, &mut segment);
        matches!(packet, Packet::Tcp).then_some(segment)
    }

    /// Old content of a slot, which must not show in the result.
    fn unclean() -> Segment {
        let end = Endpoint { address: [7; 16], port: 7 };
        let block = SackBlock { left: 7, right: 7 };
        Segment {
            time_ns: 7,
            frame: FrameId::new(7, 7),
            flow_hash: 7,
            flow: FlowKey { low: end, high: end },
            facts: SegmentFlags(u32::MAX),
            checksum_error: 7,
            seq: 7,
            ack: 7,
            payload_len: 7,
            payload_offset: 7,
            captured_len: 7,
            tsval: 7,
            tsecr: 7,
            sack: [block; 3],
            mss: 7,
            window_scale: 7,
            sack_count: 7,
            window: 7,
            ip_id: 7,
            flags: TcpFlags(7),
            ttl: 7,
        }
    }

    fn assert_same(frame: &Frame<'_>) {
        let long = long(frame);
        let segment = by_short(frame);
        if segment.is_some() {
            assert_eq!(format!("{segment:?}"), format!("{long:?}"), "{:?}", frame.bytes);
        }
        let (hasher, mut segment) = (FlowHasher::new(1), unclean());
        let decoded = matches!(decode(frame, &hasher, &mut segment), Packet::Tcp);
        assert_eq!(format!("{:?}", decoded.then_some(segment)), format!("{long:?}"));
    }

    /// Returns an Ethernet frame of IPv4 with another link header or as IPv6, with its link type.
    fn dress(bytes: &[u8], number: u8) -> (u16, Vec<u8>) {
        let (ethernet, ip) = bytes.split_at(ETHERNET_LEN);
        let ipv6 = || {
            let payload_len = u16::from_be_bytes([ip[2], ip[3]]) - IPV4_LEN as u16;
            let fixed = [&[0x60, 0x30, 0, 0][..], &payload_len.to_be_bytes(), &[6, 64]].concat();
            [&fixed, &ip[8..16], &ip[4..20], &ip[8..16], &ip[IPV4_LEN..]].concat()
        };
        match number {
            0 => (1, bytes.to_vec()),
            1 => (1, [&ethernet[..12], &[0x81, 0, 0, 5], &bytes[12..]].concat()),
            2 => (113, [&[0; 14][..], &bytes[12..]].concat()),
            3 => (276, [&[8, 0][..], &[0; 18], ip].concat()),
            4 => (101, ip.to_vec()),
            5 => (101, ipv6()),
            _ => (1, [&ethernet[..12], &[0x86, 0xdd], &ipv6()[..]].concat()),
        }
    }

    #[test]
    fn an_ordinary_segment_takes_the_short_path() {
        let segment = by_short(&frame(&ordinary())).expect("ordinary");
        assert_eq!((segment.payload_len, segment.tsecr), (10, 2));
    }

    /// Returns an ACK of 20 bytes with `flags`, followed by `payload` that its IP header counts.
    fn short_frame(payload: &[u8], flags: u8) -> Vec<u8> {
        let builder = etherparse::PacketBuilder::ethernet2([1; 6], [2; 6]);
        let tcp = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(40_000, 80, 1, 2).ack(5);
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, payload).unwrap();
        bytes[47] = flags;
        bytes
    }

    #[test]
    fn zeros_that_fill_the_shortest_frame_of_an_ack_are_no_payload() {
        let payload_len = |bytes: &[u8]| {
            assert_same(&frame(bytes));
            long(&frame(bytes)).expect("a segment").payload_len
        };
        let ack = TcpFlags::ACK;
        assert_eq!(payload_len(&short_frame(&[0; 6], ack)), 0);
        assert_eq!(payload_len(&short_frame(&[0; 2], ack)), 0);
        // Bytes with PSH or other than zero are data, and a longer or shorter frame is not padded.
        assert_eq!(payload_len(&short_frame(&[0; 6], ack | TcpFlags::PSH)), 6);
        assert_eq!(payload_len(&short_frame(&[0, 0, 0, 0, 0, 7], ack)), 6);
        assert_eq!(payload_len(&short_frame(&[0; 7], ack)), 7);
        assert_eq!(payload_len(&short_frame(&[0; 1], ack)), 1);
    }

    #[test]
    fn a_frame_below_the_least_length_has_passed_no_interface() {
        let padding = |bytes: &[u8]| {
            assert_same(&frame(bytes));
            let facts = long(&frame(bytes)).expect("a segment").facts;
            [SegmentFlags::UNPADDED, SegmentFlags::PADDED].map(|fact| facts.has(fact))
        };
        let mut ack = short_frame(&[], TcpFlags::ACK);
        assert_eq!(padding(&ack), [true, false]);
        ack.resize(60, 0);
        assert_eq!(padding(&ack), [false, true]);
        // What fills the least length, or is longer, needs no padding; a tag changes the length.
        assert_eq!(padding(&short_frame(b"hello!", TcpFlags::ACK)), [false, false]);
        assert_eq!(padding(&ordinary()), [false, false]);
        let ack = short_frame(&[], TcpFlags::ACK);
        let tagged = [&ack[..12], &[0x81, 0, 0, 5], &ack[12..]].concat();
        assert_eq!(padding(&tagged), [false, false]);
    }

    /// Every value of every header byte, captured whole and cut.
    #[test]
    fn the_short_path_decides_as_the_general_one() {
        for (at, value) in (0..66).flat_map(|at| (0..=255).map(move |value| (at, value))) {
            let mut bytes = ordinary();
            bytes[at] = value;
            for snap in [54, 60, 66, 70, bytes.len()] {
                assert_same(&Frame { bytes: &bytes[..snap], ..frame(&bytes) });
            }
        }
    }

    proptest! {
        #[test]
        fn both_ways_decide_the_same_of_any_segment(
            ends in any::<([u8; 4], u16, [u8; 4], u16)>(),
            words in prop::collection::vec(any::<[u8; 4]>(), 0..=10),
            has_timestamps: bool,
            content in any::<(u32, u32, u16, u8)>(),
            changes in prop::collection::vec((0..94_usize, any::<u8>()), 0..4),
            snap in 0..150_usize,
            (padding, dress_number) in (0..8_usize, 0..7_u8),
        ) {
            let (source, source_port, destination, destination_port) = ends;
            let (seq, ack, window, flags) = content;
            let builder = etherparse::PacketBuilder::ethernet2([1; 6], [2; 6]);
            let ip = builder.ipv4(source, destination, 64);
            let tcp = ip.tcp(source_port, destination_port, seq, window).ack(ack);
            let mut options = words.concat();
            if has_timestamps {
                options = [&[1, 1, 8, 10], &options[..]].concat();
                options.truncate(12);
            }
            let mut bytes = Vec::new();
            tcp.options_raw(&options).unwrap().write(&mut bytes, &[7; 30]).unwrap();
            bytes[47] = flags;
            bytes.resize(bytes.len() + padding, 0);
            let (link, mut bytes) = dress(&bytes, dress_number);
            let link = LinkType(link);
            let dressed = Frame { link, ..frame(&bytes) };
            prop_assert!(by_short(&dressed).is_some());
            for (at, value) in changes {
                let at = at.min(bytes.len() - 1);
                bytes[at] = value;
            }
            assert_same(&Frame { link, ..frame(&bytes) });
            let cut = &bytes[..snap.min(bytes.len())];
            assert_same(&Frame { bytes: cut, link, ..frame(&bytes) });
        }

        #[test]
        fn both_ways_decide_the_same_of_anything(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            link in prop::sample::select(vec![1, 0, 101, 113, 276]),
        ) {
            assert_same(&Frame { link: LinkType(link), ..frame(&bytes) });
        }
    }
}
