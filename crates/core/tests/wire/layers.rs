//! Packets that are valid but not TCP, and lengths that captures change.

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
fn a_tunnel_of_unknown_content_is_said_so() {
    let of_gre = |header: &[u8]| ethernet(IPV4, &in_ipv4(47, &[header, &[0x45; 64]].concat()));
    let unread = [
        &[0x30, 1, 0x88, 0x0b][..],
        &[0x40, 0, 0x08, 0],
        &[0, 0, 0x88, 0x3e],
        &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0x0c, 0],
    ];
    for header in unread {
        let bytes = of_gre(header);
        let unread = packet(&frame(LinkType::ETHERNET, &bytes));
        assert!(matches!(unread, Packet::Malformed(DecodeError::TunnelUnsupported)), "{header:?}");
    }
    let keep_alive = of_gre(&[0, 0, 0, 0]);
    let keep_alive = packet(&frame(LinkType::ETHERNET, &keep_alive));
    assert!(matches!(keep_alive, Packet::Other(Other::Ip)));
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

/// Ethernet, PPPoE with this length, and TCP in IPv4.
fn in_pppoe(len: u16, ip: &[u8]) -> Vec<u8> {
    let [high, low] = len.to_be_bytes();
    ethernet([0x88, 0x64], &[&[0x11, 0, 0, 7, high, low, 0, 0x21][..], ip].concat())
}

#[test]
fn padding_behind_pppoe_is_no_payload_whatever_the_ip_length_says() {
    let packet = tcp_frame(b"")[14..].to_vec();
    // An IP length that takes the padding in, and one of zero, which ends with what carries it.
    for total_len in [60_u16, 0, 40] {
        let mut ip = packet.clone();
        ip[2..4].copy_from_slice(&total_len.to_be_bytes());
        let mut bytes = in_pppoe(42, &ip);
        bytes.resize(bytes.len() + 20, 0);
        let segment = tcp(&frame(LinkType::ETHERNET, &bytes));
        assert_eq!((segment.payload_len, segment.captured_len), (0, 0), "{total_len}");
    }
}

#[test]
fn a_frame_that_ends_before_its_packet_is_damaged_unless_the_snap_length_cut_it() {
    let is_damaged = |link: LinkType, bytes: &[u8]| {
        matches!(packet(&frame(link, bytes)), Packet::Malformed(DecodeError::IpLength))
    };
    let mut bytes = tcp_frame(&[7; 100]);
    bytes[16..18].copy_from_slice(&1_500_u16.to_be_bytes());
    assert!(is_damaged(LinkType::ETHERNET, &bytes));
    // This frame was longer on the wire than in the capture.
    let cut = Frame { original_len: 1_514, ..frame(LinkType::ETHERNET, &bytes) };
    let segment = tcp(&cut);
    assert_eq!((segment.payload_len, segment.captured_len), (1_460, 100));
    let ipv6 = in_ipv6(6, &bytes[34..]);
    let mut long = ipv6.clone();
    long[4..6].copy_from_slice(&1_400_u16.to_be_bytes());
    assert_eq!(tcp(&frame(LinkType::RAW, &ipv6)).payload_len, 100);
    assert!(is_damaged(LinkType::RAW, &long));
}

#[test]
fn where_payload_was_taken_out_of_a_capture_the_ip_length_counts() {
    let mut bytes = tcp_frame(&[7; 71]);
    bytes.truncate(bytes.len() - 71);
    let segment = tcp(&frame(LinkType::ETHERNET, &bytes));
    assert_eq!((segment.payload_len, segment.captured_len), (71, 0));
    // Nothing was taken out of a segment whose checksum is right as it is.
    let mut whole = tcp_frame(b"");
    whole[16..18].copy_from_slice(&111_u16.to_be_bytes());
    let damaged = packet(&frame(LinkType::ETHERNET, &whole));
    assert!(matches!(damaged, Packet::Malformed(DecodeError::IpLength)));
}

#[test]
fn what_ppi_and_nflog_carry_of_another_kind_is_said_so() {
    let ppi = [0, 0, 8, 0, 105, 0, 0, 0];
    let bytes = [&ppi[..], &[0; 60]].concat();
    let wireless = packet(&frame(LinkType::PPI, &bytes));
    assert!(matches!(wireless, Packet::Malformed(DecodeError::LinkTypeUnsupported)));
    for endless in [vec![2, 0, 0, 0, 0, 0, 9, 0], vec![2, 0, 0, 0, 3, 0, 1, 0]] {
        let broken = packet(&frame(LinkType::NFLOG, &endless));
        assert!(matches!(broken, Packet::Malformed(DecodeError::LinkTruncated)), "{endless:?}");
    }
    let without_packet = packet(&frame(LinkType::NFLOG, &[2, 0, 0, 0, 8, 0, 1, 0, 8, 0, 1, 0]));
    assert!(matches!(without_packet, Packet::Other(Other::NonIp)));
    let slarp = packet(&frame(LinkType::CISCO_HDLC, &[0x8f, 0, 0x80, 0x35, 0, 0, 0, 0]));
    assert!(matches!(slarp, Packet::Other(Other::NonIp)));
    let management = packet(&frame(LinkType::FDDI, &[0x41; 60]));
    assert!(matches!(management, Packet::Other(Other::NonIp)));
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

/// A load balancer returns what it sends back from the port of the tunnel.
#[test]
fn a_tunnel_is_looked_into_from_its_port_as_well() {
    let inner = tcp_frame(b"hello");
    let vxlan = [&[8, 0, 0, 0, 0, 0, 9, 0][..], &inner].concat();
    let geneve = [&[0, 0, 0x65, 0x58, 0, 0, 9, 0][..], &inner].concat();
    for (port, content) in [(4789, &vxlan), (8472, &vxlan), (6081, &geneve)] {
        let bytes = in_ipv4(17, &in_udp(port, 50_000, content));
        let segment = tcp(&frame(LinkType::RAW, &bytes));
        assert_eq!((segment.payload_len, segment.source().port), (5, 40_000));
    }
    // Negative twins: reserved bits, and a content that is not read.
    let marked = [&[0x88, 0, 0, 1, 0, 0, 9, 0][..], &inner].concat();
    let reserved = [&[0, 1, 0x65, 0x58, 0, 0, 9, 0][..], &inner].concat();
    let unread = [&[0, 0, 0x12, 0x34, 0, 0, 9, 0][..], &inner].concat();
    for (port, content) in [(4789, &marked), (6081, &reserved), (6081, &unread)] {
        let bytes = in_ipv4(17, &in_udp(port, 50_000, content));
        let other = packet(&frame(LinkType::RAW, &bytes));
        assert!(matches!(other, Packet::Other(Other::Udp)), "{port}");
    }
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
