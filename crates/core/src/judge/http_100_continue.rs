//! A client that waits for `100 Continue` (RFC 9110 §10.1.1) before it sends the body.

use super::answer::{Answer, need};
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Owner, Slice};
use crate::wire::Side;

/// Claims all of the silence except the round trip that a prompt answer would have taken.
///
/// The header asked for `100-continue` and no interim response came. The client sent its body when
/// its own timeout expired (curl: 1 s), or it never did, and both sides waited for each other until
/// the client gave up.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let turn = if gap.sender == Side::Client { Turn::Continues } else { Turn::Answers };
    let waits =
        gap.protocol.expects_continue && gap.turn == turn && !gap.repair.is_retransmission();
    let rtt_ns = if turn == Turn::Answers { gap.rtt.known_ns } else { 0 };
    let lost_ns = rest_ns.saturating_sub(gap.rtt.base_ns.saturating_sub(rtt_ns));
    need(waits, "no request body waits for 100 Continue")?;
    Ok(Slice::of(Owner::Http100Continue, Cause::Http100Continue, lost_ns))
}
