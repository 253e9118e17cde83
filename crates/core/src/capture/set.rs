//! Many captures as one stream of frames in time order.
//!
//! Captures are ordered by the time of their first frame and opened when time reaches it. While
//! only one is open, its blocks are passed on as read; overlapping captures are merged frame by
//! frame. Within one capture frames keep their order, even if its clock steps back.

use super::member::Member;
use super::{Block, CaptureError, FrameId, InputSummary, Problem, Source};
use crate::keys::Keys;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Default number of bytes read at a time: it fits into a core's own cache while it is read,
/// decoded and tracked.
const BLOCK_BYTES: usize = 128 << 10;
/// Number of bytes read at a time of all captures together while several are merged, and the least
/// and the greatest of one.
const MERGE_ALL_BYTES: usize = 4 << 20;
const MERGE_BYTES_MIN: usize = 4 << 10;
const MERGE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of captures that are open at a time: systems seldom let a process open more
/// files.
const OPEN_MAX: usize = 1_000;

/// The input: all captures, as one stream of frames.
pub struct CaptureSet {
    members: Vec<Member>,
    inputs: Vec<InputSummary>,
    /// Number of the first member: [`FrameId::file`] of its frames.
    first_number: u32,
    /// Index of the next member to open.
    next: usize,
    /// The only open member, if it has no staged frames.
    alone: Option<u32>,
    /// Time of the first staged frame, and member, of each member that has staged frames.
    heads: BinaryHeap<Reverse<(u64, u32)>>,
    block_bytes: usize,
    /// Number of open members.
    open: usize,
    /// Secrets of TLS connections that the captures contain.
    keys: Keys,
}

/// The part of the input read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read, as stored (before decompression).
    pub consumed_bytes: u64,
    /// Total size in bytes; `None` if the size of a source is unknown.
    pub total_bytes: Option<u64>,
}

impl CaptureSet {
    /// Finds the first frame of each source and orders them by its time, then by name. Fails only
    /// if none of them can be read; problems of single sources are in [`Self::inputs`].
    ///
    /// # Errors
    /// [`CaptureError`]: no source, too many, or no readable one among them.
    pub fn new(sources: Vec<Source>) -> Result<Self, CaptureError> {
        if sources.is_empty() {
            return Err(CaptureError::NoInput);
        }
        if sources.len() > FrameId::FILES_MAX {
            return Err(CaptureError::TooManyFiles { files: sources.len() });
        }
        let (mut scratch, mut keys) = (Block::default(), Keys::default());
        let mut peeked: Vec<(Member, InputSummary)> = sources
            .into_iter()
            .map(|source| Member::peek(source, &mut scratch, &mut keys))
            .collect();
        peeked.sort_by(|(member, input), (other, other_input)| {
            member.rank().compare(&input.path, &other.rank(), &other_input.path)
        });
        let (members, inputs) = peeked.into_iter().unzip();
        let set = Self { keys, ..Self::of(members, inputs, 0) };
        set.check_readable()?;
        Ok(set)
    }

    /// Reads one capture as input `number` of a larger set.
    pub(crate) fn one_of(source: Source, number: u32) -> Self {
        let mut keys = Keys::default();
        let (member, input) = Member::peek(source, &mut Block::default(), &mut keys);
        Self { keys, ..Self::of(vec![member], vec![input], number) }
    }

    fn of(members: Vec<Member>, inputs: Vec<InputSummary>, first_number: u32) -> Self {
        Self {
            members,
            inputs,
            first_number,
            next: 0,
            alone: None,
            heads: BinaryHeap::new(),
            block_bytes: BLOCK_BYTES,
            open: 0,
            keys: Keys::default(),
        }
    }

    /// Adds secrets that were found in an earlier pass over the same captures.
    pub fn with_keys(mut self, keys: &Keys) -> Self {
        self.keys.merge(keys);
        self
    }

    /// Returns the secrets of TLS connections in what was read so far: before the first block, those in
    /// front of the first frame of each capture.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Sets the number of bytes read at a time (64 KiB to 64 MiB).
    pub fn set_block_bytes(&mut self, block_bytes: usize) {
        self.block_bytes = block_bytes.clamp(64 << 10, 64 << 20);
    }

    /// Returns the summary of each input so far, in the order of frames' [`file`].
    ///
    /// [`file`]: super::FrameId::file
    pub fn inputs(&self) -> &[InputSummary] {
        &self.inputs
    }

    /// Returns the capture time of the first frame, ns; `None` if there is no frame.
    pub fn first_ns(&self) -> Option<u64> {
        let readable = self.members.iter().filter(|member| !member.unreadable);
        readable.filter_map(|member| member.head_ns).next()
    }

    /// Returns when the captures of each place begin, ns by the clock of the first; `u64::MAX` if
    /// there are none.
    pub fn began_ns(&self) -> [u64; 2] {
        let mut began_ns = [u64::MAX; 2];
        for (member, input) in self.members.iter().zip(&self.inputs) {
            let began = &mut began_ns[usize::from(input.site.is_second)];
            *began = member.head_ns.unwrap_or(u64::MAX).min(*began);
        }
        began_ns
    }

    /// Returns how much of the input was read.
    pub fn progress(&self) -> Progress {
        let readable = || self.members.iter().filter(|member| !member.unreadable);
        Progress {
            consumed_bytes: self.inputs.iter().map(|input| input.bytes).sum(),
            total_bytes: readable().map(|member| member.stored_bytes).sum(),
        }
    }

    /// Refills `block` with the next frames; returns `false` at the end of the input.
    ///
    /// # Errors
    /// [`CaptureError`], at the end, if files disappeared so that none could be read.
    pub fn next_block(&mut self, block: &mut Block) -> Result<bool, CaptureError> {
        block.entries.clear();
        loop {
            if !self.heads.is_empty() {
                self.merge(block);
            } else if let Some(file) = self.alone.take() {
                self.read_alone(file, block);
            } else if !self.open_next() {
                self.check_readable()?;
                return Ok(false);
            }
            if !block.entries.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Reads the only open member directly into `block`, unless the next one begins before the
    /// block ends: then the block is staged for the merge.
    fn read_alone(&mut self, file: u32, block: &mut Block) {
        if !self.fill(file, block, self.block_bytes) {
            return;
        }
        let horizon_ns = self.horizon_ns();
        let is_last = horizon_ns == u64::MAX;
        if is_last || block.entries.iter().all(|entry| entry.time_ns <= horizon_ns) {
            self.alone = Some(file);
            return;
        }
        if let Some(lane) = &mut self.members[file as usize].lane {
            std::mem::swap(&mut lane.staged, block);
            block.entries.clear();
            lane.cursor = 0;
        }
        self.push_head(file);
    }

    /// Merges staged frames into `block` by time, then file, then number.
    fn merge(&mut self, block: &mut Block) {
        block.bytes.clear();
        let mut room = self.block_bytes;
        while room > 0 {
            let Some(&Reverse((time_ns, file))) = self.heads.peek() else {
                return;
            };
            if self.horizon_ns() < time_ns {
                self.open_next();
                self.stage_alone();
                continue;
            }
            self.heads.pop();
            let other = self.heads.peek().map_or((u64::MAX, u32::MAX), |Reverse(head)| *head);
            let limit = other.min((self.horizon_ns(), u32::MAX));
            let Some(lane) = &mut self.members[file as usize].lane else {
                continue;
            };
            room = lane.take_until(limit, file, block, room);
            if self.push_head(file) {
                continue;
            }
            self.alone = Some(file);
            if self.heads.is_empty() {
                return;
            }
            self.stage_alone();
        }
    }

    /// Stages frames of the member that has none, if there is one.
    fn stage_alone(&mut self) {
        let Some(file) = self.alone.take() else {
            return;
        };
        let Some(lane) = &mut self.members[file as usize].lane else {
            return;
        };
        let mut staged = std::mem::take(&mut lane.staged);
        let merge_bytes = MERGE_ALL_BYTES / self.open.max(1);
        let merge_bytes = merge_bytes.clamp(MERGE_BYTES_MIN, MERGE_BYTES_MAX);
        if !self.fill(file, &mut staged, merge_bytes) {
            return;
        }
        if let Some(lane) = &mut self.members[file as usize].lane {
            lane.staged = staged;
            lane.cursor = 0;
        }
        self.push_head(file);
    }

    /// Enters a member's first staged frame into the merge; returns `false` if it has none.
    fn push_head(&mut self, file: u32) -> bool {
        let lane = self.members[file as usize].lane.as_ref();
        let head = lane.and_then(|lane| lane.staged.entries.get(lane.cursor));
        if let Some(entry) = head {
            self.heads.push(Reverse((entry.time_ns, file)));
        }
        head.is_some()
    }

    /// Continues to read an open member, updates its summary, and closes it at its end.
    fn fill(&mut self, file: u32, block: &mut Block, block_bytes: usize) -> bool {
        let member = &mut self.members[file as usize];
        let Some(lane) = &mut member.lane else {
            return false;
        };
        let filled = lane.reader.fill(block, block_bytes);
        let input = &mut self.inputs[file as usize];
        lane.reader.write(input);
        lane.reader.move_keys(&mut self.keys);
        if filled {
            member.set_times(block);
        } else {
            member.lane = None;
            self.open -= 1;
            // A file that ended early counts as read completely.
            input.bytes = member.stored_bytes.unwrap_or(input.bytes).max(input.bytes);
        }
        filled
    }

    /// Returns when the next member begins, ns.
    fn horizon_ns(&self) -> u64 {
        self.members.get(self.next).and_then(|member| member.head_ns).unwrap_or(u64::MAX)
    }

    /// Opens the next readable member; returns `false` if there is none. The member is then
    /// `alone`, or in `heads` if it has staged frames.
    fn open_next(&mut self) -> bool {
        while let Some(member) = self.members.get_mut(self.next) {
            // Fits: the number of members is checked in `new`.
            let file = self.next as u32;
            self.next += 1;
            if member.unreadable {
                continue;
            }
            let opened = match self.open < OPEN_MAX {
                true => member.open(self.first_number + file),
                false => Err(Problem::Overlapping { captures: OPEN_MAX as u64 }),
            };
            if let Err(problem) = opened {
                member.unreadable = true;
                self.inputs[file as usize].problems = vec![problem];
                continue;
            }
            self.open += 1;
            if !self.push_head(file) {
                self.alone = Some(file);
            }
            return true;
        }
        false
    }

    fn check_readable(&self) -> Result<(), CaptureError> {
        if self.members.iter().any(|member| !member.unreadable) {
            return Ok(());
        }
        let Some(input) = self.inputs.first() else {
            return Err(CaptureError::NoInput);
        };
        let (name, problem) =
            (input.path.clone(), input.problems.first().cloned().unwrap_or(Problem::Empty));
        Err(match self.inputs.len() {
            1 => CaptureError::Unreadable { name, problem },
            files => CaptureError::NoneReadable { files, name, problem },
        })
    }
}
