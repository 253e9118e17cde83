//! Losses and their repair: by timer (RFC 6298, RFC 8985 §7) or by duplicate ACKs (RFC 5681
//! §3.2, RFC 6675, RFC 8985).

use super::answer::{Answer, need};
use crate::judge::thresholds::{
    INITIAL_WINDOW_SEGMENTS, RETRANSMISSION_MIN_NS, RTO_INITIAL_NS, RTO_MIN_NS, UNSEEN_ANSWER_NS,
};
use crate::judge::{Gap, Recovery, Turn};
use crate::model::{Cause, Owner, Slice};

/// The silence ended with a retransmission.
pub(super) fn repair(gap: &Gap, rest_ns: u64) -> Answer {
    if gap.repair.overtaken {
        return Ok(overtaken(rest_ns.min(gap.repair.late_ns)));
    }
    match gap.repair.trigger {
        Some(Recovery::Fast) => Ok(found(gap, rest_ns)),
        Some(Recovery::Timer) => Ok(timed_out(rest_ns)),
        None => Err("neither a retransmission nor a late packet ended it"),
    }
}

/// The silence ended with data that looks new here, but was lost before the vantage, and this
/// is its repetition.
pub(super) fn unseen(gap: &Gap, rest_ns: u64) -> Answer {
    let floor_ns = match gap.turn {
        Turn::Answers => UNSEEN_ANSWER_NS,
        // The probe for a lost tail repeats one segment (RFC 8985 §7.2), and all others wait for
        // the RTO.
        Turn::Continues if gap.losses.missing.count == 1 => RETRANSMISSION_MIN_NS,
        Turn::Continues => RTO_MIN_NS,
    };
    let waited = |floor_ns: u64| rest_ns >= floor_ns.max(2 * gap.rtt.base_ns);
    let missing = gap.losses.missing.any()
        && rest_ns >= timer_min_ns(gap)
        && (gap.turn == Turn::Answers || !gap.ack_triggered())
        && waited(floor_ns);
    if missing {
        return Ok(timed_out(rest_ns.min(timer_max_ns(gap))));
    }
    let went_on = gap.turn == Turn::Continues && gap.repetition_triggered();
    if went_on && waited(RETRANSMISSION_MIN_NS) {
        return Ok(timed_out(rest_ns));
    }
    let sent =
        "nothing shows that a packet was lost before the capture, or it is too short for a timer";
    need(withheld(gap) && waited(RETRANSMISSION_MIN_NS), sent).map(|()| timed_out(rest_ns))
}

/// The least time in which the timer can have repeated what is missing, ns: what is more than a
/// flight are retransmissions that were lost as well, and each of them doubles the RTO (RFC 6298
/// §5.5).
fn timer_min_ns(gap: &Gap) -> u64 {
    let flight = (gap.flight.reached / gap.smss.max(1)).max(INITIAL_WINDOW_SEGMENTS);
    RTO_MIN_NS * ((1 << gap.losses.missing.lost_again(flight)) - 1)
}

/// The longest that the timer can have taken to repeat what is missing, ns: it doubles each time
/// (RFC 6298 §5.5). Before that the sender had nothing to send.
fn timer_max_ns(gap: &Gap) -> u64 {
    let first_ns = RTO_INITIAL_NS.max(4 * gap.rtt.base_ns);
    first_ns.saturating_mul((1 << gap.losses.missing.count.min(16)) - 1)
}

/// The sender had more of a message that it has announced in its buffer (its last segment was full
/// and not pushed, RFC 9293 §3.9.1.2), and nothing stood in the way: all was acknowledged, and the
/// window was open. So it did send it, and it never came here, over IPv6, which has no
/// identification that could say so. What comes in its place sooner than by an RTO is the probe for
/// a lost tail (RFC 8985 §7.3), the last segment that there was: what goes on in the midst of a
/// message was held up on its way, behind what others had sent.
fn withheld(gap: &Gap) -> bool {
    let free = gap.acks.cover_all() || gap.flight.is_free_for(gap.next_segment());
    let by_timer = gap.next_pushed || gap.after_ack_ns() >= RTO_MIN_NS;
    // Without a round trip to the sender, the arrival of an ACK there is not known either.
    let timed = gap.rtt.is_known();
    gap.unsent.more_queued
        && gap.protocol.owes
        && timed
        && by_timer
        && !gap.holed
        && gap.turn == Turn::Continues
        && !gap.last_small
        && free
        && gap.window.closed_ns == 0
        && gap.window.was_open(gap.next_segment())
        && gap.after_ack_ns() >= RETRANSMISSION_MIN_NS.max(2 * gap.rtt.base_ns)
}

/// Returns whether what ended the silence may be a tail loss probe, which carries new data where
/// there is some (RFC 8985 §7.3): one segment of a sender that had more, without an ACK of the data
/// in flight.
pub fn may_be_probe(gap: &Gap) -> bool {
    let reported = gap.duplicates.any_since(gap.start_ns);
    let lone = !gap.repair.is_retransmission() && gap.next_len <= gap.smss && !gap.last_small;
    gap.unsent.probe_due
        && lone
        && !reported
        && !gap.holed
        && !gap.window.limits(gap.next_segment())
}

/// Returns whether a silence that seems to be the application's is long enough for a loss before
/// the vantage.
pub fn may_be_timer(gap: &Gap) -> bool {
    !gap.repair.is_retransmission() && is_time_for_timer(gap.len_ns(), gap.rtt.base_ns)
}

/// The same of a silence of that length on a path of that round trip, ns.
#[inline]
pub fn is_time_for_timer(silent_ns: u64, rtt_base_ns: u64) -> bool {
    silent_ns >= RETRANSMISSION_MIN_NS.max(2 * rtt_base_ns)
}

/// New data in the middle of a recovery: the sender was held back by it.
pub(super) fn recovery(gap: &Gap, rest_ns: u64) -> Answer {
    let ended_with_ack = gap.ack_triggered() || gap.duplicate_triggered();
    need(gap.losses.in_recovery, "the sender was not repairing a loss")?;
    need(ended_with_ack, "no ACK ended it")?;
    Ok(found(gap, rest_ns))
}

/// The slice of a loss that the sender learnt of from its receiver, or from a router that could not
/// forward a packet (RFC 1191). The latter takes a round trip to learn the path, and is no loss by
/// chance.
fn found(gap: &Gap, ns: u64) -> Slice {
    if gap.losses.pmtu_reported {
        return Slice::plain(Owner::Path, ns);
    }
    Slice::of(Owner::FastRecovery, Cause::FastRecovery, ns)
}

/// The slice of a packet that was overtaken by later ones and not lost.
pub fn overtaken(ns: u64) -> Slice {
    Slice::of(Owner::FastRecovery, Cause::Reordering, ns)
}

/// The slice of a loss that the timer found.
pub fn timed_out(ns: u64) -> Slice {
    Slice::of(Owner::RetransmissionTimeout, Cause::RetransmissionTimeout, ns)
}
