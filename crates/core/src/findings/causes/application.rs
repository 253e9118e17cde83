//! The evidence for an application's own time, which is the same for client and server: the time
//! that no mechanism of TCP explains.

use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::judge::Turn;
use crate::model::Cause;

/// Proves that the application was silent. `answers` are the names of the frames before and after a
/// silence in which the other side waited for an answer.
pub(super) fn prove(scene: &Scene<'_>, answers: (&'static str, &'static str), proof: &mut Proof) {
    let gap = scene.gap();
    let (before, after) = match gap.turn {
        Turn::Answers => answers,
        Turn::Continues => ("flight_end", "next"),
    };
    // Before a greeting, the end of the handshake is what the server waited for.
    let is_asked = before != "request" || gap.last.payload_bytes > 0;
    proof.add_frame_before(gap, if is_asked { before } else { "opened" });
    // A FIN or a RST shows that the application sends nothing more.
    let says = gap.next.payload_bytes > 0;
    proof.add_frame_after(gap, if says { after } else { "end" });
    let free = gap.turn == Turn::Answers || !gap.ack_triggered();
    proof.rule_out(Cause::NagleDelayedAck, "not_ack_clocked", free);
    let nothing_lost = !gap.losses.missing.any() && !gap.repair.is_retransmission();
    let nothing_retransmitted = nothing_lost && scene.nothing_retransmitted();
    proof.rule_out(Cause::RetransmissionTimeout, "nothing_lost", nothing_retransmitted);
    proof.rule_out(Cause::ZeroWindow, "window_open", gap.window.closed_ns == 0);
}
