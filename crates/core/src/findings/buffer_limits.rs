//! Waits for room, in a window or a buffer: which of them are faults, by what they cost and by
//! whether more room, or a reader who reads, would have spared them.

use crate::findings::floors::Floors;
use crate::findings::proof::Shown;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::findings::thresholds::{
    DOMINANT_FACTOR, READ_BYTES, SLOW_READER_FACTOR, WINDOW_CLOSED_MIN, WINDOW_STANDS_MIN,
};
use crate::model::Cause;

/// Bytes sent in exchanges that waited for room.
pub(super) const READ: &str = "read_bytes";

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
            [is_fixed(stands), stands[1] >= WINDOW_STANDS_MIN]
        }
        _ => [endpoint.ceilings[sender] > 0; 2],
    };
    let share = share(cause, endpoint);
    let costly = share >= floors.cost_share && typical_ns(cause) >= floors.cost_ns;
    let wait_ns = cause.waits.quantile_ns(0.5);
    let long_waits = wait_ns >= 2 * floors.fault_ns;
    // The window of a reader who is behind moves, and a wider one would not help him with his work
    // on what he reads. That is worth a word where a cost would be.
    let usual = fixed && long_waits && share >= DOMINANT_FACTOR * floors.fault_share;
    let mean_ns = cause.lost_ns / cause.count.max(1);
    let held_up = mean_ns >= floors.cost_ns || is_read_slowly(cause, endpoint, floors);
    usual || costly && (fixed || stands && held_up)
}

/// Which part of the time at an endpoint it cost.
fn share(cause: &CauseTally, endpoint: &EndpointTally) -> f64 {
    cause.lost_ns as f64 / endpoint.all.ledger.total_ns().max(1) as f64
}

/// Cost of it for a typical exchange, ns.
fn typical_ns(cause: &CauseTally) -> u64 {
    let [now_ns, without_ns] = [&cause.now, &cause.without].map(|of| of.quantile_ns(0.5));
    now_ns.saturating_sub(without_ns)
}

/// Returns whether a reader who never stops, but takes little at a time, is what exchanges waited
/// for, however short each wait. One who does what he can with what he reads (a client that takes
/// rows apart, a server that stores them) is met by many such waits on a link that is faster, and
/// nothing is wrong with that.
fn is_read_slowly(cause: &CauseTally, endpoint: &EndpointTally, floors: &Floors) -> bool {
    share(cause, endpoint) >= floors.cost_share
        && typical_ns(cause) >= SLOW_READER_FACTOR * floors.cost_ns
        && late_ns(cause) >= SLOW_READER_FACTOR * floors.fault_ns
}

/// By how much a reader was late over what a host hands to an application at once, ns.
fn late_ns(cause: &CauseTally) -> u64 {
    let pieces = cause.shown.count(READ) / READ_BYTES;
    cause.lost_ns / pieces.max(1)
}

/// Returns whether the window mostly stood in the way at one height, of the times that it did at
/// one and at any.
pub(super) fn is_fixed([level, all]: [u32; 2]) -> bool {
    level >= WINDOW_STANDS_MIN && 2 * level >= all
}

/// A reader that was late once or twice is a host that was busy. One that closes its window for
/// less than a cost has to take to matter works on what it reads, and wider windows would not help
/// it: that is worth a word where it takes long in all.
pub(super) fn is_unread(cause: &CauseTally, endpoint: &EndpointTally, floors: &Floors) -> bool {
    let stops = cause.waits.quantile_ns(0.5) >= floors.cost_ns;
    cause.count >= WINDOW_CLOSED_MIN && (stops || is_read_slowly(cause, endpoint, floors))
}

/// Returns whether it stopped once for as long as a cost has to take to matter, or what it was late
/// was felt.
pub(super) fn has_stopped(cause: &CauseTally, floors: &Floors) -> bool {
    cause.waits.latency().max_ns >= floors.cost_ns || late_ns(cause) >= floors.fault_ns
}

/// Why waits that take much of the time are nobody's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearable {
    /// A reader who works on what he reads is so late with each piece that a host hands him.
    Work {
        /// Delay of the reader with each [`READ_BYTES`], ns.
        late_ns: u64,
    },
    /// Room of one height stands in the way, but a wait for it takes only so long, ns.
    Short {
        /// The usual one, ns.
        wait_ns: u64,
    },
    /// Room that stood at no one height for long, as where it still grows.
    Opens,
    /// It happened too few times to be distinguished from chance.
    Few,
}

/// Why those of `cause` are.
pub(super) fn bearable(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Bearable {
    let sender = key.sender as usize;
    let wait_ns = cause.waits.quantile_ns(0.5);
    let stands = endpoint.window_stands[sender];
    match key.cause {
        Cause::SendBuffer if endpoint.ceilings[sender] > 0 => Bearable::Short { wait_ns },
        Cause::SendBuffer => Bearable::Opens,
        Cause::ReceiveWindow if is_fixed(stands) => Bearable::Short { wait_ns },
        Cause::ReceiveWindow if stands[1] < WINDOW_STANDS_MIN => Bearable::Opens,
        Cause::ZeroWindow if cause.count < WINDOW_CLOSED_MIN => Bearable::Few,
        Cause::ReceiveWindow | Cause::ZeroWindow => Bearable::Work { late_ns: late_ns(cause) },
        _ => Bearable::Few,
    }
}

/// Rate at which readers took what they were sent, bits per second, if known.
pub(super) fn rate_bps(cause: &CauseTally) -> Option<u64> {
    let took_ns: f64 = cause.now.points().map(|(ns, count)| ns as f64 * count as f64).sum();
    let read = cause.shown.count(READ);
    (read > 0 && took_ns > 0.0).then(|| (read as f64 * 8e9 / took_ns) as u64)
}

/// Adds up what had to be read.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let began = scene.exchange.began_at[scene.chain.sender as usize];
    shown.add(READ, scene.sender().nxt.saturating_sub(began));
}
