//! A request on a connection that its server had closed because it was idle (RFC 9112 §9.5).
//!
//! Recognised in `findings/tally/endings.rs`, where a connection ends.

use super::reset::{add_end, add_reset_ttls};
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::endings::quiet_since_ns;
use crate::findings::thresholds::IDLE_MIN_NS;
use crate::model::{Cause, Fact};
use crate::wire::Side;

/// Proves the cause by the server's FIN, the request that was sent before the FIN arrived, and the
/// RST.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let (connection, exchange) = (scene.connection, scene.exchange);
    add_end(scene, proof, ("request", exchange.first), &[Side::Server]);
    let quiet_since_ns = quiet_since_ns(connection, exchange);
    let idle_ns = exchange.start_ns.saturating_sub(quiet_since_ns);
    if idle_ns > 0 {
        proof.add_fact("idle_ns", Fact::Ns(idle_ns));
    }
    let fin_ns = connection.cold.ending().fin_ns[Side::Server];
    let closed = fin_ns.filter(|&fin_ns| fin_ns > quiet_since_ns && idle_ns > 0);
    if let Some(fin_ns) = closed {
        proof.add_fact("server_timeout_ns", Fact::Ns(fin_ns - quiet_since_ns));
    }
    if connection.cold.ending().unknown {
        proof.add_fact("forgot", Fact::Text("RST without an ACK".into()));
        // A host that closes sends a FIN, and repeats it until it is acknowledged (RFC 9293 §3.6).
        let is_of_server = !connection.cold.ending().was_reset_on_path();
        if fin_ns.is_none() && is_of_server && !connection.mid_stream {
            proof.add_fact("not_closed", Fact::Text("FIN".into()));
        }
    }
    add_reset_ttls(scene, proof);
    proof.rule_out(Cause::Reset, "idle", idle_ns >= IDLE_MIN_NS);
    proof.rule_out(
        Cause::ServerThink,
        "closed",
        fin_ns.is_some_and(|at_ns| at_ns <= exchange.start_ns),
    );
    proof.rule_out(Cause::RetransmissionTimeout, "reset", connection.cold.ending().reset.is_some());
}
