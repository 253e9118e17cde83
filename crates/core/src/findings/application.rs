//! Time of the applications themselves: what no mechanism of TCP explains.

use crate::findings::scene::{Proof, Scene};
use crate::judge::Turn;
use crate::model::Cause;

/// Proves a silence of the application: the request, and the frame with which it went on.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let (before, after) = match (scene.chain.cause, gap.turn) {
        (Cause::ServerThink, Turn::Answers) => ("request", "response"),
        (Cause::ClientThink, Turn::Answers) => ("flight_end", "request"),
        _ => ("flight_end", "next"),
    };
    proof.see_before(gap, before);
    // A FIN or a RST says that nothing more comes.
    let says = gap.next.payload_bytes > 0;
    proof.see_after(gap, if says { after } else { "end" });
    let free = gap.turn == Turn::Answers || !gap.ack_triggered();
    proof.not(Cause::NagleDelayedAck, "not_ack_clocked", free);
    let nothing_lost = !gap.losses.missing.any() && !gap.repair.is_retransmission();
    let nothing_again = nothing_lost && scene.nothing_again();
    proof.not(Cause::RetransmissionTimeout, "nothing_lost", nothing_again);
    proof.not(Cause::ZeroWindow, "window_open", gap.window.closed_ns == 0);
}
