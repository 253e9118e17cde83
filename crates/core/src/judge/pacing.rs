//! A sender whose kernel spaces what its application has long written.

use super::answer::{Answer, need};
use super::flight::buffer_bytes;
use crate::judge::Gap;
use crate::model::{Cause, Owner, Slice};

/// The silence is a step of the sender's pace, and no ACK was waited for: its congestion control
/// does not let more out, as it does not know the path to carry more. It cannot learn that where its
/// receiver's window or its own buffer never lets more be under way.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    need(gap.paced, "it is no step of the sender's pace")?;
    if gap.limit_paced && (gap.window_limited() || gap.window_met) {
        return Ok(Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, rest_ns));
    }
    // Whose receiver takes twice as much is not held back by him.
    let roomy = gap.room_before.is_some_and(|room| room >= gap.flight_before as i64);
    if roomy && buffer_bytes(gap).is_some() {
        return Ok(Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns));
    }
    let cause = if gap.after_loss { Cause::CongestionWindow } else { Cause::SlowStart };
    Ok(Slice::of(Owner::CongestionWindow, cause, rest_ns))
}

/// What a sender that spaces what it sends would have waited for anyhow, had a loss not made its window
/// smaller.
pub(super) fn own(gap: &Gap) -> Slice {
    let ns = gap.own_pace_ns.saturating_sub(gap.busy_ns);
    Slice::of(Owner::CongestionWindow, Cause::SlowStart, ns)
}
