//! The slow end: the share of each run's exchanges above a quantile of both runs together.

use super::Sample;

/// The slow end of two samples from one point of their common distribution on.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tail {
    /// The point: this share of the durations of both samples is at most `threshold_ns`.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub quantile: f64,
    /// Shortest time that counts as slow, ns.
    pub threshold_ns: u64,
    /// Share of the exchanges before the change that take at least this long, 0 to 1.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub before_share: f64,
    /// Share of the exchanges after the change that take at least this long, 0 to 1.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub after_share: f64,
    /// The quantile of the exchanges before, ns.
    pub before_ns: u64,
    /// The quantile of the exchanges after, ns.
    pub after_ns: u64,
    /// Probability of shares at least as far apart if nothing has changed (Fisher's exact test,
    /// twice the lesser side).
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub p_value: f64,
}

impl Tail {
    /// Computes the tail from `quantile` on; neither sample may be empty.
    pub fn of(before: &Sample, after: &Sample, quantile: f64) -> Self {
        let threshold_ns = before.pooled(after).quantile_ns(quantile);
        let [slow_before, slow_after] = [before, after].map(|run| run.at_least(threshold_ns));
        Self {
            quantile,
            threshold_ns,
            before_share: slow_before as f64 / before.count() as f64,
            after_share: slow_after as f64 / after.count() as f64,
            before_ns: before.quantile_ns(quantile),
            after_ns: after.quantile_ns(quantile),
            p_value: fisher([slow_before, before.count()], [slow_after, after.count()]),
        }
    }
}

/// Returns the probability of counts at least as uneven as these; each argument is the number of
/// slow exchanges and of all exchanges of one run.
pub(super) fn fisher(one: [u64; 2], other: [u64; 2]) -> f64 {
    // Beyond any run that is measured, the proportions decide: the sum has a number of terms that
    // grows with the root of the counts.
    const COUNTS_MAX: u64 = 1 << 32;
    let scale = one[1].max(other[1]) / COUNTS_MAX + 1;
    let [[some, all], [other_some, other_all]] =
        [one, other].map(|run| run.map(|count| count / scale));
    let both = some + other_some;
    let ln_whole = ln_choose(all + other_all, both);
    let chance =
        |count: u64| (ln_choose(all, count) + ln_choose(other_all, both - count) - ln_whole).exp();
    let fewer = some as f64 * (all + other_all) as f64 <= both as f64 * all as f64;
    let side = if fewer {
        sum((both.saturating_sub(other_all)..=some).rev().map(chance))
    } else {
        sum((some..=both.min(all)).map(chance))
    };
    (2.0 * side).min(1.0)
}

/// Returns the sum of decreasing terms, up to the first that is negligible.
fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sum = 0.0;
    for term in terms {
        sum += term;
        if term <= sum * f64::EPSILON {
            break;
        }
    }
    sum
}

fn ln_choose(n: u64, k: u64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// Stirling's series; for small `n`, where its error exceeds 10⁻¹², the product.
fn ln_factorial(n: u64) -> f64 {
    if n < 32 {
        return (2..=n).map(|factor| (factor as f64).ln()).sum();
    }
    let n = n as f64;
    let series = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3)) + 1.0 / (1260.0 * n.powi(5));
    n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fisher_s_tea_tasting() {
        // R. A. Fisher, "The Design of Experiments": 3 of 4 cups correct; 17 of 70 on one side.
        assert!((fisher([3, 4], [1, 4]) - 2.0 * 17.0 / 70.0).abs() < 1e-12);
        assert!((fisher([4, 4], [0, 4]) - 2.0 / 70.0).abs() < 1e-12);
    }

    #[test]
    fn factorials_and_the_series_agree_where_they_meet() {
        for n in [31, 32, 33, 100] {
            let product: f64 = (2..=n).map(|factor| (factor as f64).ln()).sum();
            assert!((ln_factorial(n) - product).abs() < 1e-11, "{n}");
        }
    }

    #[test]
    fn a_slow_end_that_disappears_is_significant_though_the_median_stays() {
        let before = [(1_000, 960), (200_000, 40)].into_iter().collect();
        let after = [(1_000, 1000)].into_iter().collect();
        let tail = Tail::of(&before, &after, 0.99);
        assert_eq!((tail.before_share, tail.after_share), (0.04, 0.0));
        assert_eq!((tail.before_ns, tail.after_ns), (200_000, 1_000));
        assert!(tail.p_value < 1e-9, "{tail:?}");
    }

    #[test]
    fn a_duration_that_all_share_is_no_tail() {
        let same: Sample = [(1_000, 500)].into_iter().collect();
        assert_eq!(Tail::of(&same, &same, 0.9).p_value, 1.0);
    }
}
