//! A sender held back by ACKs though the offered window has room: its congestion window, or
//! its send buffer. The height of the flight, round by round, tells them apart.

use super::{Cause, Owner, Slice};
use crate::tcp::{Gap, Shape, Turn};

/// The silence ended with an ACK while data was unacknowledged. A flight that grows is a
/// window that opens (RFC 5681 §3.1); one that stands still for rounds, with room in the
/// receiver's window and no loss before it, is a buffer.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let held_back = gap.turn == Turn::Continues
        && gap.retransmission.is_none()
        && gap.flight_before > gap.smss
        && gap.ack_triggered();
    held_back.then(|| match gap.shape {
        _ if gap.after_loss => Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, rest_ns),
        Shape::Ceiling { .. } => Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns),
        Shape::Opening => Slice::of(Owner::CongestionWindow, Cause::SlowStart, rest_ns),
    })
}
