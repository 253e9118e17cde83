//! Events at which senders continued whose flight had ended.

/// Events at which senders continued whose flight had ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prompts {
    /// Number of times that a message of the peer had come.
    pub words: u64,
    /// Number of times that only an ACK had come.
    pub acks: u64,
}

impl Prompts {
    pub(super) fn add(&mut self, [words, acks]: [u32; 2]) {
        self.merge(&Self { words: words.into(), acks: acks.into() });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.words += other.words;
        self.acks += other.acks;
    }

    /// Returns whether senders waited for messages of the peer.
    pub fn are_words(&self) -> bool {
        self.words > 2 * self.acks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_mostly_goes_on_with_words_waits_for_them() {
        let mut prompts = Prompts::default();
        assert!(!prompts.are_words());
        prompts.add([3, 1]);
        assert!(prompts.are_words());
        prompts.merge(&Prompts { words: 0, acks: 1 });
        assert!(!prompts.are_words());
    }
}
