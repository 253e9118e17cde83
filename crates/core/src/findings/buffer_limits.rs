//! Waits for room in a window or a buffer. They are faults by their cost, and if more room, or a
//! reader that reads, would have spared them.

use crate::findings::floors::Floors;
use crate::findings::proof::Shown;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::findings::thresholds::{
    DOMINANT_FACTOR, READ_BYTES, SLOW_READER_FACTOR, WINDOW_CLOSED_MIN,
};
use crate::model::Cause;

/// Bytes sent in exchanges that waited for room.
pub(super) const READ: &str = "read_bytes";

/// Returns whether a buffer below the bandwidth-delay product is a fault. It costs a round trip
/// each time; short ones count only if they add up to what a cost must take.
pub(super) fn is_short(
    key: &Key,
    cause: &CauseTally,
    endpoint: &EndpointTally,
    floors: &Floors,
) -> bool {
    let sender = endpoint.sender(key.sender);
    let [fixed, stands] = match key.cause {
        Cause::ReceiveWindow => [sender.window.is_fixed(), sender.window.limits_often()],
        _ => [sender.ceilings.connections > 0; 2],
    };
    let share = share(cause, endpoint);
    let costly = share >= floors.cost_share && typical_ns(cause) >= floors.cost_ns;
    let wait_ns = cause.waits.quantile_ns(0.5);
    let long_waits = wait_ns >= 2 * floors.fault_ns;
    // The window of a reader that is behind moves, and a wider one would not help it. It is a fault
    // only where a cost would be a finding.
    let usual = fixed && long_waits && share >= DOMINANT_FACTOR * floors.fault_share;
    let mean_ns = cause.lost_ns / cause.count.max(1);
    let held_up = mean_ns >= floors.cost_ns || is_read_slowly(cause, endpoint, floors);
    usual || costly && (fixed || stands && held_up)
}

/// Returns its share of the time at an endpoint.
fn share(cause: &CauseTally, endpoint: &EndpointTally) -> f64 {
    cause.lost_ns as f64 / endpoint.all.ledger.total_ns().max(1) as f64
}

/// Returns its cost for a typical exchange, ns.
fn typical_ns(cause: &CauseTally) -> u64 {
    let [now_ns, without_ns] = [&cause.now, &cause.without].map(|of| of.quantile_ns(0.5));
    now_ns.saturating_sub(without_ns)
}

/// Returns whether exchanges waited for a reader that never stops but takes little at a time,
/// however short each wait. A reader that works on its data as fast as it can (a client that parses
/// rows, a server that stores them) causes many such waits on a faster link, and that is no fault.
fn is_read_slowly(cause: &CauseTally, endpoint: &EndpointTally, floors: &Floors) -> bool {
    share(cause, endpoint) >= floors.cost_share
        && typical_ns(cause) >= SLOW_READER_FACTOR * floors.cost_ns
        && late_ns(cause) >= SLOW_READER_FACTOR * floors.fault_ns
}

/// Returns the delay of a reader with each [`READ_BYTES`], ns.
fn late_ns(cause: &CauseTally) -> u64 {
    let pieces = cause.shown.count(READ) / READ_BYTES;
    cause.lost_ns / pieces.max(1)
}

/// Returns whether a reader that closes its window is a fault. One that was late once or twice is
/// on a busy host. One that closes its window for less than a cost must take works on what it
/// reads, and counts only if that takes long in all.
pub(super) fn is_unread(cause: &CauseTally, endpoint: &EndpointTally, floors: &Floors) -> bool {
    let stops = cause.waits.quantile_ns(0.5) >= floors.cost_ns;
    cause.count >= WINDOW_CLOSED_MIN && (stops || is_read_slowly(cause, endpoint, floors))
}

/// Returns whether it stopped once for as long as a cost must take, or its delay was felt.
pub(super) fn has_stopped(cause: &CauseTally, floors: &Floors) -> bool {
    cause.waits.latency().max_ns >= floors.cost_ns || late_ns(cause) >= floors.fault_ns
}

/// The reason why waits that take much of the time are no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearable {
    /// A reader that works on what it reads has this delay with each piece.
    Work {
        /// Delay of the reader with each [`READ_BYTES`], ns.
        late_ns: u64,
    },
    /// Room of one height stands in the way, but a wait for it is short.
    Short {
        /// Median wait, ns.
        wait_ns: u64,
    },
    /// Room stood at no height for long: it may still grow.
    Opens,
    /// The waits are too few to be distinguished from chance.
    Few,
}

/// Returns why waits of `cause` are no fault.
pub(super) fn bearable(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Bearable {
    let sender = endpoint.sender(key.sender);
    let wait_ns = cause.waits.quantile_ns(0.5);
    match key.cause {
        Cause::SendBuffer if sender.ceilings.connections > 0 => Bearable::Short { wait_ns },
        Cause::SendBuffer => Bearable::Opens,
        Cause::ReceiveWindow if sender.window.is_fixed() => Bearable::Short { wait_ns },
        Cause::ReceiveWindow if !sender.window.limits_often() => Bearable::Opens,
        Cause::ZeroWindow if cause.count < WINDOW_CLOSED_MIN => Bearable::Few,
        Cause::ReceiveWindow | Cause::ZeroWindow => Bearable::Work { late_ns: late_ns(cause) },
        _ => Bearable::Few,
    }
}

/// Returns the rate at which readers took what they were sent, bits per second, if known.
pub(super) fn rate_bps(cause: &CauseTally) -> Option<u64> {
    let took_ns: f64 = cause.now.points().map(|(ns, count)| ns as f64 * count as f64).sum();
    let read = cause.shown.count(READ);
    (read > 0 && took_ns > 0.0).then(|| (read as f64 * 8e9 / took_ns) as u64)
}

/// Counts the bytes that had to be read.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let began = scene.exchange.began_at[scene.chain.sender as usize];
    shown.add(READ, scene.sender().nxt.saturating_sub(began));
}
