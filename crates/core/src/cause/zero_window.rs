//! A receiving application that does not read (RFC 9293 §3.8.6.1).

use super::{Cause, Owner, Slice};
use crate::tcp::Gap;

/// A window closed for less than this is a reader that is a little behind.
const CLOSED_FLOOR_NS: u64 = 1_000_000;

/// The window was (almost) closed for most of the silence, by the receiver's own ACKs, so that
/// its length is the reader's pause and not the path.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let longer_than_path = gap.closed_ns >= CLOSED_FLOOR_NS.max(gap.rtt_base_ns);
    let most = gap.closed_ns >= rest_ns / 2;
    (longer_than_path && most).then(|| Slice::of(Owner::ZeroWindow, Cause::ZeroWindow, rest_ns))
}
