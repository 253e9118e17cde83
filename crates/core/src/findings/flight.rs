//! A sender held back by ACKs though the offered window has room: its congestion window, or
//! its send buffer. The height of the flight, round by round, tells them apart.

use crate::findings::pacing;
use crate::findings::scene::{Proof, Scene};
use crate::judge::Shape;
use crate::judge::thresholds::LINUX_RTO_MIN_NS;
use crate::model::{Cause, Fact};

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
            if scene.exchange.idle_ns >= LINUX_RTO_MIN_NS && !scene.exchange.connects {
                proof.fact("idle_ns", Fact::Ns(scene.exchange.idle_ns));
            }
            proof.not(Cause::SendBuffer, "grows", gap.flight.shape == Shape::Opening);
            proof.not(Cause::CongestionWindow, "nothing_lost", scene.nothing_again());
        }
        _ => {
            proof.fact("cwnd_estimate_bytes", Fact::Bytes(gap.flight.before));
            proof.fact("losses", Fact::Count(scene.sender().counts().rexmt_data_packets));
            scene.limited_to(gap.flight.before, proof);
            proof.not(Cause::SlowStart, "after_loss", gap.losses.occurred);
        }
    }
    proof.not(Cause::ReceiveWindow, "window_open", gap.window.was_open(gap.next_segment()));
    proof.not(Cause::ServerThink, "ack_clocked", gap.ack_triggered());
}

/// In how many round trips the sender waited: not more than it waited for, however often within one.
fn round_trips(scene: &Scene<'_>) -> u64 {
    let (waits, rtt_ns) = (u64::from(scene.chain.count), scene.gap().rtt.base_ns);
    if rtt_ns == 0 {
        return waits;
    }
    let lasted = (scene.chain.ns + rtt_ns / 2) / rtt_ns;
    waits.min(lasted.max(1))
}

fn prove_ceiling(scene: &Scene<'_>, proof: &mut Proof) {
    let gap = scene.gap();
    let height = match gap.flight.shape {
        Shape::Ceiling { bytes, .. } => bytes,
        Shape::Opening => scene.sender().counts().flight_size_max_bytes,
    };
    proof.fact("ceiling_bytes", Fact::Bytes(height));
    scene.limited_to(height, proof);
    let flat = matches!(gap.flight.shape, Shape::Ceiling { .. });
    proof.not(Cause::SlowStart, "ceiling_flat", flat);
    proof.not(Cause::CongestionWindow, "nothing_lost", scene.nothing_again());
    proof.not(Cause::Bandwidth, "idle_link", gap.bottleneck.busy_ns < gap.len_ns() / 2);
}
