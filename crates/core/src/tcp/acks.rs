//! ACKs on their way to the sender: seen at the vantage, not yet known where they matter.

use crate::app::Side;
use crate::capture::FrameId;
use crate::queue::Queue;
use crate::tcp::sent::Sighting;
use crate::tcp::sequence::widen;
use std::num::NonZeroU32;

/// A window as it was offered (RFC 9293 §3.8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Its right edge: what was acknowledged plus the scaled window.
    Edge(u64),
    /// The header's field, where its scale is not known.
    Field(u16),
}

/// The most that a window may be scaled by (RFC 7323 §2.3).
pub const SCALE_MAX: u8 = 14;

/// The window in a header of a receiver that scales it so, bytes.
#[inline]
pub fn scaled(window: u16, scale: u8) -> u64 {
    u64::from(window) << scale.min(SCALE_MAX)
}

impl Offer {
    /// The `window` of a header that acknowledges up to `una`, of a receiver that scales it so, as far as that
    /// is known.
    #[inline]
    pub fn of(una: u64, window: u16, scale: Option<u8>) -> Self {
        match scale {
            Some(scale) => Self::Edge(una + scaled(window, scale)),
            None => Self::Field(window),
        }
    }
}

/// One ACK as it passed the vantage.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it passed the vantage, ns.
    pub seen_ns: u64,
    /// The frame.
    pub frame: FrameId,
    /// The position it acknowledges (SND.UNA to be).
    pub una: u64,
    /// The window that it offers.
    pub offer: Offer,
    /// Its own payload, bytes; 0 for one that carries no data.
    pub payload_bytes: u32,
    /// Carried SACK blocks above `una`, or was a duplicate ACK.
    pub duplicate: bool,
    /// Its distance from the one before is the sender's doing: it says nothing of the path's rate.
    pub paced: bool,
    /// The timestamp that what is sent after its arrival echoes (RFC 7323 §4.3), or a later one; 0
    /// where it may echo an earlier one as well.
    pub tsval: u32,
}

/// Whether this timestamp is the other one or later, on a clock that wraps (RFC 7323 §5.2).
fn is_since(tsval: u32, other: u32) -> bool {
    tsval.wrapping_sub(other) as i32 >= 0
}

impl Ack {
    /// Whether who echoes this timestamp tells that it had come to him.
    pub fn is_echoed_by(&self, tsecr: u32) -> bool {
        self.tsval != 0 && is_since(tsecr, self.tsval)
    }

    /// The frame, which `from` sent.
    pub fn sighting(&self, from: Side) -> Sighting {
        let Self { frame, seen_ns: time_ns, payload_bytes, .. } = *self;
        Sighting { frame, time_ns, payload_bytes, from }
    }
}

/// An [`Ack`] as it is kept: most connections have one or two.
#[derive(Clone, Copy, Debug)]
struct Kept {
    seen_ns: u64,
    frame: FrameId,
    /// Lower half of `una`.
    una: u32,
    /// One more than what the right edge is beyond `una`, or than the field above [`UNSCALED`]; and
    /// in high bits [`DUPLICATE`] and [`PACED`].
    window: NonZeroU32,
    payload_bytes: u32,
    tsval: u32,
}

const PACED: u32 = 1 << 31;
const DUPLICATE: u32 = 1 << 30;
const WINDOW: u32 = DUPLICATE - 1;
/// From here on it is a header's field whose scale is not known. No window is wider (RFC 7323 §2.3)
/// but one of the widest fields with the largest scale, and nothing so wide holds up a sender.
const UNSCALED: u32 = WINDOW - 1 - u16::MAX as u32;

impl Kept {
    fn new(ack: &Ack) -> Self {
        let window = match ack.offer {
            Offer::Edge(edge) => ((edge - ack.una) as u32).min(UNSCALED - 1),
            Offer::Field(field) => UNSCALED + u32::from(field),
        };
        let window = NonZeroU32::MIN.saturating_add(window);
        let duplicate = if ack.duplicate { DUPLICATE } else { 0 };
        let paced = if ack.paced { PACED } else { 0 };
        Self {
            seen_ns: ack.seen_ns,
            frame: ack.frame,
            una: ack.una as u32,
            window: window | duplicate | paced,
            payload_bytes: ack.payload_bytes,
            tsval: ack.tsval,
        }
    }

    /// The ACK again; its position is within 2 GiB of `near`.
    fn ack(&self, near: u64) -> Ack {
        let una = widen(self.una, near);
        let word = self.window.get();
        let window = (word & WINDOW) - 1;
        Ack {
            seen_ns: self.seen_ns,
            frame: self.frame,
            una,
            offer: match window.checked_sub(UNSCALED) {
                Some(field) => Offer::Field(field as u16),
                None => Offer::Edge(una + u64::from(window)),
            },
            payload_bytes: self.payload_bytes,
            duplicate: word & DUPLICATE != 0,
            paced: word & PACED != 0,
            tsval: self.tsval,
        }
    }
}

/// Most ACKs kept; beyond it the two oldest are merged, which loses timing, not state.
const PENDING_MAX: usize = 512;

/// ACKs in the order they passed the vantage, waiting for their arrival at the sender.
#[derive(Clone, Debug, Default)]
pub struct PendingAcks(Queue<Kept>);

impl PendingAcks {
    /// An ACK passed the vantage.
    #[inline]
    pub fn push(&mut self, ack: &Ack) {
        if self.0.len() >= PENDING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Kept::new(ack));
    }

    /// Whether `ack` says what the last one on its way says, and no more: it has no effect of its own.
    #[inline]
    pub fn repeats(&self, ack: &Ack) -> bool {
        let alike = |last: &Kept| {
            let word = Kept::new(ack).window.get();
            last.una == ack.una as u32 && (last.window.get() ^ word) & WINDOW == 0
        };
        self.0.back().is_some_and(alike) && !ack.duplicate && !ack.paced
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

    /// Whether what echoes this timestamp left its sender before the oldest ACK came there, wherever
    /// that stands.
    #[inline]
    pub fn is_unheard(&self, tsecr: u32) -> bool {
        self.0.front().is_some_and(|kept| kept.tsval != 0 && !is_since(tsecr, kept.tsval))
    }

    /// Whether there is none, and no room for more than one.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.0.is_unused()
    }

    /// The only one there is; its position is within 2 GiB of `near`.
    #[inline]
    pub fn only(&self, near: u64) -> Option<Ack> {
        self.0.only().map(|kept| kept.ack(near))
    }

    /// Whether an ACK of `position` is on its way to the sender: it passed the vantage by
    /// `seen_ns`, and only the estimate of the round trip says that it has not arrived.
    pub fn covers(&self, position: u64, seen_ns: u64) -> bool {
        let reaches = |kept: &Kept| widen(kept.una, position) >= position;
        self.0.iter().any(|kept| kept.seen_ns <= seen_ns && reaches(kept))
    }

    /// When the first ACK on its way to the sender passed that offers a window up to `edge`, ns.
    pub fn offers_at(&self, edge: u64) -> Option<u64> {
        let offers = |kept: &&Kept| match kept.ack(edge).offer {
            Offer::Edge(offered) => offered >= edge,
            Offer::Field(_) => false,
        };
        self.0.iter().find(offers).map(|kept| kept.seen_ns)
    }

    /// Whether an ACK that reports a loss passed the vantage by `seen_ns` and is not known to have
    /// arrived.
    pub fn reports_loss(&self, seen_ns: u64) -> bool {
        let reports = |kept: &Kept| kept.window.get() & DUPLICATE != 0;
        self.0.iter().any(|kept| kept.seen_ns <= seen_ns && reports(kept))
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
    fn only_an_ack_that_says_the_same_again_repeats_the_last() {
        let ack = Ack {
            seen_ns: 5,
            frame: FrameId::new(0, 4),
            una: 70,
            offer: Offer::Edge(1_070),
            payload_bytes: 0,
            duplicate: false,
            paced: false,
            tsval: 0,
        };
        let mut pending = PendingAcks::default();
        assert!(!pending.repeats(&ack));
        pending.push(&Ack { offer: Offer::Edge(2_000), ..ack });
        pending.push(&ack);
        assert!(pending.repeats(&Ack { seen_ns: 6, payload_bytes: 9, ..ack }));
        let others = [
            Ack { una: 71, offer: Offer::Edge(1_071), ..ack },
            Ack { offer: Offer::Edge(1_071), ..ack },
            Ack { duplicate: true, ..ack },
            Ack { paced: true, ..ack },
        ];
        assert!(others.iter().all(|other| !pending.repeats(other)));
    }

    #[test]
    fn an_ack_comes_out_as_it_went_in() {
        let base = (7 << 32) - 5;
        let widest = 65_000 << 14;
        let offers = [
            Offer::Field(0),
            Offer::Field(u16::MAX),
            Offer::Edge(base),
            Offer::Edge(base + widest),
        ];
        for offer in offers {
            for (payload_bytes, duplicate) in [(0, false), (7, false), (0, true), (7, true)] {
                let (una, frame) = (base, FrameId::new(3, 4));
                let paced = !duplicate;
                let (seen_ns, tsval) = (5, 9);
                let ack =
                    Ack { seen_ns, frame, una, offer, payload_bytes, duplicate, paced, tsval };
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
