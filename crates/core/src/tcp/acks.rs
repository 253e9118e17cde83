//! ACKs on their way to the sender: seen at the vantage, not yet known where they matter.

use crate::capture::FrameId;
use crate::queue::Queue;
use crate::tcp::sequence::widen;
use std::num::NonZeroU32;

/// One ACK as it passed the vantage.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it passed the vantage, ns.
    pub seen_ns: u64,
    /// The frame.
    pub frame: FrameId,
    /// The position it acknowledges (SND.UNA to be).
    pub una: u64,
    /// Right edge of the window it offers (`una` plus scaled window); `None` if unscaled.
    pub right_edge: Option<u64>,
    /// Carried no data.
    pub pure: bool,
    /// Carried SACK blocks above `una`, or was a duplicate ACK.
    pub duplicate: bool,
}

/// An [`Ack`] as it is kept: most connections have one or two.
#[derive(Clone, Copy, Debug)]
struct Kept {
    seen_ns: u64,
    frame: FrameId,
    /// Lower half of `una`.
    una: u32,
    /// One more than what `right_edge` is beyond `una`, or [`UNSCALED`]; and in the highest bits
    /// [`PURE`] and [`DUPLICATE`]. A window is less than 2^30 bytes (RFC 7323 §2.3).
    window: NonZeroU32,
}

const PURE: u32 = 1 << 31;
const DUPLICATE: u32 = 1 << 30;
/// The window's size is not known.
const UNSCALED: u32 = DUPLICATE - 1;

impl Kept {
    fn new(ack: &Ack) -> Self {
        let window = ack.right_edge.map_or(UNSCALED - 1, |edge| (edge - ack.una) as u32);
        let window = NonZeroU32::MIN.saturating_add(window);
        let pure = if ack.pure { PURE } else { 0 };
        let duplicate = if ack.duplicate { DUPLICATE } else { 0 };
        Self {
            seen_ns: ack.seen_ns,
            frame: ack.frame,
            una: ack.una as u32,
            window: window | pure | duplicate,
        }
    }

    /// The ACK again; its position is within 2 GiB of `near`.
    fn ack(&self, near: u64) -> Ack {
        let una = widen(self.una, near);
        let (word, window) = (self.window.get(), self.window.get() & UNSCALED);
        Ack {
            seen_ns: self.seen_ns,
            frame: self.frame,
            una,
            right_edge: (window != UNSCALED).then(|| una + u64::from(window) - 1),
            pure: word & PURE != 0,
            duplicate: word & DUPLICATE != 0,
        }
    }
}

/// Most ACKs kept; beyond it the two oldest are merged, which loses timing, not state.
const PENDING_MAX: usize = 512;

/// ACKs in the order they passed the vantage, waiting for their arrival at the sender.
#[derive(Debug, Default)]
pub struct PendingAcks(Queue<Kept>);

impl PendingAcks {
    /// An ACK passed the vantage.
    pub fn push(&mut self, ack: &Ack) {
        if self.0.len() >= PENDING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Kept::new(ack));
    }

    /// The oldest ACK if it passed the vantage at or before `seen_ns`; its position is within
    /// 2 GiB of `near`.
    #[inline]
    pub fn pop_until(&mut self, seen_ns: u64, near: u64) -> Option<Ack> {
        if self.0.front()?.seen_ns > seen_ns {
            return None;
        }
        self.0.pop_front().map(|kept| kept.ack(near))
    }

    /// Whether an ACK of `position` is on its way to the sender: it passed the vantage by
    /// `seen_ns`, and only the estimate of the round trip says that it has not arrived.
    pub fn covers(&self, position: u64, seen_ns: u64) -> bool {
        let reaches = |kept: &Kept| widen(kept.una, position) >= position;
        self.0.iter().any(|kept| kept.seen_ns <= seen_ns && reaches(kept))
    }

    /// Gives back memory that is not in use.
    pub fn shrink(&mut self) {
        self.0.shrink();
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_comes_out_as_it_went_in() {
        let base = (7 << 32) - 5;
        let largest = 65_535 << 14;
        for (una, window) in [(base, None), (base + 9, Some(0)), (base - 1, Some(largest))] {
            for (pure, duplicate) in [(false, false), (true, false), (false, true), (true, true)] {
                let right_edge = window.map(|window| una + window);
                let frame = FrameId::new(3, 4);
                let ack = Ack { seen_ns: 5, frame, una, right_edge, pure, duplicate };
                let mut pending = PendingAcks::default();
                pending.push(&ack);
                assert!(pending.covers(una, 5) && !pending.covers(una + 1, 5));
                assert!(pending.pop_until(4, base).is_none());
                let out = pending.pop_until(5, base).map(|out| format!("{out:?}"));
                assert_eq!(out, Some(format!("{ack:?}")));
            }
        }
    }
}
