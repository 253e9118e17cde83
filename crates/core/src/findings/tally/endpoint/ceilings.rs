//! Flights that stood at a ceiling, which a send buffer may have set.

/// Flights that stood at a ceiling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ceilings {
    /// Connections on which a sender's flight stood at one to the end.
    pub connections: u64,
    /// Of them those whose sender went on by a clock of its own.
    pub clocked: u64,
    /// Times that their senders went on by their own clock.
    pub own_pauses: u64,
}

impl Ceilings {
    /// Counts a connection on which a flight stood at a ceiling.
    pub(super) fn add(&mut self, is_clocked: bool, own_pauses: u32) {
        self.connections += 1;
        self.clocked += u64::from(is_clocked);
        self.own_pauses += u64::from(own_pauses);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.clocked += other.clocked;
        self.own_pauses += other.own_pauses;
    }

    /// Returns whether `waits` for a buffer were none: most senders, or as many pauses, kept time
    /// of their own.
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
