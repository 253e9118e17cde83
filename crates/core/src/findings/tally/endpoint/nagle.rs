//! Evidence at an endpoint against Nagle's algorithm (RFC 9293 §3.7.4).

/// Counts of events that refute Nagle's algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub struct NagleSums {
    /// Number of connections on which a sender broke the rule of the algorithm.
    pub refuted: u64,
    /// Number of silences that looked like holds but did not end with the ACK.
    pub missed: u64,
}

impl NagleSums {
    pub(super) fn add(&mut self, is_refuted: bool, missed: u32) {
        self.refuted += u64::from(is_refuted);
        self.missed += u64::from(missed);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.refuted += other.refuted;
        self.missed += other.missed;
    }

    /// Returns whether `holds` silences on `connections` were no holds: the sender breaks the rule
    /// on as many connections, or half of the apparent holds do not end with the ACK.
    pub fn refutes(&self, holds: u64, connections: u64) -> bool {
        self.refuted >= connections.max(1) || 2 * self.missed > holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_refuted_by_a_broken_rule_or_by_silences_without_the_ack() {
        let mut sums = NagleSums::default();
        assert!(!sums.refutes(10, 2));
        sums.add(true, 0);
        assert!(!sums.refutes(10, 2) && sums.refutes(10, 1));
        sums.merge(&NagleSums { refuted: 0, missed: 6 });
        assert!(sums.refutes(10, 2) && !sums.refutes(12, 2));
    }
}
