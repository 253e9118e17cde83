//! A capture to which all of itself or a part was appended: frames with the same bytes *and* the same times as those
//! at its beginning were captured once, and are left out, wherever they stand. No sender repeats a packet at the
//! same instant.

use super::summary::Tally;
use super::{Block, FrameEntry};
use std::hash::{DefaultHasher, Hasher};

/// Number of frames of the beginning that are compared; after so many equal ones, the rest is counted.
const COMPARED_MAX: usize = 1 << 10;

/// The beginning of a capture, and how much of it came again.
#[derive(Default)]
pub(super) struct Repeats {
    /// Time of the first frame, ns, and the latest of those that are compared.
    first_ns: u64,
    compared_ns: u64,
    /// Digests of the first frames, with their times.
    digests: Vec<u64>,
    /// The whole beginning has come again, or has begun to.
    is_appended: bool,
    /// Number of frames before the first repetition so far.
    frames: usize,
    /// Time of the last frame that was not left out, ns.
    last_ns: u64,
    /// Time of the last frame, ns.
    previous_ns: u64,
    /// Number of frames of the beginning that have come again in the present repetition.
    at: Option<usize>,
    /// Number of frames left out, and the number of the first of them.
    pub left_out: u64,
    pub first: u64,
}

impl Repeats {
    /// Returns whether no repetition has begun, and none can without a step of the clock back.
    fn is_idle(&self, has_stepped: bool) -> bool {
        self.at.is_none() && self.digests.len() >= COMPARED_MAX && !has_stepped
    }

    /// Leaves out those of the entries from `begin` on that repeat the beginning of the capture. The clock
    /// `has_stepped` back among them, or may have; in `tally` remain the steps between frames that are not
    /// left out.
    pub fn leave_out(
        &mut self,
        block: &mut Block,
        begin: usize,
        has_stepped: bool,
        tally: &mut Tally,
    ) {
        let entries = block.entries.get(begin..).unwrap_or_default();
        if let (Some(last), true) = (entries.last(), self.is_idle(has_stepped)) {
            self.frames += if self.is_appended { 0 } else { entries.len() };
            (self.last_ns, self.previous_ns) = (last.time_ns, last.time_ns);
            return;
        }
        let mut kept = begin;
        for at in begin..block.entries.len() {
            let entry = block.entries[at];
            let (number, last_ns, was_left_out) =
                (entry.id.number(), self.last_ns, self.at.is_some());
            let step_ns = self.previous_ns.saturating_sub(entry.time_ns);
            self.previous_ns = entry.time_ns;
            let is_left_out = self.repeats(&entry, &block.bytes);
            if is_left_out || was_left_out {
                tally.forget_step(number, step_ns);
            }
            if !is_left_out {
                if was_left_out {
                    tally.note_step(number, last_ns.saturating_sub(entry.time_ns));
                }
                block.entries[kept] = entry;
                kept += 1;
            }
        }
        block.entries.truncate(kept);
    }

    /// Returns whether the next frame repeats one of the beginning. It is decided by this frame alone, so
    /// that it does not depend on how many have been read with it.
    fn repeats(&mut self, entry: &FrameEntry, bytes: &[u8]) -> bool {
        // When the whole beginning has come again, the next frame repeats its first one, or none.
        let under_way = self.at.filter(|at| *at < self.frames);
        let is_back = self.at.is_some() || entry.time_ns < self.last_ns;
        let is_same = under_way.is_some_and(|at| match self.digests.get(at) {
            Some(digest) => *digest == digest_of(entry, bytes),
            None => self.is_appended && entry.time_ns <= self.last_ns,
        });
        let place = match is_same {
            true => under_way,
            false if is_back => self.place_of(entry, bytes),
            false => None,
        };
        let Some(at) = place else { return self.goes_on(entry, bytes) };
        self.is_appended |= at == 0;
        self.at = Some(at + 1);
        self.left_out += 1;
        self.first = if self.left_out == 1 { entry.id.number() } else { self.first };
        true
    }

    /// Returns the place of the frame among the first ones, if it is one of them.
    fn place_of(&self, entry: &FrameEntry, bytes: &[u8]) -> Option<usize> {
        let is_near = (self.first_ns..=self.compared_ns).contains(&entry.time_ns);
        let digest = (is_near && self.frames > 1).then(|| digest_of(entry, bytes))?;
        self.digests.iter().position(|it| *it == digest)
    }

    /// Adds a frame that repeats nothing.
    fn goes_on(&mut self, entry: &FrameEntry, bytes: &[u8]) -> bool {
        if self.frames == 0 {
            self.first_ns = entry.time_ns;
        }
        // Behind a repetition the beginning is that of before.
        if !self.is_appended && self.digests.len() < COMPARED_MAX {
            self.compared_ns = self.compared_ns.max(entry.time_ns);
            self.digests.push(digest_of(entry, bytes));
        }
        self.frames += usize::from(!self.is_appended);
        (self.at, self.last_ns) = (None, entry.time_ns);
        false
    }
}

fn digest_of(entry: &FrameEntry, bytes: &[u8]) -> u64 {
    let start = entry.offset as usize;
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(entry.time_ns);
    hasher.write_u32(entry.original_len);
    hasher.write(bytes.get(start..start + entry.captured_len as usize).unwrap_or_default());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{FrameId, LinkType};

    /// Returns the numbers of the frames that are kept of frames with these times, whose bytes are alike.
    fn kept(times_ns: &[u64], block_frames: usize) -> (Vec<u64>, u64) {
        let (mut repeats, mut kept) = (Repeats::default(), Vec::new());
        let numbered: Vec<_> = (1..).zip(times_ns).collect();
        for frames in numbered.chunks(block_frames) {
            let mut block = Block::default();
            block.entries.extend(frames.iter().map(|(number, time_ns)| FrameEntry {
                id: FrameId::new(0, *number),
                time_ns: **time_ns,
                offset: 0,
                captured_len: 0,
                original_len: 60,
                link: LinkType::ETHERNET,
                clock_set: false,
            }));
            repeats.leave_out(&mut block, 0, true, &mut Tally::default());
            kept.extend(block.entries.iter().map(|entry| entry.id.number()));
        }
        (kept, repeats.left_out)
    }

    #[test]
    fn a_capture_that_comes_again_is_left_out_and_what_follows_is_not() {
        let all = [1, 5, 9, 1, 5, 9, 1, 5, 9, 20, 30];
        for block_frames in [1, 2, 3, 11] {
            assert_eq!(kept(&all, block_frames), (vec![1, 2, 3, 10, 11], 6), "{block_frames}");
        }
    }

    #[test]
    fn a_part_that_comes_again_is_left_out() {
        for block_frames in [1, 2, 3, 11] {
            let (left, out) = kept(&[1, 5, 9, 12, 20, 5, 9, 12, 21, 9, 30], block_frames);
            assert_eq!((left, out), (vec![1, 2, 3, 4, 5, 9, 11], 4), "{block_frames}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_repeats_nothing_but_frames_that_are_equal() {
        for block_frames in 1..=6 {
            assert_eq!(kept(&[1, 5, 9, 1, 6, 9], block_frames), (vec![1, 2, 3, 5, 6], 1));
            assert_eq!(kept(&[1, 5, 9, 4, 5, 9], block_frames).1, 0);
            assert_eq!(kept(&[1, 1, 5, 9], block_frames).1, 0);
        }
    }

    #[test]
    fn a_long_capture_is_compared_by_its_beginning() {
        let once: Vec<u64> = (0..3_000).map(|at| at * 7).collect();
        let twice = [&once[..], &once, &[90_000]].concat();
        let (kept, left_out) = kept(&twice, 500);
        assert_eq!((kept.len(), left_out), (3_001, 3_000));
    }
}
