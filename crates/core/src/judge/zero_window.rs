//! A receiving application that does not read (RFC 9293 §3.8.6.1).

use super::answer::{Answer, need};
use crate::judge::Gap;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::{Cause, Owner, Slice};

/// Claims a silence for most of which the window was (almost) closed, by the receiver's own ACKs,
/// so that the reader's pause caused it and not the path.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let longer_than_path = gap.window.closed_ns >= HOST_DELAY_MAX_NS.max(gap.rtt.base_ns);
    let most = gap.window.closed_ns >= rest_ns / 2;
    need(longer_than_path, "the window was not closed for longer than a round trip, and 1 ms")?;
    need(most, "the window was closed for less than half of it")?;
    Ok(Slice::of(Owner::ZeroWindow, Cause::ZeroWindow, rest_ns))
}
