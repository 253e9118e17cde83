//! Runs the analysis over a capture on several threads. The core cuts the work so that the
//! answer does not depend on how many there are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tcpwhy_core::capture::{Block, CaptureError, CaptureSet, Progress};
use tcpwhy_core::pipeline::{Analysis, Batch, Decoder};

/// Blocks of a round: enough work to make starting the threads of a round cheap, little enough
/// to keep two rounds in a few dozen megabytes.
const ROUND_BLOCKS: usize = 8;

/// A block and what was decoded from it.
#[derive(Default)]
struct Slot {
    block: Block,
    batch: Batch,
}

/// A capture being read: where to, how far, and whether to go on.
pub struct Reading<'a> {
    /// The input.
    pub capture: CaptureSet,
    /// Told after each block.
    pub progress: &'a mut dyn FnMut(Progress),
    /// Raised by Ctrl-C.
    pub interrupted: &'a AtomicBool,
}

impl Reading<'_> {
    /// The next block; false at the end, or where the user wants to see what is known.
    ///
    /// # Errors
    /// [`CaptureError`], if nothing could be read at all.
    pub fn next(&mut self, block: &mut Block) -> Result<bool, CaptureError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let more = self.capture.next_block(block)?;
        (self.progress)(self.capture.progress());
        Ok(more)
    }

    /// Fills `slots`; answers how many.
    fn fill(&mut self, slots: &mut [Slot]) -> Result<usize, CaptureError> {
        for (index, slot) in slots.iter_mut().enumerate() {
            if !self.next(&mut slot.block)? {
                return Ok(index);
            }
        }
        Ok(slots.len())
    }
}

/// Analyses `first` and all that follows it in `reading`.
///
/// # Errors
/// [`CaptureError`], if nothing could be read at all.
pub fn run(
    analysis: &mut Analysis,
    first: Block,
    reading: &mut Reading<'_>,
    threads: usize,
) -> Result<(), CaptureError> {
    let first = Slot { block: first, ..Slot::default() };
    if threads == 1 {
        alone(analysis, first, reading)
    } else {
        together(analysis, first, reading, threads)
    }
}

fn alone(
    analysis: &mut Analysis,
    mut slot: Slot,
    reading: &mut Reading<'_>,
) -> Result<(), CaptureError> {
    let decoder = analysis.decoder();
    loop {
        decoder.decode(&slot.block, &mut slot.batch);
        analysis.control(&slot.batch);
        for (index, shard) in analysis.shards.iter_mut().enumerate() {
            shard.take(index, &slot.batch, &slot.block);
        }
        if !reading.next(&mut slot.block)? {
            return Ok(());
        }
    }
}

/// One round is analysed while the next is read.
fn together(
    analysis: &mut Analysis,
    first: Slot,
    reading: &mut Reading<'_>,
    threads: usize,
) -> Result<(), CaptureError> {
    let mut ready = vec![first];
    ready.resize_with(ROUND_BLOCKS, Slot::default);
    let mut next: Vec<Slot> = Vec::new();
    next.resize_with(ROUND_BLOCKS, Slot::default);
    let mut filled = 1;
    while filled > 0 {
        let work = &mut ready[..filled];
        let read = thread::scope(|scope| {
            scope.spawn(|| round(analysis, work, threads));
            reading.fill(&mut next)
        });
        filled = read?;
        std::mem::swap(&mut ready, &mut next);
    }
    Ok(())
}

/// Decodes blocks on all threads, takes what concerns no single connection in order, then
/// follows the connections on all threads.
fn round(analysis: &mut Analysis, slots: &mut [Slot], threads: usize) {
    let decoder = analysis.decoder();
    thread::scope(|scope| {
        for part in slots.chunks_mut(slots.len().div_ceil(threads)) {
            let decoder = &decoder;
            scope.spawn(move || part.iter_mut().for_each(|slot| decode(decoder, slot)));
        }
    });
    slots.iter().for_each(|slot| analysis.control(&slot.batch));
    let slots = &*slots;
    let per_thread = analysis.shards.len().div_ceil(threads);
    thread::scope(|scope| {
        for (part, shards) in analysis.shards.chunks_mut(per_thread).enumerate() {
            scope.spawn(move || {
                for (index, shard) in shards.iter_mut().enumerate() {
                    let index = part * per_thread + index;
                    slots.iter().for_each(|slot| shard.take(index, &slot.batch, &slot.block));
                }
            });
        }
    });
}

fn decode(decoder: &Decoder, slot: &mut Slot) {
    decoder.decode(&slot.block, &mut slot.batch);
}
