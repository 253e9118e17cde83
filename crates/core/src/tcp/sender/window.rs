//! The window that the receiver offers (RFC 9293 §3.8.6), as the sender knows it.

use super::*;

impl Sender {
    /// Right edge of the offered window as the sender knows.
    #[inline]
    pub(in crate::tcp) fn right_edge(&self) -> Option<u64> {
        self.marks.has(Marks::HAS_WINDOW).then(|| widen(self.right_edge, self.nxt))
    }

    /// Bytes the offered window still allows, as the sender knows.
    pub fn room(&self) -> Option<i64> {
        self.right_edge().map(|edge| edge as i64 - self.nxt as i64)
    }

    /// The offered window, bytes, as the sender knows.
    pub fn window(&self) -> Option<u64> {
        self.right_edge().map(|edge| edge.saturating_sub(self.una()))
    }

    /// Whether the offered window is (almost) closed, as the sender knows.
    pub fn closed(&self) -> bool {
        self.trouble().closed_since_ns.is_some()
    }

    /// Whether the last ACK that passed here offered no window at all.
    pub fn offered_nothing(&self) -> bool {
        self.acked_window == 0 && self.trouble().zero_window_advertisements > 0
    }

    /// Whether the offered window was (almost) closed at some time since the last departure.
    pub fn met_closed_window(&self) -> bool {
        self.closed() || self.since.as_ref().is_some_and(|since| since.closed_ns > 0)
    }

    /// How long ago the window passed here that allows to send up to `end`, where its sender does that
    /// sooner than the round trip to it is estimated, ns: none sends beyond the right edge that it
    /// knows (RFC 9293 §3.8.6).
    pub fn offered_ago_ns(&self, end: u64, now_ns: u64) -> Option<u64> {
        let beyond = self.right_edge().is_some_and(|edge| edge < end);
        let offered_ns = if beyond { self.pending.offers_at(end)? } else { return None };
        Some(now_ns.saturating_sub(offered_ns))
    }

    /// Whether an offered window of about `bytes` was the last to stand in the way.
    pub fn window_met(&self, bytes: u64) -> bool {
        let (height, times) = self.trouble().window_level;
        times > 0 && bytes.abs_diff(height) <= height / 5
    }

    /// The offered window of `bytes` stood in the way.
    pub fn level_window(&mut self, bytes: u64) {
        let met = self.window_met(bytes);
        // What was under way at once has been offered at once.
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
        // One that a reader who is behind leaves is sometimes lower; only a higher one opens.
        let (height, times) = &mut trouble.window_stands;
        if bytes > *height + *height / 5 {
            (*height, *times) = (bytes, 1);
        } else {
            *times += 1;
        }
    }

    /// Whether the window mostly stood in the way because what had arrived was not read.
    pub fn is_read_slowly(&self) -> bool {
        let [waits, of_reader] = self.trouble().window_waits;
        2 * of_reader > waits
    }

    /// How often the offered window stood in the way without having opened meanwhile: at one height,
    /// and at any. One that was twice as wide in the end is none that a buffer limits, unless it was so
    /// before as well, or nothing more was sent by then: that one moves with what is unread.
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
