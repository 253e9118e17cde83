//! Waits for room, in a window or a buffer: which of them are faults, by what they cost and by whether
//! more room, or a reader who reads, would have spared them.

use super::Cause;
use super::assemble::Floors;
use super::tally::{CauseTally, EndpointTally, Key};

/// A window that stood in the way fewer times is one that still opens.
const WINDOW_STANDS: u32 = 6;

/// A buffer below the bandwidth-delay product costs a round trip each time. Where that is short, it
/// hardly shows, unless there are so many that it is worth as much as a cost has to be.
pub(super) fn is_short(
    key: &Key,
    cause: &CauseTally,
    endpoint: &EndpointTally,
    floors: &Floors,
) -> bool {
    let sender = key.sender as usize;
    let [fixed, stands] = match key.cause {
        Cause::ReceiveWindow => {
            let stands = endpoint.window_stands[sender];
            [is_fixed(stands), stands[1] >= WINDOW_STANDS]
        }
        _ => [endpoint.ceilings[sender] > 0; 2],
    };
    let share = cause.lost_ns as f64 / endpoint.all.ledger.total_ns().max(1) as f64;
    let [now_ns, without_ns] = [&cause.now, &cause.without].map(|of| of.quantile_ns(0.5));
    let typical_ns = now_ns.saturating_sub(without_ns);
    let costly = share >= floors.cost_share && typical_ns >= floors.cost_ns;
    let wait_ns = cause.waits.quantile_ns(0.5);
    let long_waits = wait_ns >= 2 * floors.fault_ns;
    // The window of a reader who is behind moves, and a wider one would not help him with his work on
    // what he reads. That is worth a word where a cost would be.
    let usual = fixed && long_waits && share >= 5.0 * floors.fault_share;
    usual || costly && (fixed || stands && wait_ns >= floors.cost_ns)
}

/// Whether the window mostly stood in the way at one height, of the times that it did at one and at any.
pub(super) fn is_fixed([level, all]: [u32; 2]) -> bool {
    level >= WINDOW_STANDS && 2 * level >= all
}

/// A reader that was late once or twice is a host that was busy. One that closes its window for less
/// than a cost has to take to matter works on what it reads, and wider windows would not help it.
pub(super) fn is_unread(cause: &CauseTally, floors: &Floors) -> bool {
    cause.count >= 3 && cause.waits.quantile_ns(0.5) >= floors.cost_ns
}
