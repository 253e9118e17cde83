//! The time of a TLS handshake (RFC 8446 §2): round trips, and what its ends do in between.

use super::facts::Facts;
use super::scene::{Proof, Scene};
use super::tally::{EndpointTally, Tally};
use crate::app::Side;
use crate::model::{Cause, Fact, Finding, Owner, Slice};
use crate::tcp::{Gap, Turn};
use crate::wire::Endpoint;

/// An end that takes less than this is a busy host.
const OWN_MIN_NS: u64 = 1_000_000;

/// A silence in a handshake that was not a loss: the way, and what its sender took where that is more than
/// a round trip.
pub(super) fn split(gap: &Gap) -> [Slice; 2] {
    let way_ns = match gap.turn {
        Turn::Answers => gap.way_ns + gap.busy_ns,
        // The rest of a long flight waits for ACKs.
        Turn::Continues if gap.ack_triggered() => gap.len_ns(),
        Turn::Continues => gap.busy_ns,
    };
    let own_ns = gap.len_ns().saturating_sub(way_ns);
    let own_ns = if own_ns >= OWN_MIN_NS && own_ns > gap.rtt_base_ns { own_ns } else { 0 };
    [
        Slice::plain(Owner::Tls, gap.len_ns() - own_ns),
        Slice::of(Owner::Tls, Cause::TlsHandshake, own_ns),
    ]
}

/// What an end had heard, and when it went on.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    proof.see_before(scene.gap(), "flight_end");
    proof.see_after(scene.gap(), "next");
}

/// What the ends of the handshakes with `server` took; where the server took most of the time, `finding`
/// shows when.
pub(super) fn tell(
    finding: &mut Finding,
    server: Endpoint,
    endpoint: &EndpointTally,
    tally: &Tally,
) -> Facts {
    let mut facts = Facts::new();
    for (key, own) in tally.causes.of(server).filter(|(key, _)| key.cause == Cause::TlsHandshake) {
        let own_ns = Fact::Ns(own.waits.quantile_ns(0.5));
        if key.sender == Side::Client {
            facts.insert("client_own_ns", own_ns);
            continue;
        }
        facts.insert("server_own_ns", own_ns.clone());
        let slow = 2 * own.lost_ns >= endpoint.all.ledger.of(Owner::Tls);
        if let Some(instance) = own.worst.as_ref().filter(|_| slow) {
            facts.insert("slow_ns", own_ns);
            finding.evidence = instance.proof.evidence();
            finding.evidence_flow = Some((instance.client, instance.server));
            finding.evidence_exchange = instance.exchange;
        }
    }
    facts
}
