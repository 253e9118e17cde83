//! How likely it is that a property without any effect separates failures from successes.

use crate::findings::thresholds::CHANCE_MAX;

/// Returns whether chance is excluded if a property holds for all of `failures` and for none of
/// `successes`, and so many `properties` were compared.
///
/// Without an effect, each attempt fails with the same unknown probability. That just those with
/// the property fail is then most likely if the probability is the share of failures.
pub(super) fn is_excluded(failures: usize, successes: usize, properties: usize) -> bool {
    let all = (failures + successes) as f64;
    let term = |count: usize| count as f64 * (count as f64 / all).ln();
    failures > 0
        && successes > 0
        && (term(failures) + term(successes)).exp() * properties as f64 <= CHANCE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_each_exclude_chance_and_three_do_not() {
        // 1/256, and 1/64.
        assert!(is_excluded(4, 4, 1) && !is_excluded(3, 3, 1));
    }

    #[test]
    fn many_successes_make_up_for_few_failures() {
        // 27/256 ÷ 4,096 …: one failure among any number of successes shows nothing less than 1/e ÷
        // that number.
        assert!(is_excluded(2, 20, 1) && !is_excluded(2, 5, 1));
        assert!(is_excluded(1, 40, 1) && !is_excluded(1, 30, 1));
    }

    #[test]
    fn each_property_that_is_compared_needs_more_of_them() {
        assert!(is_excluded(4, 4, 2) && !is_excluded(4, 4, 3) && is_excluded(5, 5, 8));
    }

    #[test]
    fn nothing_to_compare_with_shows_nothing() {
        assert!(!is_excluded(0, 9, 1) && !is_excluded(9, 0, 1));
    }
}
