//! The time of a TLS handshake (RFC 8446 §2): its round trips, and the work of its ends in between.

use crate::judge::thresholds::{HOST_DELAY_MAX_NS, QUEUE_DELAY_MIN_NS};
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Owner, Slice};

/// Splits a silence in a handshake that is no loss into time on the path and, if it is longer than
/// a round trip, the sender's own time. What may all be the round trip is not. A message whose
/// timestamp shows that it left sooner (RFC 7323 §5.4) was queued for the rest.
pub(super) fn split(gap: &Gap) -> [Slice; 3] {
    let path_ns = match gap.turn {
        Turn::Answers => {
            let leg_ns = match gap.rtt.is_bound {
                true if gap.rtt.is_known() || gap.rtt.is_direct => gap.rtt.sender_ns,
                true => gap.len_ns(),
                false => gap.rtt.known_ns,
            };
            leg_ns + gap.bottleneck.busy_ns + gap.bottleneck.ack_late_ns
        }
        // The rest of a long flight waits for ACKs.
        Turn::Continues if gap.ack_triggered() => gap.len_ns(),
        Turn::Continues => gap.bottleneck.busy_ns,
    };
    let queued_ns = match gap.turn {
        Turn::Answers => gap.bottleneck.queue_ns.saturating_add(gap.bottleneck.late_ns),
        Turn::Continues => 0,
    };
    let rest_ns = gap.len_ns().saturating_sub(path_ns);
    let queued_ns = if queued_ns >= QUEUE_DELAY_MIN_NS { queued_ns.min(rest_ns) } else { 0 };
    let own_ns = rest_ns - queued_ns;
    let own_ns = if own_ns >= HOST_DELAY_MAX_NS && own_ns > gap.rtt.base_ns { own_ns } else { 0 };
    [
        Slice::plain(Owner::Tls, gap.len_ns() - queued_ns - own_ns),
        Slice::of(Owner::Tls, Cause::TlsHandshake, own_ns),
        Slice::plain(Owner::Queueing, queued_ns),
    ]
}
