//! An advertised window below the bandwidth-delay product (RFC 7323 §1.1).

use crate::findings::buffer_limits;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::judge::Shape;
use crate::model::{Cause, Fact};
use crate::tcp::SynMarks;
use crate::wire::Side;

/// Name of the fact: options that the client offers and the SYN-ACK lacks. The server or its path, and
/// not the client's buffer, keeps the window small.
pub(in crate::findings) const DROPPED: &str = "dropped";

/// Name of the number of waits at windows that are scaled though the SYN-ACK, as its client got it, does
/// not say so.
const MISREAD: &str = "misread_waits";

/// Returns whether the handshake shows that the option of the gap's receiver was lost: the client
/// offered it, so that the server could answer with it, and uses scaled windows.
fn is_option_lost(scene: &Scene<'_>) -> bool {
    let setup = &scene.connection.setup;
    let offered = setup.marks().has(SynMarks::WINDOW_SCALE) && setup.is_unscaled();
    scene.gap().sender == Side::Client && scene.gap().window.misread && offered
}

/// Proves a small window by the last segment that fitted, the ACK that opened it, and the next
/// segment.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let fills = gap.window.limits(gap.next_segment());
    proof.add_frame_before(gap, if fills { "flight_end" } else { "last" });
    proof.add_held_data(gap);
    if gap.window.bytes != Some(0) {
        scene.limited_to(gap.window.bytes.unwrap_or(gap.flight.before), proof);
    }
    let scale = match scene.sender().space.window_scale() {
        Some(0) => Some("not in use, so it cannot exceed 64 KiB".into()),
        Some(scale) => Some(format!("in use (factor {})", 1u32 << scale.min(14))),
        None => None,
    };
    if let Some(scale) = scale.filter(|_| !is_option_lost(scene)) {
        proof.add_fact("scale", Fact::Text(scale));
    }
    // A window twice as wide could not be advertised in 16 bits (RFC 7323 §1.1).
    let is_widest = gap.window.bytes.is_some_and(|bytes| 2 * bytes > u64::from(u16::MAX));
    if scene.sender().space.window_scale() == Some(0) && is_widest {
        proof.add_fact("unscaled", Fact::Text("the window cannot be wider".into()));
        let setup = &scene.connection.setup;
        // A client that offers a factor of 1 has no wider window either.
        let offered = gap.sender == Side::Server && setup.marks().has(SynMarks::WINDOW_SCALE);
        if offered && setup.is_unscaled() {
            let sack_too = setup.marks().has(SynMarks::SACK) && !setup.has_sack();
            let dropped = if sack_too { "window scaling and SACK" } else { "window scaling" };
            proof.add_fact("server", Fact::Text(scene.connection.server().to_string()));
            proof.add_fact(DROPPED, Fact::Text(dropped.into()));
        }
        // The server may not use what the SYN does not offer (RFC 7323 §2.2).
        if setup.frames().syn.is_some() && !setup.marks().has(SynMarks::WINDOW_SCALE) {
            proof.add_fact("unoffered", Fact::Text("has no window scale option".into()));
        }
    }
    if is_option_lost(scene) {
        proof.add_fact("server", Fact::Text(scene.connection.server().to_string()));
        proof.add_fact("unscaled", Fact::Text("the window cannot be wider".into()));
        proof.add_fact("misread", Fact::Text("takes scaled windows for bytes".into()));
    }
    proof.rule_out(Cause::ZeroWindow, "not_zero", gap.window.closed_ns == 0);
    proof.rule_out(
        Cause::SendBuffer,
        "flight_equals_window",
        gap.window.limits(gap.next_segment()),
    );
    proof.rule_out(Cause::CongestionWindow, "nothing_lost", scene.nothing_retransmitted());
    proof.rule_out(
        Cause::SlowStart,
        "flight_constant",
        matches!(gap.flight.shape, Shape::Ceiling { .. }),
    );
    proof.rule_out(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}

/// Counts the bytes that the receiving application read.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    buffer_limits::add_up(scene, shown);
    shown.add(MISREAD, is_option_lost(scene).into());
}

/// Returns whether a wider window would have saved most of the lost time.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let Some(endpoint) = case.endpoint() else { return false };
    let is_lost = case.cause.shown.count(MISREAD) > 0;
    let is_short = || buffer_limits::is_short(case.key, case.cause, endpoint, case.floors);
    case.is_broad() && (is_lost || is_short())
}

/// Returns how often the window limited the sender, if the window did not always have the same
/// size.
pub(super) fn facts(key: &Key, cause: &CauseTally, endpoint: &EndpointTally) -> Facts {
    let window = endpoint.sender(key.sender).window;
    let moved = Fact::Count(window.at_any.into());
    (!window.is_fixed() && cause.shown.count(MISREAD) == 0)
        .then_some(("moved", moved))
        .into_iter()
        .collect()
}
