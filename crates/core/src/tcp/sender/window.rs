//! The window that the receiver offers (RFC 9293 §3.8.6), as known to the sender.

use crate::tcp::acks::{Ack, Offer, PendingAcks, scaled};
use crate::tcp::sender::space::{HAS_EDGE, SCALE_UNKNOWN, SendSpace};
use crate::tcp::sequence::{ORIGIN, widen};

impl SendSpace {
    /// Scale of the windows that the receiver offers (RFC 7323 §2.2); `None` if unknown.
    #[inline]
    pub fn window_scale(&self) -> Option<u8> {
        (self.scale != SCALE_UNKNOWN).then_some(self.scale)
    }

    /// Sets the scale of the windows that the receiver offers; `None` means that it is unknown.
    pub fn set_window_scale(&mut self, scale: Option<u8>) {
        self.scale = scale.unwrap_or(SCALE_UNKNOWN);
    }

    /// Right edge of the offered window as the sender knows it; `None` if unknown.
    #[inline]
    pub fn right_edge(&self) -> Option<u64> {
        (self.known & HAS_EDGE != 0).then(|| widen(self.right_edge, self.nxt))
    }

    /// Records a window that was offered up to `edge`. A receiver does not take back what it has
    /// offered.
    pub(super) fn offer(&mut self, edge: u64) {
        let furthest = self.right_edge().map_or(edge, |known| known.max(edge));
        self.known |= HAS_EDGE;
        self.right_edge = furthest as u32;
    }

    /// Discards the right edge: the scale of the offered window is unknown.
    pub(super) fn forget_edge(&mut self) {
        self.known &= !HAS_EDGE;
    }

    /// Right edge of the window that the receiver has offered as seen at the vantage, and a segment
    /// more, which hosts accept into a window that has just closed; `None` if the scale is unknown.
    pub fn edge_seen(&self, smss: u64) -> Option<u64> {
        let offered = self.una_seen() + scaled(self.window_field, self.window_scale()?);
        Some(offered.max(self.right_edge().unwrap_or(0)).max(self.nxt) + smss)
    }

    /// Returns the right edge of the window as this sender knows it, after `edge` and an ACK of
    /// `una` with this window field.
    #[inline]
    pub fn edge_after(&self, edge: Option<u64>, una: u64, window_field: u16) -> Option<u64> {
        let scale = self.window_scale().unwrap_or(0);
        edge.map(|edge| edge.max(una + scaled(window_field, scale)))
    }

    /// Returns whether `ack`, the first of data, takes back most of what the handshake had offered
    /// without window scaling, and leaves less than a segment of `smss`. Data that is not read takes
    /// room for itself only, and no receiver takes back an offer (RFC 9293 §3.8.6): the window is
    /// scaled, which at least halves the field (RFC 7323 §2.2).
    pub(super) fn takes_back(&self, ack: &Ack, smss: u64) -> bool {
        let Offer::Edge(edge) = ack.offer else { return false };
        let is_first = self.una() <= ORIGIN + 1 && ack.una > ORIGIN + 1;
        let offered = self.right_edge().map_or(0, |edge| edge.saturating_sub(ack.una));
        let window = edge.saturating_sub(ack.una);
        let is_small = window > 0 && window < smss && 2 * window < offered;
        is_first && is_small && self.window_scale() == Some(0)
    }

    /// Room in the offered window as the sender knows it, bytes.
    pub fn room(&self) -> Option<i64> {
        self.right_edge().map(|edge| edge as i64 - self.nxt as i64)
    }

    /// Offered window as the sender knows it, bytes.
    pub fn window(&self) -> Option<u64> {
        self.right_edge().map(|edge| edge.saturating_sub(self.una()))
    }

    /// Returns how long ago the offer among `pending` passed the vantage that allows data up to
    /// `end`, ns, if the sender uses it sooner than the estimated round trip allows. (No sender
    /// exceeds the right edge that it knows, RFC 9293 §3.8.6.)
    pub fn offered_ago_ns(&self, pending: &PendingAcks, end: u64, now_ns: u64) -> Option<u64> {
        let beyond = self.right_edge().is_some_and(|edge| edge < end);
        let offered_ns = if beyond { pending.offers_at(end)? } else { return None };
        Some(now_ns.saturating_sub(offered_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;

    fn offered(edge: u64) -> SendSpace {
        let mut space = SendSpace::default();
        space.position(0);
        space.extend_to(ORIGIN + 1_000);
        space.offer(ORIGIN + edge);
        space
    }

    #[test]
    fn a_receiver_does_not_take_back_a_window() {
        let mut space = offered(5_000);
        space.offer(ORIGIN + 4_000);
        assert_eq!((space.room(), space.window()), (Some(4_000), Some(5_000)));
        space.forget_edge();
        assert_eq!((space.room(), space.window()), (None, None));
    }

    #[test]
    fn a_scaled_window_seems_to_take_back_what_the_handshake_offered() {
        let takes_back = |window: u64, una: u64| {
            let mut space = offered(65_160);
            space.set_window_scale(Some(0));
            let (una, frame) = (ORIGIN + una, FrameId::new(0, 0));
            let offer = Offer::Edge(una + window);
            let (payload_bytes, duplicate, paced, tsval) = (0, false, false, 0);
            let ack =
                Ack { seen_ns: 10, frame, una, offer, payload_bytes, duplicate, paced, tsval };
            space.takes_back(&ack, 1_460)
        };
        assert!(takes_back(64, 1_000));
        assert!(!takes_back(64_160, 1_000), "the data is not read");
        assert!(!takes_back(0, 1_000), "zero is zero at any scale");
        assert!(!takes_back(160, 65_000), "so much was sent that the rest is small");
    }

    #[test]
    fn a_window_of_unknown_scale_has_no_edge() {
        let mut space = offered(5_000);
        space.window_field = 2_000;
        assert_eq!((space.window_scale(), space.edge_seen(1_460)), (None, None));
        space.set_window_scale(Some(2));
        assert_eq!(space.edge_seen(1_460), Some(ORIGIN + 8_000 + 1_460));
        assert_eq!(space.edge_after(Some(7), ORIGIN, 10), Some(ORIGIN + 40));
    }

    #[test]
    fn data_beyond_the_known_edge_was_allowed_by_a_pending_offer() {
        let space = offered(5_000);
        let mut pending = PendingAcks::default();
        pending.push(&Ack {
            seen_ns: 10,
            frame: FrameId::new(0, 0),
            una: ORIGIN,
            offer: Offer::Edge(ORIGIN + 9_000),
            payload_bytes: 0,
            duplicate: false,
            paced: false,
            tsval: 0,
        });
        let ago_ns = |end| space.offered_ago_ns(&pending, ORIGIN + end, 25);
        assert_eq!([5_000, 9_000, 9_001].map(ago_ns), [None, Some(15), None]);
    }
}
