//! Latency distributions in bounded memory: the durations themselves while they are few, then
//! buckets 1/64 octave wide, covering only the range in use.

use crate::model::Latency;

/// Counts of durations. Up to [`FEW`] durations are kept exactly; of more, each is kept to within
/// 0.8 %, and the least and the greatest exactly.
///
/// It is sparse, because there is one per endpoint and cause, and mergeable, because each shard
/// fills its own.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Histogram {
    /// The durations, ascending, ns, while there are no more than [`FEW`]; of `many` the counts of the
    /// buckets from `first` on.
    values: Vec<u64>,
    many: bool,
    first: u16,
    /// `u64::MAX` if there is none.
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { values: Vec::new(), many: false, first: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

/// Number of durations that are kept exactly: they take no more memory than the buckets of half an octave.
const FEW: usize = 32;

/// Buckets added on either side of a new one: durations of the same kind lie close together.
const MARGIN: usize = 4;

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
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Counts `count` durations of `ns`.
    #[inline]
    pub fn record_many(&mut self, ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        if !self.many && self.values.len() as u64 + count <= FEW as u64 {
            let place = self.values.partition_point(|&it| it <= ns);
            self.values.splice(place..place, std::iter::repeat_n(ns, count as usize));
        } else {
            self.spill();
            *self.slot(bucket(ns)) += count;
        }
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts the few durations in buckets from now on.
    #[inline]
    fn spill(&mut self) {
        if !self.many {
            self.many = true;
            for ns in std::mem::take(&mut self.values) {
                *self.slot(bucket(ns)) += 1;
            }
        }
    }

    /// Returns the count of `bucket`.
    #[inline]
    fn slot(&mut self, bucket: u16) -> &mut u64 {
        let mut index = usize::from(bucket.wrapping_sub(self.first));
        if index >= self.values.len() {
            self.cover(bucket);
            index = usize::from(bucket - self.first);
        }
        &mut self.values[index]
    }

    /// Extends the range to `bucket`.
    #[cold]
    fn cover(&mut self, bucket: u16) {
        if self.values.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let first = bucket.saturating_sub(MARGIN as u16);
            let more = usize::from(self.first - first);
            self.values.splice(..0, std::iter::repeat_n(0, more));
            self.first = first;
        } else {
            let len = usize::from(bucket - self.first) + 1;
            self.values.resize(len, 0);
        }
    }

    /// Returns the durations, ascending, ns, if they are few.
    fn few(&self) -> &[u64] {
        if self.many { &[] } else { &self.values }
    }

    /// Returns the buckets in use, in order, with their counts, if the durations are many.
    fn buckets(&self) -> impl DoubleEndedIterator<Item = (u16, u64)> + '_ {
        let first = usize::from(self.first);
        let counts: &[u64] = if self.many { &self.values } else { &[] };
        let in_use = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        in_use.map(move |(index, &count)| ((first + index) as u16, count))
    }

    /// Returns the durations with their counts, ascending, ns. Of many it is the middle of each
    /// bucket, and the exact least and greatest.
    pub fn points(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let many = self.buckets().map(|(bucket, count)| (self.within_ns(bucket), count));
        self.few().iter().map(|&ns| (ns, 1)).chain(many)
    }

    /// Returns the middle of `bucket`, or the extreme that it lies beyond, ns.
    fn within_ns(&self, bucket: u16) -> u64 {
        middle_ns(bucket).max(self.min_ns).min(self.max_ns)
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for &ns in other.few() {
            self.record(ns);
        }
        if other.many {
            self.spill();
        }
        for (bucket, count) in other.buckets() {
            *self.slot(bucket) += count;
        }
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns a copy without the durations of `part` and with those of `instead`.
    pub fn exchanged(&self, part: &Self, instead: &Self) -> Self {
        let mut result = self.clone();
        if !part.many && !self.many {
            for &ns in part.few() {
                result.forget(ns);
            }
        } else {
            result.spill();
            let of_few = part.few().iter().map(|&ns| (bucket(ns), 1));
            for (bucket, count) in part.buckets().chain(of_few) {
                result.uncount(bucket, count);
            }
            result.bound_by_buckets();
        }
        result.merge(instead);
        result
    }

    /// Removes `ns` from the few durations, or the first of its bucket where it is known to within
    /// that only.
    fn forget(&mut self, ns: u64) {
        let place = |alike: &dyn Fn(u64) -> bool| self.values.iter().position(|&it| alike(it));
        let index = place(&|it| it == ns).or_else(|| place(&|it| bucket(it) == bucket(ns)));
        if let Some(index) = index {
            self.values.remove(index);
        }
        self.min_ns = self.values.first().copied().unwrap_or(u64::MAX);
        self.max_ns = self.values.last().copied().unwrap_or(0);
    }

    /// Removes `count` durations of `bucket`.
    fn uncount(&mut self, bucket: u16, count: u64) {
        let index = usize::from(bucket.wrapping_sub(self.first));
        if let Some(mine) = self.values.get_mut(index) {
            *mine = mine.saturating_sub(count);
        }
    }

    /// Takes the extremes from the buckets that are left, where those of the extremes are empty now.
    fn bound_by_buckets(&mut self) {
        let (first, last) = (self.buckets().next(), self.buckets().next_back());
        let least_ns = self.min_ns;
        self.min_ns = match first {
            Some((first, _)) if first > bucket(least_ns) => middle_ns(first),
            Some(_) => least_ns,
            None => u64::MAX,
        };
        self.max_ns = match last {
            // A duration that is left alone in its bucket with the least is the least.
            Some((last, 1)) if last == bucket(least_ns) => least_ns,
            Some((last, _)) if last < bucket(self.max_ns) => middle_ns(last),
            Some(_) => self.max_ns,
            None => 0,
        };
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        match self.many {
            true => self.values.iter().sum(),
            false => self.values.len() as u64,
        }
    }

    /// Returns the duration that a share `q` (0 to 1) of all does not exceed, ns; 0 if there is
    /// none.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let count = self.count();
        let target = ((count as f64 * q).ceil() as u64).max(1);
        if target >= count {
            // The longest is known exactly: the percentiles of a single duration are that duration.
            return self.max_ns;
        }
        if let Some(&ns) = self.few().get(target as usize - 1) {
            return ns;
        }
        let mut seen = 0;
        for (bucket, count) in self.buckets() {
            seen += count;
            if seen >= target {
                return self.within_ns(bucket);
            }
        }
        self.max_ns
    }

    /// Returns the smallest set of longest durations whose sum is at least `share` (0 to 1) of the
    /// sum of all: their number, and the shortest of them, ns.
    pub fn longest(&self, share: f64) -> (u64, u64) {
        let points: Vec<_> = self.points().collect();
        let sum_ns = |(ns, count): &(u64, u64)| *ns as f64 * *count as f64;
        let mut rest_ns = share * points.iter().map(sum_ns).sum::<f64>();
        let mut longest = (0, 0);
        for point in points.iter().rev() {
            if rest_ns <= 0.0 {
                break;
            }
            longest = (longest.0 + point.1, point.0);
            rest_ns -= sum_ns(point);
        }
        longest
    }

    /// Returns the durations, each of them `by_ns` longer.
    pub fn shifted(&self, by_ns: u64) -> Self {
        let mut shifted = Self::default();
        self.points().for_each(|(ns, count)| shifted.record_many(ns + by_ns, count));
        shifted
    }

    /// Replaces one duration by another.
    pub fn replace(&mut self, ns: u64, by_ns: u64) {
        match self.many {
            true => self.uncount(bucket(ns), 1),
            false => self.forget(ns),
        }
        self.record(by_ns);
    }

    /// Returns the percentiles that reports show.
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
    fn percentiles_of_one_duration_are_that_duration() {
        let mut one = Histogram::default();
        one.record(1_760_123_457);
        assert_eq!([0.5, 0.9, 0.99].map(|q| one.quantile_ns(q)), [1_760_123_457; 3]);
    }

    #[test]
    fn percentiles_of_equal_durations_are_that_duration() {
        let mut alike = Histogram::default();
        (0..3).for_each(|_| alike.record(1_760_123_457));
        assert_eq!([0.1, 0.5, 0.99].map(|q| alike.quantile_ns(q)), [1_760_123_457; 3]);
        let both = Histogram::default().exchanged(&alike, &alike);
        assert_eq!(both.quantile_ns(0.1), 1_760_123_457);
    }

    #[test]
    fn percentiles_of_few_durations_are_durations_that_were_counted() {
        let durations = [34_233_000, 27_446_000, 33_562_000];
        let mut few = Histogram::default();
        durations.into_iter().for_each(|ns| few.record(ns));
        assert_eq!(few.quantile_ns(0.5), 33_562_000);
        let mut one = Histogram::default();
        one.record(33_600_000);
        let without = few.exchanged(&one, &Histogram::default());
        assert_eq!((without.count(), without.quantile_ns(0.5)), (2, 27_446_000), "of one bucket");
    }

    #[test]
    fn the_order_in_which_parts_are_added_changes_nothing() {
        let part = |from: u64, count: u64| {
            let mut part = Histogram::default();
            (0..count).for_each(|step| part.record(from + step * 1_234_567));
            part
        };
        let parts = [part(1_000_000, 20), part(9_000_000, 12), part(5_000, 1), part(1_000, 70)];
        for count in 2..=parts.len() {
            let [forth, back] = [false, true].map(|reverse| {
                let mut all = Histogram::default();
                let parts = &parts[..count];
                match reverse {
                    false => parts.iter().for_each(|it| all.merge(it)),
                    true => parts.iter().rev().for_each(|it| all.merge(it)),
                }
                all
            });
            assert_eq!(forth.count(), back.count());
            assert!(forth.points().eq(back.points()), "{count} parts");
        }
    }

    #[test]
    fn the_longest_have_most_of_the_time() {
        let mut waits = Histogram::default();
        (0..97).for_each(|_| waits.record(1_000_000));
        [900_000_000, 1_000_000_000, 2_000_000_000].into_iter().for_each(|ns| waits.record(ns));
        let (count, least_ns) = waits.longest(0.8);
        assert!(count == 3 && least_ns.abs_diff(900_000_000) < 8_000_000, "{count} {least_ns}");
        assert_eq!(waits.longest(0.4).0, 1);
        assert_eq!(Histogram::default().longest(0.8), (0, 0));
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
