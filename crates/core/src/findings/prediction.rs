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
//! So an interval is at most a quarter of its middle wide, or a millisecond, if nothing else waits
//! behind the cause.

use crate::judge::thresholds::{ALIKE_PART, HOST_DELAY_NS};
use crate::model::{Latency, Prediction};

/// Returns the prediction around `likely` of exchanges that take `needed_ns` in any case.
pub fn around(likely: Latency, needed_ns: u64) -> Prediction {
    let lower = |ns, _| ends_ns(ns, needed_ns).0;
    let upper = |ns, _| ends_ns(ns, needed_ns).1;
    Prediction { likely, least: likely.with(&likely, lower), most: likely.with(&likely, upper) }
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

    #[test]
    fn long_exchanges_differ_by_an_eighth_and_short_ones_by_the_delay_of_hosts() {
        assert_eq!(ends_ns(80_000_000, 0), (70_000_000, 90_000_000));
        assert_eq!(ends_ns(1_000_000, 0), (500_000, 1_500_000));
        assert_eq!(ends_ns(200_000, 0), (0, 700_000));
    }

    #[test]
    fn no_exchange_is_shorter_than_its_path() {
        assert_eq!(ends_ns(30_500_000, 30_000_000).0, 30_000_000);
        assert_eq!(ends_ns(400_000, 900_000).0, 400_000, "never above what is likely");
    }
}
