//! The Mann-Whitney test with its effect sizes: Cliff's delta (how often), and the Hodges-Lehmann
//! shift (how much).

use super::Sample;
use super::normal::{Z, two_sided};
use crate::compare::thresholds::CONFIDENCE;

/// Maximum number of durations on both sides for which the distribution of U is computed exactly,
/// including ties.
const EXACT_MAX: u64 = 60;

/// Result of comparing two samples: which is longer, how significantly, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ranks {
    /// Mann and Whitney's U: number of pairs in which the duration after is longer; equal ones
    /// count half.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub u: f64,
    /// Number of pairs of a duration before and one after.
    pub pairs: f64,
    /// Two-sided probability of a U at least as far from the middle if nothing has changed.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub p_value: f64,
    /// `p_value` was computed exactly, over all ways to deal the durations out, ties included; otherwise
    /// it is the normal approximation, corrected for ties.
    pub exact: bool,
    /// Probability that an exchange after takes longer than one before, less the probability that
    /// it takes less time (Cliff): −1 if all are faster, 1 if all are slower.
    #[cfg_attr(test, schemars(range(min = -1, max = 1)))]
    pub cliffs_delta: f64,
    /// Interval of `cliffs_delta` with probability [`CONFIDENCE`]; `None` for a single exchange.
    pub cliffs_delta_interval: Option<[f64; 2]>,
    /// Median of all differences between a duration after and one before, ns (Hodges
    /// and Lehmann).
    pub shift_ns: i64,
    /// Interval of `shift_ns` with probability [`CONFIDENCE`]; `None` if there are too few differences to bound
    /// it.
    pub shift_interval_ns: Option<[i64; 2]>,
}

impl Ranks {
    /// Tests `after` against `before`; neither is empty.
    pub fn of(before: &Sample, after: &Sample) -> Self {
        let ties = Ties::of(before, after);
        let pairs = before.count() as f64 * after.count() as f64;
        let u = ties.u();
        let exact = before.count().saturating_add(after.count()) <= EXACT_MAX;
        let p_value = if exact { ties.p_exact(u) } else { ties.p_normal(u) };
        let cliffs_delta = if pairs > 0.0 { 2.0 * u / pairs - 1.0 } else { 0.0 };
        let differences = Differences { before, after };
        Self {
            u,
            pairs,
            p_value,
            exact,
            cliffs_delta,
            cliffs_delta_interval: ties.delta_interval(cliffs_delta),
            shift_ns: differences.median_ns(),
            shift_interval_ns: critical(before.count(), after.count())
                .map(|rank| differences.interval_ns(rank)),
        }
    }
}

/// Number of occurrences of each duration before and after, in ascending order.
struct Ties {
    groups: Vec<[u64; 2]>,
    counts: [u64; 2],
}

impl Ties {
    fn of(before: &Sample, after: &Sample) -> Self {
        let mut groups = Vec::new();
        let (mut left, mut right) =
            (before.points().iter().peekable(), after.points().iter().peekable());
        while let Some(&at) = match (left.peek(), right.peek()) {
            (Some((a, _)), Some((b, _))) => Some(a.min(b)),
            (Some((a, _)), None) => Some(a),
            (None, b) => b.map(|(b, _)| b),
        } {
            let before = left.next_if(|point| point.0 == at).map_or(0, |point| point.1);
            let after = right.next_if(|point| point.0 == at).map_or(0, |point| point.1);
            groups.push([before, after]);
        }
        Self { groups, counts: [before.count(), after.count()] }
    }

    /// Creates a sample without ties: each duration occurs once.
    fn none(before: u64, after: u64) -> Self {
        let alone = (0..before).map(|_| [1, 0]).chain((0..after).map(|_| [0, 1]));
        Self { groups: alone.collect(), counts: [before, after] }
    }

    fn u(&self) -> f64 {
        let (mut u, mut below) = (0.0, 0.0);
        for &[before, after] in &self.groups {
            u += after as f64 * (below + before as f64 / 2.0);
            below += before as f64;
        }
        u
    }

    /// Returns the normal approximation, with the variance corrected for ties, and a continuity
    /// correction.
    fn p_normal(&self, u: f64) -> f64 {
        let [before, after] = self.counts.map(|count| count as f64);
        let all = before + after;
        let tied: f64 = self
            .groups
            .iter()
            .map(|&[before, after]| before as f64 + after as f64)
            .map(|size| size * size * size - size)
            .sum();
        let variance = before * after / 12.0 * (all + 1.0 - tied / (all * (all - 1.0)));
        let off = (u - before * after / 2.0).abs() - 0.5;
        if variance <= 0.0 || off <= 0.0 { 1.0 } else { two_sided(off / variance.sqrt()) }
    }

    /// Returns the exact probability over all assignments of the durations to both sides.
    fn p_exact(&self, u: f64) -> f64 {
        let [before, after] = self.counts;
        let ways = self.ways();
        let middle = (before * after) as f64;
        let off = (2.0 * u - middle).abs() - 1e-9;
        let total: f64 = ways.iter().sum();
        let far = |&(twice_u, _): &(usize, &f64)| (twice_u as f64 - middle).abs() >= off;
        let extreme: f64 = ways.iter().enumerate().filter(far).map(|(_, ways)| ways).sum();
        (extreme / total).min(1.0)
    }

    /// Returns the number of assignments of the durations for which 2·U equals the index.
    fn ways(&self) -> Vec<f64> {
        let [before, after] = self.counts.map(|count| count as usize);
        let sums = 2 * before * after + 1;
        // Indexed by the number of durations assigned to the side after so far.
        let mut ways = vec![vec![0.0; sums]; after + 1];
        ways[0][0] = 1.0;
        let mut seen = 0;
        for &[one, other] in &self.groups {
            let size = (one + other) as usize;
            for taken in (0..=after).rev() {
                let mut next = vec![0.0; sums];
                for chosen in 0..=size.min(taken) {
                    let earlier = taken - chosen;
                    // Earlier durations of the side before, and those in this group.
                    let (Some(below), left) = (seen_before(seen, earlier), size - chosen) else {
                        continue;
                    };
                    let added = chosen * (2 * below + left);
                    let times = choose(size, chosen);
                    for (sum, &ways) in ways[earlier].iter().enumerate().filter(|(_, w)| **w > 0.0)
                    {
                        if let Some(slot) = next.get_mut(sum + added) {
                            *slot += ways * times;
                        }
                    }
                }
                ways[taken] = next;
            }
            seen += size;
        }
        ways.swap_remove(after)
    }

    /// Cliff's interval from the variance of dominances, adjusted so that it stays within −1 and 1
    /// (D. Feng and N. Cliff, "Monte Carlo evaluation of ordinal d", 2004).
    fn delta_interval(&self, delta: f64) -> Option<[f64; 2]> {
        let [n, m] = self.counts.map(|count| count as f64);
        if n < 2.0 || m < 2.0 {
            return None;
        }
        if delta.abs() >= 1.0 {
            let fewer = n.min(m);
            let bound = (fewer - Z * Z) / (fewer + Z * Z);
            return Some(if delta > 0.0 { [bound, 1.0] } else { [-1.0, -bound] });
        }
        let deviation = self.delta_variance(delta).sqrt();
        let square = delta * delta;
        let spread = Z * deviation * ((1.0 - square).powi(2) + (Z * deviation).powi(2)).sqrt();
        let scale = 1.0 - square + (Z * deviation).powi(2);
        let middle = delta - delta * square;
        let bound = |sign: f64| ((middle + sign * spread) / scale).clamp(-1.0, 1.0);
        Some([bound(-1.0), bound(1.0)])
    }

    fn delta_variance(&self, delta: f64) -> f64 {
        let [n, m] = self.counts.map(|count| count as f64);
        let [mut rows, mut columns, mut unequal] = [0.0; 3];
        let [mut before_below, mut after_below] = [0.0; 2];
        for &[before, after] in &self.groups {
            let [before, after] = [before, after].map(|count| count as f64);
            let after_above = m - after_below - after;
            let before_above = n - before_below - before;
            rows += before * ((after_above - after_below) / m - delta).powi(2);
            columns += after * ((before_below - before_above) / n - delta).powi(2);
            unequal += after * (before_below + before_above);
            before_below += before;
            after_below += after;
        }
        let spread = unequal - n * m * delta * delta;
        let variance = (m * m * rows + n * n * columns - spread) / (n * m * (n - 1.0) * (m - 1.0));
        variance.max((1.0 - delta * delta) / (n * m - 1.0))
    }
}

/// Returns how many of `seen` durations belong to the side before, if `after` belong to the other.
fn seen_before(seen: usize, after: usize) -> Option<usize> {
    seen.checked_sub(after)
}

fn choose(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |ways, index| ways * (n - index) as f64 / (index + 1) as f64)
}

/// Returns the rank, from either end, of the differences that bound the shift with
/// [`CONFIDENCE`].
fn critical(before: u64, after: u64) -> Option<f64> {
    if before.saturating_add(after) <= EXACT_MAX {
        let ways = Ties::none(before, after).ways();
        let total: f64 = ways.iter().sum();
        let half = (1.0 - CONFIDENCE) / 2.0 * total;
        let mut below = 0.0;
        // Without ties 2·U is even.
        let within = ways.iter().step_by(2).take_while(|&&ways| {
            below += ways;
            below <= half
        });
        let rank = within.count();
        return (rank > 0).then_some(rank as f64);
    }
    let (n, m) = (before as f64, after as f64);
    let rank = n * m / 2.0 - Z * (n * m * (n + m + 1.0) / 12.0).sqrt();
    (rank >= 1.0).then(|| rank.floor())
}

/// All differences between a duration after and one before, without listing them.
struct Differences<'a> {
    before: &'a Sample,
    after: &'a Sample,
}

impl Differences<'_> {
    fn pairs(&self) -> f64 {
        self.before.count() as f64 * self.after.count() as f64
    }

    /// Returns the number of differences that are at most `ns`.
    fn up_to(&self, ns: i64) -> f64 {
        let mut after = self.after.points().iter().peekable();
        let (mut below, mut count) = (0.0, 0.0);
        for &(before_ns, times) in self.before.points() {
            let limit = i128::from(before_ns) + i128::from(ns);
            while let Some(&(_, more)) = after.next_if(|point| i128::from(point.0) <= limit) {
                below += more as f64;
            }
            count += times as f64 * below;
        }
        count
    }

    /// Returns the difference of this rank, from 1, in ascending order.
    fn ranked_ns(&self, rank: f64) -> i64 {
        let most = |sample: &Sample| sample.points().last().map_or(0, |&(ns, _)| ns);
        let bound = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let (mut low, mut high) = (-bound(most(self.before)), bound(most(self.after)));
        while low < high {
            let middle = low + (i128::from(high) - i128::from(low)).div_euclid(2) as i64;
            if self.up_to(middle) >= rank { high = middle } else { low = middle + 1 }
        }
        low
    }

    fn median_ns(&self) -> i64 {
        let pairs = self.pairs();
        let low = self.ranked_ns(((pairs + 1.0) / 2.0).floor());
        let high = self.ranked_ns(((pairs + 1.0) / 2.0).ceil());
        ((i128::from(low) + i128::from(high)).div_euclid(2)) as i64
    }

    fn interval_ns(&self, rank: f64) -> [i64; 2] {
        [self.ranked_ns(rank), self.ranked_ns(self.pairs() + 1.0 - rank)]
    }
}

#[cfg(test)]
mod tests;
