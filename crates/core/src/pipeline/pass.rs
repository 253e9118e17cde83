//! One pass over a capture on as many threads as call [`Pass::work`].
//!
//! No barriers: each block is read, decoded, shown to the control and taken by every shard, and
//! whoever is free does what is due. A thread tracks its own shards before it reads the next block,
//! so that what is under way stays in its core's cache; the one with less to do reads more, and takes
//! over shards of the others when there is no room to read. What is done to a connection is done in
//! order: the control and each shard take the blocks one after the other. So the answer is that of
//! one thread.

use super::schedule::{SLOTS, Schedule, Task};
use super::{Analysis, Batch, Control, Decoder, Shard};
use crate::capture::{Block, CaptureError, CaptureSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// Asked after each block whether to read on.
pub type GoOn<'a> = &'a mut (dyn FnMut(&CaptureSet) -> bool + Send);

/// A block and what was decoded from it.
#[derive(Default)]
struct Slot {
    block: Block,
    batch: Batch,
    /// Who decoded it, and has it in cache.
    worker: usize,
}

/// Where blocks come from, and how it ended.
struct Input<'a> {
    capture: &'a mut CaptureSet,
    go_on: GoOn<'a>,
    result: Result<bool, CaptureError>,
}

/// A pass under way.
pub struct Pass<'a> {
    decoder: Decoder,
    input: Mutex<Input<'a>>,
    control: Mutex<&'a mut Control>,
    shards: Vec<Mutex<&'a mut Shard>>,
    slots: [RwLock<Slot>; SLOTS],
    schedule: Mutex<Schedule>,
    changed: Condvar,
    /// How many have come to work.
    workers: AtomicUsize,
}

impl<'a> Pass<'a> {
    /// A pass of `analysis` over `capture`, as long as `go_on` says so after each block.
    pub fn new(analysis: &'a mut Analysis, capture: &'a mut CaptureSet, go_on: GoOn<'a>) -> Self {
        Self {
            decoder: analysis.decoder.clone(),
            input: Mutex::new(Input { capture, go_on, result: Ok(true) }),
            control: Mutex::new(&mut analysis.control),
            shards: analysis.shards.iter_mut().map(Mutex::new).collect(),
            slots: std::array::from_fn(|_| RwLock::default()),
            schedule: Mutex::default(),
            changed: Condvar::new(),
            workers: AtomicUsize::new(0),
        }
    }

    /// Works until the capture is done; to be called once on each thread that is to help.
    pub fn work(&self) {
        let _leaving = Leaving(self);
        let worker = self.workers.fetch_add(1, Ordering::Relaxed);
        let mut due = None;
        while let Some(task) = due.take().or_else(|| self.next(worker)) {
            let ended = self.perform(&task, worker);
            let mut schedule = lock(&self.schedule);
            due = schedule.complete(task, ended);
            // What was waited for may be work for more than one.
            if schedule.waiting > 0 {
                self.changed.notify_all();
            }
        }
    }

    /// Whether the capture was read to its end.
    ///
    /// # Errors
    /// [`CaptureError`] where nothing can be read.
    pub fn finish(self) -> Result<bool, CaptureError> {
        self.input.into_inner().unwrap_or_else(PoisonError::into_inner).result
    }

    fn next(&self, worker: usize) -> Option<Task> {
        let mut schedule = lock(&self.schedule);
        loop {
            if schedule.is_done() {
                return None;
            }
            if let Some(task) = schedule.claim(worker) {
                return Some(task);
            }
            schedule.waiting += 1;
            schedule = self.changed.wait(schedule).unwrap_or_else(PoisonError::into_inner);
            schedule.waiting -= 1;
        }
    }

    /// Does `task`; answers whether it found the input's end.
    fn perform(&self, task: &Task, worker: usize) -> bool {
        match task {
            Task::Read(number) => return self.read(*number),
            Task::Decode(number) => {
                let mut slot = self.slot(*number).write().unwrap_or_else(PoisonError::into_inner);
                slot.worker = worker;
                let Slot { block, batch, .. } = &mut *slot;
                self.decoder.decode(block, batch);
            }
            Task::Control(number) => {
                let mut slot = self.slot(*number).write().unwrap_or_else(PoisonError::into_inner);
                let Slot { block, batch, .. } = &mut *slot;
                lock(&self.control).take(batch, block);
            }
            Task::Track { shard: index, blocks } => {
                let mut shard = lock(&self.shards[*index]);
                for number in blocks.clone() {
                    let slot = self.slot(number).read().unwrap_or_else(PoisonError::into_inner);
                    if slot.worker != worker {
                        slot.batch.fetch(*index, &slot.block);
                    }
                    shard.take(*index, &slot.batch, &slot.block);
                }
            }
        }
        false
    }

    /// Reads a block; answers whether there was none, or none more is wanted.
    fn read(&self, number: u64) -> bool {
        let mut slot = self.slot(number).write().unwrap_or_else(PoisonError::into_inner);
        let mut input = lock(&self.input);
        // The last block may have been the last one wanted.
        if matches!(input.result, Ok(false)) {
            return true;
        }
        let Input { capture, go_on, result } = &mut *input;
        match capture.next_block(&mut slot.block) {
            Ok(true) => {
                if !go_on(capture) {
                    *result = Ok(false);
                }
                false
            }
            Ok(false) => true,
            Err(error) => {
                *result = Err(error);
                true
            }
        }
    }

    fn slot(&self, number: u64) -> &RwLock<Slot> {
        &self.slots[number as usize % SLOTS]
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that dies must not leave the others waiting for what it had begun.
struct Leaving<'p, 'a>(&'p Pass<'a>);

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.schedule).abandon();
            self.0.changed.notify_all();
        }
    }
}
