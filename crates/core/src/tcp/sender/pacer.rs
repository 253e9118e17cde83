//! Recognises senders that pace their segments.
//!
//! Linux sends as much at once as its pace allows in a millisecond, at least two segments, and then
//! waits for as long as that takes at its pace (`tcp_tso_autosize`, `tcp_pacing_check`): the kernel
//! spaces data that the application wrote long before.

use crate::judge::thresholds::HOST_DELAY_NS;
use crate::judge::{Gap, Shape, Turn};
use crate::tcp::sender::Sender;
use crate::tcp::sequence::widen;
use crate::tcp::thresholds::{
    BURST_PART, PACE_QUANTUM_MAX_NS, PACE_QUANTUM_SEGMENTS, PACE_SEGMENTS_MIN, TRAIN_PART,
};

/// Number of silences remembered.
const REMEMBERED: usize = 4;

/// Length recorded for the silence before a message, ns. It is longer than any other.
const BEFORE_NS: u64 = u64::MAX / BURST_PART;

/// Number of bytes after which the counts of a pace are halved, so that later steps count more.
const PACE_BYTES: u64 = 32_768;

/// Rate at which a sender sent data that it spaced itself.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    bytes: u64,
    ns: u64,
}

impl Pace {
    /// Adds `bytes` that were sent before a step of `ns`.
    fn note(&mut self, bytes: u64, ns: u64) {
        (self.bytes, self.ns) = (self.bytes + bytes, self.ns + ns);
        if self.bytes > PACE_BYTES {
            (self.bytes, self.ns) = (self.bytes / 2, self.ns / 2);
        }
    }

    /// Returns whether both steps belong to one pace.
    fn is_like(&self, other: &Self) -> bool {
        let alike = |one: u64, other: u64| one <= 2 * other && other <= 2 * one;
        alike(self.bytes, other.bytes) && alike(self.ns, other.ns)
    }

    /// Returns whether there were enough steps to know the pace.
    fn is_known(&self, smss: u64) -> bool {
        self.bytes >= PACE_SEGMENTS_MIN * smss
    }

    /// Returns the time that data takes at this pace if it takes `ns` at the pace `other`, ns.
    fn takes_ns(&self, ns: u64, other: &Self) -> u64 {
        let times = |one: u64, other: u64| u128::from(one) * u128::from(other);
        let this = u128::from(ns) * times(other.bytes, self.ns);
        (this / times(self.bytes, other.ns).max(1)) as u64
    }
}

/// The last silences of a sender, and its pace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Position of the stream and length of each silence, ns; the latest first.
    silences: [(u64, u64); REMEMBERED],
    /// The last silence that may have been a step of the pace.
    step: Pace,
    /// The sender's pace; after a loss, its pace since the loss.
    pace: Pace,
    after_loss: bool,
    /// The best pace: that before any loss, or that since a loss if it was faster.
    best: Pace,
}

impl Pacer {
    /// Records a silence of `ns` that ended at `position`.
    fn note(&mut self, position: u64, ns: u64) {
        self.silences.rotate_right(1);
        self.silences[0] = (position, ns);
    }

    /// Adds `bytes` that the silence `gap` spaced, if the silence is similar to the previous step:
    /// a busy host pauses occasionally.
    fn follow(&mut self, bytes: u64, gap: &Gap) {
        if gap.losses.occurred && !self.after_loss {
            (self.after_loss, self.pace) = (true, Pace::default());
        }
        let step = Pace { bytes, ns: gap.len_ns() };
        if !std::mem::replace(&mut self.step, step).is_like(&step) {
            return;
        }
        self.pace.note(bytes, gap.len_ns());
        let is_sure = self.best.ns > 0 && self.pace.bytes >= PACE_BYTES / 2;
        let is_faster = || self.best.takes_ns(gap.len_ns(), &self.pace) > gap.len_ns();
        if !gap.losses.occurred || is_sure && is_faster() {
            self.best = self.pace;
        }
    }

    /// Returns whether the sender has spaced its data.
    pub fn is_pacing(&self) -> bool {
        self.best.ns > 0 || self.pace.ns > 0
    }

    /// Length that the silence would have had at the best pace, ns. It is the whole silence if the
    /// present pace is at least half as fast, since congestion control varies the pace in any case.
    fn own_ns(&self, gap: &Gap) -> u64 {
        if !self.after_loss || !self.pace.is_known(gap.smss) || !self.best.is_known(gap.smss) {
            return 0;
        }
        let best_ns = self.best.takes_ns(gap.len_ns(), &self.pace);
        if 2 * best_ns >= gap.len_ns() { gap.len_ns() } else { best_ns }
    }

    /// Number of bytes sent at once before a silence of `ns` at `position`: those since the last
    /// similar silence; `None` if that is no longer remembered.
    fn sent_at_once(&self, position: u64, ns: u64) -> Option<u64> {
        let like = self.silences.iter().find(|(_, silent_ns)| silent_ns * BURST_PART >= ns)?;
        Some(position.saturating_sub(like.0))
    }
}

impl Sender {
    /// Follows the silence `gap`, which ends at `position` in a message that began at the position
    /// `began`.
    pub fn follow_pace(&mut self, gap: &mut Gap, position: u64, began: Option<u64>) {
        let (held, nxt) = (self.may_hold(gap, position), self.space.nxt);
        let Some(bulk) = &mut self.bulk else { return };
        let pacer = &mut bulk.pacer;
        if let Some(began) = began.filter(|&began| began > pacer.silences[0].0) {
            pacer.note(began, BEFORE_NS);
        }
        let at_once = pacer.sent_at_once(position, gap.len_ns());
        gap.pace.in_pairs = at_once == Some(PACE_QUANTUM_SEGMENTS * gap.smss);
        let is_little = at_once.is_some_and(|bytes| bytes <= PACE_QUANTUM_SEGMENTS * gap.smss);
        let known = pacer.pace.is_known(gap.smss);
        gap.pace.is_step = may_be_step(gap)
            && (is_little || gap.len_ns() <= PACE_QUANTUM_MAX_NS)
            && (!held || known);
        // The path may space single segments, or segments sent while it is busy; a kernel sends a
        // millisecond's worth at once.
        let own = gap.spaced() && gap.len_ns() >= HOST_DELAY_NS.max(2 * gap.bottleneck.busy_ns);
        if let Some(bytes) = at_once.filter(|&it| own && it >= PACE_QUANTUM_SEGMENTS * gap.smss) {
            pacer.follow(bytes, gap);
        }
        if gap.pace.is_step && gap.losses.occurred {
            gap.pace.before_loss_ns = pacer.own_ns(gap);
        }
        // Retransmitted data does not begin the data sent after it.
        pacer.note(position.max(nxt), gap.len_ns());
    }

    /// Returns whether Nagle's algorithm may hold back the small end of a write at `position`,
    /// until the small segment before it is acknowledged.
    fn may_hold(&self, gap: &Gap, position: u64) -> bool {
        let small_end = self.small_end.map_or(0, |end| widen(end.get(), position));
        small_end > self.space.una() && small_end <= position && gap.nagle.refuted == 0
    }

    /// Returns whether the measured rate is not the path's, but that of a sender limited by the
    /// receiver's window or its own buffer, whose data is spread over the round trip by earlier
    /// ACKs. The path has been shown to take less time for two segments than at that rate: by the
    /// round trip of the second one beyond that of an empty path, and by their distance on arrival.
    /// If `known`, the round trip was measured in the handshake.
    pub fn paced_by_limit(&mut self, gap: &Gap, position: u64, rtt_ns: u64, known: bool) -> bool {
        let (smss, recent_ns) = (self.smss(), self.rtt_recent_ns());
        let Some(bulk) = &mut self.bulk else { return false };
        let rate = bulk.pipe.rate();
        let Some(at_once) = bulk.pacer.sent_at_once(position, gap.len_ns()) else { return false };
        // Without a measured rate there is nothing to refute.
        let pair_ns = rate.map_or(u64::MAX, |rate| 2 * smss * 1_000_000_000 / rate);
        let near = gap.rtt.sender_ns < gap.rtt.base_ns / TRAIN_PART;
        let arrives_so = near || at_once > u64::from(gap.last.payload_bytes);
        let shows = recent_ns > 0 && pair_ns >= HOST_DELAY_NS;
        let passes = shows && recent_ns.saturating_sub(rtt_ns) < pair_ns / 3;
        let ceiling = match gap.flight.shape {
            Shape::Ceiling { bytes, drained } if drained || !gap.losses.may_have_occurred => {
                4 * gap.flight.before >= 3 * bytes
            }
            _ => false,
        };
        let limited = gap.window.limits(gap.next_segment()) || gap.window.limited_before || ceiling;
        known && limited && at_once == PACE_QUANTUM_SEGMENTS * smss && arrives_so && passes
    }
}

/// Returns whether the silence may be a step of its sender's pace: it is shorter than a round trip
/// and follows a full segment. An application that writes in pieces ends each piece with a small
/// segment.
fn may_be_step(gap: &Gap) -> bool {
    gap.turn == Turn::Continues
        && !gap.repair.is_retransmission()
        && !gap.losses.missing.any()
        && !gap.misses_data
        && !gap.last_small
        && gap.flight.before > 0
        && gap.len_ns() < gap.rtt.base_ns
}
