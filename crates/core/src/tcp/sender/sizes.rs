//! Length of a sender's full segments.

use crate::model::Sighting;
use crate::tcp::thresholds::{
    FULL_SEGMENT_MIN_BYTES, MSS_DEFAULT_BYTES, MSS_LOOPBACK_BYTES, SMSS_ETHERNET_BYTES,
};

const SMSS_DEFAULT: u16 = smss_of(SMSS_ETHERNET_BYTES, true);

/// Bytes of the TCP timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u16 = 12;

/// Greatest payload of a segment to a receiver that announces `mss` (RFC 9293 §3.7.1, RFC 6691),
/// bytes.
pub const fn smss_of(mss: u16, timestamps: bool) -> u16 {
    mss.saturating_sub(if timestamps { TIMESTAMPS_BYTES } else { 0 })
}

/// Lengths of a sender's segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentSizes {
    /// MSS announced by the peer, less timestamps; 0 if unknown.
    announced: u16,
    /// Length of consecutive full segments, if it is below the announced size.
    observed: u16,
    /// SMSS that follows from `announced` and `observed`; 0 before either is known.
    smss: u16,
    /// Half of the greatest window that the receiver has offered, bytes, saturating.
    half_window: u16,
    /// Greatest payload of one acknowledged segment, bytes, up to [`u16::MAX`]. No path has a
    /// greater MTU.
    acked_max: u16,
    /// Payload of the first segment with data, bytes, up to [`u16::MAX`]; 0 before that.
    first: u16,
}

impl SegmentSizes {
    /// Records the payload of a segment, bytes, if it is the first.
    #[inline]
    pub(super) fn begin_with(&mut self, bytes: u64) {
        if self.first == 0 {
            self.first = u16::try_from(bytes).unwrap_or(u16::MAX);
        }
    }

    /// Payload of the first segment with data, bytes; 0 before that.
    pub fn first(&self) -> u64 {
        self.first.into()
    }

    /// Records the MSS that the peer announces. If `timestamps`, that option is in use.
    pub fn announce(&mut self, mss: u16, timestamps: bool) {
        self.announced = smss_of(mss, timestamps).max(1);
        self.update_smss();
    }

    /// Assumes Ethernet's MSS if the peer has announced none.
    pub fn assume(&mut self, timestamps: bool) {
        if self.announced == 0 {
            self.announce(SMSS_ETHERNET_BYTES, timestamps);
        }
    }

    /// Assumes the MSS of Linux's loopback if the peer has announced none.
    pub fn assume_loopback(&mut self, timestamps: bool) {
        if self.announced == 0 {
            self.announce(MSS_LOOPBACK_BYTES, timestamps);
        }
    }

    /// Limits full segments to what the sender's own link carries, of which the sender announces
    /// `mss` (RFC 6691 §2), until longer segments are seen.
    pub fn limit(&mut self, mss: u16, timestamps: bool) {
        let own = smss_of(mss, timestamps);
        if self.observed == 0 && own < self.announced && u64::from(own) >= FULL_SEGMENT_MIN_BYTES {
            self.observed = own;
            self.update_smss();
        }
    }

    /// Updates the SMSS after one of its inputs has changed.
    fn update_smss(&mut self) {
        self.smss = match (self.observed, self.announced) {
            (0, announced) => announced,
            (observed, 0) => observed,
            (observed, announced) => observed.min(announced),
        };
        if u64::from(self.half_window) >= MSS_DEFAULT_BYTES / 2 && self.half_window < self.smss {
            self.smss = self.half_window;
        }
    }

    /// Returns whether `seen` consists of full segments: what its sender had to send goes on behind it.
    pub fn is_full(&self, seen: &Sighting) -> bool {
        let bytes = u64::from(seen.payload_bytes);
        bytes > 0 && bytes.is_multiple_of(self.smss())
    }

    /// Records an offered window of `bytes`: half of the greatest window counts as a full segment
    /// (RFC 9293 §3.8.6.2.1), and Linux sends no longer one.
    pub fn note_window(&mut self, bytes: u64) {
        let half = u16::try_from(bytes / 2).unwrap_or(u16::MAX);
        if half > self.half_window {
            self.half_window = half;
            self.update_smss();
        }
    }

    /// Returns whether the receiver has offered a window of `bytes` before, or a greater one.
    #[inline]
    pub fn knows_window(&self, bytes: u64) -> bool {
        u16::try_from(bytes / 2).unwrap_or(u16::MAX) <= self.half_window
    }

    /// Records that a segment of `bytes` was acknowledged.
    #[inline]
    pub fn acknowledge(&mut self, bytes: u32) {
        self.acked_max = self.acked_max.max(u16::try_from(bytes).unwrap_or(u16::MAX));
    }

    /// Greatest payload of one segment that was acknowledged, bytes.
    #[inline]
    pub fn acked_max(&self) -> u32 {
        self.acked_max.into()
    }

    /// Greatest payload that the receiver accepts, as announced, bytes; 0 if unknown.
    pub fn announced(&self) -> u64 {
        self.announced.into()
    }

    /// Greatest payload of a segment that the receiver accepts, bytes, as announced, or else as
    /// observed.
    fn segment_max(&self) -> u64 {
        match self.announced {
            0 => self.smss(),
            announced => announced.into(),
        }
    }

    /// Greatest payload of a captured segment that is not a result of offload, bytes. Some senders
    /// ignore the room that options take.
    pub fn captured_max(&self) -> u64 {
        self.segment_max() + u64::from(TIMESTAMPS_BYTES)
    }

    /// Sender maximum segment size (RFC 5681 §2), bytes, as announced or observed.
    #[inline]
    pub fn smss(&self) -> u64 {
        u64::from(if self.smss == 0 { SMSS_DEFAULT } else { self.smss })
    }

    /// Returns whether a departure of `len` bytes ends in a segment below the SMSS.
    pub fn ends_small(&self, len: u64) -> bool {
        let smss = self.smss();
        if len <= smss { len < smss } else { !len.is_multiple_of(smss) }
    }

    /// Learns the SMSS from a segment of `len` bytes that directly follows one of the same length,
    /// so that both were cut from more data (RFC 9293 §3.9.1.2). If `has_timestamps`, the segments
    /// carry that option. A length below the announced size is that of the path, unless a longer
    /// segment has arrived.
    pub fn learn(&mut self, len: u32, has_timestamps: bool) {
        // Some senders fill segments up to the announced size and ignore the room for options
        // (against RFC 6691 §2).
        let filled = self.announced.saturating_add(TIMESTAMPS_BYTES);
        if has_timestamps && self.announced > 0 && len == u32::from(filled) {
            self.announce(filled, false);
        }
        if let Ok(len) = u16::try_from(len)
            && len <= self.announced.max(smss_of(SMSS_ETHERNET_BYTES, has_timestamps))
            && u64::from(len) >= FULL_SEGMENT_MIN_BYTES
        {
            let passed = if self.acked_max <= self.announced { self.acked_max } else { 0 };
            self.observed = self.observed.max(len).max(passed);
            self.update_smss();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_take_room_unless_the_sender_ignores_them() {
        let mut sizes = SegmentSizes::default();
        sizes.announce(1_460, true);
        assert_eq!(sizes.smss(), 1_448);
        sizes.learn(1_460, true);
        assert_eq!(sizes.smss(), 1_460);
    }

    #[test]
    fn equal_segments_below_the_announced_size_show_the_size_of_the_path() {
        let mut sizes = SegmentSizes::default();
        sizes.announce(1_460, false);
        sizes.learn(1_380, false);
        assert_eq!((sizes.smss(), sizes.ends_small(2 * 1_380)), (1_380, false));
        sizes.acknowledge(1_400);
        sizes.learn(1_380, false);
        assert_eq!(sizes.smss(), 1_400, "a longer segment has arrived");
    }

    #[test]
    fn a_full_segment_is_the_smaller_of_both_sizes_until_a_longer_one_is_seen() {
        let mut sizes = SegmentSizes::default();
        sizes.announce(1_460, true);
        sizes.limit(1_380, true);
        assert_eq!((sizes.smss(), sizes.announced()), (1_368, 1_448));
        sizes.learn(1_448, true);
        assert_eq!(sizes.smss(), 1_448);
        sizes.limit(1_380, true);
        assert_eq!(sizes.smss(), 1_448, "seen segments count more than what is announced");
    }

    #[test]
    fn half_of_a_small_window_is_a_full_segment() {
        let mut sizes = SegmentSizes::default();
        sizes.announce(1_460, false);
        sizes.note_window(2_000);
        assert!(sizes.knows_window(1_999) && !sizes.knows_window(2_100));
        assert_eq!(sizes.smss(), 1_000);
    }

    #[test]
    fn no_full_segment_is_shorter_than_the_default_with_options() {
        let learned = |len| {
            let mut sizes = SegmentSizes::default();
            sizes.announce(1_460, false);
            sizes.learn(len, false);
            sizes.smss()
        };
        assert_eq!([300, 512].map(learned), [1_460, 512]);
    }
}
