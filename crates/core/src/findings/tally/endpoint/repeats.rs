//! Segments sent again.

/// Segments sent again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeats {
    /// Their number.
    pub again: u64,
    /// Of them those that had arrived (RFC 2883).
    pub needless: u64,
}

impl Repeats {
    pub(super) fn add(&mut self, [again, needless]: [u64; 2]) {
        self.merge(&Self { again, needless });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.again += other.again;
        self.needless += other.needless;
    }

    /// Returns whether most of them were needless.
    pub fn are_mostly_needless(&self) -> bool {
        2 * self.needless > self.again
    }

    /// Returns whether the receiver reported each of them as needless.
    pub fn are_all_needless(&self) -> bool {
        self.needless > 0 && self.needless >= self.again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_of_two_shards_are_weighed_together() {
        let mut sums = Repeats::default();
        assert!(!sums.are_all_needless() && !sums.are_mostly_needless());
        sums.add([1, 1]);
        assert!(sums.are_all_needless());
        sums.merge(&Repeats { again: 1, needless: 0 });
        assert!(!sums.are_all_needless() && !sums.are_mostly_needless());
    }
}
