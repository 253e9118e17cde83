//! How long a full segment of a sender is.

use super::*;

/// A window of less than twice this divides nothing: segments of 536 bytes are always in order
/// (RFC 9293 §3.7.1).
const HALF_WINDOW_MIN: u16 = 268;

/// Largest segment sent where neither MSS option nor full segments were seen: Ethernet's MTU
/// less IP and TCP, and the same less timestamps. Who says nothing is to be sent 536 bytes (RFC 9293
/// §3.7.1), but longer ones are seen.
const SMSS_PLAIN: u16 = 1460;
const SMSS_DEFAULT: u16 = smss_of(SMSS_PLAIN, true);

/// Bytes of the TCP timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u16 = 12;

/// The largest segment that may be sent to who announces `mss` (RFC 9293 §3.7.1, RFC 6691), bytes.
pub const fn smss_of(mss: u16, timestamps: bool) -> u16 {
    mss.saturating_sub(if timestamps { TIMESTAMPS_BYTES } else { 0 })
}

impl Sender {
    /// Announced maximum segment sizes; both sides' timestamps are in use or not.
    pub fn announce_smss(&mut self, mss: u16, timestamps: bool) {
        self.smss_announced = smss_of(mss, timestamps).max(1);
        self.settle_smss();
    }

    /// The other side has announced no maximum segment size: as far as is known, what a network of Ethernet
    /// carries.
    pub fn assume_smss(&mut self, timestamps: bool) {
        if self.smss_announced == 0 {
            self.announce_smss(SMSS_PLAIN, timestamps);
        }
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
        let sender = u16::try_from(bytes / 2).unwrap_or(u16::MAX);
        if sender > self.half_window {
            self.half_window = sender;
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

    /// The longest segment that no offload need have joined, bytes: some forget their options.
    pub fn captured_max(&self) -> u64 {
        self.segment_max() + u64::from(TIMESTAMPS_BYTES)
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
        let stamped = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let back_to_back = len == self.last.len && !self.last.pushed && since.acks == 0;
        // Some fill segments up to what was announced, whatever their options take (against RFC 6691 §2).
        let filled = self.smss_announced.saturating_add(TIMESTAMPS_BYTES);
        if back_to_back && stamped && self.smss_announced > 0 && len == u32::from(filled) {
            self.announce_smss(filled, false);
        }
        if let Ok(len) = u16::try_from(len)
            && back_to_back
            && len <= self.smss_announced.max(smss_of(SMSS_PLAIN, stamped))
            && len >= 500
        {
            let passed = self.acked_len_max;
            let passed = if passed <= self.smss_announced { passed } else { 0 };
            self.smss_seen = self.smss_seen.max(len).max(passed);
            self.settle_smss();
        }
    }
}
