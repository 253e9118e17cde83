//! The time of a TLS handshake (RFC 8446 §2): its round trips, and the work of both ends.
//!
//! The silences in it are split in `judge/tls_handshake.rs`.

use super::rules::Cost;
use crate::findings::facts::Facts;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{EndpointTally, Handshakes, Sample, Tally};
use crate::judge::thresholds::INITIAL_WINDOW_BYTES;
use crate::model::{Cause, Culprit, Fact, Finding, Owner, Role, RuledOut, units};
use crate::wire::{Endpoint, Side};

/// How the time of this cause, added up over an endpoint, becomes a finding. The work of the two
/// ends is only a part of that time.
pub(super) const COST: Cost =
    Cost { is_partly_tallied: true, show: Some(show), facts, ruled_out, ..Cost::PLAIN };

/// Proves that one end was slow, by the last frame of the handshake that it received and the frame
/// with which it continued.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    proof.add_frame_before(scene.gap(), "flight_end");
    proof.add_frame_after(scene.gap(), "next");
}

/// Name of the number of waits in handshakes of resumed sessions, which have no certificate and no
/// signature (RFC 8446 §2.2, RFC 5246 §7.3).
const OF_RESUMED: &str = "resumed_waits";

/// Counts the waits in handshakes of resumed sessions.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    let is_resumed = scene.exchange.handshake.is_some_and(|it| it.resumed);
    shown.add(OF_RESUMED, is_resumed.into());
}

/// Adds the ClientHello and the end of the handshake to the evidence, or what came last if the handshake
/// was not completed.
fn show(sample: &Sample, proof: &mut Proof) {
    proof.add_frame("client_hello", sample.first);
    match sample.handshake_end {
        Some(end) => proof.add_frame("handshake_end", end),
        None => proof.add_frame("handshake_last", sample.last),
    }
}

/// Returns the number and kind of the handshakes, and the time that both ends took. If one of them
/// took most of the time, it is the culprit of `finding`, and its work is the evidence.
fn facts(
    finding: &mut Finding,
    server: Endpoint,
    endpoint: &EndpointTally,
    tally: &Tally,
) -> Facts {
    let mut facts = of_handshakes(endpoint);
    let handshakes = endpoint.handshakes.full + endpoint.handshakes.resumed;
    if handshakes > 0 {
        // Those on a connection that was set up before have none.
        finding.affected.exchanges = finding.affected.exchanges.min(handshakes);
    }
    facts.extend(endpoint.clients.reconnects());
    let rtt_ns = endpoint.round_trips.base.quantile_ns(0.5);
    for (key, own) in tally.causes.of(server).filter(|(key, _)| key.cause == Cause::TlsHandshake) {
        let own_ns = Fact::Ns(own.waits.quantile_ns(0.5));
        let of_side = match key.sender {
            Side::Client => "client_own_ns",
            Side::Server => "server_own_ns",
        };
        facts.insert(of_side, own_ns.clone());
        // One of several may take most of it, which a median hides.
        let mean_ns = match own.exchanges {
            0 | 1 => own_ns.clone(),
            several => Fact::Ns(own.lost_ns / several),
        };
        // The server's work is what to change first also where it takes longer than the round trips that
        // a later version of TLS would save.
        let spared_ns = endpoint.handshakes.older.saturating_mul(rtt_ns);
        let slow = own.lost_ns >= endpoint.all.ledger.of(Owner::Tls) / 2
            || key.sender == Side::Server && spared_ns > 0 && own.lost_ns >= spared_ns;
        if slow && 2 * own.shown.count(OF_RESUMED) > own.exchanges {
            facts.insert("of_resumed", Fact::Count(own.shown.count(OF_RESUMED)));
        }
        if let Some(instance) = own.worst.as_ref().filter(|_| slow) {
            finding.evidence = instance.proof.evidence();
            finding.evidence_flow = Some((instance.client, instance.server));
            finding.evidence_exchange = instance.exchange;
            // The time before the client's next message is its own only if what came before is known.
            let from_peer = finding.evidence.first().is_some_and(|it| it.from == Side::Server);
            if key.sender == Side::Client && from_peer {
                let client = Endpoint { port: 0, ..instance.client };
                finding.culprit = Culprit { role: Role::Client, endpoint: client };
                facts.insert("server", Fact::Text(units::endpoint_or_others(&server)));
                facts.insert("slow_client_ns", mean_ns);
            } else if key.sender == Side::Server {
                facts.insert("slow_ns", mean_ns);
            }
        }
    }
    facts
}

fn of_handshakes(endpoint: &EndpointTally) -> Facts {
    let Handshakes { full, resumed, older, unused, ref again, ref times, certificate_max_bytes } =
        endpoint.handshakes;
    if full + resumed == 0 {
        return Facts::from([("incomplete", Fact::Text("no handshake was completed".into()))]);
    }
    let of_resumed = if resumed > 0 { Fact::Count(resumed) } else { Fact::Text("none".into()) };
    let mut facts =
        Facts::from([("handshakes", Fact::Count(full + resumed)), ("resumed", of_resumed)]);
    if resumed > 0 {
        facts.insert("full", Fact::Count(full));
    }
    if 2 * older > full + resumed {
        facts.insert("older", Fact::Count(older));
    }
    if 2 * unused > full + resumed {
        facts.insert("unused", Fact::Count(unused));
    }
    if full == 0 {
        facts.insert("all_resumed", Fact::Count(resumed));
    }
    if times.count() > 0 {
        facts.insert("p50_ns", Fact::Ns(times.quantile_ns(0.5)));
    }
    if again.count() > 0 {
        facts.insert("hello_retries", Fact::Count(again.count()));
        facts.insert("again_p50_ns", Fact::Ns(again.quantile_ns(0.5)));
    }
    if u64::from(certificate_max_bytes) > INITIAL_WINDOW_BYTES {
        facts.insert("long_chain", Fact::Text("more than the initial window".into()));
    }
    if certificate_max_bytes > 0 {
        facts.insert("certificate_bytes", Fact::Bytes(certificate_max_bytes.into()));
    }
    facts
}

/// Excludes the server's work, and a certificate chain longer than the initial window.
fn ruled_out(server: Endpoint, endpoint: &EndpointTally, tally: &Tally) -> Vec<RuledOut> {
    let mut all = vec![RuledOut { cause: Cause::ServerThink, why: "before_request" }];
    let own = tally.causes.of(server).filter(|(key, _)| key.cause == Cause::TlsHandshake);
    let own_ns = own.map(|(_, own)| own.waits.quantile_ns(0.5)).sum();
    let fits =
        (1..=INITIAL_WINDOW_BYTES).contains(&u64::from(endpoint.handshakes.certificate_max_bytes));
    if fits && !takes_more_trips(endpoint, own_ns) {
        all.push(RuledOut { cause: Cause::SlowStart, why: "chain_fits" });
    }
    all
}

/// Returns whether handshakes take a round trip more than their version needs, beyond `own_ns` of both ends:
/// a server with a small initial window waits for an ACK in the midst of its flight.
fn takes_more_trips(endpoint: &EndpointTally, own_ns: u64) -> bool {
    let Handshakes { full, resumed, older, ref times, .. } = endpoint.handshakes;
    let rtt_ns = endpoint.round_trips.base.quantile_ns(0.5);
    let trips = if 2 * older > full + resumed { 2 } else { 1 };
    let needed_ns = own_ns.saturating_add(trips * rtt_ns);
    times.quantile_ns(0.5) >= needed_ns.saturating_add(rtt_ns / 2).max(1)
}
