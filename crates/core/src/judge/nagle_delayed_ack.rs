//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4) waiting for a delayed ACK (RFC 9293 §3.8.6.3).

use super::answer::{Answer, need};
use super::thresholds::{HOLD_FLOOR_NS, KNOWN_HOLDS};
use crate::judge::thresholds::{INITIAL_WINDOW_SEGMENTS, tail_probe_ns};
use crate::judge::{Gap, Shape, Turn};
use crate::model::{Cause, Owner, Slice};

/// What was sent last ended small, its ACK covered everything and nothing but that ACK ended
/// the silence, what came then was small as well, and the window had room for it all along.
///
/// Linux (Minshall's variant) holds a small segment while a *small* one is unacknowledged,
/// others while *anything* is: the held segment leaves with the ACK that covers all, or, behind full
/// ones, with that of the small one.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    need(gap.retransmission.is_none(), "a retransmission ended it")?;
    need(gap.next_small() && gap.next_len > 0, "no small segment followed")?;
    need(gap.flight_before > 0, "nothing was unacknowledged")?;
    let has_room = gap.room_before.is_none_or(|room| room >= gap.next_len as i64);
    need(has_room, "the receiver's window had no room for the next segment")?;
    let nagled = "the sender has sent a small segment while another was unacknowledged";
    need(gap.nagle_refuted == 0, nagled)?;
    need(!at_ceiling(gap), "the flight had the height at which a buffer has stopped it before")?;
    need(!may_pause(gap), "the round trip to the sender is known only from pauses like this one")?;
    need(!gap.holed, "packets are missing from the capture in it")?;
    need(gap.len_ns() >= HOLD_FLOOR_NS, "it is shorter than 1 ms")?;
    let of_hold = |ns| Slice::of(Owner::NagleDelayedAck, Cause::NagleDelayedAck, ns);
    let Some(ack) = gap.ack else {
        let unprobed = "no ACK came in it, and it is no tail loss probe of a sender known to hold";
        return need(probes_tail(gap), unprobed).map(|()| of_hold(rest_ns));
    };
    let mixed = holds_rest(gap);
    let other_holds = ack.acked_all && (gap.last_small || cwnd_open(gap));
    // What comes with data may be what the application waited for, but for session tickets.
    need(ack.pure || gap.after_handshake, "the last ACK came with data")?;
    let full = "the ACK left data unacknowledged, or full segments filled the congestion window";
    need(other_holds || mixed, full)?;
    if gap.released() {
        return Ok(of_hold(rest_ns));
    }
    // A host that stalls after the ACK: what this sender is known to hold, it held until then.
    let held_ns = rest_ns.saturating_sub(gap.sent_after_ack_ns());
    let late = "the next segment did not leave with the ACK";
    need(holds(gap) && held_ns >= HOLD_FLOOR_NS, late).map(|()| of_hold(held_ns))
}

/// Whether it may as well be the pace of a writer that pauses: no late ACK, as seen here, is what it is made of, and the
/// distance of the sender that would explain the rest is taken from such pauses.
fn may_pause(gap: &Gap) -> bool {
    gap.is_bound && 2 * gap.rtt_sender_ns > gap.len_ns()
}

/// Whether no ACK came for so long that the probe for a lost tail was due, with which goes what a
/// sender is known to hold (RFC 8985 §7.3).
fn probes_tail(gap: &Gap) -> bool {
    let due_ns = tail_probe_ns(gap.rtt_base_ns);
    gap.turn == Turn::Continues && gap.last_small && holds(gap) && gap.len_ns() >= due_ns
}

/// Whether a small segment had gone first and full ones behind it, and what was left of the message,
/// small again, went with the ACK of the first: no congestion window that has opened so far keeps back
/// a last small segment, and a buffer that has room again is filled with more.
fn holds_rest(gap: &Gap) -> bool {
    gap.small_acked
        && !gap.last_small
        && gap.next_pushed
        && window_beyond(gap, gap.flight_before) <= gap.window_opened
        && !gap.after_loss
        && !gap.steps
}

/// The congestion window that lets one segment more go than `flight`, bytes.
fn window_beyond(gap: &Gap, flight: u64) -> u64 {
    (flight.div_ceil(gap.smss) + 1) * gap.smss
}

/// Whether that has opened beyond `flight` even where it began with two segments, and grew by one with each
/// ACK of two (RFC 5681 §3.1).
fn has_opened(gap: &Gap, flight: u64) -> bool {
    let sent_before = gap.window_opened.saturating_sub(INITIAL_WINDOW_SEGMENTS * gap.smss);
    window_beyond(gap, flight) <= 2 * gap.smss + sent_before / 2
}

/// Whether it was not the congestion window that full segments filled: an ACK of a part had made
/// room before, or they are few, and either more has been under way, or it has opened wider and what was
/// held is the end of a message, or it is one, and no window begins with less than two (RFC 5681 §3.1).
fn cwnd_open(gap: &Gap) -> bool {
    let flight = gap.flight_held();
    let opened = gap.is_free(flight) || gap.next_pushed && has_opened(gap, flight);
    let few = gap.flight_before <= 3 * gap.smss && (flight <= gap.smss || opened);
    (few || gap.passed_over_acks()) && !gap.flight_cut && !gap.after_loss && !gap.steps
}

/// Whether the sender is known to hold what it has, rather than to have nothing: what it went on
/// with after the ACK of all came with that ACK some times, and less often later.
fn holds(gap: &Gap) -> bool {
    gap.nagle_holds >= KNOWN_HOLDS && gap.nagle_holds > gap.nagle_missed
}

/// Whether the flight filled the send buffer, as it has before, so that what followed did not fit.
fn at_ceiling(gap: &Gap) -> bool {
    matches!(gap.shape, Shape::Ceiling { bytes, .. } if gap.flight_before + gap.next_len > bytes)
}
