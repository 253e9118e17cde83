//! Evidence at an endpoint against Nagle's algorithm (RFC 9293 §3.7.4).

use crate::judge::NagleEvidence;
use crate::judge::thresholds::{CHANCE_FACTOR, HABIT_MIN};

/// Counts of events that refute Nagle's algorithm.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct NagleSums {
    /// Number of connections on which a sender broke the rule of the algorithm.
    pub refuted: u64,
    /// Time of apparent holds on these connections, ns.
    pub refuted_ns: u64,
    /// Number of connections on which a sender broke the rule only after it had followed it: its
    /// application switched the algorithm off.
    pub switched_off: u64,
    /// Time of holds on these connections, ns.
    pub until_off_ns: u64,
    /// Number of connections on which a sender paused in a message until no ACK came.
    pub paused: u64,
    /// Number of silences that looked like holds but did not end with the ACK.
    pub missed: u64,
    /// Number of these that ended shortly after the ACK.
    pub nearly: u64,
}

/// Apparent holds at the senders of one side of an endpoint's connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holds {
    /// Number of holds.
    pub count: u64,
    /// Number of connections with holds.
    pub connections: u64,
    /// Time of the holds, ns.
    pub ns: u64,
}

impl NagleSums {
    /// Adds a sender whose apparent holds took `held_ns`.
    pub(super) fn add(&mut self, evidence: &NagleEvidence, held_ns: u64) {
        if evidence.is_refuted_throughout() {
            self.refuted += 1;
            self.refuted_ns = self.refuted_ns.saturating_add(held_ns);
        } else if evidence.is_refuted() {
            self.switched_off += 1;
            self.until_off_ns = self.until_off_ns.saturating_add(held_ns);
        }
        self.paused += u64::from(evidence.pauses > 0);
        if !evidence.follows_acks() {
            self.missed += u64::from(evidence.missed);
            self.nearly += u64::from(evidence.nearly);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.refuted += other.refuted;
        self.refuted_ns = self.refuted_ns.saturating_add(other.refuted_ns);
        self.switched_off += other.switched_off;
        self.until_off_ns = self.until_off_ns.saturating_add(other.until_off_ns);
        self.paused += other.paused;
        self.missed += other.missed;
        self.nearly += other.nearly;
    }

    /// Returns whether `holds` are none.
    ///
    /// A sender breaks the rule on the connections that have most of them: `TCP_NODELAY` is an
    /// option of one socket. If holds are no habit on their connections, it is enough that a sender
    /// breaks the rule on as many others. Holds met their ACKs by chance if a sender continued half
    /// as often just after an ACK, or far more often at any time after it. A sender that is idle
    /// for longer than the ACK takes, such as a user who types, does not refute the algorithm.
    pub fn refutes(&self, holds: &Holds) -> bool {
        let of_their_own = self.refuted_ns > holds.ns / 2;
        let is_habit = holds.count >= u64::from(HABIT_MIN) * holds.connections;
        let of_others = self.refuted >= holds.connections.max(1) && !is_habit;
        of_their_own || of_others || self.are_chance(holds)
    }

    /// Returns whether holds of `held_ns` all lie before the application switched the algorithm off.
    pub fn ends_before(&self, held_ns: u64) -> bool {
        self.switched_off > 0 && self.until_off_ns >= held_ns
    }

    /// Returns whether `holds` met their ACKs by chance.
    pub fn are_chance(&self, holds: &Holds) -> bool {
        2 * self.nearly > holds.count || self.missed > u64::from(CHANCE_FACTOR) * holds.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Holds = Holds { count: 10, connections: 2, ns: 400 };

    #[test]
    fn a_broken_rule_refutes_the_holds_of_its_own_connection() {
        let mut sums = NagleSums::default();
        assert!(!sums.refutes(&TEN));
        let broken = NagleEvidence { refuted: 1, ..NagleEvidence::NONE };
        sums.add(&broken, 0);
        sums.add(&broken, 200);
        assert!(!sums.refutes(&TEN), "half of the time is on other connections");
        sums.add(&broken, 1);
        assert!(sums.refutes(&TEN));
    }

    #[test]
    fn a_broken_rule_elsewhere_refutes_holds_that_are_no_habit() {
        let mut sums = NagleSums::default();
        sums.add(&NagleEvidence { refuted: 1, ..NagleEvidence::NONE }, 0);
        let holds = |count| Holds { count, connections: 1, ns: 40 * count };
        assert!(sums.refutes(&holds(2)) && !sums.refutes(&holds(3)));
    }

    #[test]
    fn silences_that_end_shortly_after_the_ack_refute_holds_and_later_ends_do_not() {
        let sums = |missed, nearly| {
            let mut sums = NagleSums::default();
            sums.add(&NagleEvidence { missed, nearly, ..NagleEvidence::NONE }, 0);
            sums.refutes(&TEN)
        };
        assert!(sums(6, 6) && !sums(6, 5));
        assert!(sums(41, 0) && !sums(40, 0));
    }
}
