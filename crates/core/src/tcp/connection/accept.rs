//! Segments that their receiver does not accept (RFC 9293 §3.10.7.4, RFC 5961 §3 and §5): it answers
//! with an ACK and drops them, and the connection goes on as if they had not come.
//!
//! Read RFC 5961 first. What a capture misses looks alike: data beyond the window that a missing ACK
//! offered, or an ACK of missing data. There the next segments of the same side go on from there.

use crate::tcp::connection::cold::Cold;
use crate::tcp::sender::Sender;
use crate::tcp::thresholds::WINDOW_MAX_BYTES;
use crate::wire::{BySide, Segment, Side, TcpFlags};

/// The last segment of a side that its receiver would not accept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    /// Position after its data.
    end: u64,
    /// Position that it acknowledges.
    acked: u64,
}

/// Returns whether `segment`, which `side` sends, is one that its receiver drops: it lies beyond
/// the offered window, or the widest one if that is unknown (RFC 7323 §2.3), or acknowledges data
/// that its peer was not allowed to send. It is accepted if it goes on from the last such segment
/// of this side.
#[inline]
pub(super) fn is_refused(
    cold: &mut Cold,
    senders: &BySide<Sender>,
    side: Side,
    segment: &Segment,
) -> bool {
    let has_ack = segment.flags.has(TcpFlags::ACK);
    let ahead = senders[side].space.is_ahead(segment.seq)
        || has_ack && senders[side.peer()].space.is_ahead(segment.ack);
    ahead && !segment.flags.has(TcpFlags::SYN) && refuse(cold, senders, side, segment)
}

#[cold]
#[inline(never)]
fn refuse(cold: &mut Cold, senders: &BySide<Sender>, side: Side, segment: &Segment) -> bool {
    let [own, peer] = [side, side.peer()].map(|side| &senders[side]);
    let (start, acked) = (own.space.position_of(segment.seq), peer.space.position_of(segment.ack));
    let is_beyond = |sender: &Sender, position: u64| {
        // No window is wider than its scale permits, as the handshake has it (RFC 7323 §2.2).
        let scaled = |scale: u8| (u64::from(u16::MAX) << scale).min(WINDOW_MAX_BYTES);
        let window = sender.space.window_scale().map_or(WINDOW_MAX_BYTES, scaled);
        let widest = sender.space.nxt.max(sender.space.una_seen()) + window;
        let has_acked = sender.una_seen_ns > 0;
        let edge = sender.space.edge_seen(sender.sizes.smss()).filter(|_| has_acked);
        sender.space.started() && position > edge.unwrap_or(widest).min(widest)
    };
    let beyond = is_beyond(own, start);
    let has_ack = segment.flags.has(TcpFlags::ACK);
    let unsent = has_ack && is_beyond(peer, acked);
    if !beyond && !unsent {
        return false;
    }
    let before = cold.part(|cold| &cold.refused).map(|refused| refused[side]);
    let goes_on = before.is_some_and(|before| {
        let follows = before.end > 0 && start == before.end && segment.payload_len > 0;
        let advances = before.acked > 0 && acked > before.acked;
        (!beyond || follows) && (!unsent || advances)
    });
    if goes_on {
        return false;
    }
    let end = if beyond { start + u64::from(segment.payload_len) } else { 0 };
    let refused = Refused { end, acked: if unsent { acked } else { 0 } };
    cold.get_or_create().refused.get_or_insert_default()[side] = refused;
    true
}
