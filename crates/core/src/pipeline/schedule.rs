//! What is due next in a pass over a capture.

use super::SHARDS;
use std::ops::Range;

/// Blocks under way at once: enough to keep a few threads busy through the blocks of one large
/// connection, few enough to stay in a shared cache.
pub(super) const SLOTS: usize = 12;

/// One step.
pub(super) enum Task {
    /// Fill the slot of this block.
    Read(u64),
    /// Decode this block.
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
}

/// How far a pass has come. Blocks are numbered from 0 and use slot `number % SLOTS`.
#[derive(Default)]
pub(super) struct Schedule {
    /// Blocks read.
    read: u64,
    reading: bool,
    ended: bool,
    /// Blocks whose decoding was begun.
    decoding: u64,
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

    /// Claims what is due, earlier steps first: they feed the others.
    pub fn claim(&mut self) -> Option<Task> {
        if !self.reading && !self.ended && self.read < self.taken() + SLOTS as u64 {
            self.reading = true;
            return Some(Task::Read(self.read));
        }
        if !self.controlling
            && self.controlled < self.decoding
            && self.decoded[self.controlled as usize % SLOTS]
        {
            self.controlling = true;
            return Some(Task::Control(self.controlled));
        }
        if self.decoding < self.read {
            self.decoding += 1;
            return Some(Task::Decode(self.decoding - 1));
        }
        self.claim_lane()
    }

    /// The shard that is furthest behind.
    fn claim_lane(&mut self) -> Option<Task> {
        let free = self.lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.busy);
        let (shard, lane) = free.min_by_key(|(_, lane)| lane.next)?;
        if lane.next == self.controlled {
            return None;
        }
        lane.busy = true;
        Some(Task::Track { shard, blocks: lane.next..self.controlled })
    }

    /// `task` is done; `ended` if it found the end of the input.
    pub fn complete(&mut self, task: Task, ended: bool) {
        match task {
            Task::Read(number) => {
                self.reading = false;
                self.ended |= ended;
                self.decoded[number as usize % SLOTS] = false;
                self.read += u64::from(!ended);
            }
            Task::Decode(number) => self.decoded[number as usize % SLOTS] = true,
            Task::Control(number) => {
                self.controlling = false;
                self.controlled = number + 1;
            }
            Task::Track { shard, blocks } => {
                self.lanes[shard] = Lane { next: blocks.end, busy: false };
            }
        }
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
                && let Some(task) = schedule.claim()
            {
                under_way.push(task);
            }
            let task = under_way.swap_remove(pick(under_way.len()));
            if let Task::Track { shard, blocks } = &task {
                taken[*shard].extend(blocks.clone());
            }
            let ended = matches!(task, Task::Read(number) if number == blocks);
            schedule.complete(task, ended);
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
            assert!(matches!(schedule.claim(), Some(Task::Read(read)) if read == number));
            schedule.complete(Task::Read(number), false);
        }
        assert!(!matches!(schedule.claim(), Some(Task::Read(_))));
    }
}
