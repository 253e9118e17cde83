//! The frames are those that `pcap-parser` finds, an independent reader of both formats.

use crate::files::*;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};
use proptest::prelude::*;
use std::io::Cursor;

type Seen = (u64, u32, Vec<u8>);

/// pcap-parser leaves the meaning of times to its caller.
fn oracle(mut reader: impl PcapReaderIterator, resolution: u64) -> Vec<Seen> {
    let mut seen = Vec::new();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::Legacy(packet) => seen.push((
                        u64::from(packet.ts_sec) * 1_000_000_000
                            + u64::from(packet.ts_usec) * (1_000_000_000 / resolution),
                        packet.origlen,
                        packet.data.to_vec(),
                    )),
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let (seconds, fraction) = packet.decode_ts(0, resolution);
                        let time_ns = u64::from(seconds) * 1_000_000_000
                            + u64::from(fraction) * (1_000_000_000 / resolution);
                        seen.push((time_ns, packet.origlen, packet.packet_data().to_vec()));
                    }
                    _ => {}
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return seen,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("in memory"),
            Err(error) => panic!("the oracle failed: {error:?}"),
        }
    }
}

fn ours(file: &[u8]) -> Vec<Seen> {
    let frames = read(file).frames.into_iter();
    frames.map(|frame| (frame.time_ns, frame.original_len, frame.bytes)).collect()
}

/// Frames whose times decrease too little to look like a step of the clock.
fn some_frames() -> impl Strategy<Value = Vec<Owned>> {
    let bytes = prop::collection::vec(any::<u8>(), 1..400);
    let one = (-999_999_i64..1 << 40, bytes, 0_u32..2_000);
    (1_000_000_u64..1 << 50, prop::collection::vec(one, 1..60)).prop_map(|(first_us, frames)| {
        let mut time_us = first_us;
        let next = |(step_us, bytes, cut): (i64, Vec<u8>, u32)| {
            time_us = time_us.saturating_add_signed(step_us);
            let whole = frame(time_us * 1_000, &bytes);
            Owned { original_len: whole.original_len + cut, ..whole }
        };
        frames.into_iter().map(next).collect()
    })
}

proptest! {
    #[test]
    fn agrees_with_pcap_parser(frames in some_frames(), big in any::<bool>()) {
        let order = if big { Order::Big } else { Order::Little };
        for (magic, resolution) in
            [(PCAP_MICROSECONDS, 1_000_000), (PCAP_NANOSECONDS, 1_000_000_000)]
        {
            let file = pcap_file(order, magic, &frames);
            let reader = LegacyPcapReader::new(1 << 16, Cursor::new(&file)).expect("a pcap file");
            prop_assert_eq!(ours(&file), oracle(reader, resolution));
        }
        let file = pcapng_file(order, &frames);
        let reader = PcapNGReader::new(1 << 16, Cursor::new(&file)).expect("a pcapng file");
        prop_assert_eq!(ours(&file), oracle(reader, 1_000_000_000));
    }
}
