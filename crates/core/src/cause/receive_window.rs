//! An advertised window below the bandwidth-delay product (RFC 7323 §1.1).

use super::{Cause, Owner, Slice};
use crate::tcp::{Gap, Shape};

/// The flight filled the window, and what moved the window's edge ended the silence.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let opened = gap.ack.is_some_and(|ack| ack.opened_window);
    let limited = gap.retransmission.is_none() && opened && fills_window(gap);
    (limited && gap.ack_triggered())
        .then(|| Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, rest_ns))
}

/// A sender leaves up to a third of a small window unused rather than send it in small pieces,
/// so a flight that stands still just below the window is the window's.
fn fills_window(gap: &Gap) -> bool {
    let just_below = match (gap.shape, gap.window_before) {
        (Shape::Ceiling { bytes }, Some(window)) => {
            bytes + (3 * gap.smss).min(window / 3) >= window
        }
        _ => false,
    };
    gap.window_limited() || just_below
}
