//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4) waiting for a delayed ACK (RFC 9293 §3.8.6.3).

use super::{Cause, Owner, Slice};
use crate::tcp::{Gap, Turn};

/// A hold shorter than this is not worth a name: a prompt ACK in a local network.
const HOLD_FLOOR_NS: u64 = 1_000_000;

/// What was sent last ended small, its ACK covered everything and nothing but that ACK ended
/// the silence, what came then was small as well, and the window had room for it all along.
///
/// Linux (Minshall's variant) holds a small segment while a *small* one is unacknowledged,
/// others while *anything* is; either way the held segment leaves with the ACK that covers all.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let ack = gap.ack?;
    let held = gap.turn == Turn::Continues
        && gap.retransmission.is_none()
        && gap.next_small()
        && ack.acked_all
        && gap.flight_before > 0;
    // A few full segments fit into any congestion window that has not just collapsed.
    let few = gap.flight_before <= 3 * gap.smss && !gap.after_loss && !gap.steps;
    let other_holds = gap.last_small || few;
    let room = gap.room_before.is_none_or(|room| room >= gap.next_len as i64);
    let sent_against_it = gap.nagle_refuted > 0;
    let chain = held && other_holds && room && !sent_against_it && gap.ack_triggered();
    (chain && gap.len_ns() >= HOLD_FLOOR_NS)
        .then(|| Slice::of(Owner::NagleDelayedAck, Cause::NagleDelayedAck, rest_ns))
}
