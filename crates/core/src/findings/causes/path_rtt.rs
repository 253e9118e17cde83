//! Round trips over a long distance.
//!
//! No recogniser attributes a silence to it: `tcp/path.rs` estimates the round trip, which is
//! deducted from the start of each silence that waits for the other side.

use super::rules::Cost;
use crate::app::STARTUP;
use crate::findings::facts::Facts;
use crate::findings::proof::Proof;
use crate::findings::tally::{EndpointTally, RoundTrips, Sample, Tally};
use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Cause, Fact, Finding, Owner, RuledOut};
use crate::wire::{Endpoint, Side};

/// Kind of the requests for the next rows of a result.
const FETCH: &str = "FETCH";

/// Commands behind which a client may not send anything before it has the answer (RFC 3207 §4.1, RFC 9051
/// §6.2.1, RFC 2595 §4).
const STARTTLS: [&str; 2] = ["STARTTLS", "STLS"];

/// Kinds of the exchanges that open a connection: PostgreSQL's, MySQL's, a server that speaks first, and TLS.
const OPENINGS: [&str; 4] = [STARTUP, "connect", "greeting", "TLS handshake"];

/// How the time of this cause, added up over an endpoint, becomes a finding. Every exchange takes a
/// round trip, so the cause is reported only if a round trip is long or if many add up.
pub(super) const COST: Cost = Cost {
    floor_factor: 5,
    adds_up: true,
    show: Some(show),
    other_ns: |endpoint| endpoint.set_ups.late_ns,
    facts,
    ruled_out,
    ..Cost::PLAIN
};

/// Adds an exchange and the connection set-up before it to the evidence.
fn show(sample: &Sample, proof: &mut Proof) {
    let set_up = [("syn", sample.syn), ("syn_ack", sample.syn_ack), ("ack", sample.ack)];
    for (part, frame) in set_up {
        if let Some(seen) = frame {
            proof.add_frame(part, seen);
        }
    }
    if sample.handshake_end.is_some() {
        proof.add_frame("client_hello", sample.first);
        proof.add_response(sample.last);
    } else {
        Cost::add_ends(sample, proof);
    }
}

/// Returns the number of round trips, how many of them reused connections would save, and whether a
/// client connected or asked more than once.
fn facts(finding: &mut Finding, server: Endpoint, endpoint: &EndpointTally, _: &Tally) -> Facts {
    let mut facts = Facts::new();
    let exchanges = endpoint.all.exchanges.max(1);
    let ledger = &endpoint.all.ledger;
    let (trips, connects) = (&endpoint.round_trips, endpoint.set_ups.exchanges);
    facts.extend(handshake_ns(endpoint).map(|ns| ("handshake_ns", Fact::Ns(ns))));
    let [longer_ns, by_ns] = trips.longer_ns;
    if longer_ns > 0 {
        facts.insert("longer_ns", Fact::Ns(by_ns));
    }
    // Only exchanges with an answer count: for others, the time divided by the shortest round trip
    // also contains queueing and late answers.
    let answered = endpoint.all.exchanges.saturating_sub(trips.unanswered);
    let round_trips = answered + connects + trips.waits + trips.granted;
    facts.extend(of_trips(finding.lost_ns, round_trips, trips));
    if trips.granted > 0 {
        facts.insert("granted", Fact::Count(trips.granted));
        facts.extend(granter(server, finding.lost_ns, trips.granted_ns));
    }
    facts.extend(endpoint.under_way.at_once().map(|most| ("at_once", Fact::Count(most))));
    let [of_client, of_server] = Side::ALL.map(|side| endpoint.sender(side).bytes);
    if of_client > of_server {
        facts.insert("upload", Fact::Bytes(of_client));
    }
    // Most exchanges ask for the next rows of one result.
    let fetches = endpoint.kinds.iter().filter(|(kind, _)| &***kind == FETCH);
    let fetches: u64 = fetches.map(|(_, group)| group.exchanges).sum();
    if 2 * fetches > exchanges {
        facts.insert("fetches", Fact::Count(fetches));
    }
    let has_starttls = endpoint.kinds.iter().any(|(kind, _)| STARTTLS.contains(&&**kind));
    if has_starttls {
        facts.insert("starttls", Fact::Text("STARTTLS".into()));
    }
    if connects > 0 {
        facts.insert("connects", Fact::Count(connects));
    }
    // A log-in, and what the server says first, ask for nothing that could be asked for at once.
    let openings = endpoint.kinds.iter().filter(|(kind, _)| OPENINGS.contains(&&***kind));
    let openings: u64 = openings.map(|(_, group)| group.exchanges).sum();
    let openings = openings + hidden_openings(endpoint);
    // Where most requests go over a connection that is open, to reuse connections saves little.
    let opens_often = has_starttls || (connects + openings) * 2 >= exchanges;
    let reconnects = endpoint.clients.reconnects().filter(|_| opens_often);
    if reconnects.is_some() && connects * 2 >= exchanges {
        let set_up_ns = ledger.of(Owner::Connect) + ledger.of(Owner::Tls);
        let reuse_ns = (ledger.total_ns() - set_up_ns) / exchanges;
        facts.insert("reuse_ns", Fact::Ns(reuse_ns));
    }
    facts.extend(reconnects);
    let is_needed = endpoint.clients.needs_closed();
    if 2 * endpoint.set_ups.closed_idle > endpoint.connections && is_needed {
        facts.insert("closed_idle", Fact::Count(endpoint.set_ups.closed_idle));
    }
    if 2 * endpoint.set_ups.closed_unasked > endpoint.connections {
        facts.insert("closed_unasked", Fact::Count(endpoint.set_ups.closed_unasked));
    }
    let asked = exchanges.saturating_sub(openings);
    // Requests far apart were not waiting for each other, and a proxy of SOCKS sets up one connection by steps.
    let is_of_steps = 2 * endpoint.socks >= endpoint.connections.max(1);
    if asked > endpoint.connections.max(1) && endpoint.rows.pairs > 0 && !is_of_steps {
        facts.insert("several", Fact::Count(asked));
    }
    facts
}

/// Returns how many exchanges that cannot be read may begin sessions of PostgreSQL: behind the request for
/// TLS, which is read, come the start-up message and up to two messages of the authentication (PostgreSQL,
/// "SASL Authentication"), each of which needs the answer to the one before.
fn hidden_openings(endpoint: &EndpointTally) -> u64 {
    const MESSAGES: u64 = 3;
    let of = |name: &str| endpoint.kinds.iter().find(|(kind, _)| &***kind == name);
    let count = |name: &str| of(name).map_or(0, |(_, group)| group.exchanges);
    count("").min(MESSAGES * count(STARTUP))
}

/// Names the receiver whose application grants too little, if most of `cost_ns` is the waits for it.
fn granter(server: Endpoint, cost_ns: u64, granted_ns: [u64; 2]) -> Option<(&'static str, Fact)> {
    let [of_client_ns, of_server_ns] = granted_ns;
    let name = if of_client_ns >= of_server_ns {
        server.to_string()
    } else {
        format!("the clients of {server}")
    };
    (2 * of_client_ns.max(of_server_ns) > cost_ns).then_some(("granter", Fact::Text(name)))
}

/// Returns the number of round trips that took `cost_ns`, and their mean where it differs from the
/// usual round trip by more than measurements do. A mean that no connection's round trip is alike to
/// shows that the number is another: some were not counted, or several waits shared one. Exchanges
/// without an answer take a part of the cost, and an unknown number of round trips.
fn of_trips(cost_ns: u64, count: u64, trips: &RoundTrips) -> Facts {
    let sum_ns = count.saturating_mul(trips.base.quantile_ns(0.5));
    let is_cost = sum_ns.abs_diff(cost_ns) <= sum_ns / ALIKE_PART;
    match count {
        0 => Facts::new(),
        _ if is_cost => Facts::from([("round_trips", Fact::Count(count))]),
        _ if trips.unanswered == 0 && trips.may_take(cost_ns / count) => Facts::from([
            ("round_trips", Fact::Count(count)),
            ("trip_mean_ns", Fact::Ns(cost_ns / count)),
        ]),
        _ if sum_ns < cost_ns => Facts::from([("least_trips", Fact::Count(count))]),
        _ => Facts::new(),
    }
}

/// Time from the SYN to the ACK of the SYN-ACK in the exchange shown, ns.
fn handshake_ns(endpoint: &EndpointTally) -> Option<u64> {
    let shown = endpoint.sample(Cause::PathRtt)?;
    Some(shown.ack?.time_ns.saturating_sub(shown.syn?.time_ns))
}

/// Excludes the application and losses. No application answers a handshake, so a handshake that
/// took about a round trip excludes the application. From the SYN to the ACK of the SYN-ACK it
/// takes one round trip at any vantage.
fn ruled_out(_: Endpoint, endpoint: &EndpointTally, _: &Tally) -> Vec<RuledOut> {
    let rtt_ns = endpoint.round_trips.base.quantile_ns(0.5);
    let agrees = |ns: u64| rtt_ns / 2 <= ns && ns <= 2 * rtt_ns;
    // Where the server's work is a part of the time as well, the distance does not exclude it.
    let ledger = &endpoint.all.ledger;
    let path_ns = ledger.of(Owner::Path) + ledger.of(Owner::Connect);
    let is_idle = ledger.of(Owner::Server) <= path_ns / ALIKE_PART;
    let measured = rtt_ns > 0 && is_idle && handshake_ns(endpoint).is_some_and(agrees);
    let nothing_repeated = endpoint.set_ups.repeated == 0;
    let of_server =
        measured.then_some(RuledOut { cause: Cause::ServerThink, why: "handshake_agrees" });
    let of_loss =
        nothing_repeated.then_some(RuledOut { cause: Cause::SynRetransmit, why: "nothing_lost" });
    of_server.into_iter().chain(of_loss).collect()
}
