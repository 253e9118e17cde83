//! ACKs that were captured, but have not yet taken effect at the sender.

use crate::capture::FrameId;
use crate::model::Sighting;
use crate::queue::Queue;
use crate::tcp::sequence::widen;
use crate::wire::Side;
use std::num::NonZeroU32;

/// A window as it was offered (RFC 9293 §3.8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Right edge: acknowledgment number plus scaled window.
    Edge(u64),
    /// Window field of the header, if its scale is unknown.
    Field(u16),
}

/// Greatest window scale (RFC 7323 §2.3).
pub const SCALE_MAX: u8 = 14;

/// Window of a header, scaled by `scale`, bytes.
#[inline]
pub fn scaled(window: u16, scale: u8) -> u64 {
    u64::from(window) << scale.min(SCALE_MAX)
}

impl Offer {
    /// Returns the offer of a segment with this `window` field that acknowledges up to `una`, from
    /// a receiver with this window scale, if known.
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
    /// Time at which it passed the vantage, ns.
    pub seen_ns: u64,
    /// Frame of the ACK.
    pub frame: FrameId,
    /// Position that the ACK acknowledges (SND.UNA once it arrives).
    pub una: u64,
    /// Window that the ACK offers.
    pub offer: Offer,
    /// Payload of the segment with the ACK, bytes.
    pub payload_bytes: u32,
    /// It carried SACK blocks above `una`, or was a duplicate ACK.
    pub duplicate: bool,
    /// The sender, not the path, set its distance from the previous ACK, so that the distance is no
    /// sample of the path's rate.
    pub paced: bool,
    /// Timestamp value of the ACK. Segments sent after its arrival echo this value (RFC 7323 §4.3)
    /// or a later one; 0 if they may echo an earlier one.
    pub tsval: u32,
}

/// Returns whether `tsval` equals `other` or is later, on a clock that wraps (RFC 7323 §5.2).
fn is_since(tsval: u32, other: u32) -> bool {
    tsval.wrapping_sub(other) as i32 >= 0
}

impl Ack {
    /// Returns whether a segment that echoes `tsecr` shows that this ACK had arrived.
    pub fn is_echoed_by(&self, tsecr: u32) -> bool {
        self.tsval != 0 && is_since(tsecr, self.tsval)
    }

    /// Returns the frame of the ACK, which `from` sent.
    pub fn sighting(&self, from: Side) -> Sighting {
        let Self { frame, seen_ns: time_ns, payload_bytes, .. } = *self;
        Sighting { frame, time_ns, payload_bytes, from }
    }
}

/// An [`Ack`] in compact form. Most connections have one or two pending.
#[derive(Clone, Copy, Debug)]
struct CompactAck {
    seen_ns: u64,
    frame: FrameId,
    /// Lower half of `una`.
    una: u32,
    /// Distance of the right edge from `una`, or the window field plus [`UNSCALED`]; plus one. The
    /// high bits are [`DUPLICATE`] and [`PACED`].
    window: NonZeroU32,
    payload_bytes: u32,
    tsval: u32,
}

const PACED: u32 = 1 << 31;
const DUPLICATE: u32 = 1 << 30;
const WINDOW: u32 = DUPLICATE - 1;
/// Values from this one on hold a window field of unknown scale. No window is wider (RFC 7323
/// §2.3), except the widest fields with the largest scale, and no sender is limited by such a
/// window.
const UNSCALED: u32 = WINDOW - 1 - u16::MAX as u32;

impl CompactAck {
    /// Returns `offer` as it is kept with the ACK of `una`.
    #[inline]
    fn window(una: u64, offer: Offer) -> NonZeroU32 {
        let window = match offer {
            Offer::Edge(edge) => ((edge - una) as u32).min(UNSCALED - 1),
            Offer::Field(field) => UNSCALED + u32::from(field),
        };
        NonZeroU32::MIN.saturating_add(window)
    }

    fn new(ack: &Ack) -> Self {
        let window = Self::window(ack.una, ack.offer);
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

    /// Expands the ACK, whose position is within 2 GiB of `near`.
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

/// Greatest number of ACKs kept. Beyond it every second one is dropped, which loses its timing only:
/// ACKs are cumulative. The oldest, which releases the first of what follows, is kept.
const PENDING_MAX: usize = 512;

/// ACKs in the order they passed the vantage, waiting for their arrival at the sender.
#[derive(Clone, Debug, Default)]
pub struct PendingAcks(Queue<CompactAck>);

impl PendingAcks {
    /// Adds an ACK that passed the vantage.
    #[inline]
    pub fn push(&mut self, ack: &Ack) {
        let mut ack = CompactAck::new(ack);
        if self.0.len() >= PENDING_MAX {
            ack.window |= self.thin();
        }
        self.0.push_back(ack);
    }

    /// Drops every second ACK behind the oldest. The ACK after a dropped one reports what that
    /// reported; returns what the next one has to report.
    #[cold]
    #[inline(never)]
    fn thin(&mut self) -> u32 {
        let mut dropped = 0;
        for index in 0..self.0.len() {
            let Some(mut ack) = self.0.pop_front() else { break };
            if index % 2 == 1 {
                dropped = ack.window.get() & !WINDOW;
            } else {
                ack.window |= std::mem::take(&mut dropped);
                self.0.push_back(ack);
            }
        }
        dropped
    }

    /// Returns whether `ack` offers and acknowledges the same as the last pending one, so that it
    /// has no effect of its own.
    #[inline]
    pub fn repeats(&self, ack: &Ack) -> bool {
        self.ends_with(ack.una, ack.offer) && !ack.duplicate && !ack.paced
    }

    /// Returns whether the last pending ACK is one of `una` with this `offer`.
    #[inline]
    pub fn ends_with(&self, una: u64, offer: Offer) -> bool {
        let window = CompactAck::window(una, offer).get();
        self.0.back().is_some_and(|last| {
            last.una == una as u32 && (last.window.get() ^ window) & WINDOW == 0
        })
    }

    /// Removes and returns the oldest ACK if it passed the vantage at or before `seen_ns`; its
    /// position is within 2 GiB of `near`.
    #[inline]
    pub fn pop_until(&mut self, seen_ns: u64, near: u64) -> Option<Ack> {
        if self.0.front()?.seen_ns > seen_ns {
            return None;
        }
        self.0.pop_front().map(|compact| compact.ack(near))
    }

    /// Returns whether a segment that echoes `tsecr` left the sender before the oldest pending ACK
    /// arrived there, wherever the vantage is.
    #[inline]
    pub fn is_none_echoed_by(&self, tsecr: u32) -> bool {
        self.0.front().is_some_and(|compact| compact.tsval != 0 && !is_since(tsecr, compact.tsval))
    }

    /// Returns whether no ACK is pending, and no memory allocated for more than one.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.0.is_unused()
    }

    /// The pending ACK, if there is exactly one; its position is within 2 GiB of `near`.
    #[inline]
    pub fn only(&self, near: u64) -> Option<Ack> {
        self.0.only().map(|compact| compact.ack(near))
    }

    /// Returns whether an ACK of `position` that passed the vantage by `seen_ns` is pending: only
    /// the estimated round trip says that it has not arrived.
    pub fn covers(&self, position: u64, seen_ns: u64) -> bool {
        self.of(position, seen_ns).is_some()
    }

    /// Returns the first pending ACK of `position` that passed the vantage by `seen_ns`.
    pub fn of(&self, position: u64, seen_ns: u64) -> Option<Ack> {
        let reaches = |compact: &&CompactAck| widen(compact.una, position) >= position;
        let mut passed = self.0.iter().take_while(|compact| compact.seen_ns <= seen_ns);
        passed.find(reaches).map(|compact| compact.ack(position))
    }

    /// Time at which the first pending ACK that offers a window up to `edge` passed the vantage,
    /// ns.
    pub fn offers_at(&self, edge: u64) -> Option<u64> {
        let offers = |compact: &&CompactAck| match compact.ack(edge).offer {
            Offer::Edge(offered) => offered >= edge,
            Offer::Field(_) => false,
        };
        self.0.iter().find(offers).map(|compact| compact.seen_ns)
    }

    /// Returns whether an ACK that reports a loss passed the vantage by `seen_ns` and is still
    /// pending.
    pub fn reports_loss(&self, seen_ns: u64) -> bool {
        let reports = |compact: &CompactAck| compact.window.get() & DUPLICATE != 0;
        self.0.iter().any(|compact| compact.seen_ns <= seen_ns && reports(compact))
    }

    /// Releases memory that is not in use.
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
    fn only_an_ack_with_the_same_position_and_window_repeats_the_last() {
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
    fn the_oldest_of_many_acks_is_kept_and_each_reported_loss() {
        let mut pending = PendingAcks::default();
        for number in 0..10 * PENDING_MAX as u64 {
            pending.push(&Ack {
                seen_ns: number,
                frame: FrameId::new(0, number),
                una: number,
                offer: Offer::Edge(number + 1_000),
                payload_bytes: 0,
                duplicate: number == 5,
                paced: false,
                tsval: 0,
            });
            assert!(pending.0.len() <= PENDING_MAX);
        }
        let all: Vec<_> = std::iter::from_fn(|| pending.pop_until(u64::MAX, 0)).collect();
        assert_eq!((all[0].una, all[all.len() - 1].una), (0, 10 * PENDING_MAX as u64 - 1));
        assert!(all.windows(2).all(|pair| pair[0].una < pair[1].una));
        assert!(all.iter().any(|ack| ack.duplicate && ack.una >= 5));
    }

    #[test]
    fn an_ack_is_the_same_after_compaction() {
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
