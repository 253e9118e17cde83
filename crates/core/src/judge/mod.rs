//! Attributes the time of a silence to mechanisms, by pure functions of a [`Gap`], with one file
//! for each mechanism.
//!
//! The file of a mechanism states how it is recognised: by which side waited for what, never by a
//! fixed duration alone. [`judge`] asks the mechanisms in order, the most specific first; time that
//! none of them claims is the application's. The file of the same name in `findings/causes` proves
//! a case to the reader.

mod answer;
mod application;
mod bufferbloat;
mod delayed_ack;
mod facts;
mod flight;
mod gap;
mod http2_flow_control;
mod http_100_continue;
mod loss;
mod nagle_delayed_ack;
mod pacing;
mod queue_delay;
mod receive_window;
mod shape;
mod small_writes;
pub mod thresholds;
mod tls_handshake;
mod zero_window;

pub use answer::Answer;
pub use application::busy;
pub use bufferbloat::{Leg, own_ns};
pub use delayed_ack::after_late_ack;
pub use gap::{
    AckTrigger, Acks, Bottleneck, DuplicateAcks, Flight, Gap, LateAcks, Losses, MissingPackets,
    NagleEvidence, OfferedWindow, Pace, ProtocolState, Recovery, Repair, RoundTrips, SmallAck,
    Turn, Unsent, WindowProbes,
};
pub use loss::{
    is_time_for_timer, may_be_probe, may_be_timer, overtaken, timed_out, unseen_repair_ns,
};
pub use queue_delay::QueueDelay;
pub use shape::Shape;

use crate::model::{Cause, Owner, Slice, Slices};

/// Returns the part of `rest_ns` of a silence that this mechanism claims, or the reason for which
/// it declines.
type Recogniser = fn(&Gap, u64) -> Answer;

/// The silences about which a mechanism is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All silences.
    Always,
    /// Silences within a message; these mechanisms do not delay the first byte of an answer.
    Within,
}

/// The recognisers, the most specific first: each may rely on the fact that those above it have
/// declined. [`explain`] returns their names.
const RECOGNISERS: &[(&str, Scope, Recogniser)] = &[
    ("retransmission", Scope::Always, loss::repair),
    ("loss before the capture", Scope::Always, loss::unseen),
    ("http_100_continue", Scope::Always, http_100_continue::recognise),
    ("zero_window", Scope::Always, zero_window::recognise),
    ("receive_window", Scope::Always, receive_window::recognise),
    ("http2_flow_control", Scope::Within, http2_flow_control::recognise),
    ("nagle_delayed_ack, answer", Scope::Always, nagle_delayed_ack::before_answer),
    ("nagle_delayed_ack", Scope::Within, nagle_delayed_ack::recognise),
    ("delayed_ack", Scope::Within, delayed_ack::recognise),
    ("send_buffer, small writes", Scope::Within, small_writes::recognise),
    ("recovery of a loss", Scope::Within, loss::recovery),
    ("congestion window or send buffer", Scope::Within, flight::recognise),
    ("pacing", Scope::Within, pacing::recognise),
];

/// Cuts a silence into slices with their owners.
pub fn judge(gap: &Gap) -> Slices {
    judge_before(gap, |_, _| {})
}

/// Cuts a silence into slices as [`judge`] does, and returns what each recogniser that was asked
/// answered.
pub fn explain(gap: &Gap) -> (Slices, Vec<(&'static str, Answer)>) {
    let mut answers = Vec::new();
    let slices = judge_before(gap, |name, answer| answers.push((name, answer)));
    (slices, answers)
}

/// Cuts a silence into slices, and passes each answer to `witness`.
#[inline(always)]
fn judge_before(gap: &Gap, mut witness: impl FnMut(&'static str, Answer)) -> Slices {
    let mut slices = Slices::new(gap.len_ns());
    if gap.protocol.in_handshake && !gap.repair.is_retransmission() && !gap.losses.missing.any() {
        if gap.turn == Turn::Continues && gap.last_small {
            let answer = nagle_delayed_ack::recognise(gap, slices.rest_ns);
            witness("nagle_delayed_ack", answer);
            answer.into_iter().for_each(|hold| slices.take(hold));
        }
        tls_handshake::split(gap).into_iter().for_each(|slice| slices.take(slice));
        return slices;
    }
    match gap.turn {
        Turn::Answers => {
            // The gap is the client's request after a handshake: the time on the path is that of
            // the last segment of the handshake.
            let leg = if gap.protocol.after_handshake { Owner::Tls } else { Owner::Path };
            slices.take(Slice::plain(leg, gap.rtt.known_ns));
            slices.take(Slice::plain(Owner::Bandwidth, gap.bottleneck.busy_ns));
            slices.take(bufferbloat::queueing(gap));
            slices.take(Slice::plain(Owner::Queueing, gap.bottleneck.late_ns));
        }
        Turn::Continues => {
            slices.take(Slice::plain(Owner::Bandwidth, gap.bottleneck.transmits_ns()));
            slices.take(Slice::plain(Owner::Queueing, gap.bottleneck.waits_ns()));
            slices.take(bufferbloat::of_ack(gap));
        }
    }
    let of_sender = [Cause::SlowStart, Cause::CongestionWindow, Cause::SendBuffer].map(Some);
    for (name, asked, recogniser) in RECOGNISERS {
        if slices.rest_ns == 0 {
            return slices;
        }
        // A sender that repaired a loss unseen waited for that.
        if *asked == Scope::Within && (gap.turn == Turn::Answers || gap.repairs_unseen) {
            continue;
        }
        let answer = recogniser(gap, slices.rest_ns);
        witness(name, answer);
        if let Ok(slice) = answer {
            if slice.cause == Some(Cause::CongestionWindow) {
                slices.take(pacing::own_pace(gap));
            }
            if of_sender.contains(&slice.cause) {
                slices.take(bufferbloat::behind_flight(gap));
            }
            slices.take(slice);
            if slice.cause == Some(Cause::DelayedAck) {
                slices.take(delayed_ack::round_trip(gap, slices.rest_ns));
            }
            break;
        }
    }
    // The sender did not pause in a silence in which it sent what the capture lacks, nor before it
    // received such data. It may have waited for an ACK that the capture lacks.
    let is_unknown = gap.has_sent_unseen || gap.acks.uncaptured || gap.fills_window_without_ack();
    let unknown_ns = match is_unknown && gap.turn == Turn::Continues {
        true => slices.rest_ns,
        false => gap.unseen_ns().saturating_sub(gap.len_ns() - slices.rest_ns),
    };
    slices.take(Slice::plain(Owner::Unknown, unknown_ns.max(gap.bottleneck.ack_late_ns)));
    slices.take(match gap.in_vain {
        true => Slice::plain(Owner::Server, slices.rest_ns),
        false => application::busy(gap.sender, slices.rest_ns),
    });
    slices
}
