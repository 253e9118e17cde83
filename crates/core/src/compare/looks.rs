//! Percentiles that differ without being significant, and the number of exchanges needed to decide.

use super::tails::fisher;
use super::{Change, Measured, Options, Ranks, SIGNIFICANCE, Sample, TAILS, Tail};

/// Greatest number of exchanges in a run that is recommended.
const NEEDED_MAX: u64 = 1_000_000;

/// A percentile that differs, although the number of exchanges does not make the difference
/// significant.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Look {
    /// The point of the distribution, 0 to 1.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub quantile: f64,
    /// Value before the change, ns.
    pub before_ns: u64,
    /// Value after the change, ns.
    pub after_ns: u64,
}

impl Look {
    /// Returns the ratio of the greater to the lesser value.
    pub fn factor(&self) -> f64 {
        let (less, more) = (self.before_ns.min(self.after_ns), self.before_ns.max(self.after_ns));
        more as f64 / less.max(1) as f64
    }

    /// Returns whether the value after is the greater one.
    pub fn is_slower(&self) -> bool {
        self.after_ns > self.before_ns
    }
}

/// Returns the percentiles that differ by more than the minimum change, the most different first.
pub fn looks(before: &Sample, after: &Sample, options: Options) -> Vec<Look> {
    let points = std::iter::once(0.5).chain(TAILS);
    let mut all: Vec<Look> = points
        .map(|quantile| Look {
            quantile,
            before_ns: before.quantile_ns(quantile),
            after_ns: after.quantile_ns(quantile),
        })
        .filter(|it| Change::between(it.before_ns, it.after_ns, options).is_some())
        .collect();
    all.sort_by(|one, other| other.factor().total_cmp(&one.factor()));
    all
}

/// Returns the minimum and maximum of the change of the mean exchange, and the least part of it
/// that the slowest tenth and hundredth contribute, as shares of the mean before.
pub fn weights(before: &Measured, after: &Measured, tails: &[Tail]) -> [f64; 2] {
    let mean_ns = before.mean_ns().max(1) as f64;
    let all = tails.iter().map(|tail| {
        (tail.after_ns as f64 - tail.before_ns as f64) * (1.0 - tail.quantile) / mean_ns
    });
    let whole = after.mean_ns() as f64 / mean_ns - 1.0;
    all.fold([whole; 2], |[least, most], weight| [least.min(weight), most.max(weight)])
}

/// Returns the number of exchanges in each run that would be significant if the figures stay as
/// they are: the least multiple of both samples for which `is_settled` is true.
pub fn needed(samples: [&Sample; 2], is_settled: impl Fn(&Sample, &Sample) -> bool) -> Option<u64> {
    let [before, after] = samples;
    let largest = before.count().max(after.count()).max(1);
    let most = NEEDED_MAX / largest;
    let settles = |times: u64| is_settled(&before.times(times), &after.times(times));
    let mut high = 2;
    while high <= most && !settles(high) {
        high *= 2;
    }
    if high > most {
        return outliers(before, after, most).map(|times| times * largest);
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low.midpoint(high);
        if settles(middle) { high = middle } else { low = middle }
    }
    Some(high * largest)
}

/// Returns the multiple of the samples at which those exchanges of one run that are longer than all
/// of the other run are significant in the test of the slow end.
fn outliers(before: &Sample, after: &Sample, most: u64) -> Option<u64> {
    let longest = |sample: &Sample| sample.points().last().map_or(0, |&(ns, _)| ns);
    let threshold_ns = longest(before).min(longest(after)).saturating_add(1);
    let counts = [before, after].map(|run| [run.at_least(threshold_ns), run.count()]);
    let times = std::iter::successors(Some(2u64), |times| times.checked_mul(2));
    times.take_while(|&times| times <= most).find(|&times| {
        let [before, after] = counts.map(|pair| pair.map(|count| count.saturating_mul(times)));
        fisher(before, after) < SIGNIFICANCE
    })
}

/// Returns the results of the tests of ranks and tails; neither sample may be empty.
pub fn judged(before: &Sample, after: &Sample) -> (Ranks, Vec<Tail>) {
    let tails = TAILS.iter().map(|&quantile| Tail::of(before, after, quantile)).collect();
    (Ranks::of(before, after), tails)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Comparison, ComparisonOutcome, Verdict, compare};
    use crate::report::comparison::sentence;

    /// Compares runs given as numbers of exchanges with their durations in µs.
    fn compared(before: &[(u64, u64)], after: &[(u64, u64)]) -> Comparison {
        let run = |points: &[(u64, u64)]| {
            let durations =
                points.iter().flat_map(|&(count, us)| (0..count).map(move |_| us * 1000));
            Measured::of_durations("run", durations)
        };
        compare(run(before), run(after), Options::default()).expect("exchanges on both sides")
    }

    #[test]
    fn the_slow_end_of_few_exchanges_is_not_significant() {
        let compared = compared(&[(20, 1_000)], &[(17, 1_000), (3, 10_000)]);
        assert_eq!(compared.verdict, Verdict::NoDifferenceShown);
        assert_eq!(compared.outcome(), ComparisonOutcome::NotShown);
        let text = sentence(&compared, crate::model::Language::English);
        assert!(text.contains("p90 looks 10 times slower (1 ms → 10 ms)"), "{text}");
        assert!(text.contains("capture about"), "{text}");
    }

    #[test]
    fn the_recommended_number_of_exchanges_shows_the_difference() {
        let few = compared(&[(20, 1_000)], &[(17, 1_000), (3, 10_000)]);
        let needed = few.exchanges_needed.expect("a number");
        let times = needed / 20;
        assert!((2..=10).contains(&times), "{needed}");
        let many = compared(&[(needed, 1_000)], &[(17 * times, 1_000), (3 * times, 10_000)]);
        assert_eq!((many.verdict, many.outcome()), (Verdict::Slower, ComparisonOutcome::Worse));
        let less = times - 1;
        let fewer = compared(&[(20 * less, 1_000)], &[(17 * less, 1_000), (3 * less, 10_000)]);
        assert_eq!(fewer.outcome(), ComparisonOutcome::NotShown);
    }

    #[test]
    fn many_equal_exchanges_are_equal() {
        let compared = compared(&[(180, 1_000), (20, 1_020)], &[(181, 1_000), (19, 1_020)]);
        assert_eq!(
            (compared.verdict, compared.outcome()),
            (Verdict::Equal, ComparisonOutcome::NotWorse)
        );
        assert!(compared.looks.is_empty() && compared.exchanges_needed.is_none());
    }

    #[test]
    fn faster_exchanges_with_an_undecided_slow_end_are_not_shown_to_be_faster() {
        let compared = compared(&[(20, 1_000)], &[(17, 500), (3, 10_000)]);
        assert_eq!(
            (compared.verdict, compared.outcome()),
            (Verdict::Faster, ComparisonOutcome::NotShown)
        );
        let text = sentence(&compared, crate::model::Language::English);
        assert!(text.contains("p90 looks 10 times slower"), "{text}");
        let without = super::tests::compared(&[(20, 1_000)], &[(20, 500)]);
        assert_eq!(without.outcome(), ComparisonOutcome::NotWorse);
    }

    #[test]
    fn a_slow_end_that_is_gone_is_not_called_slower_where_typical_exchanges_take_longer() {
        // A short accept queue lets few wait for long, a long one lets all wait a little.
        let compared =
            compared(&[(490, 100_000), (6, 2_040_000)], &[(400, 120_000), (100, 158_000)]);
        assert_eq!(compared.verdict, Verdict::Mixed);
        let text = sentence(&compared, crate::model::Language::English);
        assert!(text.contains("p99 looks 13 times faster (2.04 s → 158 ms)"), "{text}");
        let without = super::tests::compared(&[(500, 100_000)], &[(400, 120_000), (100, 158_000)]);
        assert_eq!(without.verdict, Verdict::Slower);
        assert!(without.does_harm());
    }

    #[test]
    fn the_mean_exchange_says_whether_a_mixed_change_did_harm() {
        let gone = compared(&[(450, 20_000), (50, 2_000_000)], &[(500, 100_000)]);
        assert_eq!((gone.verdict, gone.outcome()), (Verdict::Mixed, ComparisonOutcome::Worse));
        assert!(!gone.does_harm());
        let harmed = compared(&[(450, 20_000), (50, 200_000)], &[(500, 100_000)]);
        assert_eq!((harmed.verdict, harmed.does_harm()), (Verdict::Mixed, true));
    }

    #[test]
    fn one_long_exchange_in_a_thousand_is_not_shown_to_be_chance() {
        let compared = compared(&[(1000, 1_000)], &[(999, 1_000), (1, 1_000_000)]);
        assert_eq!(compared.outcome(), ComparisonOutcome::NotShown);
        assert!(compared.exchanges_needed.is_some_and(|count| count >= 4000));
    }

    #[test]
    fn one_exchange_each_asks_for_more() {
        let compared = compared(&[(1, 1_000)], &[(1, 5_000)]);
        assert_eq!(compared.outcome(), ComparisonOutcome::NotShown);
        assert!(compared.exchanges_needed.is_some_and(|count| (4..50).contains(&count)));
    }
}
