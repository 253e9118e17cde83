//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4) waiting for a delayed ACK (RFC 9293 §3.8.6.3).

use crate::findings::facts::Facts;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::settling::{move_cause, think};
use crate::findings::tally::{CauseTally, EndpointTally, Holds, Key, Tally};
use crate::judge::AckTrigger;
use crate::model::{Cause, Fact, Owner, Sighting};

/// Proves a hold by the end of the flight, its ACK, and the segment that had been held.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    // If the exchange begins with the held segment, the segment is a request of its own.
    let apart = scene.exchange.first.frame == gap.next.frame;
    if apart {
        proof.add_fact("apart", Fact::Text("next".into()));
    }
    let flight_end = match gap.last_small {
        true if apart => "said_before",
        true => "flight_end",
        false if gap.flight.small_acked => "flight_rest",
        false => "full_flight_end",
    };
    proof.add_frame_before(gap, flight_end);
    match gap.acks.last.filter(|ack| !ack.pure && ack.seen_ns >= gap.start_ns) {
        Some(AckTrigger { frame, seen_ns: time_ns, payload_bytes, .. }) => {
            let from = gap.sender.peer();
            proof.add_frame("ack_with_data", Sighting { frame, time_ns, payload_bytes, from });
        }
        None => proof.add_ack(gap, "ack"),
    }
    let next = if gap.acks.last.is_some() { proof.next_of(gap) } else { "tail_probe" };
    proof.add_frame_after(gap, next);
    if let Some(delay_ns) = scene.ack_delay_ns() {
        proof.add_fact("ack_delay_ns", Fact::Ns(delay_ns));
    }
    proof.add_fact("flight_bytes", Fact::Bytes(gap.flight.before));
    proof.add_fact("held_bytes", Fact::Bytes(gap.next_len));
    let most = gap.flight.reached;
    let more_before = scene.nothing_retransmitted() && most >= gap.flight.before + gap.next_len;
    if more_before {
        proof.add_fact("flight_max_bytes", Fact::Bytes(most));
    }
    proof.rule_out(Cause::ServerThink, "follows_ack", gap.ack_triggered());
    proof.rule_out(Cause::ReceiveWindow, "window_open", gap.window.was_open(gap.next_segment()));
    proof.rule_out(Cause::DelayedAck, "held_small", gap.next_small());
    proof.rule_out(Cause::CongestionWindow, "cwnd_open", more_before);
    proof.rule_out(Cause::RetransmissionTimeout, "nothing_lost", scene.nothing_retransmitted());
}

/// Returns how many silences looked like holds, including those that did not end with the ACK.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let missed = endpoint.sender(key.sender).nagle.missed;
    Facts::from([("waits", Fact::Count(cause.count + missed))])
}

/// Moves what looked like holds to the sender's application if its senders do not use Nagle's
/// algorithm, or met the ACKs by chance.
pub(in crate::findings) fn settle(tally: &mut Tally) {
    let held = |key: &Key| {
        let of_sender =
            |other: &Key| other.cause == Cause::NagleDelayedAck && other.sender == key.sender;
        let mut holds = Holds::default();
        for (_, cause) in tally.causes.of(key.server).filter(|(other, _)| of_sender(other)) {
            holds.count += cause.count;
            holds.connections += cause.connections;
            holds.ns = holds.ns.saturating_add(cause.lost_ns);
        }
        holds
    };
    let suspects: Vec<_> = tally
        .causes
        .keys()
        .filter(|key| key.cause == Cause::NagleDelayedAck)
        .filter(|key| {
            let nagle = tally.endpoints.get(&key.server).map(|it| it.sender(key.sender).nagle);
            nagle.is_some_and(|nagle| nagle.refutes(&held(key)))
        })
        .cloned()
        .collect();
    for key in suspects {
        let (to, owner) = think(key.sender);
        move_cause(tally, &key, to, Some((Owner::NagleDelayedAck, owner)));
    }
}
