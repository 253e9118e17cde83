//! A sender whose kernel paces data that its application wrote long before.

use super::answer::{Answer, need};
use super::flight::buffer_bytes;
use crate::judge::Gap;
use crate::model::{Cause, Owner, Slice};

/// Claims a step of the sender's pace that ended without an ACK: its congestion control sends no
/// faster, since it does not know that the path carries more. It cannot learn that if the
/// receiver's window or its own buffer never allows more in flight.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    need(gap.pace.is_step, "it is no step of the sender's pace")?;
    if gap.pace.by_limit && (gap.window.limits(gap.next_segment()) || gap.window.limited_before) {
        return Ok(Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, rest_ns));
    }
    // A receive window of twice the flight does not limit the sender.
    let roomy = gap.window.has_room_for(gap.flight.before);
    if roomy && buffer_bytes(gap).is_some() {
        return Ok(Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns));
    }
    let cause = if gap.losses.occurred { Cause::CongestionWindow } else { Cause::SlowStart };
    Ok(Slice::of(Owner::CongestionWindow, cause, rest_ns))
}

/// Returns the part of a silence that a pacing sender would have waited for even if no loss had
/// reduced its window.
pub(super) fn own_pace(gap: &Gap) -> Slice {
    let ns = gap.pace.before_loss_ns.saturating_sub(gap.bottleneck.busy_ns);
    Slice::of(Owner::CongestionWindow, Cause::SlowStart, ns)
}
