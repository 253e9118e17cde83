use super::*;
use proptest::prelude::*;

fn sample(values: &[f64]) -> Sample {
    Sample::of(values.iter().map(|value| (value * 1000.0).round() as u64))
}

/// M. Hollander and D. Wolfe, "Nonparametric Statistical Methods" (1973), table 4.1:
/// permeability of the human chorioamnion at term and before; W = 35.
#[test]
fn permeability_of_the_chorioamnion() {
    let term = sample(&[0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]);
    let early = sample(&[1.15, 0.88, 0.90, 0.74, 1.21]);
    let ranks = Ranks::of(&early, &term);
    assert_eq!(ranks.u, 35.0);
    assert!((ranks.p_value - 0.254_4).abs() < 5e-5, "{}", ranks.p_value);
    assert_eq!(ranks.shift_ns, 305);
    assert_eq!(ranks.shift_interval_ns, Some([-150, 760]));
}

/// H. Mann and D. Whitney's own table for n = m = 4: P(U ≤ 1) = 0.029 on one side.
#[test]
fn four_against_four() {
    let ranks = Ranks::of(&Sample::of([1, 2, 3, 5]), &Sample::of([4, 6, 7, 8]));
    assert_eq!(ranks.u, 15.0);
    assert!((ranks.p_value - 2.0 * 2.0 / 70.0).abs() < 1e-12, "{}", ranks.p_value);
}

#[test]
fn critical_values_of_the_tables() {
    // Two-sided 0.05: the greatest U that is significant, and so one less than the rank.
    for ((n, m), table) in [((4, 4), 0), ((5, 5), 2), ((8, 8), 13), ((10, 10), 23), ((20, 20), 127)]
    {
        assert_eq!(critical(n, m), Some(f64::from(table + 1)), "{n} {m}");
    }
    assert_eq!(critical(3, 3), None, "three and three are never significant");
}

#[test]
fn both_computations_of_the_p_value_agree_where_they_meet() {
    let before = Sample::of((0..30).map(|n| 1000 + 37 * n));
    let after = Sample::of((0..30).map(|n| 1250 + 41 * n));
    let ties = Ties::of(&before, &after);
    let (exact, normal) = (ties.p_exact(ties.u()), ties.p_normal(ties.u()));
    assert!((exact - normal).abs() < 0.003, "{exact} {normal}");
}

#[test]
fn every_exchange_faster_has_a_bounded_delta() {
    let ranks = Ranks::of(&Sample::of(100..140), &Sample::of(1..40));
    assert_eq!(ranks.cliffs_delta, -1.0);
    let [low, high] = ranks.cliffs_delta_interval.expect("enough exchanges");
    assert!(low == -1.0 && high < -0.7, "{low} {high}");
}

/// Computes U and the shift by listing all pairs.
fn slow_shift(before: &[u64], after: &[u64]) -> (f64, i64) {
    let mut all: Vec<i64> =
        before.iter().flat_map(|b| after.iter().map(|a| *a as i64 - *b as i64)).collect();
    all.sort_unstable();
    let u = all
        .iter()
        .map(|d| {
            if *d > 0 {
                1.0
            } else if *d == 0 {
                0.5
            } else {
                0.0
            }
        })
        .sum();
    let (low, high) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
    (u, low + (high - low) / 2)
}

/// Computes the p-value by enumerating all assignments.
fn slow_p(before: &[u64], after: &[u64]) -> f64 {
    let all: Vec<u64> = before.iter().chain(after).copied().collect();
    let middle = (before.len() * after.len()) as f64 / 2.0;
    let off = (slow_shift(before, after).0 - middle).abs();
    let (mut ways, mut far) = (0.0, 0.0);
    for deal in 0u32..1 << all.len() {
        if deal.count_ones() as usize != after.len() {
            continue;
        }
        let side = |bit: u32| -> Vec<u64> {
            (0..all.len()).filter(|at| deal >> at & 1 == bit).map(|at| all[at]).collect()
        };
        ways += 1.0;
        let u = slow_shift(&side(0), &side(1)).0;
        far += f64::from((u - middle).abs() >= off - 1e-9);
    }
    far / ways
}

fn durations(most: usize) -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(0u64..30, 1..most)
}

proptest! {
    #[test]
    fn pairs_are_counted_and_ranked_as_if_listed(before in durations(40), after in durations(40)) {
        let ranks = Ranks::of(&Sample::of(before.clone()), &Sample::of(after.clone()));
        let (u, shift_ns) = slow_shift(&before, &after);
        prop_assert_eq!(ranks.u, u);
        prop_assert_eq!(ranks.shift_ns, shift_ns);
        if let Some([low, high]) = ranks.shift_interval_ns {
            prop_assert!(low <= shift_ns && shift_ns <= high);
        }
    }

    #[test]
    fn p_values_are_those_of_all_deals(before in durations(6), after in durations(6)) {
        let ranks = Ranks::of(&Sample::of(before.clone()), &Sample::of(after.clone()));
        prop_assert!((ranks.p_value - slow_p(&before, &after)).abs() < 1e-9);
    }

    #[test]
    fn swapping_the_runs_swaps_the_answer(before in durations(60), after in durations(60)) {
        let (before, after) = (Sample::of(before), Sample::of(after));
        let (there, back) = (Ranks::of(&before, &after), Ranks::of(&after, &before));
        prop_assert!((there.p_value - back.p_value).abs() < 1e-12);
        prop_assert!((there.cliffs_delta + back.cliffs_delta).abs() < 1e-12);
        prop_assert!((there.shift_ns + back.shift_ns).abs() <= 1);
        if let (Some(one), Some(other)) = (there.cliffs_delta_interval, back.cliffs_delta_interval) {
            prop_assert!((one[0] + other[1]).abs() < 1e-9 && (one[1] + other[0]).abs() < 1e-9);
        }
    }

    #[test]
    fn a_common_shift_is_found(before in durations(50), by in 0u64..1000) {
        let after = before.iter().map(|ns| ns + by);
        let ranks = Ranks::of(&Sample::of(before.clone()), &Sample::of(after));
        prop_assert_eq!(ranks.shift_ns, by as i64);
    }
}
