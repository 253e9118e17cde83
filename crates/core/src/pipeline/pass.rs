//! One pass over a capture on as many threads as call [`Pass::work`].
//!
//! Each thread takes all steps with a block: it reads it, decodes it, passes it to the control and
//! to every shard. So bytes and segments stay in one core's cache; only the shards' connection
//! state moves between cores, once for a block of many segments. Reading, the control and each
//! shard take the blocks in order, each as soon as the previous block has passed. The result is
//! therefore that of one thread, and threads follow each other through the shards. A thread that
//! has caught up with the one ahead reads the next block instead of waiting.

use super::{Analysis, Batch, Control, Decoder, Shard};
use crate::capture::{Block, CaptureError, CaptureSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{hint, mem};

/// Called after each block; returns whether to continue.
pub type GoOn<'a> = &'a mut (dyn FnMut(&CaptureSet) -> bool + Send);

/// Bytes of a block with several threads: enough to make moving the connection state to another
/// core worthwhile, few enough to stay in that core's cache.
pub const BLOCK_BYTES_THREADED: usize = 1 << 20;

/// Number of times that a thread polls for its block's turn before it sleeps: polling usually takes
/// less time than waking up.
const POLLS_MAX: u32 = 1000;

/// The source of blocks, and the result of reading.
struct Input<'a> {
    capture: &'a mut CaptureSet,
    go_on: GoOn<'a>,
    /// Number of blocks read.
    read: u64,
    ended: bool,
    result: Result<bool, CaptureError>,
}

impl Input<'_> {
    /// Reads the next block; returns its number.
    fn next(&mut self, block: &mut Block) -> Option<u64> {
        if self.ended {
            return None;
        }
        match self.capture.next_block(block) {
            Ok(true) => {
                if !(self.go_on)(self.capture) {
                    self.ended = true;
                    self.result = Ok(false);
                }
                self.read += 1;
                return Some(self.read - 1);
            }
            Ok(false) => {}
            Err(error) => self.result = Err(error),
        }
        self.ended = true;
        None
    }
}

/// The block that a thread works on, with its decoded segments.
#[derive(Default)]
struct Load {
    number: Option<u64>,
    block: Block,
    batch: Batch,
}

/// A step through which all blocks pass one after the other, in order.
struct Gate<T> {
    /// The number of the next block.
    next: AtomicU64,
    taker: Mutex<T>,
}

impl<T> Gate<T> {
    fn new(taker: T) -> Self {
        Self { next: AtomicU64::new(0), taker: Mutex::new(taker) }
    }
}

/// A pass in progress.
pub struct Pass<'a> {
    decoder: Decoder,
    input: Mutex<Input<'a>>,
    control: Gate<&'a mut Control>,
    shards: Vec<Gate<&'a mut Shard>>,
    /// Number of threads that sleep until it is their block's turn, and the means to wake them.
    asleep: AtomicUsize,
    sleep: Mutex<()>,
    changed: Condvar,
    /// A thread has panicked with its block, so that the pass cannot be completed.
    is_abandoned: AtomicBool,
}

impl<'a> Pass<'a> {
    /// Begins a pass of `analysis` over `capture`, which continues as long as `go_on` returns
    /// `true`.
    pub fn new(analysis: &'a mut Analysis, capture: &'a mut CaptureSet, go_on: GoOn<'a>) -> Self {
        let input = Input { capture, go_on, read: 0, ended: false, result: Ok(true) };
        Self {
            decoder: analysis.decoder.clone(),
            input: Mutex::new(input),
            control: Gate::new(&mut analysis.control),
            shards: analysis.shards.iter_mut().map(Gate::new).collect(),
            asleep: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            changed: Condvar::new(),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// Works until the capture is done; to be called once on each participating thread.
    pub fn work(&self) {
        let _leaving = Leaving(self);
        let (mut current, mut ahead) = (Load::default(), Load::default());
        while let Some(number) = self.fetch(&mut current) {
            let Load { block, batch, .. } = &mut current;
            self.read_ahead(&self.control.next, number, &mut ahead);
            if !self.pass(&self.control, number, |control| control.take(batch, block)) {
                return;
            }
            for (index, gate) in self.shards.iter().enumerate() {
                self.read_ahead(&gate.next, number, &mut ahead);
                if !self.pass(gate, number, |shard| shard.take(index, batch, block)) {
                    return;
                }
            }
            current.number = None;
            mem::swap(&mut current, &mut ahead);
        }
    }

    /// Returns the number of the block in `load`. If it contains none, reads and decodes the next
    /// one.
    fn fetch(&self, load: &mut Load) -> Option<u64> {
        if load.number.is_none() {
            load.number = lock(&self.input).next(&mut load.block);
            if load.number.is_some() {
                self.decoder.decode(&load.block, &mut load.batch);
            }
        }
        load.number
    }

    /// Fetches another block if `number` would have to wait for its turn.
    fn read_ahead(&self, next: &AtomicU64, number: u64, ahead: &mut Load) {
        if next.load(Ordering::Acquire) != number {
            self.fetch(ahead);
        }
    }

    /// Returns whether the capture was read to its end.
    ///
    /// # Errors
    /// [`CaptureError`] if nothing can be read.
    pub fn finish(self) -> Result<bool, CaptureError> {
        self.input.into_inner().unwrap_or_else(PoisonError::into_inner).result
    }

    /// Lets block `number` pass `gate` when it is its turn. Returns `false` if the pass was
    /// abandoned.
    fn pass<T>(&self, gate: &Gate<T>, number: u64, take: impl FnOnce(&mut T)) -> bool {
        if !self.wait(&gate.next, number) {
            return false;
        }
        take(&mut lock(&gate.taker));
        gate.next.store(number + 1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
        true
    }

    /// Waits until `next` equals `number`. Returns `false` if the pass was abandoned.
    fn wait(&self, next: &AtomicU64, number: u64) -> bool {
        for _ in 0..POLLS_MAX {
            if next.load(Ordering::Acquire) == number {
                return true;
            }
            hint::spin_loop();
        }
        let is_abandoned = || self.is_abandoned.load(Ordering::SeqCst);
        let mut sleep = lock(&self.sleep);
        // A thread that changes `next` after the check below sees this counter.
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while next.load(Ordering::SeqCst) != number && !is_abandoned() {
            sleep = self.changed.wait(sleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        !is_abandoned()
    }

    /// Wakes the sleeping threads. A thread that is about to sleep holds the lock until it does.
    fn wake(&self) {
        drop(lock(&self.sleep));
        self.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Abandons the pass if its thread panics, so that other threads do not wait for its block.
struct Leaving<'p, 'a>(&'p Pass<'a>);

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_abandoned.store(true, Ordering::SeqCst);
            self.0.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Source;
    use crate::pipeline::Options;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;
    use std::time::Duration;

    /// A pcap file without frames.
    const EMPTY: &[u8] = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0";

    #[test]
    fn blocks_pass_in_order_even_if_threads_have_to_sleep() {
        with_pass(|pass| {
            let gate = Gate::new(Vec::new());
            thread::scope(|scope| {
                for number in (0..8_u64).rev() {
                    let gate = &gate;
                    scope.spawn(move || {
                        let take = |taken: &mut Vec<u64>| {
                            thread::sleep(Duration::from_millis(2));
                            taken.push(number);
                        };
                        assert!(pass.pass(gate, number, take));
                    });
                }
            });
            assert_eq!(*lock(&gate.taker), (0..8).collect::<Vec<u64>>());
        });
    }

    #[test]
    fn no_thread_waits_for_one_that_panicked() {
        with_pass(|pass| {
            let gate = Gate::new(());
            thread::scope(|scope| {
                let late = scope.spawn(|| pass.pass(&gate, 1, |()| ()));
                let died = catch_unwind(AssertUnwindSafe(|| {
                    let _leaving = Leaving(pass);
                    thread::sleep(Duration::from_millis(20));
                    pass.pass(&gate, 0, |()| panic!("this thread dies"));
                }));
                assert!(died.is_err() && !late.join().expect("it lives"));
            });
        });
    }

    fn with_pass(test: impl FnOnce(&Pass<'_>)) {
        let mut capture = CaptureSet::new(vec![Source::memory("empty", EMPTY)]).expect("a capture");
        let mut analysis = Analysis::new(Options::default());
        test(&Pass::new(&mut analysis, &mut capture, &mut |_| true));
    }
}
