//! What a sender that paces itself sends at once.
//!
//! Linux sends what a millisecond of its pace is, two segments at least, and then waits for as long as
//! that takes at its pace (`tcp_tso_autosize`, `tcp_pacing_check`): its kernel spaces what its
//! application has long written.

use super::*;
use crate::tcp::gap::{Gap, Turn};

/// Silences remembered.
const REMEMBERED: usize = 4;

/// Silences of a quarter of another are its like; shorter ones are within what was sent at once.
const LIKE: u64 = 4;

/// What is sent at once where the pace is slow, in segments.
const QUANTUM_SEGMENTS: u64 = 2;

/// What the pace's share that is sent at once lasts, a millisecond, with what timers add, ns.
const QUANTUM_NS: u64 = 2_000_000;

/// The last silences of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Where its stream stood, and how long it was silent, ns; the latest first.
    silences: [(u64, u64); REMEMBERED],
}

impl Pacer {
    /// It went on at `position` after `ns`.
    fn note(&mut self, position: u64, ns: u64) {
        self.silences.rotate_right(1);
        self.silences[0] = (position, ns);
    }

    /// What was sent at once before a silence of `ns` at `position`, bytes: from the last silence of
    /// its like on, or from the first that is remembered.
    fn sent_at_once(&self, position: u64, ns: u64) -> u64 {
        let like = self.silences.iter().find(|(_, silent_ns)| silent_ns * LIKE >= ns);
        let [.., first] = self.silences;
        position - like.unwrap_or(&first).0.min(position)
    }
}

impl Half {
    /// The silence `gap` ends at `position`.
    pub fn follow_pace(&mut self, gap: &mut Gap, position: u64) {
        gap.paced = self.paces(gap, position);
        if let Some(bulk) = &mut self.bulk {
            bulk.pacer.note(position, gap.len_ns());
        }
    }

    /// Whether the silence that ends at `position` may be this sender's own pace: shorter than a
    /// round trip, after full segments, as many as a pace lets go at once. Whoever writes in pieces
    /// ends each with a small segment, unless Nagle's algorithm keeps that back until the one before
    /// is acknowledged.
    fn paces(&self, gap: &Gap, position: u64) -> bool {
        let Some(bulk) = &self.bulk else { return false };
        let ns = gap.len_ns();
        let small_end = self.small_end.map_or(0, |end| widen(end.get(), position));
        let held = small_end > self.una() && small_end <= position && gap.nagle_refuted == 0;
        let at_once = bulk.pacer.sent_at_once(position, ns);
        gap.turn == Turn::Continues
            && gap.retransmission.is_none()
            && gap.missing_packets == 0
            && !gap.holed
            && !gap.last_small
            && !held
            && gap.flight_before > 0
            && ns < gap.rtt_base_ns
            && (at_once <= QUANTUM_SEGMENTS * gap.smss || ns <= QUANTUM_NS)
    }
}
