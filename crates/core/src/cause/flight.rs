//! A sender held back by ACKs though the offered window has room: its congestion window, or
//! its send buffer. The height of the flight, round by round, tells them apart.

use super::pacing;
use super::scene::{Proof, Scene, window_open};
use crate::model::{Cause, Fact, Owner, Slice};
use crate::tcp::{Gap, Shape};

/// A window may be reset after an idle time as long as the RTO (RFC 5681 §4.1): on Linux at
/// least this.
const RESTART_NS: u64 = 200_000_000;

/// The silence ended with an ACK while data was unacknowledged. A flight that grows is a
/// window that opens (RFC 5681 §3.1); one that stands still for rounds, with room in the
/// receiver's window, is a buffer: if no loss can have come before it, or if each time the sender had
/// nothing more buffered that a congestion window could hold back. What goes on with a duplicate ACK
/// waited for less to be under way, too. What its writer would have paused anyhow is his own.
pub(super) fn recognise(gap: &Gap, rest_ns: u64) -> Option<Slice> {
    let rest_ns = rest_ns.saturating_sub(gap.own_pause_ns);
    let held_back = gap.retransmission.is_none() && gap.flight_held() > gap.smss;
    if !held_back {
        return None;
    }
    if !gap.ack_triggered() && gap.duplicate_triggered() {
        return Some(Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, rest_ns));
    }
    if !gap.ack_triggered() {
        let held_ns = rest_ns.saturating_sub(gap.after_ack_ns());
        let held =
            gap.ack.is_some() && fills_buffer(gap) && takes_two(gap) && 2 * held_ns >= rest_ns;
        return held.then(|| Slice::of(Owner::SendBuffer, Cause::SendBuffer, held_ns));
    }
    // Who is far below a ceiling was not held back by it.
    let at_height = match gap.shape {
        Shape::Ceiling { bytes, drained: true } => 2 * gap.flight_before >= bytes && takes_two(gap),
        _ => true,
    };
    at_height.then(|| match gap.shape {
        Shape::Ceiling { drained: true, .. } => {
            Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns)
        }
        _ if gap.after_loss => Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, rest_ns),
        Shape::Ceiling { .. } if gap.may_be_after_loss => {
            Slice::of(Owner::CongestionWindow, Cause::CongestionWindow, rest_ns)
        }
        Shape::Ceiling { .. } => Slice::of(Owner::SendBuffer, Cause::SendBuffer, rest_ns),
        Shape::Opening => Slice::of(Owner::CongestionWindow, Cause::SlowStart, rest_ns),
    })
}

/// Whether two segments were out: what went on after less may be messages of an application, and a
/// buffer that takes no more is one that waits for each ACK (`delayed_ack`).
fn takes_two(gap: &Gap) -> bool {
    gap.flight_before >= 2 * gap.smss
}

/// Whether the flight fills a buffer that has stood in the way before: until an ACK, the
/// application could not have gone on, whatever it did then. Linux wakes one that waits for room
/// when a third of its buffer is free.
fn fills_buffer(gap: &Gap) -> bool {
    buffer_bytes(gap).is_some_and(|bytes| 3 * gap.flight_before >= 2 * bytes)
}

/// The size of a buffer that has stood in the way before.
pub(super) fn buffer_bytes(gap: &Gap) -> Option<u64> {
    match gap.shape {
        Shape::Ceiling { bytes, drained } if drained || !gap.may_be_after_loss => Some(bytes),
        _ => None,
    }
}

/// The end of a flight, the ACK that let the next one go, and the arithmetic of its height.
pub(super) fn prove(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    match scene.chain.cause {
        Cause::SlowStart | Cause::CongestionWindow if gap.spaced() => pacing::prove(gap, proof),
        Cause::SendBuffer => proof.see_held(gap),
        _ => proof.see_silence(gap),
    }
    match scene.chain.cause {
        Cause::SendBuffer => prove_ceiling(scene, proof),
        Cause::SlowStart => {
            proof.fact("rounds", Fact::Count(round_trips(scene)));
            let wall_ns = scene.exchange.wall_ns();
            proof.fact("warm_ns", Fact::Ns(wall_ns.saturating_sub(scene.chain.ns)));
            let began = scene.exchange.began_at[gap.sender as usize];
            proof.fact("bytes", Fact::Bytes(scene.sender().nxt.saturating_sub(began)));
            if scene.exchange.idle_ns >= RESTART_NS && !scene.exchange.connects {
                proof.fact("idle_ns", Fact::Ns(scene.exchange.idle_ns));
            }
            proof.not(Cause::SendBuffer, "grows", gap.shape == Shape::Opening);
            proof.not(Cause::CongestionWindow, "nothing_lost", scene.nothing_again());
        }
        _ => {
            proof.fact("cwnd_estimate_bytes", Fact::Bytes(gap.flight_before));
            proof.fact("losses", Fact::Count(scene.sender().counts().rexmt_data_packets));
            scene.limited_to(gap.flight_before, proof);
            proof.not(Cause::SlowStart, "after_loss", gap.after_loss);
        }
    }
    proof.not(Cause::ReceiveWindow, "window_open", window_open(gap));
    proof.not(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}

/// In how many round trips the sender waited: not more than it waited for, however often within one.
fn round_trips(scene: &Scene<'_>) -> u64 {
    let (waits, rtt_ns) = (u64::from(scene.chain.count), scene.gap().rtt_base_ns);
    if rtt_ns == 0 {
        return waits;
    }
    let lasted = (scene.chain.ns + rtt_ns / 2) / rtt_ns;
    waits.min(lasted.max(1))
}

fn prove_ceiling(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let height = match gap.shape {
        Shape::Ceiling { bytes, .. } => bytes,
        Shape::Opening => scene.sender().counts().flight_size_max_bytes,
    };
    proof.fact("ceiling_bytes", Fact::Bytes(height));
    scene.limited_to(height, proof);
    let flat = matches!(gap.shape, Shape::Ceiling { .. });
    proof.not(Cause::SlowStart, "ceiling_flat", flat);
    proof.not(Cause::CongestionWindow, "nothing_lost", scene.nothing_again());
    proof.not(Cause::Bandwidth, "idle_link", gap.busy_ns < gap.len_ns() / 2);
}
