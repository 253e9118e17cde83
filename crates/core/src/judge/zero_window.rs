//! A receiving application that does not read (RFC 9293 §3.8.6.1).

use super::answer::{Answer, need};
use crate::judge::Gap;
use crate::judge::thresholds::{AT_ONCE_PART, HOST_DELAY_MAX_NS};
use crate::model::{Cause, Owner, Slice};

/// Claims a silence for most of which the window was (almost) closed, by the receiver's own ACKs,
/// so that the reader's pause caused it and not the path. The sender waits: it probes the window, or
/// sends as soon as it opens. A sender that does neither has nothing to send.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let longer_than_path = gap.window.closed_ns >= HOST_DELAY_MAX_NS.max(gap.rtt.base_ns);
    let most = gap.window.closed_ns >= rest_ns / 2;
    need(longer_than_path, "the window was not closed for longer than a round trip, and 1 ms")?;
    need(most, "the window was closed for less than half of it")?;
    // A segment that ends the silence while the window is still closed is a probe, too.
    let opened = gap.acks.last.is_some_and(|ack| ack.opened_window);
    let waits = gap.window.probes.sent > 0
        || !opened
        || gap.after_ack_ns()
            <= gap.trigger_tolerance_ns().max(gap.window.closed_ns / AT_ONCE_PART);
    need(waits, "no probe shows a waiting sender, and nothing followed the opening at once")?;
    Ok(Slice::of(Owner::ZeroWindow, Cause::ZeroWindow, rest_ns))
}
