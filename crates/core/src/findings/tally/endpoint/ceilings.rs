//! Flights of constant height, which may be limited by a send buffer.

/// Counts of flights of constant height.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Ceilings {
    /// Number of connections on which a sender's flights had a constant height to the end.
    pub connections: u64,
    /// Number of these whose sender continued by its own clock.
    pub clocked: u64,
    /// Number of times that their senders continued by their own clock.
    pub own_pauses: u64,
}

impl Ceilings {
    /// Counts a connection with flights of constant height.
    pub(super) fn add(&mut self, has_own_clock: bool, own_pauses: u32) {
        self.connections += 1;
        self.clocked += u64::from(has_own_clock);
        self.own_pauses += u64::from(own_pauses);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.clocked += other.clocked;
        self.own_pauses += other.own_pauses;
    }

    /// Returns whether `waits` were no waits for a buffer: most senders, or as many pauses,
    /// followed their own clock.
    pub fn refute(&self, waits: u64) -> bool {
        2 * self.clocked > self.connections || 2 * self.own_pauses > waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_refuted_by_senders_that_keep_their_own_time() {
        let mut sums = Ceilings::default();
        sums.add(false, 0);
        assert!(!sums.refute(4));
        sums.merge(&Ceilings { connections: 1, clocked: 1, own_pauses: 3 });
        assert!(sums.refute(4) && !sums.refute(6));
        sums.add(true, 0);
        assert!(sums.refute(6));
    }
}
