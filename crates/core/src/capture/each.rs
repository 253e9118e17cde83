//! Reads the frames of one file in file order, for copying.

use super::reader::Reader;
use super::{Block, Frame, InputSummary, LinkType, Problem};
use std::io::{self, Read};

/// Bytes of a file read at a time.
const READ_BYTES: usize = 1 << 20;
/// The magic number of pcap with nanoseconds, and its version.
const PCAP_NANOSECONDS: u32 = 0xa1b2_3c4d;
const PCAP_VERSION: [u16; 2] = [2, 4];
const NS_PER_S: u64 = 1_000_000_000;

/// Passes each frame of a capture, plain or compressed, to `on`, in the order and with the time of
/// the file. Returns the reason if not all of it could be read.
///
/// # Errors
/// The system's error if it cannot be opened, or the error of `on`.
pub fn each_frame(
    read: Box<dyn Read + Send>,
    on: &mut dyn FnMut(&Frame<'_>) -> io::Result<()>,
) -> io::Result<Option<Problem>> {
    let mut reader = match Reader::open(read, false) {
        Ok(reader) => reader,
        Err(problem) => return Ok(Some(problem)),
    };
    reader.keep_times();
    let mut block = Block::default();
    while reader.fill(&mut block, READ_BYTES) {
        block.frames().try_for_each(|frame| on(&frame))?;
    }
    let mut summary = InputSummary::default();
    reader.write(&mut summary);
    Ok(summary.problems.into_iter().next())
}

/// Appends the header of a pcap file (draft-ietf-opsawg-pcap) with nanoseconds, in the byte order
/// of this machine.
pub fn pcap_header(link: LinkType, bytes: &mut Vec<u8>) {
    bytes.extend(PCAP_NANOSECONDS.to_ne_bytes());
    PCAP_VERSION.iter().for_each(|it| bytes.extend(it.to_ne_bytes()));
    bytes.extend([0; 8]);
    bytes.extend((super::FRAME_BYTES_MAX as u32).to_ne_bytes());
    bytes.extend(u32::from(link.0).to_ne_bytes());
}

/// Appends a frame to such a file.
pub fn pcap_frame(frame: &Frame<'_>, bytes: &mut Vec<u8>) {
    let time = [frame.time_ns / NS_PER_S, frame.time_ns % NS_PER_S].map(|it| it as u32);
    for word in [time[0], time[1], frame.bytes.len() as u32, frame.original_len] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend_from_slice(frame.bytes);
}
