//! What a sender that paces itself sends at once.
//!
//! Linux sends what a millisecond of its pace is, two segments at least, and then waits for as long as
//! that takes at its pace (`tcp_tso_autosize`, `tcp_pacing_check`): its kernel spaces what its
//! application has long written.

use super::*;
use crate::tcp::ceiling::Shape;
use crate::tcp::gap::{Gap, Turn};

/// Silences remembered.
const REMEMBERED: usize = 4;

/// Silences of a quarter of another are its like; shorter ones are within what was sent at once.
const LIKE: u64 = 4;

/// No silence is longer than that before a message, ns.
const BEFORE_NS: u64 = u64::MAX / LIKE;

/// What is sent at once where the pace is slow, in segments.
const QUANTUM_SEGMENTS: u64 = 2;

/// What the pace's share that is sent at once lasts, a millisecond, with what timers add, ns.
const QUANTUM_NS: u64 = 2_000_000;

/// What hosts take beside the path: in less than this it does not show how long two segments take, ns.
const HOST_NS: u64 = 500_000;

/// A sender that has gone so many steps in pairs has a pace, up to [`u8::MAX`].
const KNOWN_STEPS: u8 = 8;

/// What is remembered of a pace; later steps count more, bytes.
const PACE_BYTES: u64 = 32_768;

/// Fewer segments show none.
const PACE_SEGMENTS: u64 = 4;

/// How fast a sender let go what it spaced by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    bytes: u64,
    ns: u64,
}

impl Pace {
    /// `bytes` went before a step of `ns`.
    fn note(&mut self, bytes: u64, ns: u64) {
        (self.bytes, self.ns) = (self.bytes + bytes, self.ns + ns);
        if self.bytes > PACE_BYTES {
            (self.bytes, self.ns) = (self.bytes / 2, self.ns / 2);
        }
    }

    /// Whether both steps are of one pace.
    fn is_like(&self, other: &Self) -> bool {
        let alike = |one: u64, other: u64| one <= 2 * other && other <= 2 * one;
        alike(self.bytes, other.bytes) && alike(self.ns, other.ns)
    }

    /// Whether there were enough steps to know it.
    fn is_known(&self, smss: u64) -> bool {
        self.bytes >= PACE_SEGMENTS * smss
    }

    /// How long something takes at this pace that took `ns` at the other.
    fn takes_ns(&self, ns: u64, other: &Self) -> u64 {
        let times = |one: u64, other: u64| u128::from(one) * u128::from(other);
        let this = u128::from(ns) * times(other.bytes, self.ns);
        (this / times(self.bytes, other.ns).max(1)) as u64
    }
}

/// The last silences of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Where its stream stood, and how long it was silent, ns; the latest first.
    silences: [(u64, u64); REMEMBERED],
    /// Steps of two full segments when nothing kept back the small end of what an application writes.
    steps: u8,
    /// The last silence that may have been a step of its pace.
    step: Pace,
    /// Its pace, since it lost something if it did.
    pace: Pace,
    after_loss: bool,
    /// Before it lost anything, or since then where it went faster.
    best: Pace,
}

impl Pacer {
    /// It went on at `position` after `ns`.
    fn note(&mut self, position: u64, ns: u64) {
        self.silences.rotate_right(1);
        self.silences[0] = (position, ns);
    }

    /// It spaced `bytes` by that silence, if it was as before: a busy host pauses now and then.
    fn follow(&mut self, bytes: u64, gap: &Gap) {
        if gap.after_loss && !self.after_loss {
            (self.after_loss, self.pace) = (true, Pace::default());
        }
        let step = Pace { bytes, ns: gap.len_ns() };
        if !std::mem::replace(&mut self.step, step).is_like(&step) {
            return;
        }
        self.pace.note(bytes, gap.len_ns());
        let sure = self.best.ns > 0 && self.pace.bytes >= PACE_BYTES / 2;
        let faster = || self.best.takes_ns(gap.len_ns(), &self.pace) > gap.len_ns();
        if !gap.after_loss || sure && faster() {
            self.best = self.pace;
        }
    }

    /// Whether it has spaced what it sent.
    pub fn spaces(&self) -> bool {
        self.best.ns > 0 || self.pace.ns > 0
    }

    /// What that silence would have lasted at its best pace, ns: all of it where it goes half as fast at
    /// least, for its congestion control tries faster and slower ones anyhow.
    fn own_ns(&self, gap: &Gap) -> u64 {
        if !self.after_loss || !self.pace.is_known(gap.smss) || !self.best.is_known(gap.smss) {
            return 0;
        }
        let best_ns = self.best.takes_ns(gap.len_ns(), &self.pace);
        if 2 * best_ns >= gap.len_ns() { gap.len_ns() } else { best_ns }
    }

    /// What was sent at once before a silence of `ns` at `position`, bytes: from the last silence of
    /// its like on; `None` if that is longer ago than is remembered.
    fn sent_at_once(&self, position: u64, ns: u64) -> Option<u64> {
        let like = self.silences.iter().find(|(_, silent_ns)| silent_ns * LIKE >= ns)?;
        Some(position.saturating_sub(like.0))
    }
}

impl Sender {
    /// The silence `gap` ends at `position`, in a message that `began` at this place of the stream.
    pub fn follow_pace(&mut self, gap: &mut Gap, position: u64, began: Option<u64>) {
        let (held, nxt) = (self.may_hold(gap, position), self.nxt);
        let Some(bulk) = &mut self.bulk else { return };
        let pacer = &mut bulk.pacer;
        if let Some(began) = began.filter(|&began| began > pacer.silences[0].0) {
            pacer.note(began, BEFORE_NS);
        }
        let at_once = pacer.sent_at_once(position, gap.len_ns());
        gap.in_pairs = at_once == Some(QUANTUM_SEGMENTS * gap.smss);
        let few = at_once.is_some_and(|bytes| bytes <= QUANTUM_SEGMENTS * gap.smss);
        let known = gap.in_pairs && pacer.steps >= KNOWN_STEPS || pacer.pace.is_known(gap.smss);
        gap.paced = may_be_step(gap) && (few || gap.len_ns() <= QUANTUM_NS) && (!held || known);
        if gap.paced && gap.in_pairs && !held {
            pacer.steps = pacer.steps.saturating_add(1);
        }
        // What comes one by one, or while the path is busy, may be spaced by the path; and a kernel sends at
        // once what a millisecond of its pace is.
        let own = gap.spaced() && gap.len_ns() >= HOST_NS.max(2 * gap.busy_ns);
        if let Some(bytes) = at_once.filter(|&it| own && it >= QUANTUM_SEGMENTS * gap.smss) {
            pacer.follow(bytes, gap);
        }
        if gap.paced && gap.after_loss {
            gap.own_pace_ns = pacer.own_ns(gap);
        }
        // What it repeats is no beginning of what it sends after that.
        pacer.note(position.max(nxt), gap.len_ns());
    }

    /// Whether Nagle's algorithm may keep back, at `position`, the small end of what is written in
    /// pieces, until the small segment before is acknowledged.
    fn may_hold(&self, gap: &Gap, position: u64) -> bool {
        let small_end = self.small_end.map_or(0, |end| widen(end.get(), position));
        small_end > self.una() && small_end <= position && gap.nagle_refuted == 0
    }

    /// Whether the rate that was measured is not the path's, but that of a sender which never has more
    /// under way than its receiver's window or its own buffer: spread over the round trip by what they
    /// have let go before. The path has shown that it takes less to pass two segments on than that rate
    /// says: that is how far their last one falls behind the round trip of an empty path, and how far
    /// apart they arrive. `known`: that round trip was taken by the handshake.
    pub fn paced_by_limit(&mut self, gap: &Gap, position: u64, rtt_ns: u64, known: bool) -> bool {
        let (smss, recent_ns) = (self.smss(), self.rtt_recent_ns());
        let Some(bulk) = &mut self.bulk else { return false };
        let rate = bulk.pipe.rate();
        let Some(at_once) = bulk.pacer.sent_at_once(position, gap.len_ns()) else { return false };
        // Without any evidence of a rate there is none to refute.
        let pair_ns = rate.map_or(u64::MAX, |rate| 2 * smss * 1_000_000_000 / rate);
        let near = gap.rtt_sender_ns < gap.rtt_base_ns / 4;
        let arrives_so = near || at_once > u64::from(gap.last.payload_bytes);
        let shows = recent_ns > 0 && pair_ns >= HOST_NS;
        let passes = shows && recent_ns.saturating_sub(rtt_ns) < pair_ns / 3;
        let ceiling = match gap.shape {
            Shape::Ceiling { bytes, drained } if drained || !gap.may_be_after_loss => {
                4 * gap.flight_before >= 3 * bytes
            }
            _ => false,
        };
        let limited = gap.window_limited() || gap.window_met || ceiling;
        known && limited && at_once == QUANTUM_SEGMENTS * smss && arrives_so && passes
    }
}

/// Whether the silence may be a step of its sender's own pace: shorter than a round trip, after full
/// segments. Whoever writes in pieces ends each with a small one.
fn may_be_step(gap: &Gap) -> bool {
    gap.turn == Turn::Continues
        && gap.retransmission.is_none()
        && gap.missing_packets == 0
        && !gap.holed
        && !gap.last_small
        && gap.flight_before > 0
        && gap.len_ns() < gap.rtt_base_ns
}
