//! Decides by the timestamp of its answer whether a retransmission was spurious (the Eifel
//! algorithm, RFC 3522).

use crate::judge::thresholds::ALIKE_PART;
use crate::tcp::thresholds::{RTT_MARGIN_NS, RTT_MARGIN_PART};
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
}

impl Stamp {
    /// Returns whether `ack` answers the first transmission: it echoes an earlier timestamp (the
    /// Eifel algorithm, RFC 3522), or comes too early for the retransmission at `repeated_ns`. An
    /// ACK that echoes the retransmission answers that, however little is known of the path.
    pub fn is_first_answered(self, ack: &Segment, repeated_ns: u64, rtt_receiver_ns: u64) -> bool {
        match self.age(ack) {
            Some(age) if age < 0 => true,
            Some(_) if self.newer => false,
            _ => too_early(ack.time_ns, repeated_ns, rtt_receiver_ns),
        }
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
        let stamp = Stamp { tsval: Some(7_000), newer: true };
        let is_first = |tsecr| stamp.is_first_answered(&ack(tsecr), 10_000_000, 20_000_000);
        assert_eq!([0, 6_800, 7_000].map(is_first), [false, true, false]);
        // An ACK too early for the retransmission answers the first transmission, whatever
        // timestamp it echoes.
        assert!(stamp.is_first_answered(&ack(0), 25_000_000, 20_000_000));
    }
}
