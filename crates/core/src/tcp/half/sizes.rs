//! How long a full segment of a sender is.

use super::*;

/// A window of less than twice this divides nothing: segments of 536 bytes are always in order
/// (RFC 9293 §3.7.1).
const HALF_WINDOW_MIN: u16 = 268;

/// Largest segment sent where neither MSS option nor full segments were seen: Ethernet's MTU
/// less IP, TCP and timestamps.
const SMSS_DEFAULT: u16 = 1448;

/// Bytes of the TCP timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u16 = 12;

/// The largest segment that may be sent to who announces `mss` (RFC 9293 §3.7.1, RFC 6691), bytes.
pub fn smss_of(mss: u16, timestamps: bool) -> u16 {
    mss.saturating_sub(if timestamps { TIMESTAMPS_BYTES } else { 0 })
}

impl Half {
    /// Announced maximum segment sizes; both sides' timestamps are in use or not.
    pub fn announce_smss(&mut self, mss: u16, timestamps: bool) {
        self.smss_announced = smss_of(mss, timestamps).max(1);
        self.settle_smss();
    }

    /// What was seen or announced of the segment size has changed.
    fn settle_smss(&mut self) {
        self.smss = match (self.smss_seen, self.smss_announced) {
            (0, announced) => announced,
            (seen, 0) => seen,
            (seen, announced) => seen.min(announced),
        };
        if self.half_window >= HALF_WINDOW_MIN && self.half_window < self.smss {
            self.smss = self.half_window;
        }
    }

    /// A window of `bytes` was offered: half of the greatest is as good as a full segment (RFC 9293
    /// §3.8.6.2.1), and Linux sends none that is longer.
    pub(super) fn note_window(&mut self, bytes: u64) {
        let half = u16::try_from(bytes / 2).unwrap_or(u16::MAX);
        if half > self.half_window {
            self.half_window = half;
            self.settle_smss();
        }
    }

    /// The longest segment that its receiver takes, bytes; as long as was seen where it has not
    /// said.
    pub fn segment_max(&self) -> u64 {
        match self.smss_announced {
            0 => self.smss(),
            announced => announced.into(),
        }
    }

    /// Sender maximum segment size (RFC 5681 §2), bytes, as announced or seen.
    pub fn smss(&self) -> u64 {
        u64::from(if self.smss == 0 { SMSS_DEFAULT } else { self.smss })
    }

    /// Whether a departure of `len` bytes ends in a segment below the SMSS.
    pub(super) fn small(&self, len: u64) -> bool {
        let smss = self.smss();
        if len <= smss { len < smss } else { !len.is_multiple_of(smss) }
    }

    /// Two equal segments of one flight below the announced size, the first of them cut from more
    /// (RFC 9293 §3.9.1.2): the path's own size, unless a longer one has got through.
    pub(super) fn learn_smss(&mut self, segment: &Segment, since: &SinceDeparture) {
        let len = segment.payload_len;
        let back_to_back = len == self.last.len && !self.last.pushed && since.acks == 0;
        if let Ok(len) = u16::try_from(len)
            && back_to_back
            && len <= self.smss_announced.max(SMSS_DEFAULT)
            && len >= 500
        {
            let passed = self.acked_len_max;
            let passed = if passed <= self.smss_announced { passed } else { 0 };
            self.smss_seen = self.smss_seen.max(len).max(passed);
            self.settle_smss();
        }
    }
}
