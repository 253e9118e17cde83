//! One capture of a set: examined, waiting, open or finished.

use super::reader::Reader;
use super::source::OpenAgain;
use super::{Block, FrameId, InputSummary, Open, Problem, Source, names};
use crate::keys::Keys;
use std::cmp::Ordering;
use std::io::Read;

/// Bytes read of a capture to find the time of its first frame.
const PEEK_BYTES: usize = 16 << 10;
/// Cost of a frame in a merged block besides its bytes, so that empty frames fill it too.
const FRAME_COST_BYTES: usize = 16;

/// Orders captures: readable ones with frames first, by the time of the first, ns; then those without
/// frames; then unreadable ones. Equal ones are in the order of their names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(bool, bool, Option<u64>);

impl Rank {
    pub(super) fn new(is_unreadable: bool, head_ns: Option<u64>) -> Self {
        Self(is_unreadable, head_ns.is_none(), head_ns)
    }

    /// Compares captures with these names.
    pub(super) fn compare(&self, name: &str, other: &Self, other_name: &str) -> Ordering {
        self.cmp(other).then_with(|| names::compare(name, other_name))
    }
}

/// One capture of the set.
pub(super) struct Member {
    /// Opens it from its start; `None` for a stream, which is open from the beginning.
    reopen: Option<Box<OpenAgain>>,
    /// The size as stored, bytes, if known.
    pub(super) stored_bytes: Option<u64>,
    /// Time of its first frame, ns; `None` if it has no frames.
    pub(super) head_ns: Option<u64>,
    /// `true` if nothing of it can be read.
    pub(super) unreadable: bool,
    /// The reader while it is open.
    pub(super) lane: Option<Box<Lane>>,
    /// Time by which its clock is ahead, ns.
    ahead_ns: i64,
}

impl Member {
    /// Finds the time of a source's first frame. A file is closed again; a stream stays open, and
    /// its frames read so far are staged. Secrets of TLS in front of that frame are added to `keys`.
    pub(super) fn peek(
        source: Source,
        scratch: &mut Block,
        keys: &mut Keys,
    ) -> (Self, InputSummary) {
        let (site, path) = (source.site, source.name);
        let mut input = InputSummary { path, site, ..InputSummary::default() };
        let (reopen, lane, head) = match source.open {
            Open::Again(reopen) => {
                let head = open_file(&*reopen).map(|mut reader| {
                    reader.fill(scratch, PEEK_BYTES);
                    reader.move_keys(keys);
                    head_ns(scratch)
                });
                (Some(reopen), None, head)
            }
            Open::Once(stored) => match Lane::of_stream(stored) {
                Ok(mut lane) => {
                    lane.reader.move_keys(keys);
                    let head = head_ns(&lane.staged);
                    (None, Some(lane), Ok(head))
                }
                Err(problem) => (None, None, Err(problem)),
            },
        };
        let unreadable = head.is_err();
        let head_ns = head.unwrap_or_else(|problem| {
            input.problems.push(problem);
            None
        });
        let (stored_bytes, ahead_ns) = (source.bytes, site.ahead_ns);
        let mut member = Self { reopen, stored_bytes, head_ns, unreadable, lane, ahead_ns };
        member.head_ns = head_ns.map(|head_ns| member.set_right(head_ns));
        if let Some(mut lane) = member.lane.take() {
            member.set_times(&mut lane.staged);
            member.lane = Some(lane);
        }
        (member, input)
    }

    fn set_right(&self, time_ns: u64) -> u64 {
        time_ns.saturating_add_signed(self.ahead_ns.saturating_neg())
    }

    /// Converts the times of `block` to the clock of the first place.
    pub(super) fn set_times(&self, block: &mut Block) {
        if self.ahead_ns != 0 {
            for entry in &mut block.entries {
                entry.time_ns = self.set_right(entry.time_ns);
            }
        }
    }

    /// Returns what orders it among the captures of the input.
    pub(super) fn rank(&self) -> Rank {
        Rank::new(self.unreadable, self.head_ns)
    }

    /// Opens it as input `file`; fails with the reason if it can no longer be read.
    pub(super) fn open(&mut self, file: u32) -> Result<(), Problem> {
        if let Some(reopen) = &self.reopen {
            self.lane = Some(Lane::new(open_file(reopen)?));
        }
        if let Some(lane) = &mut self.lane {
            lane.number(file);
        }
        Ok(())
    }
}

fn open_file(reopen: &OpenAgain) -> Result<Reader, Problem> {
    let stored = reopen().map_err(|error| Problem::Open { reason: error.to_string() })?;
    Reader::open(stored, false)
}

fn head_ns(block: &Block) -> Option<u64> {
    block.entries.first().map(|entry| entry.time_ns)
}

/// An open capture, with frames read ahead of the merge.
pub(super) struct Lane {
    pub(super) reader: Reader,
    /// Frames read ahead; those before `cursor` have been taken.
    pub(super) staged: Block,
    pub(super) cursor: usize,
}

impl Lane {
    fn new(reader: Reader) -> Box<Self> {
        Box::new(Self { reader, staged: Block::default(), cursor: 0 })
    }

    fn of_stream(stored: Box<dyn Read + Send>) -> Result<Box<Self>, Problem> {
        let mut lane = Self::new(Reader::open(stored, true)?);
        lane.reader.fill(&mut lane.staged, PEEK_BYTES);
        Ok(lane)
    }

    /// Sets the index of the input in the reader and in the frames staged before the order was
    /// known.
    fn number(&mut self, file: u32) {
        self.reader.set_file(file);
        for entry in &mut self.staged.entries {
            entry.id = FrameId::new(file, entry.id.number());
        }
    }

    /// Moves staged frames up to `limit` (time, file) into `block` while it has `room`; returns
    /// the room left.
    pub(super) fn take_until(
        &mut self,
        limit: (u64, u32),
        file: u32,
        block: &mut Block,
        mut room: usize,
    ) -> usize {
        while let Some(entry) = self.staged.entries.get(self.cursor) {
            if room == 0 || (entry.time_ns, file) > limit {
                break;
            }
            let start = entry.offset as usize;
            let end = start + entry.captured_len as usize;
            let bytes = self.staged.bytes.get(start..end).unwrap_or_default();
            let mut entry = *entry;
            entry.offset = block.bytes.len() as u32;
            block.bytes.extend_from_slice(bytes);
            block.entries.push(entry);
            self.cursor += 1;
            room = room.saturating_sub(bytes.len() + FRAME_COST_BYTES);
        }
        room
    }
}
