//! Durations with their counts.

use crate::model::Histogram;
use std::collections::BTreeMap;

/// Durations with their number of occurrences, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    points: Vec<(u64, u64)>,
    count: u64,
}

impl FromIterator<(u64, u64)> for Sample {
    /// Creates a sample from durations in ns and their counts, in any order.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(counted: I) -> Self {
        let mut points: BTreeMap<u64, u64> = BTreeMap::new();
        for (ns, count) in counted.into_iter().filter(|&(_, count)| count > 0) {
            let slot = points.entry(ns).or_default();
            *slot = slot.saturating_add(count);
        }
        let count = points.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
        Self { points: points.into_iter().collect(), count }
    }
}

impl From<&Histogram> for Sample {
    fn from(histogram: &Histogram) -> Self {
        histogram.points().collect()
    }
}

impl Sample {
    /// Creates a sample from single durations, ns.
    pub fn of(durations_ns: impl IntoIterator<Item = u64>) -> Self {
        durations_ns.into_iter().map(|ns| (ns, 1)).collect()
    }

    /// Returns the durations in ns with their counts, in ascending order.
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the duration that a share `q` (0 to 1) of the sample does not exceed, ns; 0 if it is
    /// empty.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let target = ((self.count as f64 * q).ceil() as u64).max(1);
        let mut seen: u64 = 0;
        for &(ns, count) in &self.points {
            seen = count.saturating_add(seen);
            if seen >= target {
                return ns;
            }
        }
        self.points.last().map_or(0, |&(ns, _)| ns)
    }

    /// Returns the number of durations of `ns` or longer.
    pub fn at_least(&self, ns: u64) -> u64 {
        let first = self.points.partition_point(|&(at, _)| at < ns);
        self.points[first..].iter().fold(0, |sum: u64, &(_, count)| sum.saturating_add(count))
    }

    /// Returns a sample with each count multiplied by `times`.
    pub fn times(&self, times: u64) -> Self {
        self.points.iter().map(|&(ns, count)| (ns, count.saturating_mul(times))).collect()
    }

    /// Returns the durations of both samples.
    pub fn pooled(&self, other: &Self) -> Self {
        self.points.iter().chain(&other.points).copied().collect()
    }
}
