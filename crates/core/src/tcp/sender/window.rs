//! The window that the receiver offers (RFC 9293 §3.8.6), as known to the sender.

use crate::tcp::acks::scaled;
use crate::tcp::sender::Sender;
use crate::tcp::sender::marks::Marks;
use crate::tcp::sequence::widen;

impl Sender {
    /// Right edge of the offered window as the sender knows it; `None` if unknown.
    #[inline]
    pub(in crate::tcp) fn right_edge(&self) -> Option<u64> {
        self.marks.has(Marks::HAS_WINDOW).then(|| widen(self.right_edge, self.nxt))
    }

    /// Right edge of the window that the receiver has offered as seen at the vantage, and a segment
    /// more, which hosts accept into a window that has just closed; `None` if unknown.
    pub fn edge_seen(&self) -> Option<u64> {
        let scale = self.window_scale.filter(|_| self.una_seen_ns() > 0)?;
        let offered = self.una_seen() + scaled(self.acked_window, scale);
        let edge = offered.max(self.right_edge().unwrap_or(0)).max(self.nxt);
        Some(edge + self.smss())
    }

    /// Room in the offered window as the sender knows it, bytes.
    pub fn room(&self) -> Option<i64> {
        self.right_edge().map(|edge| edge as i64 - self.nxt as i64)
    }

    /// Offered window as the sender knows it, bytes.
    pub fn window(&self) -> Option<u64> {
        self.right_edge().map(|edge| edge.saturating_sub(self.una()))
    }

    /// Returns whether the offered window, as the sender knows it, is (almost) closed.
    pub fn closed(&self) -> bool {
        self.history().window.is_closed()
    }

    /// Returns whether the last ACK at the vantage offered a window of zero.
    pub fn offered_nothing(&self) -> bool {
        self.acked_window == 0 && self.history().window.zero_advertisements > 0
    }

    /// Returns whether the offered window was (almost) closed at some time since the last
    /// departure.
    pub fn was_window_closed(&self) -> bool {
        self.closed() || self.since.as_ref().is_some_and(|since| since.closed_ns > 0)
    }

    /// Returns how long ago the offer passed the vantage that allows data up to `end`, ns, if the
    /// sender uses it sooner than the estimated round trip allows. (No sender exceeds the right
    /// edge that it knows, RFC 9293 §3.8.6.)
    pub fn offered_ago_ns(&self, end: u64, now_ns: u64) -> Option<u64> {
        let beyond = self.right_edge().is_some_and(|edge| edge < end);
        let offered_ns = if beyond { self.pending.offers_at(end)? } else { return None };
        Some(now_ns.saturating_sub(offered_ns))
    }

    /// Records that an offered window of `bytes` limited the sender.
    pub fn note_limiting_window(&mut self, bytes: u64) {
        // Data that was in flight at one time had been offered at one time.
        let had_room = 2 * bytes < u64::from(self.flight_max);
        let unread = had_room || self.bulk.as_ref().is_some_and(|bulk| bulk.is_unread(bytes));
        self.history_mut().window.limit(bytes, unread);
    }

    /// Returns whether the window mostly limited the sender because received data was not read.
    pub fn is_read_slowly(&self) -> bool {
        self.history().window.is_read_slowly()
    }

    /// Number of times that the offered window limited the sender without opening meanwhile: at one
    /// height, and at any height.
    pub fn window_limits(&self) -> [u32; 2] {
        let end = self.window().unwrap_or(0);
        self.history().window.limits(end, u64::from(self.flight_max), self.smss())
    }
}
