//! The planned times of an open loop.

/// The requests of one thread: every `stride`th of the plan, from `next` on. Times are ns since the
/// plan began.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    per_second: f64,
    stride: u64,
    next: u64,
    /// Requests beyond this index are not planned.
    until: u64,
}

impl Schedule {
    /// Returns the schedule of thread `index` of `threads`; it ends after `end_ns` or `requests`.
    pub fn new(
        per_second: f64,
        index: u64,
        threads: u64,
        end_ns: u64,
        requests: Option<u64>,
    ) -> Self {
        let in_time = (end_ns as f64 * per_second / 1e9).ceil();
        let until = (in_time as u64).min(requests.unwrap_or(u64::MAX));
        Schedule { per_second, stride: threads, next: index, until }
    }

    /// Returns the time of the next request; `None` at the end of the schedule.
    pub fn next_ns(&self) -> Option<u64> {
        (self.next < self.until).then(|| (self.next as f64 * 1e9 / self.per_second) as u64)
    }

    /// Moves to the next request after one was sent or given up.
    pub fn advance(&mut self) {
        self.next += self.stride;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_plan_evenly() {
        let mut times: Vec<u64> = Vec::new();
        for index in 0..3 {
            let mut schedule = Schedule::new(1000.0, index, 3, 10_000_000, None);
            while let Some(at_ns) = schedule.next_ns() {
                times.push(at_ns);
                schedule.advance();
            }
        }
        times.sort_unstable();
        assert_eq!(times, (0..10).map(|ms| ms * 1_000_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_plan_ends_after_its_time_or_its_number_of_requests() {
        let count = |mut schedule: Schedule| {
            std::iter::from_fn(|| schedule.next_ns().inspect(|_| schedule.advance())).count()
        };
        assert_eq!(count(Schedule::new(1000.0, 0, 2, 10_000_000, None)), 5);
        assert_eq!(count(Schedule::new(1000.0, 0, 1, u64::MAX / 2, Some(3))), 3);
    }
}
