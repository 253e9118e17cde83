//! Packets above a size are lost, and no ICMP error reports it (RFC 2923 §2.1), or their sender waits for
//! its timer though one does.
//!
//! The cause is recognised at the end of an exchange (`name_losses` in `tcp/connection/finished.rs`),
//! from the sizes of all segments of a direction ([`crate::tcp::Sender::has_mtu_black_hole`]): a
//! single silence does not distinguish it from another loss.

use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::model::{Cause, Fact};

/// Proves a limit of the packet size by the full-sized segment, its retransmissions, and the two
/// sizes between which the limit lies.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let sender = scene.sender();
    let (passed_bytes, lost_bytes) = sender.history().mtu.size_bracket(&sender.sizes);
    let less = gap.repair.original.is_none_or(|it| gap.next_len < u64::from(it.payload_bytes));
    let shorter = gap.next_len <= passed_bytes && less;
    match gap.repair.original.filter(|original| u64::from(original.payload_bytes) > passed_bytes) {
        Some(original) => proof.add_frame("lost", original),
        None => proof.add_frame_before(gap, "flight_end"),
    }
    proof.add_frame_after(gap, if shorter { "smaller" } else { "retransmission" });
    if lost_bytes > passed_bytes {
        proof.add_fact("lost_bytes", Fact::Bytes(lost_bytes));
    }
    if passed_bytes > 0 {
        proof.add_fact("passed_bytes", Fact::Bytes(passed_bytes));
    }
    if let Some(told) = scene.connection.cold.icmp_report().filter(|told| told.mtu > 0) {
        proof.add_frame("icmp", told.seen);
        proof.add_fact("mtu", Fact::Bytes(told.mtu.into()));
        // Segments of just that size show that the sender has heard of it.
        let now_bytes = passed_bytes.max(gap.next_len);
        if told.is_obeyed_by(gap.sender, now_bytes) {
            proof.add_fact("obeyed_bytes", Fact::Bytes(now_bytes));
        }
    }
    let bracketed = passed_bytes > 0 && lost_bytes > passed_bytes;
    proof.rule_out(Cause::RetransmissionTimeout, "by_size", bracketed);
    proof.rule_out(
        Cause::ZeroWindow,
        "window_open",
        gap.window.closed_ns == 0 && gap.window.was_open(gap.next_segment()),
    );
    proof.rule_out(Cause::ServerThink, "sent_again", gap.repair.original.is_some());
}
