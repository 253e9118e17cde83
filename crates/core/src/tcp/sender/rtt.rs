//! Round-trip samples between the vantage and the receiver (RFC 6298 §3, §4).

use crate::tcp::sequence::widen;

/// Unit of stored samples, ns: one minute fits into 32 bits.
const UNIT_NS: u64 = 16;

/// The last round-trip samples of a sender, and the segment being timed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttSamples {
    /// The last samples, in [`UNIT_NS`].
    last: [u32; 3],
    /// Lower half of the end of the segment being timed.
    timed_end: u32,
    /// Time of the segment being timed, ns; 0 if there is none (Karn's algorithm: a retransmission
    /// resets it).
    timed_ns: u64,
}

impl RttSamples {
    /// Times the segment up to `end`, which passes at `now_ns`, unless another is being timed.
    #[inline]
    pub fn time(&mut self, end: u64, now_ns: u64) {
        if self.timed_ns == 0 {
            (self.timed_end, self.timed_ns) = (end as u32, now_ns);
        }
    }

    /// Times the segment up to `end`, which passed at `time_ns`, instead of any other. `None` means
    /// that its round trip is already known.
    #[inline]
    pub fn time_only(&mut self, end: u64, time_ns: Option<u64>) {
        (self.timed_end, self.timed_ns) = (end as u32, time_ns.unwrap_or(0));
    }

    /// Returns whether the segment up to `end`, which passed at `time_ns`, is being timed.
    #[inline]
    pub fn is_timing(&self, end: u64, time_ns: u64) -> bool {
        (self.timed_end, self.timed_ns) == (end as u32, time_ns)
    }

    /// Returns whether no segment is being timed.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.timed_ns == 0
    }

    /// Stops timing until the next departure.
    pub fn stop(&mut self) {
        self.timed_ns = 0;
    }

    /// Records that data from `start` is retransmitted: its ACK cannot be assigned to one
    /// transmission (RFC 6298 §3).
    pub fn repeat(&mut self, start: u64) {
        if start < widen(self.timed_end, start) {
            self.stop();
        }
    }

    /// Returns the round trip of the timed segment, ns, if the ACK of `una` at `now_ns` covers it.
    #[inline]
    pub fn end(&mut self, una: u64, now_ns: u64) -> Option<u64> {
        if self.is_idle() || una < widen(self.timed_end, una) {
            return None;
        }
        let rtt_ns = now_ns.saturating_sub(self.timed_ns);
        self.stop();
        Some(rtt_ns)
    }

    /// Records a sample.
    #[inline]
    pub fn take(&mut self, rtt_ns: u64) {
        let rtt = u32::try_from(rtt_ns / UNIT_NS).unwrap_or(u32::MAX);
        self.last = [rtt, self.last[0], self.last[1]];
    }

    /// The least of the last samples, ns, so that a delayed ACK among them does not count.
    pub fn recent_ns(&self) -> u64 {
        u64::from(self.last.into_iter().min().unwrap_or(0)) * UNIT_NS
    }

    /// The last sample, ns. A sample far longer than the previous one is limited, since it may
    /// include a repair.
    pub fn last_ns(&self) -> u64 {
        let [last, before, _] = self.last;
        u64::from(last.min(before.saturating_mul(2))) * UNIT_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_segment_gives_no_sample() {
        let mut rtts = RttSamples::default();
        rtts.time(1_000, 5);
        rtts.time(2_000, 6);
        rtts.repeat(1_000);
        assert!(!rtts.is_idle(), "the timed segment was not retransmitted");
        rtts.repeat(0);
        assert_eq!(rtts.end(2_000, 50), None);
    }

    #[test]
    fn the_ack_of_the_timed_segment_ends_the_sample() {
        let mut rtts = RttSamples::default();
        rtts.time(1_000, 5);
        assert_eq!(
            [rtts.end(999, 50), rtts.end(1_500, 85), rtts.end(2_000, 90)],
            [None, Some(80), None]
        );
    }

    #[test]
    fn a_delayed_ack_among_the_samples_does_not_count() {
        let mut rtts = RttSamples::default();
        [1_600, 1_600, 64_000].into_iter().for_each(|ns| rtts.take(ns));
        assert_eq!([rtts.recent_ns(), rtts.last_ns()], [1_600, 3_200]);
    }
}
