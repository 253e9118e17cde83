//! The time of a handshake by owner, and up to where it lasted.

use crate::model::Owner;
use crate::tcp::setup::Setup;
use crate::tcp::setup::steps::{FirstSegment, HandshakeStep};
use crate::tcp::thresholds::HANDSHAKE_WAITED_FOR_NS;

/// Time of the set-up by owner.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// Its parts, one after the other: owner, start and end, ns.
    pub spans: [(Owner, u64, u64); 5],
    /// Time after the set-up, which is the client's own and delays nothing, ns.
    pub rested_ns: u64,
}

impl Default for Split {
    fn default() -> Self {
        Self { spans: [(Owner::Connect, 0, 0); 5], rested_ns: 0 }
    }
}

impl Split {
    /// Time that repeated SYNs and SYN-ACKs took, ns.
    pub fn repeated_ns(&self) -> u64 {
        let repeated = self.spans.iter().filter(|(owner, ..)| *owner == Owner::SynRetransmit);
        repeated.map(|(_, from_ns, to_ns)| to_ns.saturating_sub(*from_ns)).sum()
    }
}

impl Setup {
    /// Records that the client's first segment after the SYN-ACK does not follow the SYN: the ACK of the
    /// handshake is not in the capture, nor is what the client sent behind it. If `answered`, it
    /// acknowledges data of the server, which is not there either.
    pub fn note_hole(&mut self, answered: bool) {
        self.steps.first =
            if answered { FirstSegment::FollowsAck } else { FirstSegment::FollowsData };
    }

    /// Returns whether the ACK of the handshake is in the capture.
    pub(super) fn has_ack(&self) -> bool {
        self.steps.has(HandshakeStep::Ack) && self.steps.first == FirstSegment::Acknowledges
    }

    /// Returns whether an exchange that begins at `start_ns` had to wait for the handshake.
    pub fn waited_for(&self, start_ns: u64, rtt_client_ns: u64) -> bool {
        let Some(_) = self.syn_first_ns() else { return false };
        let done_ns = match self.steps.first {
            FirstSegment::FollowsAck if !self.is_repeated() => self.syn_ack_last_ns(),
            _ => self.established_ns().unwrap_or(start_ns).max(self.syn_ack_last_ns()),
        };
        !self.claimed && start_ns.saturating_sub(done_ns) <= HANDSHAKE_WAITED_FOR_NS + rtt_client_ns
    }

    /// Splits the time of the set-up until `until_ns` (the first byte of the request) among its
    /// owners.
    pub fn split(&self, until_ns: u64, rtt_client_ns: u64) -> Split {
        let Some(first_ns) = self.syn_first_ns() else { return Split::default() };
        let answered_ns = self.syn_ack_first_ns().unwrap_or(until_ns).min(until_ns);
        let sent_ns = self.syn_last_ns().min(answered_ns).max(first_ns);
        let acked_ns = self.established_ns().unwrap_or(until_ns).min(until_ns);
        let last_answer_ns = match self.is_answered_late(acked_ns, rtt_client_ns) {
            true => answered_ns,
            false => self
                .syn_ack_last_ns()
                .max(self.unheard_until_ns().unwrap_or(0))
                .clamp(answered_ns, until_ns),
        };
        let rested_ns = (until_ns - last_answer_ns).saturating_sub(rtt_client_ns);
        // The SYN-ACK may have been captured before the SYN.
        let acking_ns = last_answer_ns + first_ns.saturating_sub(answered_ns);
        // The capture lacks the client's first data, so its time is unknown.
        let is_unseen = self.steps.first == FirstSegment::FollowsData;
        let (unseen_ns, rested_ns) = if is_unseen { (rested_ns, 0) } else { (0, rested_ns) };
        let open_ns = until_ns - rested_ns;
        let spans = [
            (Owner::SynRetransmit, first_ns, sent_ns),
            (Owner::Connect, sent_ns, answered_ns),
            (Owner::SynRetransmit, answered_ns, last_answer_ns),
            (Owner::Connect, acking_ns, open_ns - unseen_ns),
            (Owner::Unknown, open_ns - unseen_ns, open_ns),
        ];
        Split { spans, rested_ns }
    }
}
