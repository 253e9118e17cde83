//! Round trips over a long distance.
//!
//! No recogniser claims it: `tcp/path.rs` estimates the round trip, and each silence that waits for
//! the other side begins with it.

use super::rules::Cost;
use crate::findings::facts::Facts;
use crate::findings::proof::Proof;
use crate::findings::tally::{EndpointTally, Sample, Tally};
use crate::model::{Cause, Fact, Finding, Owner, RuledOut};
use crate::wire::Endpoint;

/// Rule for its sum at an endpoint. Every exchange costs a round trip: it is reported if it is
/// long, or if many add up.
pub(super) const COST: Cost = Cost {
    floor_factor: 5,
    adds_up: true,
    show: Some(show),
    other_ns: |endpoint| endpoint.set_ups.late_ns,
    facts,
    ruled_out,
    ..Cost::PLAIN
};

/// Shows an exchange with the set-up before it.
fn show(sample: &Sample, proof: &mut Proof) {
    let set_up = [("syn", sample.syn), ("syn_ack", sample.syn_ack), ("ack", sample.ack)];
    for (part, frame) in set_up {
        if let Some(seen) = frame {
            proof.see(part, seen);
        }
    }
    Cost::see_ends(sample, proof);
}

/// Returns the number of round trips, and what connections kept open would spare.
fn facts(_: &mut Finding, _: Endpoint, endpoint: &EndpointTally, _: &Tally) -> Facts {
    let mut facts = Facts::new();
    let exchanges = endpoint.all.exchanges.max(1);
    let ledger = &endpoint.all.ledger;
    let (trips, connects) = (&endpoint.round_trips, endpoint.set_ups.exchanges);
    let [longer_ns, by_ns] = trips.longer_ns;
    if longer_ns > 0 {
        facts.insert("longer_ns", Fact::Ns(by_ns));
    }
    // Only exchanges with an answer count: time divided by the least round trip also contains
    // queues and late answers.
    let answered = endpoint.all.exchanges.saturating_sub(trips.unanswered);
    let round_trips = answered + connects + trips.waits + trips.granted;
    if round_trips > 0 {
        facts.insert("round_trips", Fact::Count(round_trips));
    }
    if trips.granted > 0 {
        facts.insert("granted", Fact::Count(trips.granted));
    }
    if connects > 0 {
        facts.insert("connects", Fact::Count(connects));
    }
    if connects * 2 >= exchanges {
        let set_up_ns = ledger.of(Owner::Connect) + ledger.of(Owner::Tls);
        let reuse_ns = (ledger.total_ns() - set_up_ns) / exchanges;
        facts.insert("reuse_ns", Fact::Ns(reuse_ns));
    }
    facts
}

/// Excludes the application and losses. That no application answers a handshake says something
/// where one was captured, and took about a round trip: from the SYN to the ACK of its answer it is
/// one, wherever the capture was taken.
fn ruled_out(server: Endpoint, endpoint: &EndpointTally, tally: &Tally) -> Vec<RuledOut> {
    let rtt_ns = endpoint.round_trips.base.quantile_ns(0.5);
    let shown = endpoint.sample(Cause::PathRtt);
    let shown_ns = shown.and_then(|it| Some(it.ack?.time_ns.saturating_sub(it.syn?.time_ns)));
    let agrees = |ns: u64| rtt_ns / 2 <= ns && ns <= 2 * rtt_ns;
    let measured = rtt_ns > 0 && shown_ns.is_some_and(agrees);
    let nothing_repeated = tally.cost_of(Cause::SynRetransmit, server) == 0;
    let of_server =
        measured.then_some(RuledOut { cause: Cause::ServerThink, why: "handshake_agrees" });
    let of_loss =
        nothing_repeated.then_some(RuledOut { cause: Cause::SynRetransmit, why: "nothing_lost" });
    of_server.into_iter().chain(of_loss).collect()
}
