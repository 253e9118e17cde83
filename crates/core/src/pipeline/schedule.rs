//! What is due next in a pass over a capture.

use super::SHARDS;
use std::ops::Range;

/// Blocks under way at once: enough to keep a few threads busy through the blocks of one large
/// connection, few enough to stay in a shared cache.
pub(super) const SLOTS: usize = 12;

/// Blocks that a shard takes at most in one go, so that slots come free one after the other.
const GO_BLOCKS: u64 = 4;

/// One step.
pub(super) enum Task {
    /// Fill the slot of this block.
    Read(u64),
    /// Decode this block: claimed by completing its reading, while it is in that core's cache.
    Decode(u64),
    /// Show this block to the control.
    Control(u64),
    /// Let a shard take these blocks.
    Track { shard: usize, blocks: Range<u64> },
}

/// How far a shard has come.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// The next block to take.
    next: u64,
    busy: bool,
    /// Who took the last one, and has its connections in cache.
    worker: Option<usize>,
}

/// How far a pass has come. Blocks are numbered from 0 and use slot `number % SLOTS`.
#[derive(Default)]
pub(super) struct Schedule {
    /// Blocks read.
    read: u64,
    reading: bool,
    ended: bool,
    /// Whether the block of a slot is decoded.
    decoded: [bool; SLOTS],
    /// Blocks that the control has taken.
    controlled: u64,
    controlling: bool,
    lanes: [Lane; SHARDS],
    abandoned: bool,
    /// Threads that wait for work.
    pub waiting: usize,
}

impl Schedule {
    /// Whether every block went all the way.
    pub fn is_done(&self) -> bool {
        self.abandoned || self.ended && !self.reading && self.taken() == self.read
    }

    /// Blocks that all shards have taken: their slots are free.
    fn taken(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.next).min().unwrap_or(self.controlled)
    }

    /// Claims what is due for `worker`. What was read is tracked before more is read: it is still
    /// in the core's own cache. Only when there is no room to read is another's shard taken.
    pub fn claim(&mut self, worker: usize) -> Option<Task> {
        if !self.controlling
            && self.controlled < self.read
            && self.decoded[self.controlled as usize % SLOTS]
        {
            self.controlling = true;
            return Some(Task::Control(self.controlled));
        }
        if let Some(task) = self.claim_lane(worker, true) {
            return Some(task);
        }
        if !self.reading && !self.ended && self.read < self.taken() + SLOTS as u64 {
            self.reading = true;
            return Some(Task::Read(self.read));
        }
        self.claim_lane(worker, false)
    }

    /// The shard that is furthest behind, of all or of the worker's own.
    fn claim_lane(&mut self, worker: usize, own: bool) -> Option<Task> {
        let controlled = self.controlled;
        let due = |lane: &Lane| {
            !lane.busy && lane.next < controlled && (!own || lane.worker == Some(worker))
        };
        let due = self.lanes.iter_mut().enumerate().filter(|(_, lane)| due(lane));
        let (shard, lane) = due.min_by_key(|(_, lane)| (lane.worker.is_some(), lane.next))?;
        lane.busy = true;
        lane.worker = Some(worker);
        Some(Task::Track { shard, blocks: lane.next..controlled.min(lane.next + GO_BLOCKS) })
    }

    /// `task` is done; `ended` if it found the end of the input. What is to be done right after
    /// it by the same worker is claimed.
    pub fn complete(&mut self, task: Task, ended: bool) -> Option<Task> {
        match task {
            Task::Read(number) => {
                self.reading = false;
                self.ended |= ended;
                self.decoded[number as usize % SLOTS] = false;
                self.read += u64::from(!ended);
                return (!ended).then_some(Task::Decode(number));
            }
            Task::Decode(number) => self.decoded[number as usize % SLOTS] = true,
            Task::Control(number) => {
                self.controlling = false;
                self.controlled = number + 1;
            }
            Task::Track { shard, blocks } => {
                let lane = &mut self.lanes[shard];
                (lane.next, lane.busy) = (blocks.end, false);
            }
        }
        None
    }

    /// A thread is gone with its task: the pass cannot be completed.
    pub fn abandon(&mut self) {
        self.abandoned = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Performs claimed tasks in an order picked by `pick`, with up to `threads` under way.
    fn run(blocks: u64, threads: usize, mut pick: impl FnMut(usize) -> usize) -> Vec<Vec<u64>> {
        let mut schedule = Schedule::default();
        let mut under_way = Vec::new();
        let mut taken = vec![Vec::new(); SHARDS];
        while !schedule.is_done() {
            while under_way.len() < threads
                && let Some(task) = schedule.claim(under_way.len())
            {
                under_way.push(task);
            }
            let task = under_way.swap_remove(pick(under_way.len()));
            if let Task::Track { shard, blocks } = &task {
                taken[*shard].extend(blocks.clone());
            }
            let ended = matches!(task, Task::Read(number) if number == blocks);
            under_way.extend(schedule.complete(task, ended));
        }
        taken
    }

    #[test]
    fn every_shard_takes_every_block_in_order_whatever_finishes_first() {
        let expected = vec![(0..50).collect::<Vec<u64>>(); SHARDS];
        for threads in 1..8 {
            let mut state = threads as u64;
            let random = |under_way: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % under_way
            };
            assert_eq!(run(50, threads, random), expected);
        }
        assert_eq!(run(0, 2, |_| 0), vec![Vec::<u64>::new(); SHARDS]);
    }

    #[test]
    fn a_slot_is_not_refilled_before_all_shards_have_taken_it() {
        let mut schedule = Schedule::default();
        for number in 0..SLOTS as u64 {
            assert!(matches!(schedule.claim(0), Some(Task::Read(read)) if read == number));
            let decode = schedule.complete(Task::Read(number), false);
            assert!(matches!(decode, Some(Task::Decode(read)) if read == number));
        }
        assert!(!matches!(schedule.claim(0), Some(Task::Read(_))));
    }
}
