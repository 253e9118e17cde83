//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4) that waits for a delayed ACK (RFC 9293 §3.8.6.3).

use super::answer::{Answer, need};
use crate::judge::thresholds::{
    DELAYED_ACK_MIN_NS, FEW_SEGMENTS, HOST_DELAY_MAX_NS, INITIAL_WINDOW_SEGMENTS, tail_probe_ns,
};
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Owner, Slice};

/// Claims a silence that ended with the ACK of all data, after a small segment and before another
/// small one, while the receiver's window had room.
///
/// Linux (Minshall's variant) holds a small segment while a *small* one is unacknowledged, other
/// systems while *anything* is. The held segment leaves with the ACK of all data; behind full
/// segments, with the ACK of the small one.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    need(!gap.repair.is_retransmission(), "a retransmission ended it")?;
    need(gap.next_small() && gap.next_len > 0, "no small segment followed")?;
    need(gap.flight.before > 0, "nothing was unacknowledged")?;
    let has_room = gap.window.may_have_room_for(gap.next_len);
    need(has_room, "the receiver's window had no room for the next segment")?;
    let nagled = "the sender has sent a small segment beside another, or held back a full one";
    need(!gap.nagle.is_refuted(), nagled)?;
    need(!at_ceiling(gap), "the flight had the height at which a buffer has stopped it before")?;
    need(
        !gap.rtt.may_include_pause(gap.len_ns()),
        "the round trip to the sender is known only from pauses like this one",
    )?;
    need(!gap.misses_data, "packets are missing from the capture in it")?;
    need(gap.len_ns() >= HOST_DELAY_MAX_NS, "it is shorter than 1 ms")?;
    let of_hold = |ns| Slice::of(Owner::NagleDelayedAck, Cause::NagleDelayedAck, ns);
    let Some(ack) = gap.acks.last else {
        let unprobed = "no ACK came in it, and it is no tail loss probe of a sender known to hold";
        let is_held = is_probe_due(gap) || gap.released_sooner();
        return need(is_held, unprobed).map(|()| of_hold(rest_ns));
    };
    let is_heard = !gap.acks.unheard || gap.acks.left_within_ns.is_some();
    need(is_heard, "what followed echoes an earlier timestamp: it left before the ACK arrived")?;
    let mixed = holds_rest(gap);
    let other_holds = ack.acked_all && (gap.last_small || cwnd_open(gap));
    // The application may have waited for data that the ACK carries, unless these are session
    // tickets.
    need(ack.pure || gap.protocol.after_handshake, "the last ACK came with data")?;
    let full = "the ACK left data unacknowledged, or full segments filled the congestion window";
    need(other_holds || mixed, full)?;
    let beside = "it may have ended with the ACK by chance, and the end of a larger write, or what left \
                  with an ACK that was due, left beside another small segment";
    need(!gap.nagle.is_doubtful() || gap.ends_with_ack_by_no_coincidence(), beside)?;
    if gap.released() {
        return Ok(of_hold(rest_ns));
    }
    // A host may be busy just when the ACK comes. What leaves later shows nothing of the time before
    // the ACK: it may have been written after that.
    let held_ns = rest_ns.saturating_sub(gap.sent_after_ack_ns());
    let is_host = gap.nagle.leaves_with_acks() && gap.continues_shortly_after_ack();
    let late = "the next segment did not leave with the ACK";
    need(is_host && held_ns >= HOST_DELAY_MAX_NS, late).map(|()| of_hold(held_ns))
}

/// Claims the silence before an answer of a sender whose last small segment, of an earlier message, was
/// unacknowledged, and which answered with the late ACK of that: the algorithm knows bytes of a stream, and
/// no messages. An application cannot see ACKs, and answers with one by chance only.
pub(super) fn before_answer(gap: &Gap, rest_ns: u64) -> Answer {
    need(gap.turn == Turn::Answers, "it lies within a message")?;
    need(!gap.repair.is_retransmission(), "a retransmission ended it")?;
    need(gap.next_small() && gap.next_len > 0, "no small segment followed")?;
    let is_small = (1..gap.smss).contains(&gap.flight.before);
    need(is_small, "no small segment of an earlier message was unacknowledged")?;
    let has_room = gap.window.may_have_room_for(gap.next_len);
    need(has_room, "the receiver's window had no room for the answer")?;
    let nagled = "the sender has sent a small segment beside another, or held back a full one";
    need(!gap.nagle.is_refuted() && !gap.nagle.is_doubtful(), nagled)?;
    need(!gap.misses_data && gap.rtt.is_known(), "it is not known which ACKs had arrived")?;
    let is_late = gap.acks.last.is_some_and(|ack| {
        let is_delayed = ack.delay_ns.is_some_and(|ns| ns >= DELAYED_ACK_MIN_NS);
        ack.pure && ack.acked_all && is_delayed && ack.seen_ns >= gap.start_ns
    });
    need(is_late, "no late ACK of all data came in it")?;
    let by_chance = "the answer did not leave with the ACK, or may have by chance";
    need(gap.released() && gap.ends_with_ack_by_no_coincidence(), by_chance)?;
    Ok(Slice::of(Owner::NagleDelayedAck, Cause::NagleDelayedAck, rest_ns))
}

/// Returns whether no ACK came until a tail loss probe was due and the sender is known to hold
/// segments: the probe carries a held segment if there is one (RFC 8985 §7.3).
fn is_probe_due(gap: &Gap) -> bool {
    let due_ns = tail_probe_ns(gap.rtt.base_ns);
    gap.turn == Turn::Continues
        && gap.last_small
        && gap.nagle.is_known_to_hold()
        && gap.len_ns() >= due_ns
}

/// Returns whether the small rest of a message left with the ACK of a small segment that had been
/// sent before full ones. A congestion window that has opened this far does not hold back a last
/// small segment, and a buffer with new room is filled with more.
fn holds_rest(gap: &Gap) -> bool {
    gap.flight.small_acked
        && !gap.last_small
        && gap.next_pushed
        && window_beyond(gap, gap.flight.before) <= gap.flight.cwnd_opened
        && !fills_earlier_window(gap)
        && !gap.losses.occurred
        && !gap.flight.waits_per_segment
}

/// Returns whether the flight may be the whole initial window of a sender older than RFC 6928: two to four
/// segments, and no more than 4,380 bytes of two or more (RFC 3390 §1).
fn fills_earlier_window(gap: &Gap) -> bool {
    const BYTES: u64 = 4_380;
    let segments = (BYTES / gap.smss.max(1)).clamp(2, 4);
    gap.flight.before.div_ceil(gap.smss.max(1)) == segments && !has_opened(gap, gap.flight.before)
}

/// Size of a congestion window that permits one segment more than `flight`, bytes.
fn window_beyond(gap: &Gap, flight: u64) -> u64 {
    (flight.div_ceil(gap.smss) + 1) * gap.smss
}

/// Returns whether the congestion window has opened beyond `flight`, even if it began with the fewest
/// segments and grew by one with each ACK of two (RFC 5681 §3.1).
fn has_opened(gap: &Gap, flight: u64) -> bool {
    let sent_before = gap.flight.cwnd_opened.saturating_sub(INITIAL_WINDOW_SEGMENTS * gap.smss);
    window_beyond(gap, flight) <= gap.flight.initial_segments() * gap.smss + sent_before / 2
}

/// Returns whether full segments did not fill the congestion window. That is so if an earlier ACK
/// had made room, or if there are few segments and either more has been in flight before, or the
/// window has opened wider and the held segment ends a message. It is also so for a flight that even
/// the least initial window exceeds.
fn cwnd_open(gap: &Gap) -> bool {
    let flight = gap.flight_held();
    let opened = gap.flight.has_reached(flight + gap.next_segment())
        || gap.next_pushed && has_opened(gap, flight);
    let initial = gap.flight.initial_segments() * gap.smss;
    let few = gap.flight.before <= FEW_SEGMENTS * gap.smss
        && (window_beyond(gap, flight) <= initial || opened);
    (few || gap.ignored_acks())
        && !gap.flight.cut
        && !gap.losses.occurred
        && !gap.flight.waits_per_segment
}

/// Returns whether the flight had the height at which the send buffer has stopped it before, so
/// that the next segment did not fit.
fn at_ceiling(gap: &Gap) -> bool {
    gap.flight.ceiling().is_some_and(|bytes| gap.flight.before + gap.next_len > bytes)
}
