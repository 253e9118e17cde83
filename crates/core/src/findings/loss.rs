//! Losses and their repair: by timer (RFC 6298, RFC 8985 §7) or by duplicate ACKs (RFC 5681
//! §3.2, RFC 6675, RFC 8985).

use crate::findings::scene::{Proof, Scene};
use crate::findings::set_up;
use crate::judge::may_be_probe;
use crate::model::{Cause, Fact};

/// Adds the lost frame (or the last one before it, if it was lost before the vantage) and its
/// repetition.
fn see_repair(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    match gap.repair.original {
        Some(original) => proof.see("lost", original),
        None => proof.see_before(gap, "flight_end"),
    }
    if let Some(duplicate) = gap.duplicates.first {
        proof.see("duplicate_ack", duplicate);
    }
    let repeats = gap.repair.is_retransmission() || gap.losses.missing.any();
    let part = match (repeats, gap.next_len) {
        (true, 0) => "end",
        (true, _) => "retransmission",
        _ => "next",
    };
    proof.see_after(gap, part);
    let place = match gap.repair.original {
        Some(_) => Some("between the capture and the receiver"),
        None if gap.repair.unseen || !gap.repair.is_retransmission() => {
            Some("between the sender and the capture")
        }
        // It did come here, and it is too long ago to know in which frame.
        None => None,
    };
    if let Some(place) = place.filter(|_| repeats) {
        proof.fact("place", Fact::Text(place.into()));
    }
}

/// The segment, the silence, and the timer's repetition.
pub(super) fn prove_timeout(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    see_repair(scene, proof);
    if let Some(told) = scene.connection.rejects(gap.sender) {
        set_up::see_icmp(told, proof);
    }
    // As the frames shown have it.
    let sent = gap.repair.original.unwrap_or(gap.last);
    if sent.known().is_some() {
        proof.fact("rto_ns", Fact::Ns(gap.next.time_ns.saturating_sub(sent.time_ns)));
    }
    if may_be_probe(gap) {
        proof.fact("unheard_bytes", Fact::Bytes(gap.flight.before));
    }
    let half = scene.sender();
    proof.not(Cause::ServerThink, "sent_again", gap.repair.original.is_some());
    // What the other side acknowledges is seen only where what it sends is.
    let heard = scene.connection.senders[gap.sender.peer() as usize].seen();
    let unneeded = half.history().counts.dsacks > 0;
    proof.not(Cause::SpuriousRetransmission, "not_acknowledged", heard && !unneeded);
    proof.not(Cause::FastRecovery, "no_duplicate_acks", heard && gap.duplicates.first.is_none());
    proof.not(
        Cause::ZeroWindow,
        "window_open",
        gap.window.closed_ns == 0 && gap.window.was_open(gap.next_segment()),
    );
    let passes = u64::from(half.sizes.acked_max()) >= gap.next_len.min(gap.smss);
    proof.not(
        Cause::MtuBlackHole,
        "sizes_pass",
        passes && gap.repair.is_retransmission() && gap.next_len > 0,
    );
}

/// The segment, the duplicate ACK that reported it missing, and the repetition.
pub(super) fn prove_recovery(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    see_repair(scene, proof);
    let (half, unneeded) = (scene.sender(), scene.sender().history().counts.dsacks > 0);
    // Without SACK a receiver cannot say that something came twice (RFC 2883).
    let told = scene.connection.setup.has_sack() && !unneeded;
    let segments = half.segments_sent();
    if segments > 0 {
        let share = half.counts().rexmt_data_packets as f64 / segments as f64;
        proof.fact("loss_share", Fact::Share(share));
    }
    proof.not(Cause::Reordering, "not_late", gap.repair.is_retransmission() && told);
    proof.not(Cause::SpuriousRetransmission, "no_dsack", told);
    proof.not(Cause::RetransmissionTimeout, "reported", gap.duplicates.first.is_some());
    proof.not(Cause::CongestionWindow, "hole", gap.repair.is_retransmission());
}

/// The segment, and its needless repetition.
pub(super) fn prove_spurious(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    match gap.repair.original {
        Some(original) => proof.see("original", original),
        None => proof.see_before(gap, "flight_end"),
    }
    proof.see_after(gap, "retransmission");
    let dsack = scene.sender().history().counts.dsacks > 0;
    proof.not(Cause::RetransmissionTimeout, "dsack", dsack);
    proof.not(Cause::FastRecovery, "original_arrived", dsack);
    proof.not(Cause::Reordering, "sent_again", gap.repair.original.is_some());
}

/// The segment that overtook, and the one that came late.
pub(super) fn prove_reordering(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    proof.see_before(gap, "early");
    if let Some(duplicate) = gap.duplicates.first {
        proof.see("duplicate_ack", duplicate);
    }
    proof.see_after(gap, if gap.repair.overtaken { "late" } else { "retransmission" });
    proof.fact(
        "late_ns",
        Fact::Ns(if gap.repair.overtaken { gap.repair.late_ns } else { gap.len_ns() }),
    );
    let spurious = u64::from(scene.sender().history().counts.dsacks);
    if spurious > 0 {
        proof.fact("spurious", Fact::Count(spurious));
    }
    proof.not(Cause::FastRecovery, "original_late", gap.repair.overtaken);
    proof.not(Cause::SpuriousRetransmission, "not_sent_again", gap.repair.overtaken);
}
