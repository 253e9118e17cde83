//! Latency distributions in bounded memory: buckets 1/64 octave wide, only those in use.

use crate::report::Latency;
use std::collections::BTreeMap;

/// Counts of durations, each kept to within 0.8 %; the greatest exactly.
///
/// Sparse, because there is one per endpoint and cause; mergeable, because shards fill their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
    max_ns: u64,
}

const SUB_BITS: u32 = 6;

fn bucket(ns: u64) -> u16 {
    let ns = ns.max(1 << SUB_BITS);
    let exponent = ns.ilog2();
    let within = (ns >> (exponent - SUB_BITS)) as u16 & ((1 << SUB_BITS) - 1);
    (((exponent - SUB_BITS) as u16) << SUB_BITS) | within
}

fn middle_ns(bucket: u16) -> u64 {
    let exponent = u32::from(bucket >> SUB_BITS);
    let low = (u64::from(bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS)) << exponent;
    low + (1 << exponent) / 2
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, ns: u64) {
        *self.buckets.entry(bucket(ns)).or_default() += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// One of the durations turned out to be another.
    pub fn replace(&mut self, from_ns: u64, to_ns: u64) {
        if let Some(count) = self.buckets.get_mut(&bucket(from_ns)) {
            *count -= 1;
            if *count == 0 {
                self.buckets.remove(&bucket(from_ns));
            }
        }
        self.record(to_ns);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (&bucket, &count) in &other.buckets {
            *self.buckets.entry(bucket).or_default() += count;
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// What is left when the durations of `part` are taken out and those of `instead` put in.
    pub fn exchanged(&self, part: &Self, instead: &Self) -> Self {
        let mut result = self.clone();
        for (bucket, &count) in &part.buckets {
            if let Some(mine) = result.buckets.get_mut(bucket) {
                *mine = mine.saturating_sub(count);
            }
        }
        result.buckets.retain(|_, count| *count > 0);
        result.max_ns = match result.buckets.last_key_value() {
            Some((&last, _)) if last < bucket(self.max_ns) => middle_ns(last),
            Some(_) => self.max_ns,
            None => 0,
        };
        result.merge(instead);
        result
    }

    /// How many durations.
    pub fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// The duration that a share `q` (0 to 1) of them does not exceed, ns; 0 if there is none.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let target = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (&bucket, &count) in &self.buckets {
            seen += count;
            if seen >= target {
                return middle_ns(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// The percentiles that reports show.
    pub fn latency(&self) -> Latency {
        Latency {
            p50_ns: self.quantile_ns(0.5),
            p90_ns: self.quantile_ns(0.9),
            p99_ns: self.quantile_ns(0.99),
            max_ns: self.max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_holds_its_middle() {
        for ns in (6..60).flat_map(|bit| [1u64 << bit, (1 << bit) + (1 << bit) / 3]) {
            let middle = middle_ns(bucket(ns));
            assert_eq!(bucket(middle), bucket(ns));
            assert!(middle.abs_diff(ns) as f64 / ns as f64 <= 0.008, "{ns} {middle}");
        }
    }

    #[test]
    fn exchanging_a_part_gives_the_distribution_without_it() {
        let (mut all, mut slow, mut fast) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for _ in 0..90 {
            all.record(44_000_000);
            slow.record(44_000_000);
            fast.record(400_000);
        }
        for _ in 0..10 {
            all.record(500_000);
        }
        let without = all.exchanged(&slow, &fast);
        assert_eq!(without.count(), 100);
        assert!(without.latency().p99_ns < 510_000);
    }
}
