//! A loss that the retransmission timer repaired (RFC 6298 §5).
//!
//! Recognised in `judge/loss.rs`, which determines what triggered the retransmission of a lost
//! segment.

use super::repair::{self, HOSTS, add_repair};
use super::set_up::add_icmp_error;
use crate::findings::facts::Facts;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key, LOST_SECOND, has_lost_second};
use crate::judge::may_be_probe;
use crate::judge::thresholds::{
    ALIKE_PART, HOST_DELAY_MAX_NS, LINUX_RTO_MIN_NS, RTO_INITIAL_NS, RTO_INITIAL_OLDER_NS,
};
use crate::model::{Cause, Culprit, Fact, Outcome, Role};
use crate::tcp::Connection;
use crate::wire::Side;

/// Name of the number of requests that were never acknowledged.
const UNHEARD: &str = "unheard_requests";

/// Name of the number of exchanges in which the timer repeated what was seen for the first time then: it was
/// lost before the capture, and no copy of it can have arrived.
pub(in crate::findings) const FIRST_SEEN: &str = "first_seen";

/// Returns the host that dropped the packets, and the number of requests if none was ever acknowledged.
pub(super) fn facts(key: &Key, cause: &CauseTally, _: &EndpointTally) -> Facts {
    let mut facts = repair::dropper(key);
    let unheard = cause.shown.count(UNHEARD);
    if unheard == cause.exchanges && unheard > 0 {
        facts.insert("given_up", Fact::Count(unheard));
    }
    facts
}

/// Returns the host that rejected a packet of `sender` by an ICMP error.
pub(super) fn reporter(connection: &Connection, sender: Side) -> Option<Culprit> {
    let endpoint = connection.cold.icmp_report().filter(|it| it.rejects(sender))?.reporter;
    Some(Culprit { role: Role::Network, endpoint })
}

/// Proves a retransmission timeout by the segment, the silence, and the retransmission.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    add_repair(scene, proof);
    if let Some(report) = scene.connection.cold.icmp_report().filter(|it| it.rejects(gap.sender)) {
        add_icmp_error(report, proof);
    }
    // The timeout is the time between the two frames that are shown.
    let sent = gap.repair.original.unwrap_or(gap.last);
    if sent.known().is_some() {
        let rto_ns = gap.next.time_ns.saturating_sub(sent.time_ns);
        proof.add_fact("rto_ns", Fact::Ns(rto_ns));
        if is_initial(scene, rto_ns) {
            proof.add_fact("initial_timer", Fact::Text("the initial one".into()));
        }
        add_timer(scene, rto_ns, proof);
    }
    if scene.sender().una_seen_ns < gap.start_ns && !scene.exchange.response_seen {
        proof.add_fact("unrepaired", Fact::Text("nothing was acknowledged any more".into()));
    }
    if let Some(side) = scene.connection.setup.lacks_sack() {
        proof.add_fact("no_sack", Fact::Text(HOSTS[side as usize].into()));
    }
    if may_be_probe(gap) {
        proof.add_fact("unheard_bytes", Fact::Bytes(gap.flight.before));
    }
    let sender = scene.sender();
    proof.rule_out(
        Cause::ServerThink,
        "sent_again",
        gap.repair.original.is_some() || gap.repair.deaf,
    );
    // Whether the other side sent ACKs can be seen only if its packets were captured.
    let is_repaired = gap.next.from == gap.sender;
    let acks_seen = scene.connection.senders[gap.sender.peer()].volume.has_packets();
    // Without SACK a receiver cannot report that a segment arrived twice (RFC 2883).
    let counts = &sender.history().counts;
    let told = scene.connection.setup.has_sack()
        && counts.reported_spurious() == 0
        && !counts.has_other_blocks();
    proof.rule_out(
        Cause::SpuriousRetransmission,
        "not_acknowledged",
        acks_seen && told && !gap.repair.deaf && is_repaired,
    );
    let reported = gap.duplicates.count > 0 || gap.duplicates.any_since(sent.time_ns);
    proof.rule_out(Cause::FastRecovery, "no_duplicate_acks", acks_seen && !reported);
    proof.rule_out(
        Cause::ZeroWindow,
        "window_open",
        gap.window.closed_ns == 0 && gap.window.was_open(gap.next_segment()),
    );
    let passes = u64::from(sender.sizes.acked_max()) >= gap.next_len.min(gap.smss);
    proof.rule_out(
        Cause::MtuBlackHole,
        "sizes_pass",
        passes && gap.repair.is_retransmission() && gap.next_len > 0,
    );
}

/// Returns whether a timer of `rto_ns` was still the initial one of the connection: its client had
/// to repeat the SYN, which gives no round trip (RFC 6298 §3, §5.7), and it ran for its first data.
fn is_initial(scene: &Scene<'_>, rto_ns: u64) -> bool {
    let connection = scene.connection;
    scene.gap().sender == Side::Client
        && connection.setup.syns > 1
        && connection.totals.exchanges <= 1
        && rto_ns >= RTO_INITIAL_NS - RTO_INITIAL_NS / ALIKE_PART
}

/// Adds what is known of a timer of `rto_ns`: that it was the least one, on a path that is shorter than the
/// delays of hosts, or the initial one of an older TCP, which takes no sample from the handshake: RFC 6298 §2
/// gives a shorter one.
fn add_timer(scene: &Scene<'_>, rto_ns: u64, proof: &mut Proof) {
    let base_ns = scene.gap().rtt.base_ns;
    let least_ns = LINUX_RTO_MIN_NS + base_ns;
    let is_least = rto_ns <= least_ns + least_ns / ALIKE_PART;
    if is_least && (1..=HOST_DELAY_MAX_NS).contains(&base_ns) {
        proof.add_fact("near_rtt_ns", Fact::Ns(base_ns));
    }
    let Some(sample_ns) = first_sample_ns(scene) else { return };
    let computed_ns = RTO_INITIAL_NS.max(3 * sample_ns);
    let older_ns = RTO_INITIAL_OLDER_NS + RTO_INITIAL_OLDER_NS / ALIKE_PART;
    if (computed_ns + computed_ns / ALIKE_PART..=older_ns).contains(&rto_ns) {
        proof.add_fact("sample_rtt_ns", Fact::Ns(sample_ns));
        proof.add_fact("rto_computed_ns", Fact::Ns(computed_ns));
        proof.add_fact("rto_host", Fact::Text(HOSTS[scene.gap().sender as usize].into()));
    }
}

/// Returns the round trip that the handshake showed to the client, ns, if it was its only sample when it sent
/// what was lost, its first data, for the first time (RFC 6298 §2.2).
fn first_sample_ns(scene: &Scene<'_>) -> Option<u64> {
    let Scene { connection, exchange, chain } = scene;
    let setup = &connection.setup;
    let is_first = chain.gap.sender == Side::Client
        && connection.totals.exchanges <= 1
        && chain.count == 1
        && !chain.gap.losses.missing.any()
        && chain.gap.repair.original.is_some_and(|it| it.frame == exchange.first.frame);
    let is_clean = is_first && (setup.syns, setup.syn_acks) == (1, 1);
    let ends_ns = setup.syn_first_ns().zip(setup.established_ns()).filter(|_| is_clean);
    ends_ns.map(|(syn_ns, ack_ns)| ack_ns.saturating_sub(syn_ns))
}

/// Counts the losses of the last segment of a message, and those behind the capture.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    repair::add_up(scene, shown);
    shown.add(UNHEARD, (scene.exchange.outcome == Outcome::Unacknowledged).into());
    // A wait that turned out to be none is no longer counted.
    let tails = scene.chain.tails.min(scene.chain.count);
    shown.add("tail", tails.into());
    // Only what arrives above a hole shows it (RFC 2018 §4). A probe for the tail of several segments leaves
    // before the timer, and one for a single segment does not (RFC 8985 §7.2).
    let gap = scene.gap();
    if gap.repair.is_retransmission() {
        shown.add("sent_above", (scene.chain.count - tails).into());
    }
    if gap.repair.tail && gap.flight.first > gap.next_len {
        shown.add("flight_tails", tails.into());
    }
    shown.add(LOST_SECOND, has_lost_second(scene.connection).into());
    let repair = &scene.gap().repair;
    shown.add(FIRST_SEEN, (repair.unseen && repair.original.is_none()).into());
}
