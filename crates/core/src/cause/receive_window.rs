//! An advertised window below the bandwidth-delay product (RFC 7323 §1.1).

use super::{Cause, Owner, Slice};
use crate::tcp::Gap;

/// The flight filled the window, and what moved the window's edge ended the silence.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let opened = gap.ack.is_some_and(|ack| ack.opened_window);
    let limited = gap.retransmission.is_none() && gap.window_limited() && opened;
    (limited && gap.ack_triggered())
        .then(|| Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, rest_ns))
}
