//! An advertised window below the bandwidth-delay product (RFC 7323 §1.1).

use super::scene::{Proof, Scene};
use crate::model::{Cause, Fact, Owner, Slice};
use crate::tcp::{Gap, Shape};

/// The flight filled the window, and what moved the window's edge ended the silence. Where there
/// was no room at all, the window held the sender until then, whatever its application did after.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let opened = gap.ack.is_some_and(|ack| ack.opened_window);
    if gap.retransmission.is_some() || !opened {
        return None;
    }
    let of_window = |ns| Slice::of(Owner::ReceiveWindow, Cause::ReceiveWindow, ns);
    if gap.released() {
        return fills_window(gap).then(|| of_window(rest_ns));
    }
    let held_ns = rest_ns.saturating_sub(gap.sent_after_ack_ns());
    let held = gap.window_met && gap.window_limited() && 2 * held_ns >= rest_ns;
    held.then(|| of_window(held_ns))
}

/// A sender leaves up to a third of a small window unused rather than send it in small pieces,
/// so a flight that stands still just below the window is the window's; so is one below which a
/// window of this height has stood in the way before, and that the sender has exceeded.
fn fills_window(gap: &Gap) -> bool {
    let stands_at = match gap.shape {
        Shape::Ceiling { bytes, .. } => Some(bytes),
        Shape::Opening => (gap.window_met && gap.flight_free()).then_some(gap.flight_before),
    };
    let just_below = stands_at
        .zip(gap.window_before)
        .is_some_and(|(bytes, window)| bytes + (3 * gap.smss).min(window / 3) >= window);
    gap.window_limited() || just_below
}

/// The last segment that fitted, the ACK that opened the window, and what followed.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let fills = gap.window_limited();
    proof.see_before(gap, if fills { "flight_end" } else { "last" });
    proof.see_held(gap);
    if gap.window_before != Some(0) {
        scene.limited_to(gap.window_before.unwrap_or(gap.flight_before), proof);
    }
    let scale = match scene.sender().window_scale {
        Some(0) => Some("not in use, so it cannot exceed 64 KiB".into()),
        Some(scale) => Some(format!("in use (factor {})", 1u32 << scale.min(14))),
        None => None,
    };
    if let Some(scale) = scale {
        proof.fact("scale", Fact::Text(scale));
    }
    proof.not(Cause::ZeroWindow, "not_zero", gap.closed_ns == 0);
    proof.not(Cause::SendBuffer, "flight_equals_window", gap.window_limited());
    proof.not(Cause::CongestionWindow, "nothing_lost", scene.nothing_again());
    proof.not(Cause::SlowStart, "flight_constant", matches!(gap.shape, Shape::Ceiling { .. }));
    proof.not(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}
