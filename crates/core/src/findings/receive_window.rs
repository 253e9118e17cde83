//! An advertised window below the bandwidth-delay product (RFC 7323 §1.1).

use crate::findings::scene::{Proof, Scene};
use crate::judge::Shape;
use crate::model::{Cause, Fact};

/// The last segment that fitted, the ACK that opened the window, and what followed.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let fills = gap.window.limits(gap.next_segment());
    proof.see_before(gap, if fills { "flight_end" } else { "last" });
    proof.see_held(gap);
    if gap.window.bytes != Some(0) {
        scene.limited_to(gap.window.bytes.unwrap_or(gap.flight.before), proof);
    }
    let scale = match scene.sender().window_scale {
        Some(0) => Some("not in use, so it cannot exceed 64 KiB".into()),
        Some(scale) => Some(format!("in use (factor {})", 1u32 << scale.min(14))),
        None => None,
    };
    if let Some(scale) = scale {
        proof.fact("scale", Fact::Text(scale));
    }
    proof.not(Cause::ZeroWindow, "not_zero", gap.window.closed_ns == 0);
    proof.not(Cause::SendBuffer, "flight_equals_window", gap.window.limits(gap.next_segment()));
    proof.not(Cause::CongestionWindow, "nothing_lost", scene.nothing_again());
    proof.not(
        Cause::SlowStart,
        "flight_constant",
        matches!(gap.flight.shape, Shape::Ceiling { .. }),
    );
    proof.not(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}
