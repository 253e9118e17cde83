//! A sender that could not continue because the receiver delayed its ACK (RFC 9293 §3.8.6.3).

use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::moves::{move_cause, think};
use crate::findings::tally::{Key, Tally};
use crate::judge::Shape;
use crate::model::{Cause, Fact, Owner};

/// The reason that the sender could not continue if its send buffer holds less than two segments.
pub const SEND_BUFFER: &str = "a send buffer of that size";

/// Measures how long the receiver delayed the ACK, and counts the exchanges in which it did not.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    match scene.ack_delay_ns() {
        Some(delay_ns) => shown.measure("ack_delay_p50_ns", delay_ns),
        None => shown.add("prompt_acks", 1),
    }
}

/// Moves waits for late ACKs to the sender's application if, on most connections, the sender
/// continued without an ACK as often as with one: the ACKs then only came at the end of the waits
/// by chance.
pub(in crate::findings) fn settle(tally: &mut Tally) {
    let chance = |key: &Key, connections: u64| {
        let endpoint = tally.endpoints.get(&key.server);
        endpoint.is_some_and(|it| 2 * it.sender(key.sender).late_acks_refuted > connections)
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

/// Proves a late ACK by the end of the flight, the ACK, and the data that waited for it.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.add_held_data(gap);
    if let Some(delay_ns) = scene.ack_delay_ns() {
        proof.add_fact("ack_delay_ns", Fact::Ns(delay_ns));
    }
    proof.add_fact("flight_bytes", Fact::Bytes(gap.flight.before));
    if gap.flight.has_segments(2, gap.smss) {
        proof.add_fact("whole_bytes", Fact::Bytes(gap.flight.before));
    } else if gap.waits_for_late_ack() && gap.nagle.is_refuted() {
        proof.add_fact("held_bytes", Fact::Bytes(gap.next_len));
    }
    let prompt_ns = scene.connection.path.rtt_ns(gap.sender.peer());
    let prompt = scene.connection.path.has_sample(gap.sender.peer()) && prompt_ns > 0;
    if prompt {
        proof.add_fact("ack_prompt_ns", Fact::Ns(prompt_ns));
    }
    let blocker = match gap.flight.shape {
        _ if gap.losses.occurred => Some("its congestion window, which a loss has cut"),
        _ if gap.window.limits(gap.next_segment()) => Some("the receiver's window"),
        Shape::Ceiling { .. } => Some(SEND_BUFFER),
        Shape::Opening => None,
    };
    if let Some(blocker) = blocker {
        proof.add_fact("blocker", Fact::Text(blocker.into()));
    }
    proof.rule_out(Cause::NagleDelayedAck, "full_segment", !gap.next_small());
    proof.rule_out(Cause::ServerThink, "follows_ack", gap.ack_triggered());
    proof.rule_out(Cause::ReceiveWindow, "window_open", gap.window.was_open(gap.next_segment()));
    proof.rule_out(Cause::PathRtt, "prompt_elsewhere", prompt);
}
