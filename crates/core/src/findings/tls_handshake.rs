//! The time of a TLS handshake (RFC 8446 §2): round trips, and what its ends do in between.

use crate::app::Side;
use crate::findings::facts::Facts;
use crate::findings::scene::{Proof, Scene};
use crate::findings::tally::{EndpointTally, Tally};
use crate::model::{Cause, Fact, Finding, Owner};
use crate::wire::Endpoint;

/// Proves a slow end of the handshake: the last frame that it received, and the one with which it
/// went on.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    proof.see_before(scene.gap(), "flight_end");
    proof.see_after(scene.gap(), "next");
}

/// What the ends of the handshakes with `server` took; where the server took most of the time,
/// `finding` shows when.
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
