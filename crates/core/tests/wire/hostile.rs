//! Captures are hostile input: no bytes may cause a panic, or a payload outside of the frame.

use crate::packets::{frame, hasher, specs, tcp};
use proptest::prelude::*;
use tcpwhy_core::capture::{Frame, FrameId, LinkType};
use tcpwhy_core::wire::{
    DecodeCounts, DecodeError, Packet, Reassembler, Reassembly, Segment, SegmentFlags, decode,
};

const LINKS: [u16; 14] = [0, 1, 9, 12, 14, 51, 101, 108, 113, 228, 229, 276, 105, 65_535];

fn assert_payload_inside(segment: &Segment, len: usize) {
    assert!(segment.payload_offset as usize + segment.captured_len as usize <= len);
    assert!(segment.captured_len <= segment.payload_len);
}

fn decode_all(frames: &[Frame<'_>]) {
    let (mut segment, mut counts, hasher) = (Segment::default(), DecodeCounts::default(), hasher());
    let mut reassembler = Reassembler::default();
    for frame in frames {
        let packet = decode(frame, &hasher, &mut segment);
        counts.add(&packet, frame.id);
        match packet {
            Packet::Tcp => assert_payload_inside(&segment, frame.bytes.len()),
            Packet::Udp(datagram) => {
                assert!(datagram.payload.len() <= datagram.payload_len as usize);
            }
            Packet::Fragment(fragment) => {
                if let Reassembly::Complete(whole) = reassembler.insert(&fragment)
                    && let Packet::Tcp = whole.decode(&hasher, &mut segment)
                {
                    assert_payload_inside(&segment, whole.bytes.len());
                }
            }
            _ => {}
        }
    }
    reassembler.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn arbitrary_bytes_do_no_harm(
        link in proptest::sample::select(LINKS.to_vec()),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        original_len in any::<u32>(),
    ) {
        decode_all(&[Frame { original_len, ..frame(LinkType(link), &bytes) }]);
    }

    #[test]
    fn changed_packets_do_no_harm(
        spec in specs(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        original_len in prop::option::of(any::<u32>()),
    ) {
        let mut built = spec.build();
        let headers_end = built.bytes.len() - spec.payload.len();
        for (index, byte) in changes {
            let at = index.index(headers_end);
            built.bytes[at] = byte;
        }
        let whole = frame(built.link, &built.bytes);
        decode_all(&[whole, Frame { original_len: original_len.unwrap_or(0), ..whole }]);
    }

    #[test]
    fn a_cut_anywhere_is_truncation_or_the_same_segment(spec in specs()) {
        let built = spec.build();
        let whole = frame(built.link, &built.bytes);
        let full = tcp(&whole);
        let header_end = full.payload_offset as usize;
        let mut segment = Segment::default();
        for snap in 0..built.bytes.len() {
            let cut = Frame { bytes: &built.bytes[..snap], ..whole };
            match decode(&cut, &hasher(), &mut segment) {
                Packet::Tcp => {
                    assert_payload_inside(&segment, snap);
                    let hidden = segment.facts.has(SegmentFlags::TRUNCATED_HEADER);
                    prop_assert_eq!(hidden, snap < header_end);
                    prop_assert_eq!((segment.seq, segment.flow), (full.seq, full.flow));
                    prop_assert_eq!(segment.payload_len, full.payload_len);
                }
                Packet::Malformed(error) => {
                    prop_assert!(snap < header_end);
                    prop_assert!(error.name().ends_with("_truncated"), "{}", error);
                }
                other => prop_assert!(false, "cut at {}: {:?}", snap, other),
            }
        }
    }
}

#[test]
fn every_error_has_a_name_of_its_own_and_is_counted_under_it() {
    let mut counts = DecodeCounts::default();
    for error in DecodeError::ALL {
        counts.add(&Packet::Malformed(error), FrameId::new(0, 1));
    }
    counts.merge(&counts.clone());
    let names: std::collections::BTreeSet<_> =
        counts.errors().map(|(error, _)| error.name()).collect();
    assert_eq!(names.len(), DecodeError::ALL.len());
    assert!(counts.errors().all(|(_, count)| count == 2));
}
