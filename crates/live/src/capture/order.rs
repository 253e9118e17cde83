//! Frames of all processors in order of time. A frame gets its time stamp before its place in the
//! ring, so a frame of another processor may have an earlier place and a later time. Frames that
//! came within [`HOLD_NS`] of the newest one are kept back until the next round, or until no more
//! frames arrive. A frame that is later still gets the time of the frame ahead of it.

use tcpwhy_core::capture::{Block, FrameEntry, FrameId};

/// Time for which a frame waits for earlier ones, ns.
pub const HOLD_NS: u64 = 5_000_000;

/// Puts frames into order and numbers them.
#[derive(Default)]
pub struct Order {
    waiting: Block,
    /// Number of the last frame handed over.
    number: u64,
    /// Time of the last frame handed over, ns.
    last_ns: u64,
    /// Frames that took another's time.
    late: u64,
}

impl Order {
    /// Returns the block to which new frames are added.
    pub fn waiting(&mut self) -> &mut Block {
        &mut self.waiting
    }

    /// Returns the number of frames that arrived so late that they got the time of another.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Fills `block` with the frames that are due, or with all frames if `all`.
    pub fn hand_over(&mut self, block: &mut Block, all: bool) {
        block.bytes.clear();
        block.entries.clear();
        self.sort();
        let newest_ns = self.waiting.entries.last().map_or(0, |entry| entry.time_ns);
        let until_ns = if all { u64::MAX } else { newest_ns.saturating_sub(HOLD_NS) };
        let due = self.waiting.entries.partition_point(|entry| entry.time_ns <= until_ns);
        std::mem::swap(block, &mut self.waiting);
        for entry in block.entries.drain(due..) {
            copy(&block.bytes, entry, &mut self.waiting);
        }
        for entry in &mut block.entries {
            self.late += u64::from(entry.time_ns < self.last_ns);
            self.last_ns = self.last_ns.max(entry.time_ns);
            self.number += 1;
            (entry.time_ns, entry.id) = (self.last_ns, FrameId::new(0, self.number));
        }
    }

    /// Frames and their bytes in the order of time.
    fn sort(&mut self) {
        if self.waiting.entries.is_sorted_by_key(|entry| entry.time_ns) {
            return;
        }
        let mut entries = std::mem::take(&mut self.waiting.entries);
        entries.sort_by_key(|entry| entry.time_ns);
        let bytes = std::mem::take(&mut self.waiting.bytes);
        for entry in entries {
            copy(&bytes, entry, &mut self.waiting);
        }
    }
}

fn copy(bytes: &[u8], entry: FrameEntry, to: &mut Block) {
    let start = entry.offset as usize;
    let offset = to.bytes.len() as u32;
    to.bytes.extend_from_slice(&bytes[start..start + entry.captured_len as usize]);
    to.entries.push(FrameEntry { offset, ..entry });
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpwhy_core::capture::LinkType;

    fn add(order: &mut Order, times_ms: &[u64]) {
        for &time_ms in times_ms {
            let to = order.waiting();
            to.entries.push(FrameEntry {
                time_ns: time_ms * 1_000_000,
                id: FrameId::default(),
                offset: to.bytes.len() as u32,
                captured_len: 1,
                original_len: 1,
                link: LinkType::LINUX_SLL2,
                clock_set: false,
            });
            to.bytes.push(time_ms as u8);
        }
    }

    fn handed(order: &mut Order, all: bool) -> Vec<(u64, u64, u8)> {
        let mut block = Block::default();
        order.hand_over(&mut block, all);
        let of = |frame: tcpwhy_core::capture::Frame<'_>| {
            (frame.id.number(), frame.time_ns / 1_000_000, frame.bytes[0])
        };
        block.frames().map(of).collect()
    }

    #[test]
    fn frames_of_two_processors_come_out_in_the_order_of_time() {
        let mut order = Order::default();
        add(&mut order, &[10, 12, 11, 20]);
        assert_eq!(handed(&mut order, false), [(1, 10, 10), (2, 11, 11), (3, 12, 12)]);
        add(&mut order, &[18, 30]);
        assert_eq!(handed(&mut order, false), [(4, 18, 18), (5, 20, 20)]);
        assert_eq!(handed(&mut order, true), [(6, 30, 30)]);
        assert_eq!(order.late(), 0);
    }

    #[test]
    fn a_frame_that_comes_too_late_takes_the_time_of_the_one_ahead() {
        let mut order = Order::default();
        add(&mut order, &[10]);
        assert_eq!(handed(&mut order, true), [(1, 10, 10)]);
        add(&mut order, &[9]);
        assert_eq!(handed(&mut order, true), [(2, 10, 9)]);
        assert_eq!(order.late(), 1);
    }
}
