//! A receiving application that does not read (RFC 9293 §3.8.6.1).

use crate::findings::buffer_limits;
use crate::findings::causes::server_think::nearer_host;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Cause, Fact, Outcome};
use crate::wire::Side;

/// Proves a closed window by the ACK that closed it, the probes, the window update, and the data
/// that waited.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.add_frame_before(gap, "flight_end");
    if let Some(closed_by) = gap.window.closed_by {
        let is_narrow = gap.window.is_narrow;
        proof.add_frame(if is_narrow { "narrow_window" } else { "zero_window" }, closed_by);
        if is_narrow {
            proof.add_fact("narrow", Fact::Text("closed or too small for a segment".into()));
        }
    }
    if let Some(probe) = gap.window.probes.first {
        proof.add_frame("probe", probe);
    }
    let reset = scene.connection.cold.ending().reset.filter(|reset| reset.frame == gap.next.frame);
    match reset {
        Some(reset) => proof.add_frame("reset", reset),
        None => {
            proof.add_ack(gap, "ack");
            let fins = scene.connection.cold.ending().fin;
            let says = gap.next.payload_bytes > 0
                || fins.iter().flatten().any(|fin| fin.frame == gap.next.frame);
            match gap.next.from == gap.sender || says {
                true => proof.add_frame_after(gap, proof.next_of(gap)),
                false => proof.add_frame("last_seen", gap.next),
            }
        }
    }
    let zero = scene.sender().counts().zero_window_advertisements > 0;
    let all_arrived = gap.acks.last.is_some_and(|ack| ack.acked_all) || gap.flight.before == 0;
    proof.rule_out(Cause::ReceiveWindow, "closed", zero && !gap.window.is_narrow);
    proof.rule_out(Cause::ServerThink, "peer_ready", reset.is_none() && gap.ack_triggered());
    proof.rule_out(Cause::RetransmissionTimeout, "acknowledged", all_arrived);
    proof.rule_out(Cause::RetransmissionTimeout, "probes_answered", gap.window.probes.answered > 0);
}

/// Returns whether the receiving application stopped reading for long, or reads only a little at a
/// time.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let Some(endpoint) = case.endpoint() else { return false };
    case.is_deep() && buffer_limits::has_stopped(case.cause, case.floors)
        || case.is_broad() && buffer_limits::is_unread(case.cause, endpoint, case.floors)
}

/// Returns why the windows may be those of another host, if one acknowledges in the name of the server.
pub(super) fn facts(key: &Key, _: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let is_nearer = endpoint.round_trips.are_acknowledged_nearer(endpoint.connections);
    let hidden = (key.sender == Side::Client && is_nearer).then(nearer_host);
    hidden.into_iter().collect()
}

/// Counts the bytes that were read, the probes, and the connections that did not survive.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    buffer_limits::add_up(scene, shown);
    shown.add("probes", scene.gap().window.probes.sent.into());
    shown.add("answered", scene.gap().window.probes.answered.into());
    let reset = matches!(scene.exchange.outcome, Outcome::Reset { .. });
    let unanswered = scene.gap().window.probes.sent > scene.gap().window.probes.answered;
    shown
        .add("died", u64::from(reset && unanswered && scene.sender().history().window.is_closed()));
}
