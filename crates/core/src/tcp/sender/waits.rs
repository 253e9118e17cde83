//! Apparent waits for late ACKs, which later behaviour of the sender may refute.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{Gap, Turn};

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

    /// Processes an explained gap. If `waited`, the sender waited for a late ACK.
    pub fn follow(&mut self, gap: &Gap, waited: bool) {
        if waited {
            self.note_wait(gap);
        } else if gap.acks.last.is_none() && self.wait_count > 0 {
            self.note_continuation(gap);
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::AckTrigger;

    /// A gap of 5 ms in which a sender with 2,000 bytes in flight waits for an ACK, or does not.
    fn gap(waited: bool) -> Gap {
        let mut gap = Gap { turn: Turn::Continues, end_ns: 5_000_000, ..Gap::default() };
        (gap.flight.before, gap.smss) = (2_000, 1_000);
        gap.acks.last = waited.then(AckTrigger::default);
        gap
    }

    #[test]
    fn waits_are_chance_if_the_sender_continues_without_the_ack_as_often() {
        let mut waits = Waits::NONE;
        waits.follow(&gap(false), false);
        waits.follow(&gap(true), true);
        waits.follow(&gap(true), false);
        assert!(!waits.are_chance(), "it never continued by itself after the first wait");
        waits.follow(&gap(false), false);
        assert!(waits.are_chance());
    }

    #[test]
    fn a_wait_after_a_loss_is_certain() {
        let mut waits = Waits::NONE;
        let mut after_loss = gap(true);
        after_loss.losses.occurred = true;
        waits.follow(&after_loss, true);
        waits.follow(&gap(false), false);
        assert!(!waits.are_chance());
    }
}
