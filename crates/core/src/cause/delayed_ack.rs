//! A sender blocked on an ACK that the receiver kept back (RFC 9293 §3.8.6.3).

use super::assemble::{move_cause, think};
use super::scene::{Proof, Scene, window_open};
use super::tally::{Key, Tally};
use crate::model::{Cause, Fact, Owner, Slice};
use crate::tcp::{Gap, Shape, Turn};

/// What blocks the sender where its send buffer holds less than two segments.
pub const SEND_BUFFER: &str = "a send buffer of that size";

/// Delayed-ACK timers start at 40 ms (Linux); half of it is not a prompt ACK any more.
pub(super) const DELAY_FLOOR_NS: u64 = 20_000_000;

/// What is this late was kept back, however long the path is: the shortest timer for that is 40 ms (Linux:
/// `TCP_DELACK_MIN`), less a tick of 4 ms.
const KEPT_BACK_NS: u64 = 36_000_000;

/// Late ACKs that ended a silence at once, after which a sender is known to wait for them.
const KNOWN_WAITS: u32 = 3;

/// The silence ended with an ACK of everything, and the receiver had kept that ACK for most of
/// it. What that took beside the round trip is lost to it. Why the sender could not go on (one segment of congestion window, a send buffer below
/// two segments, stop-and-wait) is the flight's height.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let (met, missed) = (gap.late_acks_met, gap.late_acks_missed);
    let waits = match gap.ack_triggered() {
        // Who has its own pace meets an ACK by chance, once in some dozens.
        true => missed <= 4 * (met + 1),
        // A host that wakes its application up late: what waits for ACKs waited until then.
        false => met >= KNOWN_WAITS && missed <= 4 * met,
    };
    let held_ns = held_ns(gap, rest_ns);
    let late_ns = gap.ack.and_then(|ack| ack.delay_ns).unwrap_or(0).min(held_ns);
    let blocked = waits && after_late_ack(gap, held_ns);
    blocked.then(|| Slice::of(Owner::DelayedAck, Cause::DelayedAck, late_ns))
}

/// For how long of `rest_ns` the sender waited for the ACK.
fn held_ns(gap: &Gap, rest_ns: u64) -> u64 {
    let after_ns = if gap.ack_triggered() { 0 } else { gap.after_ack_ns() };
    rest_ns.saturating_sub(after_ns)
}

/// A prompt ACK would have taken a round trip as well: what of `rest_ns` is that of a late one.
pub(super) fn way(gap: &Gap, rest_ns: u64) -> Slice {
    Slice::plain(Owner::Path, held_ns(gap, rest_ns))
}

/// Whether the sender went on, at once or a while later, after an ACK that its receiver had kept
/// for most of `held_ns`, and that it may have had to wait for.
pub fn after_late_ack(gap: &Gap, held_ns: u64) -> bool {
    let Some((ack, delay_ns)) = gap.ack.and_then(|ack| Some((ack, ack.delay_ns?))) else {
        return false;
    };
    gap.turn == Turn::Continues
        && gap.retransmission.is_none()
        && !gap.nothing_unsent
        && ack.pure
        && gap.flight_before > 0
        // No receiver keeps the ACK of a second full segment (RFC 9293 §3.8.6.3).
        && gap.flight_before < 2 * gap.smss
        && (!gap.next_small() || gap.after_loss || gap.steps)
        && !gap.flight_free()
        && delay_ns >= DELAY_FLOOR_NS
        && (delay_ns >= held_ns / 2 || delay_ns >= KEPT_BACK_NS)
}

/// Where most senders that seemed to wait for late ACKs went on without any as often, these were met by
/// chance.
pub(super) fn settle(tally: &mut Tally) {
    let chance = |key: &Key, connections: u64| {
        let endpoint = tally.endpoints.get(&key.server);
        endpoint.is_some_and(|it| 2 * it.late_acks_refuted[key.sender as usize] > connections)
    };
    let suspects: Vec<_> = tally
        .causes
        .iter()
        .filter(|(key, cause)| {
            key.cause == Cause::DelayedAck && chance(key, cause.connections.max(1))
        })
        .map(|(key, _)| key.clone())
        .collect();
    for key in suspects {
        let (to, owner) = think(key.sender);
        move_cause(tally, &key, to, Some((Owner::DelayedAck, owner)));
    }
}

/// The end of the flight, its late ACK, and what had to wait for it.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.see_held(gap);
    if let Some(delay_ns) = scene.ack_delay_ns() {
        proof.fact("ack_delay_ns", Fact::Ns(delay_ns));
    }
    proof.fact("flight_bytes", Fact::Bytes(gap.flight_before));
    let prompt_ns = scene.connection.path.rtt_ns(gap.sender.peer());
    let prompt = scene.connection.path.knows(gap.sender.peer()) && prompt_ns > 0;
    if prompt {
        proof.fact("ack_prompt_ns", Fact::Ns(prompt_ns));
    }
    let blocker = match gap.shape {
        _ if gap.after_loss => Some("its congestion window, which a loss has cut"),
        _ if gap.window_limited() => Some("the receiver's window"),
        Shape::Ceiling { .. } => Some(SEND_BUFFER),
        Shape::Opening => None,
    };
    if let Some(blocker) = blocker {
        proof.fact("blocker", Fact::Text(blocker.into()));
    }
    proof.not(Cause::NagleDelayedAck, "full_segment", !gap.next_small());
    proof.not(Cause::ServerThink, "follows_ack", gap.ack_triggered());
    proof.not(Cause::ReceiveWindow, "window_open", window_open(gap));
    proof.not(Cause::PathRtt, "prompt_elsewhere", prompt);
}
