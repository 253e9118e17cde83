//! Fragments come in any order, twice, late, contradicting each other, or never.

use crate::packets::{frame, hasher, in_ipv4, in_ipv6, in_udp};
use proptest::prelude::*;
use tcpwhy_core::capture::{Frame, LinkType};
use tcpwhy_core::wire::{
    DecodeError, Packet, Reassembled, Reassembler, Reassembly, ReassemblyLimits, Segment,
    SegmentFlags, decode,
};

/// A fragment of an IPv4 packet: what is at `offset`.
fn fragment_v4(protocol: u8, id: u16, offset: usize, more: bool, bytes: &[u8]) -> Vec<u8> {
    let mut packet = in_ipv4(protocol, bytes);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    let field = (offset / 8) as u16 | u16::from(more) << 13;
    packet[6..8].copy_from_slice(&field.to_be_bytes());
    packet
}

fn fragment_v6(protocol: u8, id: u16, offset: usize, more: bool, bytes: &[u8]) -> Vec<u8> {
    let [high, low] = (offset as u16 | u16::from(more)).to_be_bytes();
    let [id_high, id_low] = id.to_be_bytes();
    let header = [protocol, 0, high, low, 0, 0, id_high, id_low];
    in_ipv6(44, &[&header[..], bytes].concat())
}

type FragmentOf = fn(u8, u16, usize, bool, &[u8]) -> Vec<u8>;

fn split(of: FragmentOf, protocol: u8, id: u16, bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    let pieces = bytes.chunks(size).enumerate();
    let piece = |(index, piece): (usize, &[u8])| {
        let offset = index * size;
        of(protocol, id, offset, offset + piece.len() < bytes.len(), piece)
    };
    pieces.map(piece).collect()
}

fn insert(reassembler: &mut Reassembler, time_ns: u64, bytes: &[u8]) -> Reassembly {
    let frame = Frame { time_ns, ..frame(LinkType::RAW, bytes) };
    match decode(&frame, &hasher(), &mut Segment::default()) {
        Packet::Fragment(fragment) => reassembler.insert(&fragment),
        other => panic!("{other:?}"),
    }
}

fn reassemble(fragments: &[Vec<u8>]) -> Vec<Reassembled> {
    let mut reassembler = Reassembler::default();
    let outcomes = fragments.iter().map(|bytes| insert(&mut reassembler, 5, bytes));
    outcomes
        .filter_map(|outcome| match outcome {
            Reassembly::Complete(whole) => Some(whole),
            _ => None,
        })
        .collect()
}

fn tcp_bytes(payload: &[u8]) -> Vec<u8> {
    let mut header = etherparse::TcpHeader::new(40_000, 80, 77, 1_000);
    header.set_options(&[etherparse::TcpOptionElement::Timestamp(5, 6)]).unwrap();
    [&header.to_bytes()[..], payload].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_order_gives_the_same_packet(
        payload in proptest::collection::vec(any::<u8>(), 60..900),
        size in (1..20_usize).prop_map(|words| words * 8),
        v6 in any::<bool>(),
        order in any::<u64>(),
    ) {
        let whole = tcp_bytes(&payload);
        let of: FragmentOf = if v6 { fragment_v6 } else { fragment_v4 };
        let mut fragments = split(of, 6, 9, &whole, size);
        prop_assume!(fragments.len() > 1);
        // A different order for each seed, and each fragment may come twice.
        let mut state = order;
        for index in (1..fragments.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            fragments.swap(index, (state >> 33) as usize % (index + 1));
        }
        fragments.insert(1, fragments[0].clone());

        let reassembled = reassemble(&fragments);
        prop_assert_eq!(reassembled.len(), 1);
        prop_assert_eq!(&reassembled[0].bytes, &whole);
        let mut segment = Segment::default();
        let packet = reassembled[0].decode(&hasher(), &mut segment);
        prop_assert!(matches!(packet, Packet::Tcp));
        prop_assert!(segment.facts.has(SegmentFlags::REASSEMBLED | SegmentFlags::TIMESTAMPS));
        prop_assert_eq!(segment.payload_len as usize, payload.len());
        let start = segment.payload_offset as usize;
        prop_assert_eq!(&reassembled[0].bytes[start..], &payload[..]);
    }
}

#[test]
fn a_large_dns_answer_comes_out_whole() {
    let answer = in_udp(53, 50_000, &[3; 3_000]);
    for of in [fragment_v4 as FragmentOf, fragment_v6] {
        let reassembled = reassemble(&split(of, 17, 1, &answer, 1_480));
        let mut segment = Segment::default();
        let Packet::Udp(datagram) = reassembled[0].decode(&hasher(), &mut segment) else {
            panic!()
        };
        assert_eq!((datagram.payload.len(), datagram.payload_len), (3_000, 3_000));
    }
}

#[test]
fn a_tunnelled_packet_is_found_in_fragments_of_its_tunnel() {
    let inner = in_ipv6(6, &tcp_bytes(&[1; 200]));
    let reassembled = reassemble(&split(fragment_v4, 41, 1, &inner, 128));
    let mut segment = Segment::default();
    assert!(matches!(reassembled[0].decode(&hasher(), &mut segment), Packet::Tcp));
    assert!(segment.facts.has(SegmentFlags::REASSEMBLED | SegmentFlags::TUNNELLED));
    assert!(!segment.facts.has(SegmentFlags::IPV4));
}

#[test]
fn a_fragment_captured_again_belongs_to_the_packet_that_had_it() {
    let mut reassembler = Reassembler::default();
    let fragments = split(fragment_v4, 17, 1, &in_udp(53, 1, &[1; 64]), 48);
    for (fragment, completes) in fragments.iter().flat_map(|one| [one, one]).zip(0..) {
        let outcome = insert(&mut reassembler, 0, fragment);
        assert_eq!(matches!(outcome, Reassembly::Complete(_)), completes == 2);
    }
    // The identification again, for another packet.
    for fragment in &split(fragment_v4, 17, 1, &in_udp(53, 1, &[2; 64]), 48) {
        insert(&mut reassembler, 0, fragment);
    }
    reassembler.finish();
    assert_eq!((reassembler.packet_count(), reassembler.incomplete_count()), (2, 0));
}

#[test]
fn packets_interleave_without_mixing() {
    let one = split(fragment_v4, 17, 1, &in_udp(53, 1, &[1; 64]), 24);
    let two = split(fragment_v4, 17, 2, &in_udp(53, 1, &[2; 64]), 24);
    let fragments: Vec<_> = one.into_iter().zip(two).flat_map(|(one, two)| [one, two]).collect();
    let reassembled = reassemble(&fragments);
    let last = |index: usize| reassembled[index].bytes.last().copied();
    assert_eq!((reassembled.len(), last(0), last(1)), (2, Some(1), Some(2)));
}

#[test]
fn overlapping_fragments_are_refused_once_and_ignored_after() {
    let mut reassembler = Reassembler::default();
    let mut next = |offset, more, len: usize| {
        insert(&mut reassembler, 0, &fragment_v4(17, 1, offset, more, &vec![0; len]))
    };
    assert!(matches!(next(0, true, 64), Reassembly::Pending));
    assert!(matches!(next(32, true, 64), Reassembly::Refused(DecodeError::FragmentOverlap)));
    assert!(matches!(next(64, false, 8), Reassembly::Pending));
}

#[test]
fn what_stays_incomplete_is_given_up_and_counted() {
    let first = &split(fragment_v4, 6, 1, &tcp_bytes(&[1; 200]), 96)[0];
    let later = &split(fragment_v4, 6, 2, &tcp_bytes(&[1; 200]), 96)[1];
    let mut reassembler = Reassembler::default();
    insert(&mut reassembler, 0, first);
    assert_eq!(reassembler.incomplete_count(), 0);
    insert(&mut reassembler, 31_000_000_000, later);
    assert_eq!(reassembler.incomplete_count(), 1);
    reassembler.finish();
    assert_eq!(reassembler.incomplete_count(), 2);
}

#[test]
fn a_snap_length_leaves_a_hole_that_ends_the_captured_bytes() {
    let answer = in_udp(53, 50_000, &[3; 200]);
    let fragments = split(fragment_v4, 17, 1, &answer, 128);
    let mut reassembler = Reassembler::default();
    let cut = Frame { bytes: &fragments[0][..60], ..frame(LinkType::RAW, &fragments[0]) };
    let mut segment = Segment::default();
    let Packet::Fragment(first) = decode(&cut, &hasher(), &mut segment) else { panic!() };
    reassembler.insert(&first);
    let Reassembly::Complete(whole) = insert(&mut reassembler, 0, &fragments[1]) else { panic!() };
    let Packet::Udp(datagram) = whole.decode(&hasher(), &mut segment) else { panic!() };
    assert_eq!((datagram.payload.len(), datagram.payload_len), (32, 200));
}

#[test]
fn memory_is_bounded_in_packets_and_bytes() {
    let limits = ReassemblyLimits { packets: 10, bytes: 4_096, ..ReassemblyLimits::default() };
    for (len, kept) in [(8, 10), (1_000, 3)] {
        let mut reassembler = Reassembler::new(limits);
        for id in 0..1_000 {
            insert(&mut reassembler, 0, &fragment_v4(17, id, 0, true, &vec![0; len]));
        }
        assert_eq!(reassembler.incomplete_count(), 1_000 - kept);
    }
}

#[test]
fn fragments_that_cannot_be_are_malformed() {
    let unaligned = fragment_v4(17, 1, 0, true, &[0; 13]);
    let beyond = fragment_v4(17, 1, 65_528, false, &[0; 64]);
    let empty = fragment_v6(17, 1, 8, false, &[]);
    for bytes in [unaligned, beyond, empty] {
        let packet = decode(&frame(LinkType::RAW, &bytes), &hasher(), &mut Segment::default());
        assert!(matches!(packet, Packet::Malformed(DecodeError::FragmentImpossible)), "{packet:?}");
    }
}
