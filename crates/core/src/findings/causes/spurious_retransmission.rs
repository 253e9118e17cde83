//! A retransmission of data that had arrived (RFC 2883, RFC 5682).
//!
//! Recognised at the end of the exchange, from D-SACKs and late originals (`name_losses` in
//! `tcp/connection/finished.rs`), or at the end of the capture (`spurious_timeouts` in
//! `findings/settling.rs`).

use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::CauseTally;
use crate::model::Cause;

/// Proves a spurious retransmission by the segment and its retransmission.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    match gap.repair.original {
        Some(original) => proof.add_frame("original", original),
        None => proof.add_frame_before(gap, "flight_end"),
    }
    proof.add_frame_after(gap, "retransmission");
    let dsack = scene.sender().history().counts.dsacks > 0;
    proof.rule_out(Cause::RetransmissionTimeout, "dsack", dsack);
    proof.rule_out(Cause::FastRecovery, "original_arrived", dsack);
    proof.rule_out(Cause::Reordering, "sent_again", gap.repair.original.is_some());
}

/// Returns the number of segments that were sent again for nothing: of waits that such a segment
/// ended, or of D-SACKs, if one wait has several.
pub(super) fn count(cause: &CauseTally) -> u64 {
    cause.count.max(cause.repaired)
}

/// Counts the D-SACKs that came since the exchange before.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    shown.add("dsack", scene.chain.segments.into());
}
