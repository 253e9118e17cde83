//! The time of a TLS handshake (RFC 8446 §2): its round trips, and the work of its ends in between.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Owner, Slice};

/// Splits a silence in a handshake that is no loss into time on the path and, if it is longer than
/// a round trip, the sender's own time.
pub(super) fn split(gap: &Gap) -> [Slice; 2] {
    let path_ns = match gap.turn {
        Turn::Answers => gap.rtt.known_ns + gap.bottleneck.busy_ns,
        // The rest of a long flight waits for ACKs.
        Turn::Continues if gap.ack_triggered() => gap.len_ns(),
        Turn::Continues => gap.bottleneck.busy_ns,
    };
    let own_ns = gap.len_ns().saturating_sub(path_ns);
    let own_ns = if own_ns >= HOST_DELAY_MAX_NS && own_ns > gap.rtt.base_ns { own_ns } else { 0 };
    [
        Slice::plain(Owner::Tls, gap.len_ns() - own_ns),
        Slice::of(Owner::Tls, Cause::TlsHandshake, own_ns),
    ]
}
