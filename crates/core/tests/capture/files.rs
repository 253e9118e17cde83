//! Builders of capture files, and reading them back.

use tcpwhy_core::capture::{Block, CaptureError, CaptureSet, InputSummary, LinkType, Source};

/// Byte order of a built file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

pub const ORDERS: [Order; 2] = [Order::Little, Order::Big];

impl Order {
    pub fn u16(self, value: u16) -> [u8; 2] {
        if self == Self::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }

    pub fn u32(self, value: u32) -> [u8; 4] {
        if self == Self::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }

    pub fn u64(self, value: u64) -> [u8; 8] {
        if self == Self::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }
}

/// A frame with its own bytes, to write into a file or as read from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub time_ns: u64,
    pub original_len: u32,
    pub link: LinkType,
    pub bytes: Vec<u8>,
}

/// An Ethernet frame of `bytes`, not cut.
pub fn frame(time_ns: u64, bytes: &[u8]) -> Owned {
    let original_len = bytes.len() as u32;
    Owned { time_ns, original_len, link: LinkType::ETHERNET, bytes: bytes.to_vec() }
}

/// Returns `count` frames one millisecond apart, each with different bytes.
pub fn frames(count: u64) -> Vec<Owned> {
    (0..count)
        .map(|index| frame(1_700_000_000_000_000_000 + index * 1_000_000, &index.to_be_bytes()))
        .collect()
}

pub const PCAP_MICROSECONDS: u32 = 0xa1b2_c3d4;
pub const PCAP_NANOSECONDS: u32 = 0xa1b2_3c4d;
pub const PCAP_MODIFIED: u32 = 0xa1b2_cd34;

pub fn pcap_header(order: Order, magic: u32, link: u32) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(order.u32(magic));
    file.extend(order.u16(2));
    file.extend(order.u16(4));
    for field in [0, 0, 262_144, link] {
        file.extend(order.u32(field));
    }
    file
}

pub fn pcap_record(order: Order, magic: u32, frame: &Owned) -> Vec<u8> {
    let unit_ns = if magic == PCAP_NANOSECONDS { 1 } else { 1_000 };
    let mut record = Vec::new();
    record.extend(order.u32((frame.time_ns / 1_000_000_000) as u32));
    record.extend(order.u32((frame.time_ns % 1_000_000_000 / unit_ns) as u32));
    record.extend(order.u32(frame.bytes.len() as u32));
    record.extend(order.u32(frame.original_len));
    if magic == PCAP_MODIFIED {
        record.extend([0xee; 8]);
    }
    record.extend(&frame.bytes);
    record
}

pub fn pcap_file(order: Order, magic: u32, frames: &[Owned]) -> Vec<u8> {
    let link = frames.first().map_or(1, |frame| frame.link.0.into());
    let mut file = pcap_header(order, magic, link);
    for frame in frames {
        file.extend(pcap_record(order, magic, frame));
    }
    file
}

/// A pcap file as `tcpdump --nano` on this machine writes it.
pub fn nano_pcap(frames: &[Owned]) -> Vec<u8> {
    pcap_file(Order::Little, PCAP_NANOSECONDS, frames)
}

/// A pcapng block: body padded, lengths around it.
pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = order.u32(padded as u32 + 12);
    let mut block = Vec::new();
    block.extend(order.u32(kind));
    block.extend(length);
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(length);
    block
}

pub fn section(order: Order) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend(order.u16(1));
    body.extend(order.u16(0));
    body.extend(order.u64(u64::MAX));
    block(order, 0x0a0d_0d0a, &body)
}

pub fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = order.u16(code).to_vec();
    option.extend(order.u16(value.len() as u16));
    option.extend(value);
    option.resize(4 + value.len().next_multiple_of(4), 0);
    option
}

pub fn interface(order: Order, link: LinkType, snap_len: u32, options: &[u8]) -> Vec<u8> {
    let mut body = order.u16(link.0).to_vec();
    body.extend([0, 0]);
    body.extend(order.u32(snap_len));
    body.extend(options);
    block(order, 1, &body)
}

pub fn enhanced(order: Order, interface: u32, time: u64, frame: &Owned) -> Vec<u8> {
    let mut body = order.u32(interface).to_vec();
    body.extend(packet_fields(order, time, frame));
    block(order, 6, &body)
}

pub fn old_packet(order: Order, interface: u16, time: u64, frame: &Owned) -> Vec<u8> {
    let mut body = order.u16(interface).to_vec();
    body.extend(order.u16(0xffff));
    body.extend(packet_fields(order, time, frame));
    block(order, 2, &body)
}

pub fn simple(order: Order, frame: &Owned) -> Vec<u8> {
    let mut body = order.u32(frame.original_len).to_vec();
    body.extend(&frame.bytes);
    block(order, 3, &body)
}

fn packet_fields(order: Order, time: u64, frame: &Owned) -> Vec<u8> {
    let mut fields = order.u32((time >> 32) as u32).to_vec();
    fields.extend(order.u32(time as u32));
    fields.extend(order.u32(frame.bytes.len() as u32));
    fields.extend(order.u32(frame.original_len));
    fields.extend(&frame.bytes);
    fields
}

/// A pcapng file of one nanosecond interface.
pub fn pcapng_file(order: Order, frames: &[Owned]) -> Vec<u8> {
    let link = frames.first().map_or(LinkType::ETHERNET, |frame| frame.link);
    let mut file = section(order);
    file.extend(interface(order, link, 0, &option(order, 9, &[9])));
    for frame in frames {
        file.extend(enhanced(order, 0, frame.time_ns, frame));
    }
    file
}

/// The contents of a set of files: frames with (file, number), and the summaries.
pub struct Read {
    pub frames: Vec<Owned>,
    pub ids: Vec<(u32, u64)>,
    pub inputs: Vec<InputSummary>,
}

impl Read {
    /// The kinds of problems of input `file`.
    pub fn problem_kinds(&self, file: usize) -> Vec<&'static str> {
        self.inputs[file].problems.iter().map(|problem| problem.kind()).collect()
    }
}

pub fn read_set(mut set: CaptureSet) -> Result<Read, CaptureError> {
    let mut read = Read { frames: Vec::new(), ids: Vec::new(), inputs: Vec::new() };
    let mut block = Block::default();
    while set.next_block(&mut block)? {
        assert!(!block.entries.is_empty(), "a block has frames");
        assert_eq!(block.frames().count(), block.entries.len(), "entries lie within the block");
        for frame in block.frames() {
            read.ids.push((frame.id.file(), frame.id.number()));
            read.frames.push(Owned {
                time_ns: frame.time_ns,
                original_len: frame.original_len,
                link: frame.link,
                bytes: frame.bytes.to_vec(),
            });
        }
    }
    assert!(!set.next_block(&mut block)?, "the end is the end");
    read.inputs = set.inputs().to_vec();
    Ok(read)
}

pub fn read_files(files: &[(&str, &[u8])]) -> Result<Read, CaptureError> {
    let sources = files.iter().map(|(name, bytes)| Source::memory(*name, *bytes));
    read_set(CaptureSet::new(sources.collect())?)
}

/// Reads one file in which something can be read.
pub fn read(bytes: &[u8]) -> Read {
    read_files(&[("t", bytes)]).expect("a readable capture")
}

/// The sentence about one file in which nothing can be read.
pub fn refusal(bytes: &[u8]) -> String {
    match read_files(&[("t", bytes)]) {
        Ok(read) => panic!("read {} frames", read.frames.len()),
        Err(error) => error.to_string(),
    }
}
