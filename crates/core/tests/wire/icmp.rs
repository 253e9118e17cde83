//! ICMP errors and the connections that they concern.

use crate::packets::{frame, hasher, in_ipv4, in_ipv6, in_udp};
use tcpwhy_core::capture::LinkType;
use tcpwhy_core::wire::{DecodeError, IcmpError, IcmpErrorKind, Other, Packet, Segment, decode};

/// The start of a segment from 40000 to 80 with sequence number 0x01020304.
const TCP_START: [u8; 8] = [0x9c, 0x40, 0, 80, 1, 2, 3, 4];

fn error(bytes: &[u8]) -> IcmpError {
    match decode(&frame(LinkType::RAW, bytes), &hasher(), &mut Segment::default()) {
        Packet::IcmpError(error) => error,
        other => panic!("{other:?}"),
    }
}

fn icmp(kind: u8, code: u8, rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0], &rest[..], quoted].concat()
}

#[test]
fn fragmentation_needed_names_the_segment_and_the_mtu() {
    // Routers quote the whole header but only the start of the packet (RFC 792).
    let mut quoted = in_ipv4(6, &[&TCP_START[..], &[0; 1_400]].concat());
    quoted.truncate(28);
    let error = error(&in_ipv4(1, &icmp(3, 4, [0, 0, 0x05, 0x14], &quoted)));
    assert_eq!(error.kind, IcmpErrorKind::PacketTooBig { mtu: 1_300 });
    assert_eq!((error.protocol, error.seq), (6, Some(0x0102_0304)));
    let sender = if error.from_high { error.flow.high } else { error.flow.low };
    assert_eq!(sender.to_string(), "172.16.0.1:40000");
    assert_eq!(error.flow_hash, hasher().hash(&error.flow));
}

#[test]
fn packet_too_big_has_the_mtu_where_icmpv6_puts_it() {
    let quoted = in_ipv6(6, &TCP_START);
    let error = error(&in_ipv6(58, &icmp(2, 0, [0, 0, 0x05, 0], &quoted)));
    assert_eq!(error.kind, IcmpErrorKind::PacketTooBig { mtu: 1_280 });
    assert_eq!(error.reporter.ip(), std::net::IpAddr::from([0xfd_u8; 16]));
}

#[test]
fn a_closed_dns_port_is_named_without_sequence_number() {
    let question = in_udp(50_000, 53, &[]);
    let over_v4 = in_ipv4(1, &icmp(3, 3, [0; 4], &in_ipv4(17, &question)));
    let over_v6 = in_ipv6(58, &icmp(1, 4, [0; 4], &in_ipv6(17, &question)));
    for bytes in [over_v4, over_v6] {
        let error = error(&bytes);
        assert_eq!((error.kind, error.seq), (IcmpErrorKind::PortUnreachable, None));
        let ports = [error.flow.low.port, error.flow.high.port];
        assert!(ports.contains(&53) && ports.contains(&50_000));
    }
}

#[test]
fn kinds_are_one_vocabulary_for_both_versions() {
    use IcmpErrorKind::*;
    let v4 = [
        (3, 1, Unreachable),
        (3, 13, Prohibited),
        (11, 0, TimeExceeded),
        (12, 0, ParameterProblem),
    ];
    for (kind, code, expected) in v4 {
        let bytes = in_ipv4(1, &icmp(kind, code, [0; 4], &in_ipv4(6, &TCP_START)));
        assert_eq!(error(&bytes).kind, expected);
    }
    let v6 =
        [(1, 0, Unreachable), (1, 1, Prohibited), (3, 0, TimeExceeded), (4, 0, ParameterProblem)];
    for (kind, code, expected) in v6 {
        let bytes = in_ipv6(58, &icmp(kind, code, [0; 4], &in_ipv6(6, &TCP_START)));
        assert_eq!(error(&bytes).kind, expected);
    }
}

#[test]
fn echo_is_only_counted_and_a_cut_quote_is_said() {
    let mut segment = Segment::default();
    let echo = in_ipv4(1, &icmp(8, 0, [0; 4], &[0; 56]));
    let packet = decode(&frame(LinkType::RAW, &echo), &hasher(), &mut segment);
    assert!(matches!(packet, Packet::Other(Other::Icmp)));
    let cut = in_ipv4(1, &icmp(3, 3, [0; 4], &in_ipv4(6, &TCP_START)[..24]));
    let packet = decode(&frame(LinkType::RAW, &cut), &hasher(), &mut segment);
    assert!(matches!(packet, Packet::Malformed(DecodeError::IcmpTruncated)));
}
