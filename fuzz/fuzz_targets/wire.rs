//! Decoding and reassembly: any frames, of any link type, cut anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpwhy_core::capture::{Frame, FrameId, LinkType};
use tcpwhy_core::quic::{Carried, Tracker};
use tcpwhy_core::wire::{
    DecodeCounts, FlowHasher, Packet, Reassembled, Reassembler, Reassembly, Segment, decode,
    decode_long_way,
};

const LINKS: [u16; 16] = [1, 0, 9, 10, 50, 51, 101, 104, 108, 113, 192, 228, 239, 276, 105, 101];

// The input is a run of frames: link and clock (1 byte), captured length (1), what the snap length
// cut (1), then the captured bytes.
fuzz_target!(|input: &[u8]| {
    let hasher = FlowHasher::new(1);
    let mut segment = Segment::default();
    let mut counts = DecodeCounts::default();
    let mut reassembler = Reassembler::default();
    let mut quic = Tracker::new(true);
    let (mut rest, mut number, mut time_ns) = (input, 0, 0);
    while let [kind, captured_len, cut, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(tail.len().min(usize::from(*captured_len)));
        rest = tail;
        number += 1;
        time_ns += u64::from(kind >> 4) * 1_000_000_000;
        let frame = Frame {
            id: FrameId::new(0, number),
            time_ns,
            original_len: bytes.len() as u32 + u32::from(*cut) * 16,
            link: LinkType(LINKS[usize::from(kind & 0xf)]),
            bytes,
        };
        let packet = decode(&frame, &hasher, &mut segment);
        counts.add(&packet, frame.id);
        let mut long = Segment::default();
        let by_long_way = decode_long_way(&frame, &hasher, &mut long);
        assert_eq!(format!("{packet:?}"), format!("{by_long_way:?}"));
        match packet {
            Packet::Tcp => {
                assert_eq!(format!("{segment:?}"), format!("{long:?}"));
                check(&segment, &hasher, bytes);
            }
            Packet::Udp(datagram) => {
                assert!(datagram.payload.len() <= datagram.payload_len as usize)
            }
            Packet::Quic(datagram) | Packet::MayBeQuic(datagram) => quic.datagram(&Carried {
                time_ns,
                frame: frame.id,
                source: datagram.source,
                destination: datagram.destination,
                payload: datagram.payload.into(),
                payload_bytes: datagram.payload_len,
            }),
            Packet::Fragment(fragment) => {
                if let Reassembly::Complete(whole) = reassembler.insert(&fragment) {
                    check_whole(&whole, &hasher);
                }
            }
            _ => {}
        }
    }
    reassembler.finish();
    for handshake in quic.take_all() {
        assert!(handshake.end_ns >= handshake.start_ns);
    }
});

fn check(segment: &Segment, hasher: &FlowHasher, buffer: &[u8]) {
    assert!(segment.payload_offset as usize + segment.captured_len as usize <= buffer.len());
    assert!(segment.captured_len <= segment.payload_len);
    assert!(segment.flow.low <= segment.flow.high);
    assert_eq!(segment.flow_hash, hasher.hash(&segment.flow));
}

fn check_whole(whole: &Reassembled, hasher: &FlowHasher) {
    let mut segment = Segment::default();
    if let Packet::Tcp = whole.decode(hasher, &mut segment) {
        check(&segment, hasher, &whole.bytes);
    }
}
