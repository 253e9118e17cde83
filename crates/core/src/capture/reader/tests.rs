//! Compares the fast path over records and blocks with the general one.

use super::super::{Block, InputSummary};
use super::Reader;
use proptest::prelude::*;
use std::io::Cursor;

/// A packet: time step, addition to the fraction or time, captured bytes, excess of the original
/// length, and the type of its record or block.
type Packet = (i8, u8, u8, i8, u8);

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let kinds = prop_oneof![8 => Just(0_u8), 1 => any::<u8>()];
    let steps = prop_oneof![8 => 0..100_i8, 1 => any::<i8>()];
    let lengths = prop_oneof![8 => 1..90_u8, 1 => Just(0)];
    let cut = prop_oneof![8 => 0..5_i8, 1 => any::<i8>()];
    prop::collection::vec((steps, any::<u8>(), lengths, cut, kinds), 0..40)
}

#[derive(Clone, Copy, Debug)]
struct Order {
    is_big: bool,
}

impl Order {
    fn u16(self, value: u16) -> [u8; 2] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

fn pcap_header(order: Order, magic: u32, minor: u16, link: u32) -> Vec<u8> {
    let mut file = order.u32(magic).to_vec();
    file.extend(order.u16(2));
    file.extend(order.u16(minor));
    file.extend([0, 0, 262_144, link].map(|field| order.u32(field)).concat());
    file
}

fn pcap(order: Order, magic: u32, minor: u16, packets: &[Packet]) -> Vec<u8> {
    let mut file = pcap_header(order, magic, minor, 1);
    let mut seconds = 1_700_000_000_u32;
    for &(step, fraction, captured, longer, kind) in packets {
        seconds = seconds.wrapping_add_signed(step.into());
        let fraction = if kind == 1 { 999_999_990 + u32::from(fraction) } else { fraction.into() };
        let original = u32::from(captured).wrapping_add_signed(longer.into());
        let fields = [seconds, fraction, captured.into(), original];
        file.extend(fields.map(|field| order.u32(field)).concat());
        if magic == 0xa1b2_cd34 {
            file.extend([0; 8]);
        }
        file.extend((0..captured).map(|byte| byte ^ kind));
        if kind == 2 {
            file.extend(pcap_header(Order { is_big: step < 0 }, 0xa1b2_c3d4, 4, 101));
        }
    }
    file
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    unpadded(order, kind, &[body, &padding].concat())
}

/// Returns a block whose length is that of `body`, without padding.
fn unpadded(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = order.u32(12 + body.len() as u32);
    [&order.u32(kind), &length, body, &length].concat()
}

fn interface(order: Order, link: u16, tsresol: u8, offset: u8) -> Vec<u8> {
    let mut body = [order.u16(link), order.u16(0)].concat();
    body.extend(order.u32(0));
    body.extend([order.u16(9), order.u16(1)].concat());
    body.extend([tsresol, 0, 0, 0]);
    let offset =
        if order.is_big { [0, 0, 0, 0, 0, 0, 0, offset] } else { [offset, 0, 0, 0, 0, 0, 0, 0] };
    body.extend([order.u16(14), order.u16(8)].concat());
    body.extend(offset);
    block(order, 1, &body)
}

fn pcapng(order: Order, resolutions: [u8; 3], packets: &[Packet]) -> Vec<u8> {
    let version = [order.u16(1), order.u16(0)].concat();
    let mut file =
        block(order, 0x0a0d_0d0a, &[&order.u32(0x1a2b_3c4d), &version[..], &[0xff; 8]].concat());
    for (number, tsresol) in resolutions.into_iter().enumerate() {
        file.extend(interface(order, 1 + 100 * (number as u16 / 2), tsresol, number as u8 % 2));
    }
    let mut time = 1_700_000_000_000_000_u64;
    for &(step, more, captured, longer, kind) in packets {
        time = time.wrapping_add_signed(i64::from(step) * 1_000 + i64::from(more));
        let number = if kind < 64 { 0 } else { u32::from(kind) % 4 };
        let original = u32::from(captured).wrapping_add_signed(longer.into());
        let fields = [number, (time >> 32) as u32, time as u32, captured.into(), original];
        let mut body = fields.map(|field| order.u32(field)).concat();
        body.extend((0..captured).map(|byte| byte ^ kind));
        match kind {
            1..=9 => file.extend(block(order, kind.into(), &body)),
            10..=12 => file.extend(block(order, 0xbad, &body)),
            13 => file.extend(unpadded(order, 6, &body)),
            _ => file.extend(block(order, 6, &body)),
        }
    }
    file
}

/// Returns everything that is read of a capture in blocks of about `block_bytes`.
fn read(file: &[u8], block_bytes: usize, disable_fast_path: bool) -> String {
    let mut reader = match Reader::open(Box::new(Cursor::new(file.to_vec())), false) {
        Ok(reader) => reader,
        Err(problem) => return format!("{problem:?}"),
    };
    reader.tally.disable_fast_path = disable_fast_path;
    reader.set_file(3);
    let (mut block, mut summary, mut all) =
        (Block::default(), InputSummary::default(), String::new());
    while reader.fill(&mut block, block_bytes) {
        assert_eq!(block.frames().count(), block.entries.len());
        for frame in block.frames() {
            all += &format!("{frame:?}\n");
        }
        reader.write(&mut summary);
        all += &format!("{summary:?}\n");
    }
    reader.write(&mut summary);
    all + &format!("{summary:?}\n")
}

fn assert_same(
    mut file: Vec<u8>,
    flips: &[(prop::sample::Index, u8)],
    cut: usize,
    block_bytes: usize,
) {
    for (place, value) in flips {
        let place = place.index(file.len());
        file[place] = *value;
    }
    file.truncate(file.len() - cut.min(file.len()));
    assert_eq!(read(&file, block_bytes, false), read(&file, block_bytes, true));
}

#[test]
fn both_ways_refuse_a_block_that_is_longer_than_its_kind_can_be() {
    let order = Order { is_big: false };
    let mut file = pcapng(order, [6; 3], &[(0, 0, 9, 0, 0); 2]);
    for frame_bytes in [(2 << 20) - 32, (2 << 20) - 28] {
        let length = frame_bytes as u32;
        let fields = [0, 1 << 19, 0, length, length].map(|field| order.u32(field)).concat();
        file.extend(block(order, 6, &[fields, vec![0; frame_bytes]].concat()));
        assert_eq!(read(&file, 8 << 20, false), read(&file, 8 << 20, true));
    }
}

/// Returns time and clock of each frame of a capture that is read in blocks of about `block_bytes`.
fn times(file: &[u8], block_bytes: usize) -> Vec<(u64, bool)> {
    let mut reader = Reader::open(Box::new(Cursor::new(file.to_vec())), false).expect("a capture");
    let (mut block, mut times) = (Block::default(), Vec::new());
    while reader.fill(&mut block, block_bytes) {
        times.extend(block.entries.iter().map(|entry| (entry.time_ns, entry.clock_set)));
    }
    times
}

fn flips() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn both_ways_read_the_same_of_pcap(
        is_big: bool,
        magic in prop::sample::select(vec![0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34]),
        minor in 2..=4_u16,
        packets in packets(),
        (flips, cut, block_bytes) in (flips(), 0..40_usize, 1..20_000_usize),
    ) {
        assert_same(pcap(Order { is_big }, magic, minor, &packets), &flips, cut, block_bytes);
    }

    #[test]
    fn times_are_set_right_the_same_in_blocks_of_any_size(
        packets in packets(),
        steps in prop::collection::vec((-9..9_i8, any::<u8>(), Just(60), Just(0), Just(0)), 0..200),
        block_bytes in 1..9_000_usize,
    ) {
        let file = pcap(Order { is_big: false }, 0xa1b2_c3d4, 4, &[packets, steps].concat());
        prop_assert_eq!(times(&file, block_bytes), times(&file, 1 << 20));
    }

    #[test]
    fn both_ways_read_the_same_of_pcapng(
        is_big: bool,
        resolutions in prop::array::uniform3(prop::sample::select(vec![6_u8, 6, 9, 0, 12, 0x94])),
        packets in packets(),
        (flips, cut, block_bytes) in (flips(), 0..40_usize, 1..20_000_usize),
    ) {
        assert_same(pcapng(Order { is_big }, resolutions, &packets), &flips, cut, block_bytes);
    }
}
