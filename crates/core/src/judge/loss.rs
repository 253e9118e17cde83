//! Losses and their repair: by timer (RFC 6298, RFC 8985 §7) or by duplicate ACKs (RFC 5681
//! §3.2, RFC 6675, RFC 8985).

use super::answer::{Answer, need};
use crate::judge::thresholds::{
    ALIKE_PART, INITIAL_WINDOW_SEGMENTS, LINUX_RTO_MAX_NS, LINUX_RTO_MIN_NS, RETRANSMISSION_MIN_NS,
    RTO_INITIAL_NS, RTO_MIN_NS,
};
use crate::judge::{Gap, Recovery, Turn};
use crate::model::{Cause, Owner, Slice};

/// Claims a silence that ended with a retransmission.
pub(super) fn repair(gap: &Gap, rest_ns: u64) -> Answer {
    if gap.repair.overtaken {
        return Ok(overtaken(rest_ns.min(gap.repair.late_ns)));
    }
    match gap.repair.trigger {
        Some(Recovery::Fast) if is_unreported(gap) => Ok(Slice::plain(Owner::Unknown, rest_ns)),
        Some(Recovery::Fast) => Ok(reported(gap, rest_ns)),
        // A sender whose timer ran would have sent it sooner: its host slept, for example.
        Some(Recovery::Timer) if gap.len_ns() > timers_max_ns(gap) => {
            Ok(Slice::plain(Owner::Unknown, rest_ns))
        }
        Some(Recovery::Timer) => Ok(timed_out(rest_ns)),
        None => Err("neither a retransmission nor a late packet ended it"),
    }
}

/// Returns whether nothing can have reported the loss of the data that was sent again: it was the last,
/// and no duplicate ACK, SACK or ICMP error has come (RFC 5681 §3.2, RFC 6675). A probe for a lost tail
/// (RFC 8985 §7) sent it again, or nothing that the capture shows.
fn is_unreported(gap: &Gap) -> bool {
    let reported = gap.duplicates.count > 0 || gap.duplicates.any_since(gap.start_ns);
    gap.repair.tail && !reported && !gap.losses.in_recovery && !gap.losses.pmtu_reported
}

/// Claims a silence that ended with data that is new at the vantage, but repeats data that was lost
/// before the vantage.
pub(super) fn unseen(gap: &Gap, rest_ns: u64) -> Answer {
    let floor_ns = match gap.turn {
        Turn::Answers => LINUX_RTO_MIN_NS,
        // The tail loss probe repeats one segment (RFC 8985 §7.2); all others wait for the RTO.
        Turn::Continues if gap.losses.missing.count == 1 => RETRANSMISSION_MIN_NS,
        Turn::Continues => RTO_MIN_NS,
    };
    let waited = |floor_ns: u64| rest_ns >= floor_ns.max(2 * gap.rtt.base_ns);
    let missing = gap.losses.missing.any()
        && rest_ns >= timer_min_ns(gap)
        && (gap.turn == Turn::Answers || !gap.ack_triggered())
        && waited(floor_ns);
    if missing {
        // The RTO after the first sample of a round trip is three round trips (RFC 6298 §2.2). In the
        // time before that the sender had nothing to send.
        let most_ns = doubled_ns(gap, RTO_INITIAL_NS.max(3 * gap.rtt.base_ns));
        return Ok(timed_out(rest_ns.min(most_ns)));
    }
    let continued = gap.turn == Turn::Continues && gap.retransmission_triggered();
    if continued && waited(RETRANSMISSION_MIN_NS) {
        return Ok(timed_out(rest_ns));
    }
    let sent =
        "nothing shows that a packet was lost before the capture, or it is too short for a timer";
    need(must_have_sent(gap) && waited(RETRANSMISSION_MIN_NS), sent).map(|()| timed_out(rest_ns))
}

/// Least time in which the timer can have repeated the missing packets, ns. Packets beyond a flight
/// are retransmissions that were lost as well, each of which doubled the RTO (RFC 6298 §5.5).
fn timer_min_ns(gap: &Gap) -> u64 {
    let flight = (gap.flight.reached / gap.smss.max(1)).max(INITIAL_WINDOW_SEGMENTS);
    RTO_MIN_NS * ((1 << gap.losses.missing.lost_again(flight)) - 1)
}

/// Time that a timer which begins with `first_ns` and doubles each time (RFC 6298 §5.5) takes to
/// repeat the missing packets, ns.
fn doubled_ns(gap: &Gap, first_ns: u64) -> u64 {
    first_ns.saturating_mul((1 << gap.losses.missing.count.min(16)) - 1)
}

/// Returns the time that the timer takes to repair a loss before the vantage, ns, by the least RTO on
/// this path (RFC 6298 §2, kernel, `TCP_RTO_MIN`), with what a host is late; `None` if another segment
/// shows the repair. The RTO of the sender may be longer, but nothing shows it.
pub fn unseen_repair_ns(gap: &Gap) -> Option<u64> {
    let is_unseen = gap.losses.missing.any() && !gap.repair.is_retransmission();
    let rto_ns = LINUX_RTO_MIN_NS + gap.rtt.base_ns;
    is_unseen.then(|| doubled_ns(gap, rto_ns + rto_ns / ALIKE_PART))
}

/// Longest time between a segment and its repetition by timer, ns, if the repetitions in between that
/// are known were lost before the vantage.
fn timers_max_ns(gap: &Gap) -> u64 {
    LINUX_RTO_MAX_NS.saturating_mul(1 + u64::from(gap.losses.missing.count))
}

/// Returns whether the sender must have sent data that did not reach the vantage. It had more of an
/// announced message in its buffer (its last segment was full and not pushed, RFC 9293 §3.9.1.2)
/// and could send it: all data was acknowledged, and the window was open. IPv6 has no
/// identification that would show the loss. Data that comes sooner than an RTO would be the tail
/// loss probe (RFC 8985 §7.3), which is the last segment of the buffer. If it continues in the
/// middle of a message instead, it was queued on the path.
fn must_have_sent(gap: &Gap) -> bool {
    let free = gap.acks.cover_all() || gap.flight.is_free_for(gap.next_segment());
    let by_timer = gap.next_pushed || gap.after_ack_ns() >= RTO_MIN_NS;
    // If no round trip to the sender is known, the arrival of an ACK there is unknown.
    let timed = gap.rtt.is_known();
    gap.unsent.more_queued
        && gap.protocol.owes
        && timed
        && by_timer
        && !gap.misses_data
        && gap.turn == Turn::Continues
        && !gap.last_small
        && free
        && gap.window.closed_ns == 0
        && gap.window.was_open(gap.next_segment())
        && gap.after_ack_ns() >= RETRANSMISSION_MIN_NS.max(2 * gap.rtt.base_ns)
}

/// Returns whether the segment that ended the silence may be a tail loss probe, which carries new
/// data if there is some (RFC 8985 §7.3): one segment of a sender that had more, without an ACK of
/// the data in flight.
pub fn may_be_probe(gap: &Gap) -> bool {
    let reported = gap.duplicates.any_since(gap.start_ns);
    let lone = !gap.repair.is_retransmission() && gap.next_len <= gap.smss && !gap.last_small;
    gap.unsent.probe_due
        && lone
        && !reported
        && !gap.misses_data
        && !gap.window.limits(gap.next_segment())
}

/// Returns whether a silence that seems to be the application's is long enough for a loss before
/// the vantage.
pub fn may_be_timer(gap: &Gap) -> bool {
    let own_ns = gap.len_ns() - gap.bottleneck.busy_ns.min(gap.len_ns());
    !gap.repair.is_retransmission() && is_time_for_timer(own_ns, gap.rtt.base_ns)
}

/// Returns whether a silence of this length is long enough for a retransmission timer on a path
/// with this round trip, ns.
#[inline]
pub fn is_time_for_timer(silent_ns: u64, rtt_base_ns: u64) -> bool {
    silent_ns >= RETRANSMISSION_MIN_NS.max(2 * rtt_base_ns)
}

/// Claims a silence before new data in the middle of a recovery, which held the sender back.
pub(super) fn recovery(gap: &Gap, rest_ns: u64) -> Answer {
    let ended_with_ack = gap.ack_triggered() || gap.duplicate_triggered();
    need(gap.losses.in_recovery, "the sender was not repairing a loss")?;
    need(ended_with_ack, "no ACK ended it")?;
    Ok(reported(gap, rest_ns))
}

/// Returns the slice of a loss that the receiver reported to the sender, or a router that could not
/// forward a packet (RFC 1191). In the latter case the sender takes a round trip to learn the path
/// MTU, which is no random loss.
fn reported(gap: &Gap, ns: u64) -> Slice {
    if gap.losses.pmtu_reported {
        return Slice::plain(Owner::Path, ns);
    }
    Slice::of(Owner::FastRecovery, Cause::FastRecovery, ns)
}

/// Returns the slice of a packet that later ones overtook and that was not lost.
pub fn overtaken(ns: u64) -> Slice {
    Slice::of(Owner::FastRecovery, Cause::Reordering, ns)
}

/// Returns the slice of a loss that the timer detected.
pub fn timed_out(ns: u64) -> Slice {
    Slice::of(Owner::RetransmissionTimeout, Cause::RetransmissionTimeout, ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_packet_missing_before_a_short_silence_was_missed_by_the_capture() {
        let silence = |len_ns| {
            let mut gap = Gap { smss: 1_448, end_ns: len_ns, ..Gap::default() };
            gap.turn = Turn::Continues;
            gap.losses.missing.add(1, 7);
            unseen(&gap, len_ns)
        };
        assert!(silence(7 * MS).is_err());
        assert!(silence(15 * MS).is_ok(), "a tail loss probe repeated it");
    }
}
