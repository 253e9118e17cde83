//! Log of the sent segments that are not yet acknowledged. It shows which sizes arrive, and which
//! frame a retransmission repeats.

use crate::capture::FrameId;
use crate::model::Sighting;
use crate::queue::Queue;
use crate::tcp::sequence::widen;
use crate::wire::{Segment, Side};
use std::num::NonZeroU32;

/// Greatest number of unacknowledged segments that are remembered for one sender. It is mostly
/// enough for the whole flight.
const SENT_MAX: usize = 256;

/// Maximum length of the log if no ACK of its data was captured, since such a log is never emptied.
const UNANSWERED_MAX: usize = 32;

/// One sent segment. Only the lower half of its end position is kept, to keep the record small.
#[derive(Clone, Copy, Debug)]
struct Sent {
    frame: FrameId,
    end: u32,
    len: NonZeroU32,
    sent_ns: u64,
}

/// The last unacknowledged segments of one sender.
#[derive(Clone, Debug, Default)]
pub struct SentLog(Queue<Sent>);

impl SentLog {
    /// Adds `segment`, which ends at position `end`; `answered` is `true` if ACKs of its sender's
    /// data were captured.
    #[inline]
    pub fn push(&mut self, end: u64, segment: &Segment, answered: bool) {
        let Segment { payload_len: len, frame, time_ns: now_ns, .. } = *segment;
        if self.0.len() >= if answered { SENT_MAX } else { UNANSWERED_MAX } {
            self.0.pop_front();
        }
        let Some(len) = NonZeroU32::new(len) else { return };
        self.0.push_back(Sent { frame, end: end as u32, len, sent_ns: now_ns });
    }

    /// Removes all segments up to `una`, which have arrived. Returns the greatest length among
    /// them, and the time at which the last of them was sent, ns (0 if that is not remembered).
    #[inline]
    pub fn arrived(&mut self, una: u64) -> (u32, u64) {
        let (mut longest, mut sent_ns) = (0, 0);
        while let Some(sent) = self.0.front().filter(|sent| widen(sent.end, una) <= una) {
            longest = longest.max(sent.len.get());
            sent_ns = sent.sent_ns;
            self.0.pop_front();
        }
        (longest, sent_ns)
    }

    /// Returns whether exactly one segment is remembered, and no memory allocated for more.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.0.only().is_some()
    }

    /// Returns whether no segment is remembered, and no memory allocated for more than one.
    pub fn is_unused(&self) -> bool {
        self.0.is_unused()
    }

    /// Length of the segment that carried position `start`; 0 if it is not remembered.
    pub fn len_of(&self, start: u64) -> u32 {
        self.of(start).map_or(0, |sent| sent.len.get())
    }

    /// Returns the frame in which the sender `from` first sent position `start`; a retransmission
    /// may have other segment boundaries.
    pub fn sighting(&self, from: Side, start: u64) -> Option<Sighting> {
        let Sent { frame, len, sent_ns: time_ns, .. } = *self.of(start)?;
        Some(Sighting { frame, time_ns, payload_bytes: len.get(), from })
    }

    /// Removes all segments.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Releases memory that is not in use.
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
    fn without_acks_less_is_remembered() {
        let count = |answered| {
            let mut log = SentLog::default();
            let sent = Segment { payload_len: 100, ..Segment::default() };
            (1..=1_000).for_each(|number| log.push(100 * number, &sent, answered));
            log.0.len()
        };
        assert_eq!([count(false), count(true)], [UNANSWERED_MAX, SENT_MAX]);
    }

    #[test]
    fn the_first_sending_of_repeated_data_is_found() {
        let mut log = SentLog::default();
        let sent = |payload_len, number, time_ns| {
            let frame = FrameId::new(0, number);
            Segment { payload_len, frame, time_ns, ..Segment::default() }
        };
        log.push(1_100, &sent(100, 7, 5_000_000), true);
        log.push(1_300, &sent(200, 8, 6_000_000), true);
        let original = log.sighting(Side::Server, 1_100);
        let frame = FrameId::new(0, 8);
        let (time_ns, payload_bytes, from) = (6_000_000, 200, Side::Server);
        assert_eq!(original, Some(Sighting { frame, time_ns, payload_bytes, from }));
        assert_eq!(log.arrived(1_100), (100, 5_000_000));
        assert_eq!(log.sighting(Side::Server, 1_000), None);
    }
}
