//! Evidence about a sender's use of Nagle's algorithm (RFC 896) and about waits for late ACKs.

use crate::judge::thresholds::{AT_ONCE_PART, CHANCE_FACTOR, HABIT_MIN};

/// Small segments of a sender up to a gap, as evidence for or against Nagle's algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagleEvidence {
    /// Number of times that the sender sent a small segment while another was unacknowledged, which
    /// Nagle's algorithm forbids, or held back a full one until an ACK, which it does not do.
    pub refuted: u32,
    /// Number of times that the small end of a larger write left with the rest of it while another small
    /// segment was unacknowledged. Systems that apply the algorithm to a whole write send it so, Linux
    /// only without the algorithm.
    pub ends_of_writes: u32,
    /// Number of times that a small segment left while another was unacknowledged and was the first to
    /// acknowledge data of the peer. BSD systems add unsent data to an ACK that is due, whether or not
    /// the algorithm is on; Linux does so only if it is off.
    pub with_due_acks: u32,
    /// Number of times that a small segment left with the ACK for which it seems to have waited.
    pub holds: u32,
    /// Number of times that such a segment left only some time after that ACK.
    pub missed: u32,
    /// Number of these that left within an eighth of the wait after the ACK, or within twice the
    /// tolerance of an effect.
    pub nearly: u32,
    /// Number of times that the sender went on with a message after a pause behind a small segment, and
    /// no ACK ended the pause.
    pub pauses: u32,
    /// The silences of both kinds that ended with the ACK, or nearly.
    pub waits: Waits,
    /// The silences before the sender first broke the rule.
    pub before: Before,
}

/// Silences behind small segments that show whether a sender that broke the rule followed it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Number of those before it first broke the rule that ended with an ACK so exactly that it is no
    /// coincidence.
    exact: u32,
    /// Number of the others before that, and of exact ones after that: an application that itself waits
    /// for ACKs goes on to do so.
    others: u32,
}

/// Returns whether a silence of `wait_ns` whose segment left `after_ns` after an ACK ended with it by no
/// coincidence. That it comes this near by chance is as unlikely as any habit: once in 512 times
/// ([`HABIT_MIN`]).
pub fn is_no_coincidence(wait_ns: u64, after_ns: u64) -> bool {
    after_ns.saturating_mul(AT_ONCE_PART.pow(HABIT_MIN)) <= wait_ns
}

impl Before {
    /// No silence.
    const NONE: Self = Self { exact: 0, others: 0 };

    /// Adds a silence of `wait_ns` whose segment left `after_ns` after the ACK, when the sender had
    /// `broken` the rule or not.
    fn add(&mut self, wait_ns: u64, after_ns: u64, broken: bool) {
        let is_exact = is_no_coincidence(wait_ns, after_ns);
        match (is_exact, broken) {
            (true, false) => self.exact = self.exact.saturating_add(1),
            (false, true) => {}
            (true, true) | (false, false) => self.others = self.others.saturating_add(1),
        }
    }

    /// Returns whether a silence shows that the sender followed the rule, and none speaks against it.
    fn show_the_rule(&self) -> bool {
        self.exact > 0 && self.others == 0
    }
}

/// Lengths of silences that ended with an ACK, or nearly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The shortest, ns; 0 if there was none.
    shortest_ns: u64,
    /// The longest, ns.
    longest_ns: u64,
    /// The longest time between an ACK and the segment after it, ns.
    latest_ns: u64,
}

impl Waits {
    /// No silence.
    const NONE: Self = Self { shortest_ns: 0, longest_ns: 0, latest_ns: 0 };

    /// Adds a silence of `wait_ns` whose segment left `after_ns` after the ACK.
    pub fn add(&mut self, wait_ns: u64, after_ns: u64) {
        let is_first = self.shortest_ns == 0;
        self.shortest_ns = if is_first { wait_ns } else { self.shortest_ns.min(wait_ns) };
        self.longest_ns = self.longest_ns.max(wait_ns);
        self.latest_ns = self.latest_ns.max(after_ns);
    }

    /// Returns the chance that pauses of an application, one of which may have any length between
    /// these, end so near to ACKs whose time does not depend on them.
    fn chance(&self) -> f64 {
        match self.longest_ns - self.shortest_ns {
            0 => 1.0,
            spread_ns => (self.latest_ns as f64 / spread_ns as f64).min(1.0),
        }
    }
}

impl NagleEvidence {
    /// No evidence.
    pub const NONE: Self = Self {
        refuted: 0,
        ends_of_writes: 0,
        with_due_acks: 0,
        holds: 0,
        missed: 0,
        nearly: 0,
        pauses: 0,
        waits: Waits::NONE,
        before: Before::NONE,
    };

    /// Counts a small segment that left with the ACK for which it seems to have waited, `after_ns`
    /// after it, at the end of a silence of `wait_ns`.
    pub fn note_hold(&mut self, wait_ns: u64, after_ns: u64) {
        self.holds += 1;
        self.waits.add(wait_ns, after_ns);
        self.before.add(wait_ns, after_ns, self.is_refuted());
    }

    /// Counts a small segment that left some time after such an ACK, `after_ns` after it if that is
    /// `nearly` with it.
    pub fn note_miss(&mut self, wait_ns: u64, after_ns: u64, nearly: bool) {
        self.missed += 1;
        if nearly {
            self.nearly += 1;
            self.waits.add(wait_ns, after_ns);
        }
        if !self.is_refuted() {
            self.before.others = self.before.others.saturating_add(1);
        }
    }

    /// Returns whether the sender has broken Nagle's rule: from then on it does not follow it.
    pub fn is_refuted(&self) -> bool {
        self.refuted > 0
    }

    /// Returns whether the sender has sent small segments beside others as some systems do with the
    /// algorithm, and Linux only without it.
    pub fn is_doubtful(&self) -> bool {
        self.ends_of_writes > 0 || self.with_due_acks > 0
    }

    /// Returns whether the sender has broken Nagle's rule and nothing shows that it followed the rule
    /// before.
    pub fn is_refuted_throughout(&self) -> bool {
        self.is_refuted() && !self.before.show_the_rule()
    }

    /// Returns the evidence about a sender that does not change how it sends.
    pub fn of_steady_sender(self) -> Self {
        Self { before: Before::NONE, ..self }
    }

    /// Returns whether all silences after an ACK of all data end near the ACK, however late that comes:
    /// on a path whose delay varies, a hold may look like a near miss. That the others end like the
    /// first by chance is as unlikely as for any other habit.
    pub fn follows_acks(&self) -> bool {
        let others = (self.holds + self.nearly).saturating_sub(1);
        let others = i32::try_from(others).unwrap_or(i32::MAX);
        !self.is_refuted()
            && self.missed == self.nearly
            && self.waits.chance().powi(others) * AT_ONCE_PART.pow(HABIT_MIN) as f64 <= 1.0
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

    const MS: u64 = 1_000_000;

    #[test]
    fn a_sender_is_known_to_hold_after_several_holds_and_fewer_misses() {
        let known = |holds, missed| {
            NagleEvidence { holds, missed, ..NagleEvidence::NONE }.is_known_to_hold()
        };
        assert!(known(3, 0) && known(4, 3));
        assert!(!known(2, 0) && !known(3, 3));
    }

    #[test]
    fn holds_that_are_no_coincidence_count_until_the_rule_is_broken() {
        let sender = |before: &[u64], after: &[u64]| {
            let mut evidence = NagleEvidence::NONE;
            before.iter().for_each(|&after_ns| evidence.note_hold(40 * MS, after_ns));
            evidence.refuted = 1;
            after.iter().for_each(|&after_ns| evidence.note_hold(40 * MS, after_ns));
            evidence.is_refuted_throughout()
        };
        assert!(!sender(&[20_000, 12_000], &[]) && !sender(&[20_000, 12_000], &[MS]));
        assert!(sender(&[20_000, MS], &[]), "near an ACK by chance");
        assert!(sender(&[20_000, 12_000], &[20_000]), "it waits for ACKs of its own accord");
    }

    #[test]
    fn a_sender_that_often_goes_on_between_acks_does_not_wait_for_them() {
        let of = |holds, missed| NagleEvidence { holds, missed, refuted: 1, ..NagleEvidence::NONE };
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

    #[test]
    fn segments_that_follow_acks_of_varying_delay_do_so_by_no_chance() {
        let follows = |waits_ms: &[u64], after_ms: u64, missed: u32| {
            let nearly = waits_ms.len() as u32;
            let mut evidence = NagleEvidence { missed, nearly, ..NagleEvidence::NONE };
            let mut add = |wait_ms: &u64| evidence.waits.add(wait_ms * MS, after_ms * MS);
            waits_ms.iter().for_each(&mut add);
            evidence.follows_acks()
        };
        assert!(follows(&[94, 165, 180, 236], 10, 4));
        assert!(!follows(&[94, 165, 180, 236], 10, 5), "one pause ended at another time");
        assert!(!follows(&[45, 46, 47], 1, 3), "a pace of its own beside a timer of its peer");
        assert!(!follows(&[94, 236], 10, 2), "two may be chance");
    }
}
