//! The window that the receiver offers (RFC 9293 §3.8.6), as known to the sender.

use crate::tcp::sender::Sender;
use crate::tcp::sender::marks::Marks;
use crate::tcp::sequence::widen;

impl Sender {
    /// Right edge of the offered window, as known to the sender; `None` if unknown.
    #[inline]
    pub(in crate::tcp) fn right_edge(&self) -> Option<u64> {
        self.marks.has(Marks::HAS_WINDOW).then(|| widen(self.right_edge, self.nxt))
    }

    /// Room in the offered window, bytes, as known to the sender.
    pub fn room(&self) -> Option<i64> {
        self.right_edge().map(|edge| edge as i64 - self.nxt as i64)
    }

    /// The offered window, bytes, as known to the sender.
    pub fn window(&self) -> Option<u64> {
        self.right_edge().map(|edge| edge.saturating_sub(self.una()))
    }

    /// Returns whether the offered window is (almost) closed, as known to the sender.
    pub fn closed(&self) -> bool {
        self.trouble().closed_since_ns.is_some()
    }

    /// Returns whether the last ACK at the vantage offered no window at all.
    pub fn offered_nothing(&self) -> bool {
        self.acked_window == 0 && self.trouble().zero_window_advertisements > 0
    }

    /// Returns whether the offered window was (almost) closed at some time since the last
    /// departure.
    pub fn met_closed_window(&self) -> bool {
        self.closed() || self.since.as_ref().is_some_and(|since| since.closed_ns > 0)
    }

    /// Time since the offer passed the vantage that allows data up to `end`, ns, if the sender
    /// uses it sooner than the estimated round trip allows: no sender exceeds the right edge that
    /// it knows (RFC 9293 §3.8.6).
    pub fn offered_ago_ns(&self, end: u64, now_ns: u64) -> Option<u64> {
        let beyond = self.right_edge().is_some_and(|edge| edge < end);
        let offered_ns = if beyond { self.pending.offers_at(end)? } else { return None };
        Some(now_ns.saturating_sub(offered_ns))
    }

    /// Returns whether the last limiting window was about `bytes`.
    pub fn window_met(&self, bytes: u64) -> bool {
        let (height, times) = self.trouble().window_level;
        times > 0 && bytes.abs_diff(height) <= height / 5
    }

    /// Records that an offered window of `bytes` limited the sender.
    pub fn level_window(&mut self, bytes: u64) {
        let met = self.window_met(bytes);
        // Data that was in flight at once had been offered at once.
        let had_room = 2 * bytes < u64::from(self.flight_max);
        let unread = had_room || self.bulk.as_ref().is_some_and(|bulk| bulk.is_unread(bytes));
        let trouble = self.trouble_mut();
        let [waits, of_reader] = &mut trouble.window_waits;
        *waits += 1;
        *of_reader += u32::from(unread);
        let (height, times) = &mut trouble.window_level;
        if met {
            *times += 1;
        } else {
            (*height, *times) = (bytes, 1);
        }
        if *times >= trouble.window_level_max.1 {
            trouble.window_level_max = (*height, *times);
        }
        // The window of a slow reader is sometimes smaller; only a greater one means that it
        // opens.
        let (height, times) = &mut trouble.window_stands;
        if bytes > *height + *height / 5 {
            (*height, *times) = (bytes, 1);
        } else {
            *times += 1;
        }
    }

    /// Returns whether the window mostly limited the sender because received data was not read.
    pub fn is_read_slowly(&self) -> bool {
        let [waits, of_reader] = self.trouble().window_waits;
        2 * of_reader > waits
    }

    /// Number of times the offered window limited the sender without opening meanwhile: at one
    /// height, and at any. A window that was twice as great in the end is not limited by a buffer,
    /// and moves with unread data, unless it was so great before as well or nothing more was sent
    /// by then.
    pub fn window_stands(&self) -> [u32; 2] {
        let trouble = self.trouble();
        if self.is_read_slowly() {
            return [0, trouble.window_waits[1]];
        }
        let end = self.window().unwrap_or(0);
        let beyond = |height: u64| height + height / 5 + 2 * self.smss();
        let [level, any] = [trouble.window_level_max, trouble.window_stands];
        let opened = |(height, _): (u64, u32)| end >= 2 * height;
        let used = u64::from(self.flight_max) > beyond(any.0);
        [if opened(level) { 0 } else { level.1 }, if opened(any) && used { 0 } else { any.1 }]
    }
}
