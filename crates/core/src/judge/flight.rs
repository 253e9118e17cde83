//! A sender that waits for ACKs although the offered window has room: its congestion window or its
//! send buffer is full. The height of the flight, round by round, distinguishes the two.

use super::answer::{Answer, need};
use super::thresholds::{AT_ONCE_PART, INITIAL_WINDOW_SEGMENTS};
use crate::judge::{Gap, Shape};
use crate::model::{Cause, Owner, Slice};

/// Claims a silence that ended with an ACK while data was unacknowledged.
///
/// A flight that grows is due to a congestion window that opens (RFC 5681 §3.1). A flight that
/// stays at one height for several rounds, with room in the receiver's window, is due to a full
/// send buffer. This requires that no loss can have come before it, or that the sender had nothing
/// more buffered each time, which a congestion window could hold back. A sender that continues with
/// a duplicate ACK waited for less data in flight. One segment is a flight of a window that begins
/// with one. A sender with its whole congestion window in flight continues with the ACK of it, however
/// much longer than the least round trip of the path that takes. A pause that the writer would have
/// made anyhow is not claimed.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let rest_ns = rest_ns.saturating_sub(gap.pace.own_pause_ns);
    need(!gap.repair.is_retransmission(), "a retransmission ended it")?;
    let flight = gap.flight_held();
    let first = gap.flight.opens_from_one
        && flight == gap.smss
        && gap.flight.cwnd_opened < (INITIAL_WINDOW_SEGMENTS + 1) * gap.smss;
    need(first || flight > gap.smss, "no more than one full segment was unacknowledged")?;
    if !gap.ack_triggered() && gap.duplicate_triggered() {
        return Ok(Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, rest_ns));
    }
    if !gap.ack_triggered() && gap.ends_with_ack_of_window() {
        return Ok(Slice::of(Owner::CongestionWindow, Cause::SlowStart, rest_ns));
    }
    if !gap.ack_triggered() {
        let held_ns = rest_ns.saturating_sub(gap.after_ack_ns());
        let held = gap.acks.last.is_some()
            && fills_buffer(gap)
            && gap.flight.has_segments(2, gap.smss)
            && 2 * held_ns >= rest_ns;
        let free = "no ACK ended it, and no buffer was full until one came";
        return need(held, free).map(|()| Slice::of(Owner::SendBuffer, Cause::SendBuffer, held_ns));
    }
    // After so short a silence an ACK came shortly before in any case.
    let shown = gap.len_ns() > gap.trigger_tolerance_ns()
        || gap.after_ack_ns() <= gap.len_ns() / AT_ONCE_PART
        || gap.flight.ceiling().is_none();
    need(shown, "it is too short to show that it ended with an ACK")?;
    // A ceiling did not limit a flight far below it.
    let at_height = match gap.flight.shape {
        Shape::Ceiling { bytes, drained: true } => {
            // ACKs that come in several steps free the buffer only together.
            let held = gap.flight_held();
            2 * held >= bytes && held >= 2 * gap.smss
        }
        _ => true,
    };
    need(at_height, "the flight was far below the height at which a buffer has stopped it")?;
    Ok(match gap.flight.shape {
        Shape::Ceiling { drained: true, .. } => {
            Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns)
        }
        _ if gap.losses.occurred => {
            Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, rest_ns)
        }
        Shape::Ceiling { .. } if gap.losses.may_have_occurred => {
            Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, rest_ns)
        }
        Shape::Ceiling { .. } => Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns),
        Shape::Opening => Slice::of(Owner::CongestionWindow, Cause::SlowStart, rest_ns),
    })
}

/// Returns whether the flight fills a buffer that has stopped it before, so that the application
/// could not continue until an ACK came. Linux wakes a writer when a third of its buffer is free.
fn fills_buffer(gap: &Gap) -> bool {
    buffer_bytes(gap).is_some_and(|bytes| 3 * gap.flight.before >= 2 * bytes)
}

/// Size of the buffer that has stopped the flight before, bytes.
pub fn buffer_bytes(gap: &Gap) -> Option<u64> {
    match gap.flight.shape {
        Shape::Ceiling { bytes, drained } if drained || !gap.losses.may_have_occurred => {
            Some(bytes)
        }
        _ => None,
    }
}
