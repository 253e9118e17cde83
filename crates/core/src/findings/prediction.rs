//! The ends of a predicted latency.
//!
//! Without its cause, an exchange takes what the packets show beside the cost of the cause: this is
//! the likely value. Two things are not known, and each moves an end:
//!
//! - *Measurements of one quantity differ.* Work, transfers and round trips of the same kind take up
//!   to an eighth more or less the next time (`ALIKE_PART`). However short an exchange is, its two
//!   hosts are scheduled half a host's delay earlier or later (`HOST_DELAY_NS`). The greater of both
//!   is the noise: the lower end is the likely value less the noise, the upper end that value and
//!   the noise.
//! - *What is needed remains.* No exchange is shorter than the round trip of its path. The lower end
//!   is not below that.
//!
//! Two things are known:
//!
//! - *An exchange without the cause keeps its time.* A percentile that is the time of such an
//!   exchange has no interval.
//! - *No exchange becomes slower.* The upper end is not above the present value.
//!
//! So an interval is at most a quarter of its middle wide, or a millisecond, if nothing else waits
//! behind the cause.
//!
//! The prediction is of these exchanges. Another run of them ([`in_another_run`]) differs by the
//! noise, also where the cause takes nothing.

use crate::judge::thresholds::{ALIKE_PART, HOST_DELAY_NS};
use crate::model::{Histogram, Latency, Prediction};

/// Returns the prediction for the exchanges `all`. Those of `now` have the cause, would take
/// `without` if it were gone, and take `needed_ns` in any case.
pub fn of(all: &Histogram, now: &Histogram, without: &Histogram, needed_ns: u64) -> Prediction {
    let present = all.latency();
    let with_ends = |end: fn((u64, u64)) -> u64| {
        let mut ends = Histogram::default();
        for (likely_ns, count) in without.points() {
            ends.record_many(end(ends_ns(likely_ns, needed_ns)), count);
        }
        all.exchanged(now, &ends).latency().at_most(&present)
    };
    let likely = all.exchanged(now, without).latency().at_most(&present);
    let (least, most) = (with_ends(|(least_ns, _)| least_ns), with_ends(|(_, most_ns)| most_ns));
    // The middles of buckets may be in another order than the values, and farther apart.
    let least = least.at_most(&likely).with(&likely, |end_ns, ns| end_ns.max(ends_ns(ns, 0).0));
    let most = most.with(&likely, |end_ns, ns| end_ns.clamp(ns, ends_ns(ns, 0).1));
    Prediction { likely, least, most }
}

/// Returns the prediction for exchanges that all have the cause, take `present` with it and likely
/// `likely` without. They take `needed_ns` in any case.
pub fn of_each(present: &Latency, likely: Latency, needed_ns: u64) -> Prediction {
    let likely = likely.at_most(present);
    let lower = |ns, _| ends_ns(ns, needed_ns).0;
    let upper = |ns, present_ns: u64| ends_ns(ns, needed_ns).1.min(present_ns);
    Prediction { likely, least: likely.with(present, lower), most: likely.with(present, upper) }
}

/// Returns what `prediction` predicts for another run of the same exchanges.
pub fn in_another_run(prediction: &Prediction) -> Prediction {
    let Prediction { likely, least, most } = *prediction;
    Prediction {
        likely,
        least: least.with(&likely, |end_ns, ns| ends_ns(ns, 0).0.min(end_ns)),
        most: most.with(&likely, |end_ns, ns| ends_ns(ns, 0).1.max(end_ns)),
    }
}

/// Returns the lower and the upper end for exchanges that likely take `likely_ns`, of which
/// `needed_ns` in any case.
pub fn ends_ns(likely_ns: u64, needed_ns: u64) -> (u64, u64) {
    let noise_ns = noise_ns(likely_ns);
    let least_ns = likely_ns.saturating_sub(noise_ns).max(needed_ns.min(likely_ns));
    (least_ns, likely_ns.saturating_add(noise_ns))
}

/// Difference between two measurements of the same exchange, ns.
fn noise_ns(ns: u64) -> u64 {
    (ns / ALIKE_PART).max(HOST_DELAY_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn histogram(ms: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        ms.iter().for_each(|ms| histogram.record(ms * MS));
        histogram
    }

    #[test]
    fn long_exchanges_differ_by_an_eighth_and_short_ones_by_the_delay_of_hosts() {
        assert_eq!(ends_ns(80 * MS, 0), (70 * MS, 90 * MS));
        assert_eq!(ends_ns(MS, 0), (500_000, 1_500_000));
        assert_eq!(ends_ns(200_000, 0), (0, 700_000));
    }

    #[test]
    fn no_exchange_is_shorter_than_its_path() {
        assert_eq!(ends_ns(30_500_000, 30 * MS).0, 30 * MS);
        assert_eq!(ends_ns(400_000, 900_000).0, 400_000, "never above what is likely");
    }

    #[test]
    fn exchanges_without_the_cause_keep_their_time() {
        let (all, now) = (histogram(&[80, 80, 160, 3_290]), histogram(&[160]));
        let then = of(&all, &now, &histogram(&[80]), 0);
        assert_eq!([then.least.max_ns, then.likely.max_ns, then.most.max_ns], [3_290 * MS; 3]);
        assert_eq!(then.likely.p50_ns, then.most.p50_ns, "two of the three have no cause");
        assert!(then.least.p50_ns.abs_diff(80 * MS) < MS, "{then:?}");
    }

    #[test]
    fn those_that_have_it_are_not_known_exactly() {
        let (all, now) = (histogram(&[40; 4]), histogram(&[40; 4]));
        let then = of(&all, &now, &histogram(&[8; 4]), 0);
        let ends = (then.least.max_ns, then.likely.max_ns, then.most.max_ns);
        assert_eq!(ends, (7 * MS, 8 * MS, 9 * MS));
    }

    #[test]
    fn no_exchange_becomes_slower() {
        let (all, now) = (histogram(&[128; 3]), histogram(&[128; 3]));
        let then = of(&all, &now, &histogram(&[124; 3]), 0);
        assert_eq!((then.likely.p50_ns, then.most.p50_ns), (124 * MS, 128 * MS));
        let each = of_each(&all.latency(), histogram(&[124; 3]).latency(), 0);
        assert_eq!((each.likely.p50_ns, each.most.p50_ns), (124 * MS, 128 * MS));
    }

    #[test]
    fn another_run_differs_where_this_one_would_not_change() {
        let all = histogram(&[16; 8]);
        let nothing = Histogram::default();
        let then = of(&all, &nothing, &nothing, 0);
        assert_eq!(then, Prediction::exactly(all.latency()));
        let again = in_another_run(&then);
        assert_eq!((again.least.p50_ns, again.most.p50_ns), (14 * MS, 18 * MS));
    }
}
