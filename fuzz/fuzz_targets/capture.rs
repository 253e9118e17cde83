//! Captures of arbitrary bytes: no panic, bounded memory, and the same frames however the bytes
//! arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::{self, Cursor, Read};
use tcpwhy_core::capture::{Block, CaptureSet, FrameId, Problem, Source};

/// What a block may hold: two of the largest records, and the start of a third.
const BLOCK_BYTES_MAX: usize = 8 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    let capture = [head(kind & 7), bytes].concat();
    let file = || Source::memory("file", capture.clone());
    let alone = frames(vec![file()]);

    let pieces = 1 + usize::from(kind >> 3);
    let stream = Source::stream("file", Pieces { bytes: Cursor::new(capture.clone()), pieces });
    let streamed = frames(vec![stream]);
    assert!(streamed.iter().map(without_time).eq(alone.iter().map(without_time)));
    // Whether a clock that is far ahead comes back is seen in a file; a stream is told as it comes.
    if !has_clock_steps(&capture) {
        assert_eq!(streamed, alone);
    }

    let steady = [head(1), &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0xff]].concat();
    let both = frames(vec![file(), Source::memory("steady", steady)]);
    assert_eq!(both.len(), alone.len() + 1);
});

/// Number and bytes of a frame.
fn without_time((number, _, bytes): &(u64, u64, Vec<u8>)) -> (u64, &[u8]) {
    (*number, bytes)
}

/// Whether the clock of a capture was set.
fn has_clock_steps(capture: &[u8]) -> bool {
    let Ok(mut set) = CaptureSet::new(vec![Source::memory("file", capture.to_vec())]) else {
        return false;
    };
    let mut block = Block::default();
    while set.next_block(&mut block).expect("readable when it was opened") {}
    let mut problems = set.inputs().iter().flat_map(|input| &input.problems);
    problems.any(|problem| matches!(problem, Problem::ClockStep { .. }))
}

/// Starts that would take the fuzzer long to find.
fn head(kind: u8) -> &'static [u8] {
    const PCAP: &[u8] = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0";
    const PCAP_BIG: &[u8] = b"\xa1\xb2\x3c\x4d\0\x02\0\x04\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\x01";
    const PCAPNG: &[u8] = b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\
        \xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0\
        \x01\0\0\0\x14\0\0\0\x01\0\0\0\0\0\x04\0\x14\0\0\0";
    const PCAPNG_BIG: &[u8] = b"\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\
        \xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x1c\
        \0\0\0\x01\0\0\0\x14\0\x01\0\0\0\x04\0\0\0\0\0\x14";
    const SNOOP: &[u8] = b"snoop\0\0\0\0\0\0\x02\0\0\0\x04";
    match kind {
        6 => SNOOP,
        1 => PCAP,
        2 => PCAP_BIG,
        3 | 4 => PCAPNG,
        5 => PCAPNG_BIG,
        _ => &[],
    }
}

/// All frames of a set; checks what holds of every block.
fn frames(sources: Vec<Source>) -> Vec<(u64, u64, Vec<u8>)> {
    let mut frames = Vec::new();
    let Ok(mut set) = CaptureSet::new(sources) else {
        return frames;
    };
    let mut block = Block::default();
    let mut last = [FrameId::default(); 2];
    while set.next_block(&mut block).expect("readable when it was opened") {
        assert!(block.bytes.len() <= BLOCK_BYTES_MAX);
        assert_eq!(block.frames().count(), block.entries.len());
        for frame in block.frames() {
            let last = &mut last[frame.id.file() as usize];
            assert!(frame.id > *last && frame.bytes.len() <= frame.original_len as usize);
            *last = frame.id;
            frames.push((frame.id.number(), frame.time_ns, frame.bytes.to_vec()));
        }
    }
    let packets: u64 = set.inputs().iter().map(|input| input.packets).sum();
    let problems = || set.inputs().iter().flat_map(|input| &input.problems);
    let repeated: u64 = problems()
        .map(|it| if let Problem::Repeated { frames, .. } = it { *frames } else { 0 })
        .sum();
    assert_eq!(packets, frames.len() as u64 + repeated);
    for input in set.inputs() {
        assert!(input.problems.iter().all(|problem| !problem.to_string().is_empty()));
    }
    frames
}

/// Bytes that come a few at a time.
struct Pieces {
    bytes: Cursor<Vec<u8>>,
    pieces: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let few = buffer.len().min(self.pieces);
        self.bytes.read(&mut buffer[..few])
    }
}
