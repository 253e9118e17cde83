//! Queues that multiply the round trip (RFC 8290 §1).

use crate::judge::thresholds::RATE_MARGIN_PART;
use crate::judge::{Gap, QueueDelay};
use crate::model::{Cause, Owner, Slice};

/// Returns the part of a round trip for which request or response was queued; the queue is bloated
/// if that is several base round trips.
pub(super) fn queueing(gap: &Gap) -> Slice {
    queued(gap.bottleneck.queue_ns, gap.rtt.base_ns)
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
        [
            Slice::plain(Owner::Bandwidth, own_ns),
            queued(self.late_ns - own_ns, self.rtt_base_ns),
            super::loss::overtaken(self.overtaken_ns),
        ]
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
