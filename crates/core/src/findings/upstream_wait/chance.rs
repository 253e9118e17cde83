//! How likely it is that unrelated work of a host ends just before its answers by chance.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;

/// Returns the chance that at least one of `ends` events within `window_ns` comes no more than `lag_ns`
/// before an answer that has nothing to do with them.
///
/// Unrelated events come at any time of the window, so each does with the probability that the lag has
/// in the window, and one of them at most with the sum of these (Boole's inequality). An answer that
/// follows within the time that a host takes follows at once, however soon that is.
pub(super) fn of_lag(lag_ns: u64, ends: usize, window_ns: u64) -> f64 {
    let sum = ends as f64 * lag_ns.max(HOST_DELAY_MAX_NS) as f64 / window_ns.max(1) as f64;
    sum.min(1.0)
}

/// Returns the chance that the product of as many independent probabilities is as small as that of
/// `each`, where each is spread evenly from 0 to 1 by chance (R. A. Fisher, "Statistical Methods for
/// Research Workers", 1932 edition, §21.1).
pub(super) fn of_all(each: &[f64]) -> f64 {
    let sum = each.iter().map(|p| -p.max(f64::MIN_POSITIVE).ln()).sum::<f64>();
    let (mut term, mut total) = ((-sum).exp(), 0.0);
    for at in 0..each.len() {
        total += term;
        term *= sum / (at + 1) as f64;
    }
    // What is too small for a number is no chance.
    f64::min(total, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_is_compared_with_the_time_in_which_the_events_came() {
        assert_eq!(of_lag(3_000_000, 1, 900_000_000), 1.0 / 300.0);
        assert_eq!(of_lag(3_000_000, 100, 900_000_000), 1.0 / 3.0);
        assert_eq!(of_lag(30_000_000, 100, 900_000_000), 1.0);
        assert_eq!(of_lag(0, 1, 900_000_000), 1.0 / 900.0, "no sooner than a host");
    }

    #[test]
    fn many_small_probabilities_exclude_chance_and_ordinary_ones_do_not() {
        // 0.1 × 0.1, and 1 + ln 100.
        assert!((of_all(&[0.1, 0.1]) - 0.01 * (1.0 + 100_f64.ln())).abs() < 1e-12);
        assert_eq!(of_all(&[1.0; 9]), 1.0);
        assert!(of_all(&[0.5; 64]) > 0.5, "the mean of chance is 0.5, of its logarithm -1");
        assert!(of_all(&[0.1; 4]) < 0.02 && of_all(&[0.01; 64]) < 1e-9);
    }
}
