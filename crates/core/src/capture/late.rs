//! Frames that a file has a little behind later ones: each processor and each ring of a host writes
//! down its own, and what puts them into one file does not always wait.

use super::{Block, FrameEntry, FrameId, STEP_NS};

/// The newest frames of a file that has late ones, until nothing can come that belongs before them.
#[derive(Default)]
pub(super) struct Newest(Block);

impl Newest {
    /// Puts what was read of the file into the order of time and keeps back what is newer than
    /// [`STEP_NS`] before its end, or gives out all if the file `goes_on` no more. A clock that was set
    /// parts what it stamped before from what it stamped after: neither belongs among the other.
    pub(super) fn sort(&mut self, block: &mut Block, goes_on: bool) {
        self.put_before(block);
        let mut begin = 0;
        while begin < block.entries.len() {
            let len = stretch(&block.entries[begin..]);
            block.entries[begin..begin + len].sort_by_key(|entry| entry.time_ns);
            begin += len;
        }
        let newest_ns = block.entries.last().map_or(0, |entry| entry.time_ns);
        let is_settled = |entry: &FrameEntry| entry.time_ns + STEP_NS <= newest_ns;
        let settled = block.entries.iter().rposition(is_settled).map_or(0, |last| last + 1);
        if goes_on {
            self.keep(block, settled);
        }
    }

    /// What was kept was read before.
    fn put_before(&mut self, block: &mut Block) {
        let ends = block.entries.iter().map(|entry| entry.offset + entry.captured_len);
        let end = ends.max().unwrap_or(0);
        block.bytes.truncate(end as usize);
        block.bytes.append(&mut self.0.bytes);
        for entry in &mut self.0.entries {
            entry.offset += end;
        }
        self.0.entries.append(&mut block.entries);
        std::mem::swap(&mut self.0.entries, &mut block.entries);
    }

    /// Takes the frames from the index `settled` on out of the block.
    fn keep(&mut self, block: &mut Block, settled: usize) {
        for entry in block.entries.drain(settled..) {
            let start = entry.offset as usize;
            let bytes = block.bytes.get(start..start + entry.captured_len as usize);
            let offset = self.0.bytes.len() as u32;
            self.0.bytes.extend_from_slice(bytes.unwrap_or_default());
            self.0.entries.push(FrameEntry { offset, ..entry });
        }
    }

    /// They are of this input.
    pub(super) fn number(&mut self, file: u16) {
        for entry in &mut self.0.entries {
            entry.id = FrameId::new(file, entry.id.number());
        }
    }
}

/// How many frames come before the clock was set, or all.
fn stretch(entries: &[FrameEntry]) -> usize {
    let mut newest_ns = 0;
    let was_set = |entry: &FrameEntry| {
        newest_ns = newest_ns.max(entry.time_ns);
        entry.time_ns + STEP_NS <= newest_ns
    };
    entries.iter().position(was_set).unwrap_or(entries.len())
}
