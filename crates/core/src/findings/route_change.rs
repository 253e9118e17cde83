//! Round trips that became permanently longer: another route, not a queue.
//!
//! The delay in a queue varies with its content from packet to packet (RFC 8290 §1): the queue
//! fills, and drains when the load ends. A queue that is always full adds a constant delay until it
//! drains. A longer route adds the same delay to each packet, however much is in flight, and to all
//! later packets: a single later one that takes as long as before refutes it, and whether a queue or a
//! scheduler delayed the others is not known then.

use crate::findings::tally::{CauseTally, Key, Tally};
use crate::findings::thresholds::{FEW_SHARE, ROUTE_VARIATION_NS};
use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Cause, Owner};

/// Attributes to the path the delay that seems to be that of a queue, if it is constant. If packets after it
/// have been as fast as before, it has no cause.
pub(super) fn settle(tally: &mut Tally) {
    let drains =
        |key: &Key| tally.endpoints.get(&key.server).is_some_and(|it| it.round_trips.drained > 0);
    let of_queue = |(key, cause): &(&Key, &CauseTally)| {
        key.cause == Cause::Bufferbloat && is_constant(cause) && !drains(key)
    };
    let mut steps: Vec<_> =
        tally.causes.iter().filter(of_queue).map(|(key, _)| key.clone()).collect();
    // If the changes differ, the one with the greatest key is reported.
    steps.sort_unstable();
    for key in steps {
        let Some(step) = tally.causes.remove(&key) else { continue };
        let middle_ns = step.waits.quantile_ns(0.5);
        let fell_ns = tally.endpoints.get(&key.server).map_or(0, |it| it.round_trips.fell_ns);
        if fell_ns + variation_ns(middle_ns) >= middle_ns {
            continue;
        }
        tally.shift(&key, (Owner::Queueing, Owner::Path), step.lost_ns, None);
        if let Some(endpoint) = tally.endpoints.get_mut(&key.server) {
            let [all_ns, _] = endpoint.round_trips.longer_ns;
            endpoint.round_trips.longer_ns = [all_ns + step.lost_ns, middle_ns];
        }
    }
}

/// Returns whether all delays but a tenth on either side differ as little as the delays of a path.
fn is_constant(cause: &CauseTally) -> bool {
    let [least_ns, middle_ns, most_ns] =
        [FEW_SHARE, 0.5, 1.0 - FEW_SHARE].map(|share| cause.waits.quantile_ns(share));
    cause.exchanges >= 2 && most_ns - least_ns <= variation_ns(middle_ns)
}

/// Returns by how much delays of `ns` on one path differ at most, ns.
fn variation_ns(ns: u64) -> u64 {
    (ns / ALIKE_PART).max(ROUTE_VARIATION_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_that_vary_by_more_than_hosts_and_clocks_do_are_a_queue() {
        let is_route = |variation_ns: u64| {
            let mut cause = CauseTally { exchanges: 20, ..CauseTally::default() };
            for step in 0..20 {
                cause.waits.record(8_000_000 + variation_ns * step / 20);
            }
            is_constant(&cause)
        };
        assert!(is_route(2_000_000) && !is_route(4_000_000));
    }
}
