//! Writes below the SMSS into a send buffer that takes one or two of them.

use super::answer::{Answer, need};
use crate::judge::Gap;
use crate::model::{Cause, Owner, Slice};

/// A sender that breaks Nagle's rule, and goes on with its message in small segments when an ACK
/// comes, time after time, and hardly ever at another: no application sees ACKs. What it writes
/// does not fit before, for a buffer is full with what is under way, however little that is.
/// Messages of their own may be answers to what the other side did meanwhile elsewhere: those tell
/// nothing.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let room = gap.window.may_have_room_for(gap.next_len);
    need(gap.meets_ack(), "no small segment left with the ACK of all data")?;
    need(gap.nagle.is_refuted(), "the sender may use Nagle's algorithm")?;
    need(gap.nagle.leaves_with_acks(), "the sender goes on between ACKs as well")?;
    need(room, "the receiver's window had no room for the next segment")?;
    need(!gap.losses.occurred, "the sender has had a loss")?;
    need(!gap.holed, "packets are missing from the capture in it")?;
    Ok(Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns))
}
