//! Apparent waits for late ACKs, which later behaviour of the sender may refute.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{Gap, Turn};
use crate::tcp::sender::Sender;

/// Behaviour of a sender that seemed to wait for late ACKs.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Least flight that the sender would have had without waiting, bytes; 0 if it never waited.
    least_bytes: u64,
    /// Number of apparent waits.
    wait_count: u32,
    /// Number of times that the sender continued after a pause, with as much in flight and without
    /// an ACK.
    continuations: u32,
}

impl Waits {
    pub(super) const NONE: Self = Self { least_bytes: 0, wait_count: 0, continuations: 0 };

    /// Counts `gap` as an apparent wait. Waits that an offered window or an earlier loss explains
    /// are certain, and are not counted.
    fn note_wait(&mut self, gap: &Gap) {
        if gap.losses.occurred
            || gap.flight.waits_per_segment
            || gap.window.limits(gap.next_segment())
        {
            return;
        }
        let height = gap.height();
        self.least_bytes = if self.wait_count == 0 { height } else { self.least_bytes.min(height) };
        self.wait_count += 1;
    }

    /// Counts `gap`, which ended without an ACK, if the sender continued after a pause. Data that
    /// follows at once was written together with earlier data, and is no evidence.
    fn note_continuation(&mut self, gap: &Gap) {
        let continued = gap.turn == Turn::Continues
            && !gap.repair.is_retransmission()
            && gap.flight.before > 0
            && gap.len_ns() >= HOST_DELAY_MAX_NS
            && gap.height() >= self.least_bytes;
        self.continuations += u32::from(continued);
    }

    /// Returns whether the apparent waits are due to chance: the sender continued without the ACK
    /// as often.
    pub fn are_chance(&self) -> bool {
        self.wait_count > 0 && self.continuations >= self.wait_count
    }
}

impl Sender {
    /// Processes an explained gap. If `waited`, the sender waited for a late ACK.
    pub fn follow_waits(&mut self, gap: &Gap, waited: bool) {
        if waited {
            self.history_mut().nagle.waits.note_wait(gap);
        } else if gap.acks.last.is_none()
            && let Some(history) = &mut self.history
            && history.nagle.waits.wait_count > 0
        {
            history.nagle.waits.note_continuation(gap);
        }
    }
}
