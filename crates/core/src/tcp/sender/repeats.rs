//! Counts of segments that were sent or arrived more than once or out of order.

use crate::judge::Recovery;
use crate::wire::Segment;

/// Segments of a direction that were repeated or out of order, and reports of them.
#[derive(Clone, Copy, Debug)]
pub struct RepeatCounts {
    /// Payload sent more than once, bytes.
    pub repeated_bytes: u64,
    /// Number of retransmitted segments.
    pub rexmt_data_packets: u64,
    /// Number of retransmissions by timer.
    pub rto_count: u64,
    /// Number of retransmissions by duplicate ACKs or SACK.
    pub fast_retransmissions: u64,
    /// Number of fast retransmissions in finished exchanges.
    fast_counted: u64,
    /// Number of retransmissions of data that had arrived.
    pub spurious_retransmissions: u64,
    /// D-SACKs received (RFC 2883), which report spurious retransmissions.
    pub dsacks: u32,
    /// Number of D-SACKs in finished exchanges.
    dsacks_counted: u32,
    /// Sequence numbers of data behind a hole at the vantage, or at the receiver by its report, that was sent
    /// again with what fills the hole.
    joined: Option<(u32, u32)>,
    /// An ACK named in a block, as a D-SACK does, what filled a hole and was acknowledged with it.
    pub named_fill: bool,
    /// Number of retransmissions whose receiver acknowledged each of their copies, without SACK.
    pub acked_twice: u32,
    /// The second segment with data, shorter than a full one, was sent again by a timer.
    pub lost_second: bool,
    /// Segments out of order.
    pub out_of_order_packets: u64,
    /// Duplicate ACKs for its data.
    pub duplicate_acks: u64,
    /// Keep-alive probes sent.
    pub keep_alives: u64,
}

impl RepeatCounts {
    pub const NONE: Self = Self {
        repeated_bytes: 0,
        rexmt_data_packets: 0,
        rto_count: 0,
        fast_retransmissions: 0,
        fast_counted: 0,
        spurious_retransmissions: 0,
        dsacks: 0,
        dsacks_counted: 0,
        joined: None,
        named_fill: false,
        acked_twice: 0,
        lost_second: false,
        out_of_order_packets: 0,
        duplicate_acks: 0,
        keep_alives: 0,
    };

    /// Counts a retransmission. If the data had `arrived`, it was spurious, whatever caused it.
    pub fn retransmit(&mut self, trigger: Recovery, arrived: bool) {
        self.rexmt_data_packets += 1;
        match trigger {
            _ if arrived => self.spurious_retransmissions += 1,
            Recovery::Timer => self.rto_count += 1,
            Recovery::Fast => self.fast_retransmissions += 1,
        }
    }

    /// Counts the last fast retransmission as one of data that had arrived.
    pub fn revert_fast(&mut self) {
        if self.fast_retransmissions > self.fast_counted {
            self.fast_retransmissions -= 1;
            self.spurious_retransmissions += 1;
        }
    }

    /// Number of segments sent, computed from the payload (`unique_bytes`, each counted once) and
    /// the SMSS.
    pub fn segments_sent(&self, unique_bytes: u64, smss: u64) -> u64 {
        let by_size = (unique_bytes + self.repeated_bytes).div_ceil(smss);
        by_size.max(self.rexmt_data_packets)
    }

    /// Returns whether the D-SACK in `segment` names only the byte of a keep-alive (RFC 9293
    /// §3.8.4), which is no data.
    #[cold]
    #[inline(never)]
    pub(super) fn is_keep_alive_reported(&self, segment: &Segment) -> bool {
        let [first, ..] = segment.sack;
        let is_byte = first.right.wrapping_sub(first.left) == 1;
        self.keep_alives > 0 && first.right == segment.ack && is_byte
    }

    /// Records that `segment` fills a hole by its first `len` bytes and repeats what lies behind that.
    #[cold]
    #[inline(never)]
    pub(super) fn join(&mut self, segment: &Segment, len: u64) {
        let end = segment.seq.wrapping_add(segment.payload_len);
        self.joined = Some((segment.seq.wrapping_add(len as u32), end));
    }

    /// Returns whether the D-SACK in `segment` reports only data that was sent again with what fills a
    /// hole, which was needed.
    pub(super) fn is_joined_reported(&self, segment: &Segment) -> bool {
        let [first, ..] = segment.sack;
        self.joined.is_some_and(|(left, right)| {
            first.left.wrapping_sub(left) as i32 >= 0 && right.wrapping_sub(first.right) as i32 >= 0
        })
    }

    /// Returns whether a block that reads as a D-SACK need not report a needless repetition: data behind a hole
    /// was sent again with what fills it, or the receiver names what filled one.
    pub fn has_other_blocks(&self) -> bool {
        self.joined.is_some() || self.named_fill
    }

    /// Number of retransmissions that the receiver's D-SACKs or second ACKs show to be spurious.
    pub fn reported_spurious(&self) -> u32 {
        self.dsacks.saturating_add(self.acked_twice)
    }

    /// Number of fast retransmissions since the last call.
    pub fn take_fast(&mut self) -> u64 {
        let counted = std::mem::replace(&mut self.fast_counted, self.fast_retransmissions);
        self.fast_retransmissions.saturating_sub(counted)
    }

    /// Number of D-SACKs since the last call.
    pub fn take_dsacks(&mut self) -> u32 {
        let counted = std::mem::replace(&mut self.dsacks_counted, self.dsacks);
        self.dsacks.saturating_sub(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_by_their_size_or_by_their_repetitions() {
        let mut counts = RepeatCounts { repeated_bytes: 1_000, ..RepeatCounts::NONE };
        assert_eq!(counts.segments_sent(1_001, 1_000), 3);
        counts.rexmt_data_packets = 9;
        assert_eq!(counts.segments_sent(1_001, 1_000), 9);
    }

    #[test]
    fn a_report_of_the_byte_of_a_keep_alive_is_no_report_of_data() {
        let mut segment = Segment { ack: 500, ..Segment::default() };
        (segment.sack[0].left, segment.sack[0].right) = (499, 500);
        let counts = RepeatCounts { keep_alives: 1, ..RepeatCounts::NONE };
        assert!(counts.is_keep_alive_reported(&segment));
        assert!(!RepeatCounts::NONE.is_keep_alive_reported(&segment), "none was sent");
        segment.sack[0].left = 400;
        assert!(!counts.is_keep_alive_reported(&segment));
    }

    #[test]
    fn a_report_of_what_was_sent_again_with_lost_data_shows_nothing_needless() {
        let mut counts = RepeatCounts::NONE;
        counts.join(&Segment { seq: 1, payload_len: 785, ..Segment::default() }, 485);
        let reported = |left, right| {
            let mut ack = Segment::default();
            (ack.sack[0].left, ack.sack[0].right) = (left, right);
            counts.is_joined_reported(&ack)
        };
        assert!(reported(486, 786) && !reported(1, 786) && !reported(786, 900));
    }

    #[test]
    fn a_retransmission_of_data_that_had_arrived_is_spurious_whatever_its_trigger() {
        let mut counts = RepeatCounts::NONE;
        counts.retransmit(Recovery::Timer, true);
        counts.retransmit(Recovery::Timer, false);
        counts.retransmit(Recovery::Fast, false);
        let triggers = (counts.spurious_retransmissions, counts.rto_count);
        assert_eq!((counts.rexmt_data_packets, triggers), (3, (1, 1)));
        assert_eq!([counts.take_fast(), counts.take_fast()], [1, 0]);
    }
}
