//! Evidence about a sender's use of Nagle's algorithm (RFC 896) and about waits for late ACKs.

use crate::judge::thresholds::{CHANCE_FACTOR, HABIT_MIN};

/// Small segments of a sender up to a gap, as evidence for or against Nagle's algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagleEvidence {
    /// Number of times that the sender sent a small segment while another was unacknowledged, which
    /// Nagle's algorithm forbids.
    pub refuted: u32,
    /// Number of times that a small segment left with the ACK for which it seems to have waited.
    pub holds: u32,
    /// Number of times that such a segment left only some time after that ACK.
    pub missed: u32,
    /// Number of these that left within an eighth of the wait after the ACK, or within twice the
    /// tolerance of an effect.
    pub nearly: u32,
}

impl NagleEvidence {
    /// No evidence.
    pub const NONE: Self = Self { refuted: 0, holds: 0, missed: 0, nearly: 0 };

    /// Returns whether the sender has broken Nagle's rule.
    pub fn is_refuted(&self) -> bool {
        self.refuted > 0
    }

    /// Returns whether the sender is known to hold segments: segments after an ACK of all data left
    /// with that ACK several times, and less often later.
    pub fn is_known_to_hold(&self) -> bool {
        self.holds >= HABIT_MIN && self.holds > self.missed
    }

    /// Returns whether the sender's small segments leave with ACKs again and again, and hardly ever
    /// at another time.
    pub fn leaves_with_acks(&self) -> bool {
        self.holds >= HABIT_MIN && self.holds > CHANCE_FACTOR * self.missed
    }
}

/// Reaction of a sender to late ACKs of all data in flight, up to a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateAcks {
    /// Number of times that the sender continued at once.
    pub prompt: u32,
    /// Number of times that the sender continued some time after the ACK.
    pub late: u32,
}

impl LateAcks {
    /// No late ACK.
    pub const NONE: Self = Self { prompt: 0, late: 0 };

    /// Counts one more late ACK. If `is_prompt`, the sender continued at once.
    pub fn note(&mut self, is_prompt: bool) {
        *(if is_prompt { &mut self.prompt } else { &mut self.late }) += 1;
    }

    /// Returns whether the sender, which continues at once with the ACK of this gap, may wait for
    /// ACKs. A sender with its own pace continues together with an ACK only by chance, once in some
    /// dozens.
    pub fn may_be_waited_for(&self) -> bool {
        self.late <= CHANCE_FACTOR * (self.prompt + 1)
    }

    /// Returns whether the sender is known to wait for ACKs, although it continues some time after
    /// the ACK of this gap.
    pub fn are_waited_for(&self) -> bool {
        self.prompt >= HABIT_MIN && self.late <= CHANCE_FACTOR * self.prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_known_to_hold_after_several_holds_and_fewer_misses() {
        let known = |holds, missed| {
            NagleEvidence { holds, missed, ..NagleEvidence::NONE }.is_known_to_hold()
        };
        assert!(known(3, 0) && known(4, 3));
        assert!(!known(2, 0) && !known(3, 3));
    }

    #[test]
    fn a_sender_that_often_goes_on_between_acks_does_not_wait_for_them() {
        let of = |holds, missed| NagleEvidence { holds, missed, refuted: 1, nearly: 0 };
        let leaves = |holds, missed| of(holds, missed).leaves_with_acks();
        assert!(leaves(5, 1) && !leaves(4, 1) && !leaves(2, 0));
    }

    #[test]
    fn a_sender_with_its_own_pace_continues_with_late_acks_by_chance_only() {
        let mut acks = LateAcks::default();
        assert!(acks.may_be_waited_for() && !acks.are_waited_for());
        (0..3).for_each(|_| acks.note(true));
        assert!(acks.are_waited_for());
        (0..17).for_each(|_| acks.note(false));
        assert!(!acks.may_be_waited_for() && !acks.are_waited_for());
    }
}
