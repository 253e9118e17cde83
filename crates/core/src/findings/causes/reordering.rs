//! Segments that arrived out of order (RFC 5236).
//!
//! Recognised in `judge/loss.rs` if a late segment ends the silence, and otherwise at the end of
//! the exchange (`name_losses` in `tcp/connection/finished.rs`).

use super::fast_recovery;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::model::{Cause, Fact};

/// Name of the number of exchanges in which the segment itself is seen to come late.
const SEEN_LATE: &str = "seen_late";

/// Counts the exchanges in which the late segment is seen. In others it may have been sent again, by a
/// host whose first transmission the capture lacks.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    shown.add(SEEN_LATE, scene.gap().repair.overtaken.into());
}

/// Returns whether reordering is frequent or long, or a single wait for a segment that is seen to come
/// late takes much of a transfer.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let is_seen = case.cause.shown.count(SEEN_LATE) > 0;
    fast_recovery::is_often_or_long(case) || is_seen && fast_recovery::is_finding(case)
}

/// Proves the late arrival of a segment by that segment and the one that overtook it.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.add_frame_before(gap, "early");
    if let Some(duplicate) = gap.duplicates.first {
        proof.add_frame("duplicate_ack", duplicate);
    }
    proof.add_frame_after(gap, if gap.repair.overtaken { "late" } else { "retransmission" });
    proof.add_fact(
        "late_ns",
        Fact::Ns(if gap.repair.overtaken { gap.repair.late_ns } else { gap.len_ns() }),
    );
    let spurious = u64::from(scene.sender().history().counts.dsacks);
    if spurious > 0 {
        proof.add_fact("spurious", Fact::Count(spurious));
    }
    proof.rule_out(Cause::FastRecovery, "original_late", gap.repair.overtaken);
    proof.rule_out(Cause::SpuriousRetransmission, "not_sent_again", gap.repair.overtaken);
}
