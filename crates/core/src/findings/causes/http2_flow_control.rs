//! A window of HTTP/2 that its sender has used up (RFC 9113 §5.2): it is below the bandwidth-delay
//! product, or its receiver does not read.

use crate::findings::buffer_limits;
use crate::findings::facts::Facts;
use crate::findings::floors::Case;
use crate::findings::proof::{Proof, Shown};
use crate::findings::scene::Scene;
use crate::findings::tally::{CauseTally, EndpointTally, Key};
use crate::model::{Cause, Fact, Sighting};

/// Name of the number of exchanges in whose longest wait the grant came later than a round trip, and most
/// of the wait was beyond that.
const LATE: &str = "late_grants";

/// Proves a window that was used up by the last DATA that it allowed, the WINDOW_UPDATE, and the DATA
/// after it.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let Some(credit) = gap.credit else { return proof.add_silence(gap) };
    proof.add_frame_before(gap, "flight_end");
    let (frame, time_ns, from) = (credit.granted.frame, credit.granted.time_ns, gap.sender.peer());
    let payload_bytes = credit.granted.payload_bytes;
    proof.add_frame("window_update", Sighting { frame, time_ns, payload_bytes, from });
    proof.add_frame_after(gap, "released");
    proof.add_fact("http2_window_bytes", Fact::Bytes(credit.window_bytes));
    let scope = if credit.is_of_stream { "stream" } else { "connection" };
    proof.add_fact("scope", Fact::Text(scope.into()));
    if !is_late(scene) {
        scene.limited_to(credit.window_bytes, proof);
    }
    let has_room = gap.window.was_open(gap.next_segment());
    proof.rule_out(Cause::ReceiveWindow, "window_open", has_room);
    let acknowledged = gap.acks.last.is_some_and(|ack| ack.acked_all);
    proof.rule_out(Cause::SendBuffer, "grant_released", acknowledged);
    proof.rule_out(Cause::CongestionWindow, "nothing_lost", scene.nothing_retransmitted());
    proof.rule_out(Cause::ServerThink, "stops_at_the_limit", true);
}

/// Returns whether the receiver kept the grant back for most of the longest silence.
fn is_late(scene: &Scene<'_>) -> bool {
    let gap = scene.gap();
    gap.rtt.is_known() && 2 * gap.credit_late_ns() >= gap.len_ns()
}

/// Counts the bytes that had to be sent, and late grants.
pub(super) fn add_up(scene: &Scene<'_>, shown: &mut Shown) {
    buffer_limits::add_up(scene, shown);
    shown.add(LATE, is_late(scene).into());
}

/// Returns whether most waits are those for a reader, and not for the way of the grant.
fn are_late(cause: &CauseTally) -> bool {
    2 * cause.shown.count(LATE) > cause.exchanges
}

/// Returns whether a wider window, or a reader that reads faster, would have saved most of the lost time.
pub(super) fn is_finding(case: &Case<'_>) -> bool {
    let Some(endpoint) = case.endpoint() else { return false };
    case.is_broad()
        && match are_late(case.cause) {
            true => buffer_limits::is_unread(case.cause, endpoint, case.floors),
            false => buffer_limits::is_short(case.key, case.cause, endpoint, case.floors),
        }
}

/// Returns whether the receiver's application is what was waited for.
pub(super) fn facts(_: &Key, cause: &CauseTally, _: &EndpointTally) -> Facts {
    let late = Fact::Count(cause.shown.count(LATE));
    are_late(cause).then_some(("unread", late)).into_iter().collect()
}
