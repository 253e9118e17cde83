//! Queueing delay that a bulk sender causes, over time: packets of other connections on the same
//! path wait in the same queue.

use crate::judge::thresholds::QUEUE_DELAY_MIN_NS;

/// Greatest number of samples kept of one sender; beyond it every second one is dropped.
const SAMPLES_MAX: usize = 128;

/// Queueing delay of a packet that passed the vantage at `at_ns`: the time of its transit beyond
/// that on an empty path.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
struct Sample {
    at_ns: u64,
    queue_ns: u64,
}

/// Queueing delay of one sender's packets over time, from the first delay that is worth recording.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct QueueDelay {
    samples: Vec<Sample>,
    /// Least time between two samples, ns.
    every_ns: u64,
}

impl QueueDelay {
    /// Returns whether a queueing delay of `queue_ns` on a path of `rtt_base_ns` is worth
    /// recording.
    pub fn begins(queue_ns: u64, rtt_base_ns: u64) -> bool {
        queue_ns >= QUEUE_DELAY_MIN_NS.max(2 * rtt_base_ns)
    }

    /// Records that a packet which passed the vantage at `at_ns` was queued for `queue_ns`.
    pub fn note(&mut self, at_ns: u64, queue_ns: u64) {
        let known_ns = self.samples.last().map(|last| last.at_ns + self.every_ns);
        if known_ns.is_some_and(|known_ns| at_ns <= known_ns) {
            return;
        }
        self.samples.push(Sample { at_ns, queue_ns });
        if self.samples.len() >= SAMPLES_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            let span_ns = at_ns.saturating_sub(self.begun_ns());
            self.every_ns = span_ns / (SAMPLES_MAX as u64 / 2);
        }
    }

    /// Returns whether no queueing delay was recorded.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Time of the first sample, ns; 0 if there is none.
    pub fn begun_ns(&self) -> u64 {
        self.samples.first().map_or(0, |sample| sample.at_ns)
    }

    /// Queueing delay of a packet that passed the vantage at `at_ns`, ns. It is interpolated
    /// between two samples; after the last one the queue drains.
    pub fn queue_ns(&self, at_ns: u64) -> u64 {
        let next = self.samples.partition_point(|sample| sample.at_ns <= at_ns);
        let Some(before) = next.checked_sub(1).map(|index| self.samples[index]) else { return 0 };
        let passed_ns = at_ns - before.at_ns;
        let Some(after) = self.samples.get(next) else {
            return before.queue_ns.saturating_sub(passed_ns);
        };
        let apart_ns = after.at_ns - before.at_ns;
        if apart_ns > before.queue_ns.max(2 * self.every_ns) {
            return before.queue_ns.saturating_sub(passed_ns);
        }
        let part = passed_ns as f64 / apart_ns as f64;
        (before.queue_ns as f64 * (1.0 - part) + after.queue_ns as f64 * part) as u64
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.samples.capacity() * size_of::<Sample>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_queue_is_known_between_two_packets_and_drains_behind_the_last() {
        let mut queue_delay = QueueDelay::default();
        queue_delay.note(1_000 * MS, 100 * MS);
        queue_delay.note(1_100 * MS, 200 * MS);
        let queues =
            [900, 1_000, 1_050, 1_100, 1_150, 1_400].map(|ms| queue_delay.queue_ns(ms * MS));
        assert_eq!(queues, [0, 100, 150, 200, 150, 0].map(|ms| ms * MS));
    }

    #[test]
    fn a_long_transfer_takes_no_more_room_than_a_short_one() {
        let mut queue_delay = QueueDelay::default();
        for step in 1..100_000 {
            queue_delay.note(step * MS, 100 * MS + step);
        }
        assert!(queue_delay.samples.len() < SAMPLES_MAX && queue_delay.begun_ns() == MS);
        assert!(queue_delay.queue_ns(50_000 * MS).abs_diff(100 * MS + 50_000) < 2_000);
    }
}
