//! What was sent last, until it is acknowledged: which sizes get through, and which frame a
//! repetition repeats.

use crate::capture::FrameId;
use crate::queue::Queue;
use crate::tcp::sequence::widen;
use std::num::NonZeroU32;

/// Segments remembered.
const SENT_MAX: usize = 32;

/// A frame and when it passed the vantage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The frame.
    pub frame: FrameId,
    /// When, ns.
    pub time_ns: u64,
}

impl Sighting {
    /// `None` for one that was never made: frames count from one.
    pub fn known(self) -> Option<Self> {
        (self.frame != FrameId::default()).then_some(self)
    }

    /// Takes `here` unless it was made before.
    pub fn get_or_insert(&mut self, here: Self) {
        if self.known().is_none() {
            *self = here;
        }
    }
}

/// One segment that was sent. Its age is kept in microseconds, and of its end the lower half, to
/// keep the record small.
#[derive(Clone, Copy, Debug)]
struct Sent {
    frame: FrameId,
    end: u32,
    len: NonZeroU32,
    sent_us: u32,
}

/// The last segments of one sender that are not acknowledged.
#[derive(Debug, Default)]
pub struct SentLog(Queue<Sent>);

impl SentLog {
    /// A segment with `len` bytes up to position `end` was sent.
    #[inline]
    pub fn push(&mut self, end: u64, len: u32, frame: FrameId, now_ns: u64) {
        if self.0.len() >= SENT_MAX {
            self.0.pop_front();
        }
        let Some(len) = NonZeroU32::new(len) else { return };
        let sent_us = (now_ns / 1_000) as u32;
        self.0.push_back(Sent { frame, end: end as u32, len, sent_us });
    }

    /// Everything up to `una` has arrived; answers the greatest length among it.
    #[inline]
    pub fn arrived(&mut self, una: u64) -> u32 {
        let mut longest = 0;
        while let Some(sent) = self.0.front().filter(|sent| widen(sent.end, una) <= una) {
            longest = longest.max(sent.len.get());
            self.0.pop_front();
        }
        longest
    }

    /// Length of the segment that carried position `start`; 0 if it is not remembered.
    pub fn len_of(&self, start: u64) -> u32 {
        self.of(start).map_or(0, |sent| sent.len.get())
    }

    /// The frame that carried position `start` before, when, as seen at `now_ns`, and its payload,
    /// bytes: a repetition may be cut differently.
    pub fn sighting(&self, start: u64, now_ns: u64) -> Option<(Sighting, u64)> {
        let sent = self.of(start)?;
        let age_us = ((now_ns / 1_000) as u32).wrapping_sub(sent.sent_us);
        let time_ns = now_ns.saturating_sub(u64::from(age_us) * 1_000);
        Some((Sighting { frame: sent.frame, time_ns }, u64::from(sent.len.get())))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Gives back memory that is not in use.
    pub fn shrink(&mut self) {
        self.0.shrink();
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn of(&self, start: u64) -> Option<&Sent> {
        self.0.iter().find(|sent| {
            let end = widen(sent.end, start);
            end > start && end - u64::from(sent.len.get()) <= start
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sending_of_repeated_data_is_found() {
        let mut log = SentLog::default();
        log.push(1_100, 100, FrameId::new(0, 7), 5_000_000);
        log.push(1_300, 200, FrameId::new(0, 8), 6_000_000);
        let original = log.sighting(1_100, 206_000_000);
        let second = Sighting { frame: FrameId::new(0, 8), time_ns: 6_000_000 };
        assert_eq!(original, Some((second, 200)));
        assert_eq!(log.arrived(1_100), 100);
        assert_eq!(log.sighting(1_000, 206_000_000), None);
    }
}
