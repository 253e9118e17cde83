//! A sender whose kernel spaces what its application has long written.

use super::answer::{Answer, need};
use super::flight::buffer_bytes;
use crate::judge::Gap;
use crate::model::{Cause, Owner, Slice};

/// Claims a step of the sender's pace that ended without an ACK: its congestion control lets no
/// more out, since it does not know that the path carries more. It cannot learn that if the
/// receiver's window or its own buffer never allows more in flight.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    need(gap.paced, "it is no step of the sender's pace")?;
    if gap.limit_paced && (gap.window_limited() || gap.window_met) {
        return Ok(Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, rest_ns));
    }
    // A receiver that takes twice as much does not hold the sender back.
    let roomy = gap.room_before.is_some_and(|room| room >= gap.flight_before as i64);
    if roomy && buffer_bytes(gap).is_some() {
        return Ok(Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns));
    }
    let cause = if gap.after_loss { Cause::CongestionWindow } else { Cause::SlowStart };
    Ok(Slice::of(Owner::CongestionWindow, cause, rest_ns))
}

/// The part of a silence that a pacing sender would have waited for anyhow, had no loss reduced its
/// window.
pub(super) fn own_pace(gap: &Gap) -> Slice {
    let ns = gap.own_pace_ns.saturating_sub(gap.busy_ns);
    Slice::of(Owner::CongestionWindow, Cause::SlowStart, ns)
}
