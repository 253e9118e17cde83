//! Queues that multiply the round trip (RFC 8290 §1).

use crate::judge::thresholds::{
    AT_ONCE_PART, HOST_DELAY_MAX_NS, INITIAL_WINDOW_BYTES, RATE_MARGIN_PART,
};
use crate::judge::{Gap, QueueDelay};
use crate::model::{Cause, Owner, Slice};

/// Returns the part of a round trip for which request or response was queued; the queue is bloated
/// if that is several base round trips.
pub(super) fn queueing(gap: &Gap) -> Slice {
    queued(gap.bottleneck.queue_ns, gap.rtt.base_ns)
}

/// Returns the time for which the ACK of a flight came later than after a round trip. A flight of
/// two full segments or more is acknowledged at once (RFC 9293 §3.8.6.3), so that this time is not
/// the receiver's; nor does it belong to the window that the flight filled, since a wider window
/// would have sent more into the same delay. A flight within the initial window fills no queue itself:
/// what delayed it is not known. Between a receiver and a capture beside it there is no queue: there the
/// receiver kept the ACK back, as Linux does while data is unread.
pub(super) fn behind_flight(gap: &Gap) -> Slice {
    let late_ns = gap.acks.delay_ns().saturating_sub(gap.bottleneck.busy_ns);
    let at_once = gap.flight.has_segments(2, gap.smss) && gap.ack_triggered();
    let is_late = at_once && QueueDelay::begins(late_ns, gap.rtt.base_ns);
    let receiver_ns = gap.rtt.receiver_ns();
    let is_beside_receiver = gap.rtt.is_known()
        && receiver_ns < HOST_DELAY_MAX_NS
        && AT_ONCE_PART * receiver_ns <= gap.rtt.base_ns;
    match gap.flight.before > INITIAL_WINDOW_BYTES {
        _ if !is_late => Slice::plain(Owner::Queueing, 0),
        _ if is_beside_receiver => Slice::plain(Owner::DelayedAck, late_ns),
        true => queued(late_ns, gap.rtt.base_ns),
        false => Slice::plain(Owner::Queueing, late_ns),
    }
}

/// Returns the time for which the ACK that ended a silence was queued on its way to the vantage, as the
/// timestamp of its sender shows (RFC 7323 §5.4): no window or algorithm of the sender would have
/// saved it. Less than a round trip is the variation of the path.
pub(super) fn of_ack(gap: &Gap) -> Slice {
    let waited_ns = gap.acks.last.map_or(0, |ack| ack.effect_ns.saturating_sub(gap.start_ns));
    let queued_ns = gap.acks.queued_ns.min(waited_ns);
    let floor_ns = HOST_DELAY_MAX_NS.max(gap.rtt.base_ns);
    let is_late = gap.ack_triggered() && gap.flight_held() > 0 && queued_ns > floor_ns;
    Slice::plain(Owner::Queueing, if is_late { queued_ns } else { 0 })
}

/// Delays of the last byte of a response behind the vantage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leg {
    /// Time of its round trip beyond the minimum, ns.
    pub late_ns: u64,
    /// Part of `late_ns` before the first byte in flight with it had arrived, ns.
    pub ahead_ns: u64,
    /// Part of `late_ns`, at its end, in which later packets overtook it, ns.
    pub overtaken_ns: u64,
    /// Minimum round trip between client and server, ns.
    pub rtt_base_ns: u64,
    /// The server has sent as much at a time as fills a queue. What else delays a response is not known.
    pub has_filled: bool,
    /// The bottleneck's rate, bytes per second, if it is known.
    pub rate: Option<u64>,
}

impl Leg {
    /// Returns whether the last byte was not delayed beyond the round trip.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.late_ns == 0 && self.overtaken_ns == 0
    }

    /// Returns the owners of the delay, for a response of `bytes` that was sent within `sent_ns`.
    /// The time that the bottleneck needs for the response itself is no queue: no queue discipline
    /// shortens it.
    pub fn slices(&self, bytes: u64, sent_ns: u64) -> [Slice; 3] {
        let after_first_ns = self.late_ns.saturating_sub(self.ahead_ns);
        let own_ns = own_ns(bytes, sent_ns, self.rate).max(after_first_ns).min(self.late_ns);
        let queue_ns = self.late_ns - own_ns;
        let queue = match self.has_filled {
            true => queued(queue_ns, self.rtt_base_ns),
            false => Slice::plain(Owner::Queueing, queue_ns),
        };
        [Slice::plain(Owner::Bandwidth, own_ns), queue, super::loss::overtaken(self.overtaken_ns)]
    }
}

/// Time for which a message of `bytes` that was sent within `sent_ns` keeps the bottleneck busy
/// after that, ns, with a margin for the rate.
pub fn own_ns(bytes: u64, sent_ns: u64, rate: Option<u64>) -> u64 {
    let Some(rate) = rate.filter(|&rate| rate > 0) else { return 0 };
    let serial_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
    (serial_ns + serial_ns / RATE_MARGIN_PART).saturating_sub(sent_ns)
}

/// Returns the slice for a delay of `queue_ns` in a queue on a path of `rtt_base_ns`.
fn queued(queue_ns: u64, rtt_base_ns: u64) -> Slice {
    if QueueDelay::begins(queue_ns, rtt_base_ns) {
        Slice::of(Owner::Queueing, Cause::Bufferbloat, queue_ns)
    } else {
        Slice::plain(Owner::Queueing, queue_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{AckTrigger, Acks, Flight, RoundTrips};

    const MS: u64 = 1_000_000;

    /// Creates a wait of a flight for an ACK that came `late_ms` after a round trip of 20 ms.
    fn behind(flight: u64, late_ms: u64) -> Slice {
        let end_ns = (20 + late_ms) * MS;
        let ack = AckTrigger {
            effect_ns: end_ns,
            acked_all: true,
            delay_ns: Some(late_ms * MS),
            ..AckTrigger::default()
        };
        behind_flight(&Gap {
            end_ns,
            smss: 1_460,
            rtt: RoundTrips { base_ns: 20 * MS, ..RoundTrips::default() },
            flight: Flight { before: flight, ..Flight::default() },
            acks: Acks { last: Some(ack), ..Acks::default() },
            ..Gap::default()
        })
    }

    #[test]
    fn an_ack_that_its_timestamp_shows_in_a_queue_is_no_wait_for_a_window() {
        let of = |queued_ms: u64, after_ms: u64| {
            let end_ns = (40 + after_ms) * MS;
            let ack = AckTrigger { effect_ns: 40 * MS, ..AckTrigger::default() };
            of_ack(&Gap {
                end_ns,
                rtt: RoundTrips { base_ns: 5 * MS, ..RoundTrips::default() },
                flight: Flight { before: 9_000, first: 9_000, ..Flight::default() },
                acks: Acks { last: Some(ack), queued_ns: queued_ms * MS, ..Acks::default() },
                ..Gap::default()
            })
        };
        assert_eq!(of(35, 0), Slice::plain(Owner::Queueing, 35 * MS));
        assert_eq!(of(90, 0).ns, 40 * MS, "the rest came before the silence");
        assert_eq!(of(4, 0).ns, 0, "less than a round trip");
        assert_eq!(of(35, 20).ns, 0, "the sender did not continue with it");
    }

    #[test]
    fn an_ack_of_a_flight_that_comes_late_is_no_wait_for_a_wider_window() {
        let window = INITIAL_WINDOW_BYTES;
        assert_eq!(behind(window, 480), Slice::plain(Owner::Queueing, 480 * MS));
        let of_transfer = behind(window + 1, 480);
        assert_eq!((of_transfer.ns, of_transfer.cause), (480 * MS, Some(Cause::Bufferbloat)));
        assert_eq!(behind(window, 40).ns, 0, "it varies by less than what is recorded");
        assert_eq!(behind(1_460, 480).ns, 0, "the ACK of one segment may be delayed");
    }
}
