//! Flow control of HTTP/2 (RFC 9113 §5.2): the sender has used up the window of the connection or of
//! the stream, and waits for a WINDOW_UPDATE.

use super::answer::{Answer, need};
use crate::judge::Gap;
use crate::model::{Cause, Owner, Slice};

/// Claims a silence if the sender had sent exactly as much as the window allowed, the grant of more came
/// in the silence, and the sender went on with it. A sender without data would not stop at that byte,
/// and one that TCP holds would not go on with a message of its peer's application.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    need(!gap.repair.is_retransmission(), "a retransmission ended it")?;
    need(gap.credit.is_some(), "no window of HTTP/2 was used up and then granted")?;
    let after_ns = gap.after_credit_ns();
    need(after_ns.is_some(), "the window of HTTP/2 was not granted in it")?;
    let prompt = after_ns.is_some_and(|ns| ns <= gap.trigger_tolerance_ns());
    need(prompt, "the sender went on some time after the window of HTTP/2 was granted")?;
    Ok(Slice::of(Owner::Http2FlowControl, Cause::Http2FlowControl, rest_ns))
}
