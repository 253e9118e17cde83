//! Waits for room in a window or a buffer. They are faults if they cost enough, and if more room,
//! or a reader that reads faster, would have avoided them.

use crate::findings::floors::{Floors, share_of};
use crate::findings::proof::Shown;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::findings::thresholds::{DOMINANT_FACTOR, NOTICED_FACTOR, READ_BYTES};
use crate::judge::thresholds::HABIT_MIN;
use crate::model::Cause;

/// Name of the fact: bytes sent in exchanges that waited for room.
pub(super) const READ: &str = "read_bytes";

/// Returns whether a buffer below the bandwidth-delay product is a fault. It costs a round trip
/// each time; short round trips count only if their sum reaches the floor of a cost.
pub(super) fn is_short(
    key: &Key,
    cause: &CauseTally,
    endpoint: &EndpointTally,
    floors: &Floors,
) -> bool {
    let sender = endpoint.sender(key.sender);
    let [fixed, stands] = match key.cause {
        Cause::ReceiveWindow => [sender.window.is_fixed(), sender.window.limits_often()],
        // The sender stops at the byte up to which the window goes.
        Cause::Http2FlowControl => [true; 2],
        _ => [sender.ceilings.connections > 0; 2],
    };
    let share = share(cause, endpoint);
    let costly = share >= floors.cost_share && typical_ns(cause) >= floors.cost_ns;
    let wait_ns = cause.waits.quantile_ns(0.5);
    // It is longer than what the hosts at both ends take in any case.
    let long_waits = wait_ns >= 2 * floors.fault_ns;
    // The window of a reader that lags behind moves, and a wider window would not help it. It is a
    // fault only if a cost would be a finding.
    let usual = fixed && long_waits && share >= DOMINANT_FACTOR * floors.fault_share;
    let mean_ns = cause.lost_ns / cause.count.max(1);
    let held_up = mean_ns >= floors.cost_ns || is_read_slowly(cause, endpoint, floors);
    usual || costly && (fixed || stands && held_up)
}

/// Returns the share of `cause` in the time at an endpoint.
fn share(cause: &CauseTally, endpoint: &EndpointTally) -> f64 {
    share_of(cause.lost_ns, endpoint.all.ledger.total_ns())
}

/// Returns the cost of `cause` for a typical exchange, ns.
fn typical_ns(cause: &CauseTally) -> u64 {
    let [now_ns, without_ns] = [&cause.now, &cause.without].map(|of| of.quantile_ns(0.5));
    now_ns.saturating_sub(without_ns)
}

/// Returns whether exchanges waited for a reader that never stops but reads little at a time,
/// however short each wait is. A reader that processes its data as fast as it can (a client that
/// parses rows, a server that stores them) causes many such waits on a faster link, which is no
/// fault.
fn is_read_slowly(cause: &CauseTally, endpoint: &EndpointTally, floors: &Floors) -> bool {
    share(cause, endpoint) >= floors.cost_share
        && typical_ns(cause) >= NOTICED_FACTOR * floors.cost_ns
        && late_ns(cause) >= NOTICED_FACTOR * floors.fault_ns
}

/// Returns the delay of a reader for each [`READ_BYTES`], ns.
fn late_ns(cause: &CauseTally) -> u64 {
    let pieces = cause.shown.count(READ) / READ_BYTES;
    cause.lost_ns / pieces.max(1)
}

/// Returns whether a reader that closes its window is a fault. A reader that was late only once or
/// twice is on a busy host. A reader that closes its window for less than the floor of a cost
/// processes what it reads, and counts only if that takes long in total.
pub(super) fn is_unread(cause: &CauseTally, endpoint: &EndpointTally, floors: &Floors) -> bool {
    let stops = cause.waits.quantile_ns(0.5) >= floors.cost_ns;
    cause.count >= u64::from(HABIT_MIN) && (stops || is_read_slowly(cause, endpoint, floors))
}

/// Returns whether the reader stopped once for as long as the floor of a cost, or its delay
/// mattered.
pub(super) fn has_stopped(cause: &CauseTally, floors: &Floors) -> bool {
    cause.waits.latency().max_ns >= floors.cost_ns || late_ns(cause) >= floors.fault_ns
}

/// Reason why waits that take much of the time are no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoFaultReason {
    /// A reader that processes what it reads has this delay with each piece.
    Work {
        /// Delay of the reader for each [`READ_BYTES`], ns.
        late_ns: u64,
    },
    /// Room of one height limits the sender, but each wait for it is short.
    Short {
        /// Median wait, ns.
        wait_ns: u64,
    },
    /// The room kept no height for long: it may still grow.
    Opens,
    /// The application switched Nagle's algorithm off after the waits, on so many connections.
    SwitchedOff { connections: u64 },
    /// The waits are too few to be distinguished from chance.
    Few,
}

/// Returns the reason why waits of `cause` are no fault.
pub(super) fn no_fault_reason(
    key: &Key,
    cause: &CauseTally,
    endpoint: &EndpointTally,
) -> NoFaultReason {
    let sender = endpoint.sender(key.sender);
    let wait_ns = cause.waits.quantile_ns(0.5);
    match key.cause {
        Cause::NagleDelayedAck if sender.nagle.ends_before(cause.lost_ns) => {
            NoFaultReason::SwitchedOff { connections: sender.nagle.switched_off }
        }
        Cause::SendBuffer if sender.ceilings.connections > 0 => NoFaultReason::Short { wait_ns },
        Cause::SendBuffer => NoFaultReason::Opens,
        Cause::ReceiveWindow if sender.window.is_fixed() => NoFaultReason::Short { wait_ns },
        Cause::ReceiveWindow if !sender.window.limits_often() => NoFaultReason::Opens,
        Cause::Http2FlowControl => NoFaultReason::Short { wait_ns },
        Cause::ZeroWindow if cause.count < u64::from(HABIT_MIN) => NoFaultReason::Few,
        Cause::ReceiveWindow | Cause::ZeroWindow => NoFaultReason::Work { late_ns: late_ns(cause) },
        _ => NoFaultReason::Few,
    }
}

/// Returns the rate at which readers took the data sent to them, bits per second, if known.
pub(super) fn rate_bps(cause: &CauseTally) -> Option<u64> {
    let took_ns: f64 = cause.now.points().map(|(ns, count)| ns as f64 * count as f64).sum();
    let read = cause.shown.count(READ);
    (read > 0 && took_ns > 0.0).then(|| (read as f64 * 8e9 / took_ns) as u64)
}

/// Counts the bytes that had to be read.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let began = scene.exchange.began_at[scene.chain.sender];
    shown.add(READ, scene.sender().space.nxt.saturating_sub(began));
}
