//! Reads one capture from its start to its end, a block of complete frames at a time.

use super::clock::Clock;
use super::input::Input;
use super::pcap::{self, Pcap};
use super::pcapng::Pcapng;
use super::repeats::Repeats;
use super::snoop::{self, Snoop};
use super::summary::Tally;
use super::{Block, FrameEntry, FrameId, InputSummary, Problem, foreign};
use crate::keys::Keys;
use std::io::{self, ErrorKind, Read};

#[cfg(test)]
mod tests;

/// Page size of the file cache, bytes.
const PAGE_BYTES: usize = 4 << 10;
/// Size of a cache line, bytes.
const LINE_BYTES: usize = 64;

/// Bytes of a capture to be parsed.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) bytes: &'a [u8],
    /// Their position in the capture.
    pub(super) offset: u64,
    /// Their position in the block.
    start: usize,
    file: u32,
}

impl Chunk<'_> {
    /// Returns the position in the block of byte `at`.
    #[inline(always)]
    pub(super) fn position(&self, at: usize) -> u32 {
        (self.start + at) as u32
    }

    /// Returns the identifier of frame `number` of this capture.
    #[inline]
    pub(super) fn frame(&self, number: u64) -> FrameId {
        FrameId::new(self.file, number)
    }
}

/// The reason why a walk over records stopped.
pub(super) enum Halt {
    /// The next record has this length, bytes, and is incomplete.
    Needs(usize),
    /// The next block has this length, bytes, and is to be skipped.
    Skip(u64),
    /// The rest cannot be read.
    Ended(Problem),
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Snoop(Snoop),
}

impl Format {
    /// Recognises the format by the first bytes; also returns the length of the header to skip.
    fn of(head: &[u8]) -> Result<(Self, usize), Problem> {
        if head.is_empty() {
            return Err(Problem::Empty);
        }
        if Pcapng::recognises(head) {
            return Ok((Self::Pcapng(Pcapng::new()), 0));
        }
        if Pcap::recognises(head) {
            let pcap = Pcap::parse(head).ok_or(Problem::Cut { offset: 0 })??;
            return Ok((Self::Pcap(pcap), pcap::HEADER_BYTES));
        }
        if Snoop::recognises(head) {
            let snoop = Snoop::parse(head).ok_or(Problem::Cut { offset: 0 })??;
            return Ok((Self::Snoop(snoop), snoop::HEADER_BYTES));
        }
        Err(Problem::Foreign { looks_like: foreign::looks_like(head) })
    }

    fn walk(
        &mut self,
        chunk: Chunk<'_>,
        entries: &mut Vec<FrameEntry>,
        tally: &mut Tally,
    ) -> (usize, Halt) {
        match self {
            Self::Pcap(pcap) => pcap.walk(chunk, entries, tally),
            Self::Pcapng(pcapng) => pcapng.walk(chunk, entries, tally),
            Self::Snoop(snoop) => snoop.walk(chunk, entries, tally),
        }
    }
}

/// The reader of one capture.
pub(super) struct Reader {
    input: Input,
    format: Format,
    file: u32,
    /// `true` if each read is passed on at once: the source may be live, and the next read may
    /// wait.
    eager: bool,
    tally: Tally,
    clock: Clock,
    repeats: Repeats,
    /// `true` if times stay as captured.
    keeps_times: bool,
    /// Frames followed by too few others to determine their time.
    held: Block,
    /// The start of an incomplete record.
    carry: Vec<u8>,
    /// Position of `carry` in the capture.
    offset: u64,
    /// Number of bytes that the record in `carry` needs.
    needs: usize,
    /// Number of bytes to skip before the next record.
    skip: u64,
    ended: bool,
    ending: Option<Problem>,
}

impl Reader {
    /// Recognises the format of a capture; fails with the reason if nothing of it can be read.
    pub(super) fn open(stored: Box<dyn Read + Send>, eager: bool) -> Result<Self, Problem> {
        let (input, mut head) = Input::open(stored).map_err(|error| Problem::of_read(0, &error))?;
        let (format, header_bytes) = Format::of(&head)?;
        head.drain(..header_bytes);
        Ok(Self {
            input,
            format,
            file: 0,
            eager,
            tally: Tally::default(),
            clock: Clock::default(),
            repeats: Repeats::default(),
            keeps_times: false,
            held: Block::default(),
            carry: head,
            offset: header_bytes as u64,
            needs: 0,
            skip: 0,
            ended: false,
            ending: None,
        })
    }

    /// Sets the index of the input, which is part of the identifier of the following frames.
    pub(super) fn set_file(&mut self, file: u32) {
        self.file = file;
    }

    /// Moves the secrets of TLS connections that it has read since the last call to `keys`.
    pub(super) fn move_keys(&mut self, keys: &mut Keys) {
        if let Format::Pcapng(pcapng) = &mut self.format
            && !pcapng.keys.is_empty()
        {
            keys.merge(&std::mem::take(&mut pcapng.keys));
        }
    }

    /// Keeps times as captured, although the clock may have been set meanwhile.
    pub(super) fn keep_times(&mut self) {
        self.keeps_times = true;
    }

    /// Refills `block` with at least one frame and about `block_bytes` bytes; returns `false` at
    /// the end.
    pub(super) fn fill(&mut self, block: &mut Block, block_bytes: usize) -> bool {
        block.entries.clear();
        let mut begin = self.take_held(block);
        loop {
            if !self.ended {
                let room = block_bytes.max(self.needs).max(self.carry.len() + 1);
                // The buffer is never shrunk: growing it again would clear bytes that a read
                // overwrites.
                let room_max = begin + room + LINE_BYTES + PAGE_BYTES;
                if block.bytes.len() < room_max {
                    block.bytes.resize(room_max, 0);
                }
                if self.pass_over(&mut block.bytes[begin..]) {
                    let (frames, steps) = (block.entries.len(), self.tally.steps_back());
                    let end = self.read_and_walk(block, begin, room);
                    let has_stepped = self.tally.steps_back() > steps || self.tally.may_restart();
                    self.repeats.leave_out(block, frames, has_stepped, &mut self.tally);
                    // The next read replaces bytes in which there is no frame.
                    begin = if block.entries.len() > frames { end } else { begin };
                }
            }
            if self.settle_times(block) || self.ended {
                return !block.entries.is_empty();
            }
        }
    }

    /// Moves the frames that were held back to the start of `block`; returns their end.
    fn take_held(&mut self, block: &mut Block) -> usize {
        let bytes = self.held.bytes.len();
        if block.bytes.len() < bytes {
            block.bytes.resize(bytes, 0);
        }
        block.bytes[..bytes].copy_from_slice(&self.held.bytes);
        block.entries.append(&mut self.held.entries);
        self.held.bytes.clear();
        bytes
    }

    /// Corrects times, and holds back frames whose time is not settled; returns `false` if none is
    /// left.
    fn settle_times(&mut self, block: &mut Block) -> bool {
        if self.keeps_times || self.clock.runs(&block.entries, !self.tally.unsteady) {
            return !block.entries.is_empty();
        }
        let all = block.entries.len();
        let is_last = self.ended || self.eager;
        let settled = if is_last { all } else { self.clock.settled(&block.entries) };
        if settled == 0 {
            return false;
        }
        self.clock.set_right(&mut block.entries, settled, &self.tally.appended);
        self.tally.unsteady = settled < all;
        for mut entry in block.entries.drain(settled..) {
            let (start, held) = (entry.offset as usize, &mut self.held);
            entry.offset = held.bytes.len() as u32;
            held.bytes.extend_from_slice(&block.bytes[start..start + entry.captured_len as usize]);
            held.entries.push(entry);
        }
        let next = self.held.entries.first().map_or(self.tally.number + 1, |it| it.id.number());
        self.tally.appended.retain(|number| *number >= next);
        true
    }

    /// Writes the state of the capture so far into its summary.
    pub(super) fn write(&self, summary: &mut InputSummary) {
        summary.bytes = self.input.consumed_bytes();
        self.tally.write(summary, self.ending.as_ref());
        if self.repeats.left_out > 0 {
            let (frames, first_frame) = (self.repeats.left_out, self.repeats.first);
            summary.problems.insert(0, Problem::Repeated { frames, first_frame });
        }
        if let Some((first_ns, last_ns)) = self.clock.span_ns() {
            (summary.first_ns, summary.last_ns) = (Some(first_ns), Some(last_ns));
        }
        if self.ended && summary.packets == 0 && summary.problems.is_empty() {
            summary.problems.push(Problem::NoFrames);
        }
    }

    /// Continues to read after the first `begin` bytes of `block`; returns the end of the bytes
    /// read.
    fn read_and_walk(&mut self, block: &mut Block, begin: usize, room: usize) -> usize {
        let carried = self.carry.len();
        // Whole pages are read, to the start of a cache line, because the kernel copies these
        // faster.
        let read_end = (self.offset + room as u64).next_multiple_of(PAGE_BYTES as u64);
        let aligned = block.bytes[begin + carried..].as_ptr().align_offset(LINE_BYTES);
        let start = begin + aligned.min(LINE_BYTES);
        let buffer = &mut block.bytes[start..start + (read_end - self.offset) as usize];
        buffer[..carried].copy_from_slice(&self.carry);
        let (filled, last) = self.read(buffer, carried);
        let (read, offset) = (&block.bytes[start..start + filled], self.offset);
        let chunk = Chunk { bytes: read, offset, start, file: self.file };
        let (walked, halt) = self.format.walk(chunk, &mut block.entries, &mut self.tally);
        self.offset += walked as u64;
        self.carry.clear();
        match halt {
            Halt::Needs(bytes) => {
                self.needs = bytes;
                self.carry.extend_from_slice(&read[walked..]);
            }
            Halt::Skip(bytes) => {
                self.needs = 0;
                self.skip = bytes.saturating_sub((filled - walked) as u64);
                self.offset += (filled - walked) as u64;
            }
            Halt::Ended(problem) => {
                self.end(Some(problem));
                return start + filled;
            }
        }
        if let Some(last) = last {
            self.end_of_input(last);
        }
        start + filled
    }

    /// Reads after the first `filled` bytes until `buffer` is full, the input ends, or an eager
    /// reader has some bytes; returns how full it is and, if the input ended, how.
    fn read(&mut self, buffer: &mut [u8], mut filled: usize) -> (usize, Option<Last>) {
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => return (filled, Some(Last::End)),
                Ok(bytes) => filled += bytes,
                Err(error) => return (filled, Some(Last::of(error))),
            }
            if self.eager && filled >= self.needs {
                break;
            }
        }
        (filled, None)
    }

    /// Reads and discards the bytes to skip; returns `false` if the input ended.
    fn pass_over(&mut self, buffer: &mut [u8]) -> bool {
        while self.skip > 0 {
            let bytes = usize::try_from(self.skip).unwrap_or(usize::MAX).min(buffer.len());
            match self.input.read(&mut buffer[..bytes]) {
                Ok(0) => self.end_of_input(Last::Cut),
                Ok(bytes) => {
                    self.skip -= bytes as u64;
                    self.offset += bytes as u64;
                }
                Err(error) => self.end_of_input(Last::of(error)),
            }
            if self.ended {
                return false;
            }
        }
        true
    }

    fn end_of_input(&mut self, last: Last) {
        let whole = self.carry.is_empty() && self.skip == 0;
        self.end(match last {
            Last::Enough => None,
            Last::End if whole => None,
            Last::End | Last::Cut => Some(Problem::Cut { offset: self.offset }),
            Last::Failed(error) => Some(Problem::of_read(self.offset, &error)),
        });
    }

    fn end(&mut self, ending: Option<Problem>) {
        self.ended = true;
        self.ending = ending;
    }
}

/// The way in which the input ended.
enum Last {
    /// The regular end.
    End,
    /// The source was closed because no more of it is wanted.
    Enough,
    /// The compressed stream is incomplete.
    Cut,
    /// A read error.
    Failed(io::Error),
}

impl Last {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::Cut,
            ErrorKind::WouldBlock => Self::Enough,
            _ => Self::Failed(error),
        }
    }
}
