//! Segments that arrived out of order (RFC 5236).
//!
//! Recognised in `judge/loss.rs` if a late segment ends the silence, and otherwise at the end of
//! the exchange (`name_losses` in `tcp/connection/ending.rs`).

use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::model::{Cause, Fact};

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
