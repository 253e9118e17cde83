//! Counts of retransmissions.

/// Counts of retransmissions.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Retransmissions {
    /// Number of retransmitted segments.
    pub all: u64,
    /// Number of these whose data had arrived (RFC 2883).
    pub spurious: u64,
}

impl Retransmissions {
    pub(super) fn add(&mut self, [all, spurious]: [u64; 2]) {
        self.merge(&Self { all, spurious });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.all += other.all;
        self.spurious += other.spurious;
    }

    /// Returns whether most retransmissions were spurious.
    pub fn are_mostly_spurious(&self) -> bool {
        2 * self.spurious > self.all
    }

    /// Returns whether the receiver reported each retransmission as spurious.
    pub fn are_all_spurious(&self) -> bool {
        self.spurious > 0 && self.spurious >= self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_of_two_shards_are_weighed_together() {
        let mut sums = Retransmissions::default();
        assert!(!sums.are_all_spurious() && !sums.are_mostly_spurious());
        sums.add([1, 1]);
        assert!(sums.are_all_spurious());
        sums.merge(&Retransmissions { all: 1, spurious: 0 });
        assert!(!sums.are_all_spurious() && !sums.are_mostly_spurious());
    }
}
