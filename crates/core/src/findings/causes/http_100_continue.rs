//! A client that waits for `100 Continue` (RFC 9110 §10.1.1) before it sends the body.

use crate::findings::facts::Facts;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::judge::Turn;
use crate::model::{Cause, Fact};
use crate::wire::Side;

/// Proves the wait by the request header, its ACK, and the body that the client sent without a `100
/// Continue`.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    if gap.turn == Turn::Answers {
        proof.add_frame_before(gap, "flight_end");
        proof.add_frame(if gap.next.from == Side::Client { "left" } else { "late" }, gap.next);
        proof.add_fact("never", Fact::Text("never".into()));
    } else {
        proof.add_silence(gap);
    }
    proof.rule_out(Cause::ClientThink, "expected", gap.protocol.expects_continue);
    let acked = gap.acks.last.is_some_and(|ack| ack.acked_all && !gap.ack_triggered());
    proof.rule_out(Cause::NagleDelayedAck, "acked", acked);
    proof.rule_out(Cause::ServerThink, "body_missing", gap.protocol.expects_continue);
    proof.rule_out(Cause::ZeroWindow, "window_open", gap.window.was_open(gap.next_segment()));
}

/// Returns the number of requests: each waits once, also where several silences follow its header.
pub(super) fn count(cause: &CauseTally) -> u64 {
    cause.exchanges
}

/// Returns the median of the client's waits.
pub(super) fn facts(_: &Key, cause: &CauseTally, _: &EndpointTally) -> Facts {
    Facts::from([("wait_p50_ns", Fact::Ns(cause.waits.quantile_ns(0.5)))])
}
