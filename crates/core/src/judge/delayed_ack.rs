//! A sender that waits for an ACK which the receiver delays (RFC 9293 §3.8.6.3).

use super::answer::{Answer, need};
use crate::judge::thresholds::{AT_ONCE_PART, DELAYED_ACK_MIN_NS};
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Owner, Slice};

/// Claims a silence that ended with an ACK of all data, if the receiver had delayed that ACK. The
/// time in addition to the round trip is lost to the delay. The reason for which the sender could
/// not continue (a congestion window of one segment, a send buffer below two segments,
/// stop-and-wait) is claimed by `flight`.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let waits = match gap.ack_triggered() {
        true => gap.late_acks.may_be_waited_for(),
        // A host may wake its application late: a sender that is known to wait for ACKs waited for
        // this ACK.
        false => gap.late_acks.are_waited_for(),
    };
    let held_ns = held_ns(gap, rest_ns);
    let late_ns = gap.acks.delay_ns().min(held_ns);
    need(waits, "the sender has gone on without waiting for late ACKs too often")?;
    let is_released = gap.ack_triggered() || gap.after_ack_ns() <= held_ns;
    need(is_released, "the sender went on so long after the ACK that it did not wait for that")?;
    let other = "it did not end with a late ACK of less than two full segments, nor so soon after one \
                 that nothing else can have ended it";
    need(after_late_ack(gap) || blocked_until_late_ack(gap), other)?;
    Ok(Slice::of(Owner::DelayedAck, Cause::DelayedAck, late_ns))
}

/// Returns whether nothing but a late ACK can have ended the silence: the application of a sender
/// without Nagle's algorithm waited for it, or a sender with more in flight than one segment. Linux
/// delays the ACK of many segments too, as long as their reader leaves them unread (kernel,
/// `__tcp_ack_snd_check` in net/ipv4/tcp_input.c). A silence of many round trips is then no round trip
/// of a full buffer or window.
fn blocked_until_late_ack(gap: &Gap) -> bool {
    // A receiver that reads acknowledges each second full segment (RFC 9293 §3.8.6.3). So many ACKs
    // that come late together are late on the path.
    let many = gap.flight.has_segments(2, gap.smss)
        && 2 * gap.smss * u64::from(gap.acks.count) < gap.flight.before
        && !gap.losses.in_recovery
        && gap.acks.delay_ns() >= AT_ONCE_PART * gap.rtt.base_ns;
    let of_application = gap.nagle.is_refuted() && gap.nagle.pauses == 0;
    gap.waits_for_late_ack() && (of_application || many)
}

/// Part of `rest_ns` for which the sender waited for the ACK.
fn held_ns(gap: &Gap, rest_ns: u64) -> u64 {
    let after_ns = if gap.ack_triggered() { 0 } else { gap.after_ack_ns() };
    rest_ns.saturating_sub(after_ns)
}

/// Returns the part of `rest_ns` that is a round trip: a prompt ACK would have taken it as well.
pub(super) fn round_trip(gap: &Gap, rest_ns: u64) -> Slice {
    Slice::plain(Owner::Path, held_ns(gap, rest_ns))
}

/// Returns whether the sender continued after an ACK that its receiver had delayed, and for which
/// it may have had to wait.
pub fn after_late_ack(gap: &Gap) -> bool {
    let Some((ack, delay_ns)) = gap.acks.last.and_then(|ack| Some((ack, ack.delay_ns?))) else {
        return false;
    };
    gap.turn == Turn::Continues
        && !gap.repair.is_retransmission()
        && !gap.unsent.ran_out
        && ack.pure
        && gap.flight.before > 0
        // No receiver delays the ACK of a second full segment (RFC 9293 §3.8.6.3).
        && !gap.flight.has_segments(2, gap.smss)
        && (!gap.next_small() || gap.losses.occurred || gap.flight.waits_per_segment)
        && !gap.flight.is_free_for(gap.next_segment())
        && delay_ns >= DELAYED_ACK_MIN_NS
}
