//! What is neither TCP nor broken, and what captures do to lengths.

use crate::packets::{IPV4, ethernet, frame, hasher, in_ipv4, in_ipv6, in_udp, tcp};
use etherparse::PacketBuilder;
use tcpwhy_core::capture::{Frame, LinkType};
use tcpwhy_core::wire::{DecodeError, Other, Packet, Segment, SegmentFlags, decode};

fn packet<'a>(frame: &Frame<'a>) -> Packet<'a> {
    decode(frame, &hasher(), &mut Segment::default())
}

fn tcp_frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.tcp(40_000, 80, 1, 1).write(&mut bytes, payload).unwrap();
    bytes
}

#[test]
fn arp_and_llc_are_no_ip_and_no_error() {
    for ether_type in [[0x08, 0x06], [0x00, 0x26], [0x88, 0xcc]] {
        let bytes = ethernet(ether_type, &[0; 46]);
        assert!(matches!(packet(&frame(LinkType::ETHERNET, &bytes)), Packet::Other(Other::NonIp)));
    }
}

#[test]
fn other_protocols_are_counted_apart() {
    let cases = [(132, Other::Ip), (50, Other::Ip), (1, Other::Icmp), (17, Other::Udp)];
    for (protocol, expected) in cases {
        let bytes = ethernet(IPV4, &in_ipv4(protocol, &[8; 64]));
        let frame = frame(LinkType::ETHERNET, &bytes);
        assert!(matches!(packet(&frame), Packet::Other(other) if other == expected), "{protocol}");
    }
}

#[test]
fn an_unknown_link_type_is_said_so() {
    let unknown = packet(&frame(LinkType(105), &[0; 60]));
    assert!(matches!(unknown, Packet::Malformed(DecodeError::LinkTypeUnsupported)));
}

#[test]
fn ethernet_padding_is_no_payload() {
    let mut bytes = tcp_frame(b"");
    bytes.resize(60, 0);
    let segment = tcp(&frame(LinkType::ETHERNET, &bytes));
    assert_eq!((segment.payload_len, segment.captured_len), (0, 0));
}

#[test]
fn a_super_packet_without_total_length_ends_with_the_frame() {
    let mut bytes = tcp_frame(&[7; 100]);
    bytes[16..18].copy_from_slice(&[0, 0]);
    let whole = frame(LinkType::ETHERNET, &bytes);
    let segment = tcp(&Frame { original_len: 80_054, ..whole });
    assert_eq!((segment.payload_len, segment.captured_len), (80_000, 100));
    assert!(segment.facts.has(SegmentFlags::LENGTH_FROM_FRAME));
    assert!(
        !tcp(&frame(LinkType::ETHERNET, &tcp_frame(b"x")))
            .facts
            .has(SegmentFlags::LENGTH_FROM_FRAME)
    );
}

#[test]
fn dns_is_handed_out_whole_even_on_a_tunnel_port() {
    let question = b"\x12\x34\x01\x00\x00\x01";
    for (source, destination) in [(50_000, 53), (53, 4789), (53, 53)] {
        let bytes = in_ipv6(17, &in_udp(source, destination, question));
        let Packet::Udp(datagram) = packet(&frame(LinkType::RAW, &bytes)) else { panic!() };
        assert_eq!((datagram.source.port, datagram.destination.port), (source, destination));
        assert_eq!((datagram.payload, datagram.payload_len), (&question[..], 6));
        assert_eq!(datagram.source.ip(), std::net::IpAddr::from([0xfd_u8; 16]));
    }
}

#[test]
fn trailing_bytes_are_not_dns_even_if_the_udp_length_claims_them() {
    let mut bytes = in_ipv4(17, &in_udp(50_000, 53, b"dns"));
    bytes[24..26].copy_from_slice(&[0, 40]);
    bytes.extend([9; 60]);
    let Packet::Udp(datagram) = packet(&frame(LinkType::RAW, &bytes)) else { panic!() };
    assert_eq!((datagram.payload, datagram.payload_len), (&b"dns"[..], 32));
}

#[test]
fn a_tunnel_port_alone_makes_no_tunnel() {
    let bytes = in_ipv4(17, &in_udp(50_000, 4789, &[0; 80]));
    assert!(matches!(packet(&frame(LinkType::RAW, &bytes)), Packet::Other(Other::Udp)));
}

#[test]
fn erspan_mirrors_are_looked_into() {
    let mirrored = tcp_frame(b"hello");
    let type_1 = [&[0, 0, 0x88, 0xbe][..], &mirrored].concat();
    let type_2 = [&[0x10, 0, 0x88, 0xbe][..], &[0; 12], &mirrored].concat();
    for gre in [type_1, type_2] {
        let bytes = in_ipv4(47, &gre);
        let segment = tcp(&frame(LinkType::RAW, &bytes));
        assert_eq!((segment.payload_len, segment.source().port), (5, 40_000));
    }
}

#[test]
fn nesting_is_bounded() {
    let mut bytes = in_ipv4(6, &[0; 20]);
    for _ in 0..5 {
        bytes = in_ipv4(4, &bytes);
    }
    let nested = packet(&frame(LinkType::RAW, &bytes));
    assert!(matches!(nested, Packet::Malformed(DecodeError::TunnelTooDeep)));
    let tags = ethernet([0x81, 0], &[0x81, 0].repeat(200));
    let tagged = packet(&frame(LinkType::ETHERNET, &tags));
    assert!(matches!(tagged, Packet::Malformed(DecodeError::LinkTooDeep)));
    let chain = in_ipv6(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(20));
    let chained = packet(&frame(LinkType::RAW, &chain));
    assert!(matches!(chained, Packet::Malformed(DecodeError::ExtensionsTooMany)));
}

#[test]
fn impossible_header_lengths_are_malformed() {
    let mut short_offset = tcp_frame(b"abc");
    short_offset[46] = 0x40;
    let mut long_offset = tcp_frame(b"abc");
    long_offset[46] = 0xf0;
    for bytes in [short_offset, long_offset] {
        let malformed = packet(&frame(LinkType::ETHERNET, &bytes));
        assert!(matches!(malformed, Packet::Malformed(DecodeError::TcpHeaderLength)));
    }
}

#[test]
fn a_segment_is_rebased_onto_the_buffer_of_its_block() {
    let bytes = tcp_frame(b"payload");
    let mut segment = tcp(&frame(LinkType::ETHERNET, &bytes));
    assert_eq!(segment.payload_offset, 54);
    segment.rebase(1_000);
    assert_eq!(segment.payload_offset, 1_054);
}
