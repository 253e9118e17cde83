//! Weaves chunks of several captures into one stream of frames, in the order of one process.

use super::chunk::{Read, Reader};
use super::{Order, StageError};
use crate::capture::{Block, FrameId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes of frames after which a block is complete: it stays in a core's own cache, as in a pass over
/// files.
const BLOCK_BYTES: usize = 128 << 10;

/// Cost of a frame in a block besides its bytes.
const FRAME_COST_BYTES: usize = 16;

/// A chunk with its next frame.
struct Lane {
    reader: Reader,
    head: Read,
}

/// Chunks that overlap in time.
#[derive(Default)]
pub(super) struct Weave {
    lanes: Vec<Option<Lane>>,
    /// Order of the next frame of each lane.
    heads: BinaryHeap<Reverse<(Order, usize)>>,
    block: Block,
    orders: Vec<Order>,
    answered: Vec<FrameId>,
    /// The lane whose bytes are in the block.
    lent: Option<usize>,
    /// Order of the first frame of the last chunk.
    last: Option<Order>,
}

/// The next frames.
pub(super) struct Woven<'w> {
    pub block: &'w Block,
    /// Order of each frame.
    pub orders: &'w [Order],
    /// Samples that follow an answer.
    pub answered: &'w [FrameId],
}

impl Weave {
    /// Adds a chunk, which must follow those before it in the order of their first frames.
    pub fn push(&mut self, mut reader: Reader) -> Result<(), StageError> {
        self.take_back();
        let first = reader.order;
        if self.last.replace(first).is_some_and(|last| last >= first) {
            return Err(StageError::Unsorted);
        }
        let Some(head) = reader.next()? else { return Ok(()) };
        let lane = match self.lanes.iter().position(Option::is_none) {
            Some(lane) => lane,
            None => {
                self.lanes.push(None);
                self.lanes.len() - 1
            }
        };
        self.heads.push(Reverse((head.order, lane)));
        self.lanes[lane] = Some(Lane { reader, head });
        Ok(())
    }

    /// Returns the next frames before `end`.
    pub fn next(&mut self, end: Order) -> Result<Option<Woven<'_>>, StageError> {
        self.take_back();
        let Self { block, orders, answered, heads, lanes, .. } = self;
        block.entries.clear();
        block.bytes.clear();
        orders.clear();
        answered.clear();
        let mut room = BLOCK_BYTES;
        while room > 0
            && let Some(&Reverse((order, index))) = heads.peek()
            && order < end
        {
            heads.pop();
            let is_alone = heads.is_empty() && block.entries.is_empty();
            // Of lanes that claim the same frame, the first goes on.
            let until = heads.peek().map_or((end, 0), |Reverse(next)| (end, 0).min(*next));
            let Some(lane) = &mut lanes[index] else { continue };
            let mut next = Some(lane.head);
            while room > 0
                && let Some(read) = next
                && (read.order, index) < until
            {
                let mut entry = read.entry;
                let len = entry.captured_len as usize;
                if !is_alone {
                    let start = entry.offset as usize;
                    entry.offset = block.bytes.len() as u32;
                    block.bytes.extend_from_slice(&lane.reader.bytes[start..start + len]);
                }
                block.entries.push(entry);
                orders.push(read.order);
                answered.extend(read.is_answered.then_some(entry.id));
                room = room.saturating_sub(len + FRAME_COST_BYTES);
                next = lane.reader.next()?;
            }
            match next {
                Some(head) => {
                    lane.head = head;
                    heads.push(Reverse((head.order, index)));
                }
                None if is_alone => {}
                None => lanes[index] = None,
            }
            if is_alone {
                // Not copied, as there are no others.
                if let Some(lane) = &mut lanes[index] {
                    std::mem::swap(&mut lane.reader.bytes, &mut block.bytes);
                }
                self.lent = Some(index);
                break;
            }
        }
        let is_any = !self.block.entries.is_empty();
        let (block, orders, answered) = (&self.block, &*self.orders, &*self.answered);
        Ok(is_any.then_some(Woven { block, orders, answered }))
    }

    /// Gives its bytes back to the lane whose bytes are in the block.
    fn take_back(&mut self) {
        if let Some(index) = self.lent.take()
            && let Some(lane) = &mut self.lanes[index]
        {
            std::mem::swap(&mut lane.reader.bytes, &mut self.block.bytes);
            let has_more = self.heads.iter().any(|Reverse((_, lane))| *lane == index);
            if !has_more {
                self.lanes[index] = None;
            }
        }
    }
}

/// Opens the chunks of `bucket`, and sorts them.
pub(super) fn sorted(
    chunks: impl IntoIterator<Item = Vec<u8>>,
    run: u64,
) -> Result<Vec<Reader>, StageError> {
    let opened = chunks.into_iter().map(|chunk| Reader::new(chunk, run));
    let mut readers: Vec<Reader> = opened.collect::<Result<_, _>>()?;
    readers.sort_by_key(|reader| reader.order);
    Ok(readers)
}
