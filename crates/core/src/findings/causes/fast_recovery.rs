//! A loss that duplicate ACKs or SACK reported (RFC 5681 §3.2, RFC 6675, RFC 8985).
//!
//! Recognised in `judge/loss.rs`, which determines what triggered the retransmission of a lost
//! segment.

use super::repair::{self, add_repair};
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::findings::thresholds::{OFTEN_FACTOR, REPAIR_FACTOR};
use crate::judge::thresholds::HABIT_MIN;
use crate::model::{Cause, Fact};

/// Proves a fast recovery by the segment, the duplicate ACK that reported it missing, and its
/// retransmission.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    add_repair(scene, proof);
    let half = scene.sender();
    let counts = &half.history().counts;
    let unneeded = counts.reported_spurious() > 0 || counts.has_other_blocks();
    // Without SACK a receiver cannot report that a segment arrived twice (RFC 2883).
    let told = scene.connection.setup.has_sack() && !unneeded;
    let segments = counts.segments_sent(half.volume.unique_bytes, half.sizes.smss());
    if segments > 0 {
        let share = half.counts().rexmt_data_packets as f64 / segments as f64;
        proof.add_fact("loss_share", Fact::Share(share));
    }
    proof.rule_out(Cause::Reordering, "not_late", gap.repair.is_retransmission() && told);
    proof.rule_out(Cause::SpuriousRetransmission, "no_dsack", told);
    proof.rule_out(Cause::RetransmissionTimeout, "reported", repair::report(gap).is_some());
    proof.rule_out(Cause::CongestionWindow, "hole", gap.repair.is_retransmission());
}

/// Returns the number of segments that were sent again; of silences where that was not captured.
/// More silences follow a loss: those of the smaller window.
pub(super) fn count(cause: &CauseTally) -> u64 {
    if cause.repaired > 0 { cause.repaired } else { cause.count }
}

/// Returns the number of silences that no retransmission ended, if there are any, and the host that
/// dropped what was lost, if it is known.
pub(super) fn facts(key: &Key, cause: &CauseTally, _: &EndpointTally) -> Facts {
    let further = cause.count.saturating_sub(count(cause));
    let mut facts = repair::dropper(key);
    facts.extend((further > 0).then_some(("further", Fact::Count(further))));
    facts
}

/// Returns whether fast recoveries, or waits for segments that come out of order, are a finding.
/// Most are not, because TCP is designed to deal with both in this way.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    // A single wait counts if it takes a quarter of the time of a transfer, and at least the
    // least time of a reported cost.
    let of_one = case.cause.share_max >= REPAIR_FACTOR * case.floors.fault_share;
    let felt = case.cause.share_max_ns >= case.floors.cost_ns;
    is_often_or_long(case) || case.is_broad() && felt && of_one
}

/// Returns whether recoveries are frequent or long: together with the waits for the smaller
/// congestion window afterwards, they take a large enough share of the time at the endpoint.
pub(super) fn is_often_or_long(case: &Case<'_>) -> bool {
    let after_ns = case.tally.cost_of(Cause::CongestionWindow, case.key.server);
    let with_window = case.share_of(case.cause.lost_ns + after_ns);
    let often = case.cause.count >= u64::from(HABIT_MIN)
        && with_window >= OFTEN_FACTOR * case.floors.fault_share;
    case.is_broad() && (often || with_window >= REPAIR_FACTOR * case.floors.fault_share)
}
