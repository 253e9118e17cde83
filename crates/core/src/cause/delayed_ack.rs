//! A sender blocked on an ACK that the receiver kept back (RFC 9293 §3.8.6.3).

use super::{Cause, Owner, Slice};
use crate::tcp::{Gap, Turn};

/// Delayed-ACK timers start at 40 ms (Linux); half of it is not a prompt ACK any more.
const DELAY_FLOOR_NS: u64 = 20_000_000;

/// The silence ended with an ACK of everything, and the receiver had kept that ACK for most of
/// it. Why the sender could not go on (one segment of congestion window, a send buffer below
/// two segments, stop-and-wait) is the flight's height.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let ack = gap.ack?;
    let delay_ns = ack.delay_ns?;
    let waited = gap.turn == Turn::Continues
        && gap.retransmission.is_none()
        && ack.pure
        && gap.flight_before > 0
        && (!gap.next_small() || gap.after_loss)
        && gap.ack_triggered();
    (waited && delay_ns >= DELAY_FLOOR_NS && delay_ns >= rest_ns / 2)
        .then(|| Slice::of(Owner::DelayedAck, Cause::DelayedAck, rest_ns))
}
