//! Nagle's algorithm (RFC 896; RFC 9293 §3.7.4) waiting for a delayed ACK (RFC 9293 §3.8.6.3).

use crate::app::Protocol;
use crate::findings::causes::server_think::nearer_host;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::moves::{move_cause, think};
use crate::findings::tally::{CauseTally, EndpointTally, Holds, Key, Tally};
use crate::judge::thresholds::{AT_ONCE_PART, DELAYED_ACK_MIN_NS, HABIT_MIN};
use crate::judge::{AckTrigger, Gap, Turn};
use crate::model::{Cause, Fact, Owner, Role, Sighting};
use crate::wire::Side;
use std::collections::HashSet;

/// Number of holds beyond which chance is negligible, so that it is not computed.
const COUNTED_MAX: u64 = 1_000;

/// Proves a hold by the end of the flight, its ACK, and the segment that had been held.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    // If the exchange begins with the held segment, the segment is a request of its own.
    let apart = scene.exchange.first.frame == gap.next.frame;
    if apart {
        proof.add_fact("apart", Fact::Text("next".into()));
    }
    // The library of TLS writes its handshake by itself, so that nothing can leave with it.
    let earlier = if gap.turn == Turn::Answers { gap.own_last } else { gap.last };
    if scene.exchange.handshake.as_ref().is_some_and(|it| earlier.time_ns <= it.end.time_ns) {
        proof.add_fact("handshake", Fact::Text("TLS handshake".into()));
    }
    // The body waits for the server to ask for it (RFC 9110 §10.1.1): header and body cannot leave together.
    if gap.sender == Side::Client && scene.exchange.asked_to_continue {
        proof.add_fact("expectation", Fact::Text("`Expect: 100-continue`".into()));
    }
    // Behind CONNECT or an upgrade the messages are those of another protocol (RFC 9110 §9.3.6, §7.8).
    let framer = &scene.connection.framer;
    let is_client = gap.sender == Side::Client;
    if is_client && framer.protocol() == Protocol::Http1 && !framer.is_http() {
        proof.add_fact("not_http", Fact::Text("no messages of HTTP".into()));
    }
    // A frame of several segments that offload joined ends with a small one, and is not small itself.
    let joined = gap.smss > 0 && u64::from(gap.last.payload_bytes) >= gap.smss;
    let of_small = ack_of_small(gap);
    let flight_end = match gap.last_small {
        true if apart => "said_before",
        true if joined => "full_flight_end",
        true => "flight_end",
        false if gap.flight.small_acked || of_small.is_some() => "flight_rest",
        false => "full_flight_end",
    };
    // A response that begins with the held segment is no part of what was sent before: that answers
    // another request.
    let begins = gap.sender == Side::Server && scene.exchange.answered_ns == gap.next.time_ns;
    let earlier = match gap.turn {
        Turn::Continues => Some(gap.last).filter(|_| begins && gap.last_small && !joined),
        Turn::Answers => Some(gap.own_last),
    };
    if let Some(earlier) = earlier {
        proof.add_frame("said_before", earlier);
        proof.add_fact("earlier_bytes", Fact::Bytes(earlier.payload_bytes.into()));
    } else {
        proof.add_frame_before(gap, flight_end);
    }
    match gap.acks.last.filter(|ack| !ack.pure && ack.seen_ns >= gap.start_ns) {
        Some(AckTrigger { frame, seen_ns: time_ns, payload_bytes, .. }) => {
            let from = gap.sender.peer();
            proof.add_frame("ack_with_data", Sighting { frame, time_ns, payload_bytes, from });
        }
        None => match of_small.or(gap.acks.under_way.filter(|_| gap.released_sooner())) {
            Some(ack) => proof.add_frame("ack", ack),
            None => proof.add_ack(gap, "ack"),
        },
    }
    let next = match gap.acks.last {
        Some(_) => proof.next_of(gap),
        None if gap.released_sooner() => "next",
        None => "tail_probe",
    };
    proof.add_frame_after(gap, next);
    let late_ns = gap.acks.last.and_then(|ack| ack.delay_ns);
    if let Some(delay_ns) = scene.ack_delay_ns() {
        proof.add_fact("ack_delay_ns", Fact::Ns(delay_ns));
    } else if let Some((late_ns, late_handshake_ns)) = late_ns.zip(scene.late_handshake_ns())
        && late_ns >= DELAYED_ACK_MIN_NS
        && late_handshake_ns >= late_ns
    {
        proof.add_fact("late_ack_ns", Fact::Ns(late_ns));
        proof.add_fact("late_handshake_ns", Fact::Ns(late_handshake_ns));
    }
    proof.chance = match gap.acks.last {
        Some(_) => gap.chance_of_trigger(),
        None if gap.released_sooner() => 1.0 / AT_ONCE_PART as f64,
        None => 0.0,
    };
    if of_small.is_none() {
        proof.add_fact("flight_bytes", Fact::Bytes(gap.flight.before));
    } else if let Some(bytes) = small_before(scene) {
        proof.add_fact("small_bytes", Fact::Bytes(bytes));
    }
    proof.add_fact("held_bytes", Fact::Bytes(gap.next_len));
    let most = gap.flight.reached;
    let more_before = scene.nothing_retransmitted() && most >= gap.flight.before + gap.next_len;
    if more_before {
        proof.add_fact("flight_max_bytes", Fact::Bytes(most));
    }
    let follows_ack = gap.ack_triggered() || gap.released_sooner();
    proof.rule_out(Cause::ServerThink, "follows_ack", follows_ack);
    proof.rule_out(Cause::ReceiveWindow, "window_open", gap.window.was_open(gap.next_segment()));
    proof.rule_out(Cause::DelayedAck, "held_small", gap.next_small());
    proof.rule_out(Cause::CongestionWindow, "cwnd_open", more_before);
    proof.rule_out(Cause::RetransmissionTimeout, "nothing_lost", scene.nothing_retransmitted());
}

/// Returns the ACK of a small segment that released what was held behind full ones (Minshall's variant): the last
/// one, which left data unacknowledged, or one before it, if the held segment passed sooner than the least round trip
/// to its sender after the last.
fn ack_of_small(gap: &Gap) -> Option<Sighting> {
    let arrives = |ack_ns: u64| ack_ns + gap.rtt.sender_ns <= gap.end_ns;
    let of_small = gap.acks.of_small.map(|it| it.ack).filter(|_| !gap.last_small)?;
    let last = gap.acks.last.filter(|ack| ack.pure)?;
    let is_it = match of_small.frame == last.frame {
        true => !last.acked_all,
        false => !arrives(last.seen_ns) && of_small.payload_bytes == 0,
    };
    (is_it && arrives(of_small.time_ns)).then_some(of_small)
}

/// Length of the small segment that was acknowledged, bytes, if its message began with it.
fn small_before(scene: &Scene<'_>) -> Option<u64> {
    let gap = scene.gap();
    let (began, _) = scene.exchange.began(gap.sender);
    let bytes = gap.acks.of_small?.end.checked_sub(began)?;
    (1..gap.smss).contains(&bytes).then_some(bytes)
}

/// Returns whether holds are a fault: not where each lies before its application switched the algorithm off,
/// as SSH does when a session opens. What that could change, it has changed.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let nagle = case.endpoint().map(|endpoint| endpoint.sender(case.key.sender).nagle);
    let is_switched_off = nagle.is_some_and(|nagle| nagle.ends_before(case.cause.lost_ns));
    case.is_broad_or_deep() && !is_switched_off
}

/// Returns how many silences looked like holds, including those that did not end with the ACK, and
/// in how many cases one is to be expected in which all holds are chance, unless there are far more
/// than for a habit.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let missed = endpoint.sender(key.sender).nagle.missed;
    let mut facts = Facts::from([("waits", Fact::Count(cause.count + missed))]);
    if key.sender == Side::Server
        && endpoint.round_trips.are_acknowledged_nearer(endpoint.connections)
    {
        facts.extend([nearer_host()]);
    }
    let one_in = (1.0 / chance(key, cause, endpoint)).round();
    if one_in <= AT_ONCE_PART.pow(HABIT_MIN) as f64 {
        facts.insert("chance_one_in", Fact::Count(one_in as u64));
    }
    facts
}

/// Returns the chance that pauses of an application end with as many ACKs as the silences that
/// looked like holds, of all those that ended with an ACK or after it.
pub(super) fn chance(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> f64 {
    let one = cause.worst.as_ref().map_or(0.0, |instance| instance.proof.chance);
    let missed = endpoint.sender(key.sender).nagle.missed;
    at_least(cause.count, cause.count + missed, one)
}

/// Returns the probability of at least `count` of `all` independent events with the probability
/// `one` each; 0 for so many that it is negligible.
fn at_least(count: u64, all: u64, one: f64) -> f64 {
    if count > COUNTED_MAX || one <= 0.0 {
        return 0.0;
    }
    if one >= 1.0 {
        return 1.0;
    }
    // Terms of the binomial distribution for fewer than `count`, from none on.
    let mut term_ln = all as f64 * (-one).ln_1p();
    let mut fewer = 0.0;
    for events in 0..count {
        fewer += term_ln.exp();
        let ways = (all - events) as f64 / (events + 1) as f64;
        term_ln += (ways * one / (1.0 - one)).ln();
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

/// Moves what looked like holds away if its senders do not use Nagle's algorithm, or met the ACKs by
/// chance: to a wait of their application for late ACKs if all shows that, else to its work.
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
    let of_nagle = || tally.causes.iter().filter(|(key, _)| key.cause == Cause::NagleDelayedAck);
    let sums = |key: &Key| tally.endpoints.get(&key.server).map(|it| it.sender(key.sender).nagle);
    // A client's program sends to each server of a service alike.
    let service = |key: &Key| (key.culprit.endpoint, key.server.port);
    let proven: HashSet<_> = of_nagle()
        .filter(|(key, _)| key.culprit.role == Role::Client)
        .filter(|(key, _)| {
            let holds = held(key);
            holds.count >= HABIT_MIN.into() && sums(key).is_some_and(|it| !it.refutes(&holds))
        })
        .map(|(key, _)| service(key))
        .collect();
    let suspects: Vec<_> = of_nagle()
        .filter_map(|(key, cause)| {
            let (nagle, holds) = (sums(key)?, held(key));
            let is_proven = nagle.refuted == 0 && proven.contains(&service(key));
            let waits = cause.late_ack_waits == cause.exchanges
                && nagle.paused == 0
                && !nagle.are_chance(&holds);
            (nagle.refutes(&holds) && !is_proven).then(|| (key.clone(), waits))
        })
        .collect();
    for (key, waits) in suspects {
        let (to, owner) = match waits {
            true => (Cause::DelayedAck, Owner::DelayedAck),
            false => think(key.sender),
        };
        move_cause(tally, &key, to, Some((Owner::NagleDelayedAck, owner)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_falls_with_each_hold_and_grows_with_each_miss() {
        let percent = |count, all| (100.0 * at_least(count, all, 0.125)).round();
        assert_eq!(
            [percent(1, 1), percent(2, 2), percent(1, 5), percent(2, 10)],
            [13., 2., 49., 36.]
        );
        assert!((at_least(3, 3, 0.125) - 1.0 / 512.0).abs() < 1e-9);
        assert_eq!([at_least(1, 1, 0.0), at_least(1, 1, 1.0)], [0.0, 1.0]);
        assert!(at_least(900, 1_000, 0.125) < 1e-6);
    }
}
