//! What was sent last, until it is acknowledged: which sizes get through, and which frame a
//! repetition repeats.

use crate::capture::FrameId;
use std::collections::VecDeque;

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

/// One segment that was sent. Its age is kept in microseconds to keep the record small.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    frame: FrameId,
    len: u32,
    sent_us: u32,
}

/// The last segments of one sender that are not acknowledged.
#[derive(Debug, Default)]
pub struct SentLog(VecDeque<Sent>);

impl SentLog {
    /// A segment with `len` bytes up to position `end` was sent.
    #[inline]
    pub fn push(&mut self, end: u64, len: u32, frame: FrameId, now_ns: u64) {
        if self.0.len() >= SENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Sent { end, frame, len, sent_us: (now_ns / 1_000) as u32 });
    }

    /// Everything up to `una` has arrived; answers the greatest length among it.
    #[inline]
    pub fn arrived(&mut self, una: u64) -> u32 {
        let mut longest = 0;
        while let Some(sent) = self.0.front().filter(|sent| sent.end <= una) {
            longest = longest.max(sent.len);
            self.0.pop_front();
        }
        longest
    }

    /// Length of the segment that carried position `start`; 0 if it is not remembered.
    pub fn len_of(&self, start: u64) -> u32 {
        self.of(start).map_or(0, |sent| sent.len)
    }

    /// The frame that carried position `start` before, when, as seen at `now_ns`, and its payload,
    /// bytes: a repetition may be cut differently.
    pub fn sighting(&self, start: u64, now_ns: u64) -> Option<(Sighting, u64)> {
        let sent = self.of(start)?;
        let age_us = ((now_ns / 1_000) as u32).wrapping_sub(sent.sent_us);
        let time_ns = now_ns.saturating_sub(u64::from(age_us) * 1_000);
        Some((Sighting { frame: sent.frame, time_ns }, u64::from(sent.len)))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Sent>()
    }

    fn of(&self, start: u64) -> Option<&Sent> {
        self.0.iter().find(|sent| sent.end > start && sent.end - u64::from(sent.len) <= start)
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
