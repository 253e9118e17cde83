//! Decides by the timestamp of its answer whether a retransmission was spurious (the Eifel
//! algorithm, RFC 3522).

use crate::judge::thresholds::ALIKE_PART;
use crate::tcp::thresholds::{ACK_WITHIN_NS, RTT_MARGIN_NS, RTT_MARGIN_PART};
use crate::wire::Segment;

/// Returns whether an ACK at `ack_ns` came too early to answer data sent at `sent_ns`, with a
/// margin for the estimate of the minimum round trip.
pub fn too_early(ack_ns: u64, sent_ns: u64, rtt_receiver_ns: u64) -> bool {
    let margin_ns =
        (RTT_MARGIN_NS + rtt_receiver_ns / RTT_MARGIN_PART).min(rtt_receiver_ns / ALIKE_PART);
    ack_ns < sent_ns + rtt_receiver_ns - margin_ns
}

/// Timestamp of a retransmission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    pub(super) tsval: Option<u32>,
    /// It is later than that of the first transmission, as far as the sender's clock shows.
    pub(super) newer: bool,
    /// Time since the first transmission, ns; 0 if that is not remembered.
    pub(super) after_ns: u64,
}

impl Stamp {
    /// Returns whether `ack` answers the first transmission: it echoes an earlier timestamp (the
    /// Eifel algorithm, RFC 3522), or comes too early for the retransmission at `repeated_ns`. An
    /// ACK that echoes the retransmission answers that, however little is known of the path.
    pub fn is_first_answered(self, ack: &Segment, repeated_ns: u64, rtt_receiver_ns: u64) -> bool {
        match self.age(ack) {
            Some(age) if age < 0 => true,
            Some(_) if self.newer => false,
            _ => {
                let answers_ns = ack.time_ns.saturating_sub(repeated_ns);
                too_early(ack.time_ns, repeated_ns, rtt_receiver_ns)
                    && !self.was_unheard(answers_ns, rtt_receiver_ns)
            }
        }
    }

    /// Returns whether an ACK so long after the retransmission, `answers_ns`, answers that although it
    /// comes sooner than the least round trip so far, of which perhaps one is known: a receiver would have
    /// acknowledged the first transmission long before (RFC 9293 §3.8.6.3), and the answer to a packet
    /// that the path held up for so long would rarely come just then. If it did, a second ACK follows.
    fn was_unheard(self, answers_ns: u64, rtt_receiver_ns: u64) -> bool {
        self.after_ns > ACK_WITHIN_NS.saturating_add(rtt_receiver_ns)
            && 2 * answers_ns >= rtt_receiver_ns
    }

    /// Returns whether there is no timestamp, so that an ACK cannot be assigned to one
    /// transmission.
    pub fn is_unstamped(self) -> bool {
        self.tsval.is_none()
    }

    /// Returns by how many ticks the timestamp that `ack` echoes is later.
    fn age(self, ack: &Segment) -> Option<i32> {
        self.tsval.zip(ack.echoes()).map(|(tsval, tsecr)| tsecr.wrapping_sub(tsval) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{SegmentFlags, TcpFlags};

    /// Returns an ACK that echoes `tsecr`, one round trip after the retransmission.
    fn ack(tsecr: u32) -> Segment {
        let (flags, mut facts) = (TcpFlags(TcpFlags::ACK), SegmentFlags::default());
        facts.0 |= SegmentFlags::TIMESTAMPS;
        Segment { flags, facts, tsecr, time_ns: 30_000_000, ..Segment::default() }
    }

    #[test]
    fn an_echo_of_zero_does_not_answer_the_first_transmission() {
        let stamp = Stamp { tsval: Some(7_000), newer: true, after_ns: 0 };
        let is_first = |tsecr| stamp.is_first_answered(&ack(tsecr), 10_000_000, 20_000_000);
        assert_eq!([0, 6_800, 7_000].map(is_first), [false, true, false]);
        // An ACK too early for the retransmission answers the first transmission, whatever
        // timestamp it echoes.
        assert!(stamp.is_first_answered(&ack(0), 25_000_000, 20_000_000));
    }

    #[test]
    fn an_ack_long_after_the_first_transmission_answers_the_second() {
        let unanswered = Stamp { tsval: None, newer: false, after_ns: 2_700_000_000 };
        let soon = Stamp { after_ns: 300_000_000, ..unanswered };
        let is_first = |stamp: Stamp, ns: u64| {
            let ack = Segment { time_ns: 10_000_000 + ns, ..Segment::default() };
            stamp.is_first_answered(&ack, 10_000_000, 60_000_000)
        };
        assert!(
            !is_first(unanswered, 50_000_000),
            "a little sooner than the handshake's round trip"
        );
        assert!(is_first(unanswered, 20_000_000), "the path had held up the first one");
        assert!(is_first(soon, 50_000_000), "the receiver may have delayed its ACK for so long");
    }
}
