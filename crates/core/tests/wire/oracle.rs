//! The fields are those that etherparse reads from the same innermost packet.

use crate::packets::{Spec, frame, hasher, specs, tcp};
use etherparse::{NetSlice, SlicedPacket, TcpOptionElement, TcpSlice, TransportSlice};
use proptest::prelude::*;
use std::net::IpAddr;
use tcpwhy_core::wire::{Segment, SegmentFlags};

/// The values that the oracle reads from the IP header.
struct Network {
    source: IpAddr,
    destination: IpAddr,
    ttl: u8,
    ecn: u8,
    ip_id: Option<u16>,
}

fn network(net: &NetSlice<'_>) -> Network {
    match net {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            Network {
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
                ttl: header.ttl(),
                ecn: header.ecn().value(),
                ip_id: Some(header.identification()),
            }
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            Network {
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
                ttl: header.hop_limit(),
                ecn: header.traffic_class() & 3,
                ip_id: None,
            }
        }
        other => panic!("not IP: {other:?}"),
    }
}

fn assert_fields(segment: &Segment, network: &Network, tcp: &TcpSlice<'_>) {
    assert_eq!((segment.source().ip(), segment.source().port), (network.source, tcp.source_port()));
    let destination = (network.destination, tcp.destination_port());
    assert_eq!((segment.destination().ip(), segment.destination().port), destination);
    assert!(segment.flow.low <= segment.flow.high);
    assert_eq!(segment.flow_hash, hasher().hash(&segment.flow));
    assert_eq!((segment.seq, segment.ack), (tcp.sequence_number(), tcp.acknowledgment_number()));
    assert_eq!((segment.window, segment.flags.0), (tcp.window_size(), tcp.slice()[13]));
    assert_eq!(segment.ttl, network.ttl);
    assert_eq!(segment.facts.has(SegmentFlags::ECN_CE), network.ecn == 3);
    assert_eq!(segment.facts.has(SegmentFlags::IPV4), network.ip_id.is_some());
    assert_eq!(segment.ip_id, network.ip_id.unwrap_or_default());
}

fn assert_options(segment: &Segment, tcp: &TcpSlice<'_>) {
    let mut expected = Segment::default();
    for option in tcp.options_iterator().map_while(Result::ok) {
        let fact = match option {
            TcpOptionElement::Noop => 0,
            TcpOptionElement::MaximumSegmentSize(mss) if tcp.syn() => {
                expected.mss = mss;
                SegmentFlags::MSS
            }
            TcpOptionElement::WindowScale(shift) if tcp.syn() => {
                expected.window_scale = shift.min(14);
                SegmentFlags::WINDOW_SCALE
            }
            TcpOptionElement::SelectiveAcknowledgementPermitted if tcp.syn() => {
                SegmentFlags::SACK_PERMITTED
            }
            TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                let blocks = [Some(first), rest[0], rest[1]].into_iter().flatten();
                for (slot, (left, right)) in expected.sack.iter_mut().zip(blocks) {
                    (slot.left, slot.right) = (left, right);
                    expected.sack_count += 1;
                }
                0
            }
            TcpOptionElement::Timestamp(value, echo) => {
                (expected.tsval, expected.tsecr) = (value, echo);
                SegmentFlags::TIMESTAMPS
            }
            _ => 0,
        };
        expected.facts.0 |= fact;
    }
    let options = |of: &Segment| {
        const FACTS: u32 = SegmentFlags::MSS
            | SegmentFlags::WINDOW_SCALE
            | SegmentFlags::SACK_PERMITTED
            | SegmentFlags::TIMESTAMPS;
        let facts = of.facts.0 & FACTS;
        (facts, of.mss, of.window_scale, of.tsval, of.tsecr, of.sack, of.sack_count)
    };
    assert_eq!(options(segment), options(&expected));
}

fn assert_agrees(spec: &Spec) {
    let built = spec.build();
    let segment = tcp(&frame(built.link, &built.bytes));
    let sliced = SlicedPacket::from_ip(&built.bytes[built.ip_at..]).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("oracle: {sliced:?}") };
    assert_fields(&segment, &network(sliced.net.as_ref().unwrap()), tcp);
    assert_options(&segment, tcp);
    assert_eq!(segment.facts.has(SegmentFlags::TUNNELLED), !spec.tunnels.is_empty());
    assert!(!segment.facts.has(SegmentFlags::TRUNCATED_HEADER));

    assert_eq!(segment.payload_len as usize, spec.payload.len());
    assert_eq!(segment.captured_len, segment.payload_len);
    let start = segment.payload_offset as usize;
    assert_eq!(&built.bytes[start..start + spec.payload.len()], spec.payload);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_combination_of_headers_reads_as_etherparse_reads_it(spec in specs()) {
        assert_agrees(&spec);
    }

    #[test]
    fn a_snap_length_hides_bytes_but_not_lengths(spec in specs(), snap in 0.0..1.0_f64) {
        let built = spec.build();
        let whole = frame(built.link, &built.bytes);
        let full = tcp(&whole);
        let header_end = full.payload_offset as usize;
        let snap = header_end + (snap * spec.payload.len() as f64) as usize;
        let cut = tcp(&tcpwhy_core::capture::Frame { bytes: &built.bytes[..snap], ..whole });
        prop_assert_eq!(cut.payload_len, full.payload_len);
        prop_assert_eq!(cut.payload_offset, full.payload_offset);
        prop_assert_eq!(cut.captured_len as usize, snap - header_end);
        prop_assert_eq!((cut.tsval, cut.sack, cut.facts), (full.tsval, full.sack, full.facts));
    }
}
