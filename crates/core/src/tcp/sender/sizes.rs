//! Length of a sender's full segments.

use crate::tcp::sender::Sender;
use crate::tcp::sender::since::SinceDeparture;
use crate::tcp::thresholds::{FULL_SEGMENT_MIN_BYTES, HALF_WINDOW_MIN_BYTES, SMSS_ETHERNET_BYTES};
use crate::wire::{Segment, SegmentFlags};

const SMSS_DEFAULT: u16 = smss_of(SMSS_ETHERNET_BYTES, true);

/// Bytes of the TCP timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u16 = 12;

/// Greatest payload of a segment to a receiver that announces `mss` (RFC 9293 §3.7.1, RFC 6691),
/// bytes.
pub const fn smss_of(mss: u16, timestamps: bool) -> u16 {
    mss.saturating_sub(if timestamps { TIMESTAMPS_BYTES } else { 0 })
}

impl Sender {
    /// Takes the MSS that the peer announces; `timestamps`: the option is in use.
    pub fn announce_smss(&mut self, mss: u16, timestamps: bool) {
        self.smss_announced = smss_of(mss, timestamps).max(1);
        self.settle_smss();
    }

    /// Assumes Ethernet's MSS if the peer has announced none.
    pub fn assume_smss(&mut self, timestamps: bool) {
        if self.smss_announced == 0 {
            self.announce_smss(SMSS_ETHERNET_BYTES, timestamps);
        }
    }

    /// Updates the SMSS after one of its inputs has changed.
    fn settle_smss(&mut self) {
        self.smss = match (self.smss_seen, self.smss_announced) {
            (0, announced) => announced,
            (seen, 0) => seen,
            (seen, announced) => seen.min(announced),
        };
        if self.half_window >= HALF_WINDOW_MIN_BYTES && self.half_window < self.smss {
            self.smss = self.half_window;
        }
    }

    /// Takes an offered window of `bytes`: half of the greatest counts as a full segment (RFC 9293
    /// §3.8.6.2.1), and Linux sends none longer.
    pub(super) fn note_window(&mut self, bytes: u64) {
        let sender = u16::try_from(bytes / 2).unwrap_or(u16::MAX);
        if sender > self.half_window {
            self.half_window = sender;
            self.settle_smss();
        }
    }

    /// Greatest segment that the receiver accepts, bytes; as seen if it was not announced.
    pub fn segment_max(&self) -> u64 {
        match self.smss_announced {
            0 => self.smss(),
            announced => announced.into(),
        }
    }

    /// Greatest segment that is not a result of offload, bytes: some senders ignore the room that
    /// options take.
    pub fn captured_max(&self) -> u64 {
        self.segment_max() + u64::from(TIMESTAMPS_BYTES)
    }

    /// Sender maximum segment size (RFC 5681 §2), bytes, as announced or seen.
    pub fn smss(&self) -> u64 {
        u64::from(if self.smss == 0 { SMSS_DEFAULT } else { self.smss })
    }

    /// Returns whether a departure of `len` bytes ends in a segment below the SMSS.
    pub(super) fn small(&self, len: u64) -> bool {
        let smss = self.smss();
        if len <= smss { len < smss } else { !len.is_multiple_of(smss) }
    }

    /// Learns the SMSS from two equal segments of one flight below the announced size, the first
    /// of them cut from more data (RFC 9293 §3.9.1.2): the path's size, unless a longer one has
    /// arrived.
    pub(super) fn learn_smss(&mut self, segment: &Segment, since: &SinceDeparture) {
        let len = segment.payload_len;
        let stamped = segment.facts.has(SegmentFlags::TIMESTAMPS);
        let back_to_back = len == self.last.len && !self.last.pushed && since.acks.count == 0;
        // Some fill segments up to the announced size and ignore the room for options (against RFC
        // 6691 §2).
        let filled = self.smss_announced.saturating_add(TIMESTAMPS_BYTES);
        if back_to_back && stamped && self.smss_announced > 0 && len == u32::from(filled) {
            self.announce_smss(filled, false);
        }
        if let Ok(len) = u16::try_from(len)
            && back_to_back
            && len <= self.smss_announced.max(smss_of(SMSS_ETHERNET_BYTES, stamped))
            && u64::from(len) >= FULL_SEGMENT_MIN_BYTES
        {
            let passed = self.acked_len_max;
            let passed = if passed <= self.smss_announced { passed } else { 0 };
            self.smss_seen = self.smss_seen.max(len).max(passed);
            self.settle_smss();
        }
    }
}
