//! Writes below the SMSS into a send buffer that takes one or two of them.

use super::answer::{Answer, need};
use crate::judge::Gap;
use crate::model::{Cause, Owner, Slice};

/// Claims a silence of a sender that breaks Nagle's rule, and that usually continues its message in
/// small segments when an ACK comes, and hardly ever at another time. An application does not see
/// ACKs: its next write did not fit earlier, because the buffer was full with the data in flight,
/// however little that is. Small segments that are separate messages show nothing, since they may
/// answer messages from elsewhere.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Answer {
    let room = gap.window.may_have_room_for(gap.next_len);
    need(gap.continues_with_ack(), "no small segment left with the ACK of all data")?;
    need(gap.nagle.is_refuted(), "the sender may use Nagle's algorithm")?;
    need(gap.nagle.leaves_with_acks(), "the sender goes on between ACKs as well")?;
    need(room, "the receiver's window had no room for the next segment")?;
    need(!gap.losses.occurred, "the sender has had a loss")?;
    need(!gap.misses_data, "packets are missing from the capture in it")?;
    Ok(Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns))
}
