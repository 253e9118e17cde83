//! What one side has sent: packets, payload, and its small segments.

use crate::tcp::sequence::widen;
use crate::tcp::thresholds::SKB_MAX_BYTES;
use std::num::NonZeroU32;

/// Counts of what one side has sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Volume {
    /// Number of packets.
    pub packets: u64,
    /// Payload, bytes, each byte counted once.
    pub unique_bytes: u64,
    /// Greatest flight, bytes, up to [`u32::MAX`]. Windows are less than a quarter of that.
    pub flight_max: u32,
    /// The last small segment.
    pub small: SmallSegment,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Volume>() == 24);

impl Volume {
    /// Counts payload: `unique` bytes were sent for the first time, after which `flight` bytes are
    /// unacknowledged.
    #[inline]
    pub(super) fn send(&mut self, unique: u64, flight: u64) {
        self.unique_bytes += unique;
        self.flight_max = self.flight_max.max(u32::try_from(flight).unwrap_or(u32::MAX));
    }

    /// Takes back the last `bytes`, which will be sent again.
    pub(super) fn retract(&mut self, bytes: u64) {
        self.unique_bytes = self.unique_bytes.saturating_sub(bytes);
        self.small.clear();
    }

    /// Returns whether any packet was seen.
    pub fn has_packets(&self) -> bool {
        self.packets > 0
    }

    /// Returns whether the flight reached `ceiling`, bytes, and never went far above it. A flight
    /// that still grows by half was limited by a congestion window, or by a buffer that the kernel
    /// enlarges. There is no ceiling if it is 0.
    pub fn stood_at(&self, ceiling: u64) -> bool {
        let beyond = ceiling.min(SKB_MAX_BYTES.max(ceiling / 2));
        ceiling > 0 && u64::from(self.flight_max) < ceiling + beyond
    }
}

/// Lower half of the end of the last small segment, if there was one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SmallSegment(Option<NonZeroU32>);

impl SmallSegment {
    /// Records that a small segment ends at position `end`.
    #[inline]
    pub(super) fn note(&mut self, end: u64) {
        self.0 = NonZeroU32::new(end as u32);
    }

    fn clear(&mut self) {
        self.0 = None;
    }

    /// Returns whether the segment ends at position `end`.
    pub(super) fn ends_at(self, end: u64) -> bool {
        self.0.is_some_and(|own| own.get() == end as u32)
    }

    /// Position of the end of the segment, within 2 GiB of `near`.
    #[inline]
    fn end(self, near: u64) -> Option<u64> {
        self.0.map(|end| widen(end.get(), near))
    }

    /// End of the segment, if it precedes position `start` and is not acknowledged up to `una`.
    #[inline]
    pub fn unacknowledged_before(self, start: u64, una: u64) -> Option<u64> {
        self.end(start).filter(|&end| end > una && end <= start)
    }

    /// Returns whether the segment ends behind `position`; the stream was sent up to `nxt`.
    pub(super) fn ends_behind(self, position: u64, nxt: u64) -> bool {
        self.end(nxt).is_some_and(|end| end > position)
    }

    /// Returns whether the segment was among the last `flight` bytes before `nxt`, and is
    /// acknowledged up to `una`.
    pub(super) fn was_acked_of(self, flight: u64, nxt: u64, una: u64) -> bool {
        self.end(nxt).is_some_and(|end| end + flight > nxt && end <= una)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_holds_until_the_flight_grows_by_half() {
        let stood = |flight: u64| {
            let mut volume = Volume::default();
            volume.send(flight, flight);
            volume.stood_at(400_000)
        };
        assert_eq!([400_000, 599_999, 600_000].map(stood), [true, true, false]);
        assert!(!Volume::default().stood_at(0), "there is no ceiling");
    }

    #[test]
    fn bytes_that_are_sent_again_count_once() {
        let mut volume = Volume::default();
        volume.send(3_000, 3_000);
        volume.small.note(3_000);
        volume.retract(1_000);
        assert_eq!((volume.unique_bytes, volume.flight_max), (2_000, 3_000));
        assert!(!volume.small.ends_at(3_000));
    }

    #[test]
    fn a_small_segment_holds_data_back_until_it_is_acknowledged() {
        let mut small = SmallSegment::default();
        assert_eq!(small.unacknowledged_before(900, 0), None);
        small.note(500);
        let before = |start, una| small.unacknowledged_before(start, una);
        assert_eq!([before(900, 0), before(900, 500), before(499, 0)], [Some(500), None, None]);
    }

    #[test]
    fn a_small_segment_may_be_the_one_that_an_ack_released() {
        let mut small = SmallSegment::default();
        small.note(500);
        assert!(small.was_acked_of(600, 1_000, 500) && small.ends_behind(499, 1_000));
        assert!(!small.was_acked_of(500, 1_000, 500), "it was sent before that flight");
        assert!(!small.was_acked_of(600, 1_000, 499) && !small.ends_behind(500, 1_000));
    }
}
