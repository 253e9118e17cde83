//! An advertised window below the bandwidth-delay product (RFC 7323 §1.1).

use super::answer::{Answer, need};
use crate::judge::Gap;
use crate::judge::thresholds::FEW_SEGMENTS;
use crate::model::{Cause, Owner, Slice};

/// Claims a silence if the flight filled the window and an ACK that moved the window's edge ended
/// the silence. If there was no room at all, the window held the sender until then, whatever its
/// application did after that.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let opened = gap.acks.last.is_some_and(|ack| ack.opened_window);
    need(!gap.repair.is_retransmission(), "a retransmission ended it")?;
    need(opened, "no ACK in it moved the edge of the window")?;
    let of_window = |ns| Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, ns);
    // Into a window below a segment a sender sends by its timer only (RFC 9293 §3.8.6.2.1).
    let is_small = gap.window.bytes.is_some_and(|bytes| bytes.max(gap.next_len) < gap.smss);
    if gap.window.misread && is_small {
        return Ok(of_window(rest_ns));
    }
    if gap.released() {
        return need(fills_window(gap), "the window had room for more")
            .map(|()| of_window(rest_ns));
    }
    let held_ns = rest_ns.saturating_sub(gap.sent_after_ack_ns());
    let held = gap.window.limited_before
        && gap.window.limits(gap.next_segment())
        && 2 * held_ns >= rest_ns;
    let late = "the sender went on some time after the window had opened";
    need(held, late).map(|()| of_window(held_ns))
}

/// Returns whether the flight fills the window. A sender leaves up to a third of a small window
/// unused, since it would have to send small pieces. So a flight that stops just below the edge of
/// the window counts; so does a flight that stops at a height at which a window of this size has
/// limited it before, if the sender has exceeded that height otherwise.
fn fills_window(gap: &Gap) -> bool {
    let segment = gap.next_segment();
    let exceeded = || {
        let is_limited = gap.window.limited_before && gap.flight.is_free_for(segment);
        is_limited.then_some(gap.flight.before)
    };
    let stands_at = gap.flight.ceiling().or_else(exceeded);
    let just_below = stands_at
        .zip(gap.window.bytes)
        .is_some_and(|(bytes, window)| bytes + (FEW_SEGMENTS * gap.smss).min(window / 3) >= window);
    gap.window.limits(segment) || just_below
}
