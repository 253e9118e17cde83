//! The frames of a sender held back by its own window though the receiver's has room, which its
//! causes show alike. The height of the flight, round by round, tells them apart.

use crate::findings::proof::Proof;
use crate::judge::Gap;
use crate::model::{Cause, Fact};

/// Adds the end of a flight, the ACK that let the next one go, and that.
pub(super) fn see_flights(gap: &Gap, proof: &mut Proof) {
    if gap.spaced() { see_pace(gap, proof) } else { proof.see_silence(gap) }
}

/// Adds a step of a paced sender: the last segment, and the one that its kernel released a step
/// later, though its application had long written it.
fn see_pace(gap: &Gap, proof: &mut Proof) {
    proof.see_before(gap, "paced");
    proof.see_after(gap, "paced_next");
    proof.fact("step_ns", Fact::Ns(gap.len_ns()));
}

/// Excludes the receiver's window and the application.
pub(super) fn rule_out_ends(gap: &Gap, proof: &mut Proof) {
    proof.not(Cause::ReceiveWindow, "window_open", gap.window.was_open(gap.next_segment()));
    proof.not(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}
