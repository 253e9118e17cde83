//! Recognises senders that pace their segments.
//!
//! Linux sends as much at once as its pace allows in a millisecond, at least two segments, and then
//! waits for as long as that takes at its pace (`tcp_tso_autosize`, `tcp_pacing_check`): the kernel
//! spaces data that the application wrote long before.

use crate::judge::thresholds::HOST_DELAY_NS;
use crate::judge::{Gap, Shape, Turn};
use crate::tcp::sender::bulk::Bulk;
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
    fn follow_step(&mut self, bytes: u64, gap: &Gap) {
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

impl Pacer {
    /// Follows the silence `gap`, which ends at `position` in a message that began at the position
    /// `began`; the stream was sent up to `nxt`. If `after_small`, a small segment before `position`
    /// is unacknowledged, so that Nagle's algorithm may hold back the small end of a write there.
    pub fn follow(
        &mut self,
        gap: &mut Gap,
        (position, nxt): (u64, u64),
        began: Option<u64>,
        after_small: bool,
    ) {
        if let Some(began) = began.filter(|&began| began > self.silences[0].0) {
            self.note(began, BEFORE_NS);
        }
        let at_once = self.sent_at_once(position, gap.len_ns());
        gap.pace.in_pairs = at_once == Some(PACE_QUANTUM_SEGMENTS * gap.smss);
        let is_little = at_once.is_some_and(|bytes| bytes <= PACE_QUANTUM_SEGMENTS * gap.smss);
        let may_be_held = after_small && gap.nagle.refuted == 0;
        gap.pace.is_step = may_be_step(gap)
            && (is_little || gap.len_ns() <= PACE_QUANTUM_MAX_NS)
            && (!may_be_held || self.pace.is_known(gap.smss));
        // The path may space single segments, or segments sent while it is busy; a kernel sends a
        // millisecond's worth at once.
        let own = gap.spaced() && gap.len_ns() >= HOST_DELAY_NS.max(2 * gap.bottleneck.busy_ns);
        if let Some(bytes) = at_once.filter(|&it| own && it >= PACE_QUANTUM_SEGMENTS * gap.smss) {
            self.follow_step(bytes, gap);
        }
        if gap.pace.is_step && gap.losses.occurred {
            gap.pace.before_loss_ns = self.own_ns(gap);
        }
        // Retransmitted data does not begin the data sent after it.
        self.note(position.max(nxt), gap.len_ns());
    }
}

impl Bulk {
    /// Returns whether the rate measured before `gap`, which ends at `position`, is not the path's,
    /// but that of a sender limited by the receiver's window or its own buffer, whose data is spread
    /// over the round trip by earlier ACKs. The path has been shown to take less time for two
    /// segments than at that rate: by the round trip of the second one (`recent_ns`) beyond that of
    /// an empty path (`rtt_ns`), and by their distance on arrival.
    pub fn is_paced_by_limit(
        &mut self,
        gap: &Gap,
        position: u64,
        recent_ns: u64,
        rtt_ns: u64,
    ) -> bool {
        let rate = self.pipe.rate();
        let Some(at_once) = self.pacer.sent_at_once(position, gap.len_ns()) else { return false };
        // Without a measured rate there is nothing to refute.
        let pair_ns = rate.map_or(u64::MAX, |rate| 2 * gap.smss * 1_000_000_000 / rate);
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
        limited && at_once == PACE_QUANTUM_SEGMENTS * gap.smss && arrives_so && passes
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SMSS: u64 = 1_000;

    /// A silence of `ns` in the middle of a message, within a round trip of 100 ms.
    fn silence(ns: u64) -> Gap {
        let turn = Turn::Continues;
        let mut gap = Gap { turn, smss: SMSS, end_ns: ns, next_len: SMSS, ..Gap::default() };
        gap.flight.before = 20 * SMSS;
        gap.rtt.base_ns = 100 * MS;
        gap
    }

    /// Follows `count` silences of `ns` with two segments between them, from `position` on.
    fn pairs(pacer: &mut Pacer, position: u64, count: u64, ns: u64) -> Gap {
        let mut gap = silence(ns);
        for number in 1..=count {
            gap = silence(ns);
            let at = position + 2 * number * SMSS;
            pacer.follow(&mut gap, (at, at), None, false);
        }
        gap
    }

    #[test]
    fn silences_between_pairs_are_steps_of_a_pace() {
        let mut pacer = Pacer::default();
        let gap = pairs(&mut pacer, 0, 8, 3 * MS);
        assert!(gap.pace.in_pairs && gap.pace.is_step && pacer.is_pacing());
    }

    #[test]
    fn after_a_small_segment_a_silence_may_be_nagles() {
        let is_step = |after_small| {
            let mut pacer = Pacer::default();
            let mut gap = silence(3 * MS);
            pacer.follow(&mut gap, (2 * SMSS, 2 * SMSS), Some(1), after_small);
            gap.pace.is_step
        };
        assert_eq!([false, true].map(is_step), [true, false]);
    }

    #[test]
    fn a_silence_as_long_as_a_round_trip_is_no_step() {
        let mut pacer = Pacer::default();
        assert!(!pairs(&mut pacer, 0, 8, 100 * MS).pace.is_step);
    }

    #[test]
    fn a_pace_that_a_loss_halved_is_not_the_senders_own() {
        let mut pacer = Pacer::default();
        pairs(&mut pacer, 0, 60, 3 * MS);
        let mut gap = silence(9 * MS);
        for number in 61..=120 {
            gap = silence(9 * MS);
            gap.losses.occurred = true;
            pacer.follow(&mut gap, (2 * number * SMSS, 2 * number * SMSS), None, false);
        }
        assert!((2 * MS..=4 * MS).contains(&gap.pace.before_loss_ns), "{:?}", gap.pace);
    }
}
