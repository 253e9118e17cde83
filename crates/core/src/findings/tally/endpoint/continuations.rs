//! Events with which senders continued after their flight had ended.

/// Counts of the events with which senders continued after their flight had ended.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Continuations {
    /// Number of times that they continued when a message of the peer had come.
    pub messages: u64,
    /// Number of times that they continued when only an ACK had come.
    pub acks: u64,
}

impl Continuations {
    pub(super) fn add(&mut self, [messages, acks]: [u32; 2]) {
        self.merge(&Self { messages: messages.into(), acks: acks.into() });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.messages += other.messages;
        self.acks += other.acks;
    }

    /// Returns whether senders waited for messages of the peer.
    pub fn are_messages(&self) -> bool {
        self.messages > 2 * self.acks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_mostly_continues_with_messages_waits_for_them() {
        let mut continuations = Continuations::default();
        assert!(!continuations.are_messages());
        continuations.add([3, 1]);
        assert!(continuations.are_messages());
        continuations.merge(&Continuations { messages: 0, acks: 1 });
        assert!(!continuations.are_messages());
    }
}
