//! Whether the way stood still during a handshake: then nothing was lost, however often it was repeated.

use crate::judge::thresholds::{ALIKE_PART, RTO_INITIAL_NS};
use crate::tcp::setup::Setup;
use crate::tcp::setup::steps::HandshakeStep;

impl Setup {
    /// Returns whether the first SYN was held up on its way, or its answer, and nothing was lost: each
    /// SYN has a SYN-ACK (RFC 9293 §3.10.7.4), and these came closer together than the SYNs, and sooner
    /// than the timer of a server repeats a SYN-ACK (RFC 6298 §2.1).
    pub(super) fn is_held_up(&self) -> bool {
        let syns = self.syns_before_answer().count();
        let is_paired = syns > 1 && usize::from(self.syns.max(self.syn_acks)) == syns;
        let first = self.steps.get(HandshakeStep::SynAck);
        let Some((repeated, first)) = self.repeated.as_deref().zip(first) else { return false };
        let answers_ns = repeated.syn_acks_ns.iter().chain(&repeated.after_ack_ns);
        let (count, last_ns) = answers_ns.fold((1, 0), |(count, _), &at_ns| (count + 1, at_ns));
        let apart_ns = last_ns.saturating_sub(first.time_ns);
        let sent_apart_ns =
            self.syn_last_ns().saturating_sub(self.steps.time_ns(HandshakeStep::Syn));
        let timed_ns = sent_apart_ns.min(RTO_INITIAL_NS);
        is_paired
            && count == syns
            && repeated.other_syn_acks == 0
            && apart_ns < timed_ns - timed_ns / ALIKE_PART
    }
}
