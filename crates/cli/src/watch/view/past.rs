//! The intervals before the present one: their latency, and their longest exchanges.

use std::collections::{HashSet, VecDeque};
use tcpwhy_core::model::{Cause, Report, SlowExchange};
use tcpwhy_core::pipeline::Interval;

/// Number of intervals in the history: no terminal has more columns.
const MOMENTS_MAX: usize = 512;

/// Number of exchanges that are listed.
const EXCHANGES_MAX: usize = 500;

/// One interval of the history.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Median and 99th percentile of the latency, ns; `None` if no exchange ended in it.
    pub latency: Option<(u64, u64)>,
    /// The causes, of those that were found, of which there were cases.
    pub causes: Vec<Cause>,
}

/// The last intervals.
pub struct Past {
    moments: VecDeque<Moment>,
    /// The longest exchanges of each interval of the window.
    exchanges: VecDeque<Vec<SlowExchange>>,
    intervals_max: usize,
}

impl Past {
    /// Creates a past without intervals; a window has `intervals_max` of them.
    pub fn new(intervals_max: usize) -> Self {
        Self { moments: VecDeque::new(), exchanges: VecDeque::new(), intervals_max }
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: Interval) {
        let Interval { exchanges, latency, slowest, causes } = interval;
        let latency = (exchanges > 0).then_some((latency.p50_ns, latency.p99_ns));
        if self.moments.len() == MOMENTS_MAX {
            self.moments.pop_front();
        }
        self.moments.push_back(Moment { latency, causes });
        self.exchanges.push_back(slowest);
        while self.exchanges.len() > self.intervals_max {
            self.exchanges.pop_front();
        }
    }

    /// Returns the intervals, oldest first.
    pub fn moments(&self) -> Vec<Moment> {
        self.moments.iter().cloned().collect()
    }

    /// Returns the longest exchanges of the window, in descending order (bounded): those of each
    /// interval, and those of `report` that have not ended.
    pub fn exchanges(&self, report: &Report) -> Vec<SlowExchange> {
        let mut known = HashSet::new();
        // The report knows the causes that were found since an interval ended.
        let all = report.slowest.iter().chain(self.exchanges.iter().flatten());
        let is_new = |it: &&SlowExchange| known.insert((it.client, it.server, it.exchange));
        let mut all: Vec<_> = all.filter(is_new).cloned().collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.wall_ns));
        all.truncate(EXCHANGES_MAX);
        all
    }
}
