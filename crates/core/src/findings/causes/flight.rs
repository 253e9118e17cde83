//! The evidence for a sender that is limited by its own window although the receiver's has room,
//! which is the same for all such causes. The size of the flight, round by round, distinguishes
//! them.

use crate::findings::proof::Proof;
use crate::judge::Gap;
use crate::model::{Cause, Fact};

/// Adds the end of a flight, the ACK that allowed the next one, and the start of the next one.
pub(super) fn add_flights(gap: &Gap, proof: &mut Proof) {
    if gap.spaced() { add_pacing_step(gap, proof) } else { proof.add_silence(gap) }
}

/// Adds one step of a paced sender: the last segment, and the next one, which its kernel sent a
/// step later though its application had written it long before.
fn add_pacing_step(gap: &Gap, proof: &mut Proof) {
    proof.add_frame_before(gap, "paced");
    proof.add_frame_after(gap, "paced_next");
    proof.add_fact("step_ns", Fact::Ns(gap.len_ns()));
}

/// Excludes the receive window and the application.
pub(super) fn rule_out_ends(gap: &Gap, proof: &mut Proof) {
    proof.rule_out(Cause::ReceiveWindow, "window_open", gap.window.was_open(gap.next_segment()));
    proof.rule_out(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}
