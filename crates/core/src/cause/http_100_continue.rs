//! A client that waits for `100 Continue` (RFC 9110 §10.1.1) before it sends the body.

use super::{Cause, Owner, Slice};
use crate::app::Side;
use crate::tcp::{Gap, Turn};

/// All but the round trip that a prompt answer would have taken.
///
/// The header asked for it, no interim response came, and the body followed by the client's
/// own patience (curl: 1 s).
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let waits = gap.expects_continue
        && gap.sender == Side::Client
        && gap.turn == Turn::Continues
        && gap.retransmission.is_none();
    let lost_ns = rest_ns.saturating_sub(gap.rtt_base_ns);
    waits.then(|| Slice::of(Owner::Http100Continue, Cause::Http100Continue, lost_ns))
}
