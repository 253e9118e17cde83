//! The evidence for a sender that is limited by its own window although the receiver's has room,
//! which is the same for all such causes. The size of the flight, round by round, distinguishes
//! them.

use crate::findings::proof::Proof;
use crate::judge::Gap;
use crate::model::{Cause, Fact};

/// Adds the end of a flight, the ACK that allowed the next one, and the start of the next one.
pub(super) fn see_flights(gap: &Gap, proof: &mut Proof) {
    if gap.spaced() { see_pace(gap, proof) } else { proof.see_silence(gap) }
}

/// Adds one step of a paced sender: the last segment, and the next one, which its kernel sent a
/// step later though its application had written it long before.
fn see_pace(gap: &Gap, proof: &mut Proof) {
    proof.see_before(gap, "paced");
    proof.see_after(gap, "paced_next");
    proof.fact("step_ns", Fact::Ns(gap.len_ns()));
}

/// Excludes the receive window and the application.
pub(super) fn rule_out_ends(gap: &Gap, proof: &mut Proof) {
    proof.not(Cause::ReceiveWindow, "window_open", gap.window.was_open(gap.next_segment()));
    proof.not(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}
