//! History of the window that a sender was offered (RFC 9293 §3.8.6): closed windows, their probes,
//! and heights at which the window limited the sender.

use crate::model::Sighting;
use crate::tcp::sender::space::SendSpace;
use crate::tcp::thresholds::WINDOW_ALIKE_PART;
use crate::wire::Side;

/// A height of the window, and the number of times that it limited the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Size of the window, bytes.
    bytes: u64,
    /// Number of times that the window limited the sender at this height.
    times: u32,
}

impl Level {
    const NONE: Self = Self { bytes: 0, times: 0 };

    /// Returns whether the window opened to `end` bytes in the end, which is at least twice this
    /// height.
    fn has_opened(&self, end: u64) -> bool {
        end >= 2 * self.bytes
    }
}

/// History of closed and limiting windows of a direction.
#[derive(Clone, Copy, Debug)]
pub struct WindowHistory {
    /// Time at which the ACK that closed the window passed, ns; `None` if the window is open.
    closed_since_ns: Option<u64>,
    /// The ACK that closed the window last.
    closed_by: Option<Sighting>,
    /// Window in that ACK, bytes.
    closing_window: u64,
    /// Number of zero windows offered to the sender.
    pub zero_advertisements: u64,
    /// Number of times that a window that was seen open became zero.
    pub closings: u64,
    /// Number of window probes sent.
    pub probes: u64,
    /// Range of positions in which data was sent beyond a closed window.
    probed: (u64, u64),
    /// Height of the last limiting window, with the number of consecutive times.
    level: Level,
    /// Height that limited the sender most often.
    level_max: Level,
    /// Height that no later limiting window has exceeded.
    not_exceeded: Level,
    /// Number of times that the window limited the sender, and number of those after it had been
    /// more than twice as great.
    waits: [u32; 2],
    /// The sender takes windows for smaller than the receiver means them: see
    /// [`is_misread`](Self::is_misread).
    misread: bool,
}

impl WindowHistory {
    pub const NONE: Self = Self {
        closed_since_ns: None,
        closed_by: None,
        closing_window: 0,
        zero_advertisements: 0,
        closings: 0,
        probes: 0,
        probed: (0, 0),
        level: Level::NONE,
        level_max: Level::NONE,
        not_exceeded: Level::NONE,
        waits: [0; 2],
        misread: false,
    };

    /// Returns whether the window is (almost) closed.
    pub fn is_closed(&self) -> bool {
        self.closed_since_ns.is_some()
    }

    /// Returns whether the receiver scales its windows and the sender does not know it, because the
    /// option that says so was removed on the way (RFC 7323 §2.2).
    pub fn is_misread(&self) -> bool {
        self.misread
    }

    /// Records that the windows are scaled in spite of the handshake.
    pub(super) fn misread(&mut self) {
        self.misread = true;
    }

    /// Returns whether the last ACK at the vantage offered a window of zero.
    fn is_zero_seen(&self, space: &SendSpace) -> bool {
        space.window_field == 0 && self.zero_advertisements > 0
    }

    /// Returns whether the window is (almost) closed, or was zero when last offered.
    pub fn is_closed_or_zero(&self, space: &SendSpace) -> bool {
        self.is_closed() || self.is_zero_seen(space)
    }

    /// Returns whether data from `start` is sent although the receiver has closed the window: a
    /// window probe (RFC 9293 §3.8.6.1). BSD, Solaris and Windows send data in it, Linux does not.
    pub(super) fn is_beyond_zero(&self, space: &SendSpace, start: u64) -> bool {
        self.is_closed() && self.is_zero_seen(space) && start >= space.una()
    }

    /// The ACK that closed the window last.
    pub fn closed_by(&self) -> Option<Sighting> {
        self.closed_by
    }

    /// Returns whether the ACK that closed the window last left room for a part of a segment.
    pub fn is_narrow(&self) -> bool {
        self.closing_window > 0
    }

    /// Records that `side` is the sender.
    pub(super) fn set_side(&mut self, side: Side) {
        self.closed_by.iter_mut().for_each(|ack| ack.from = side.peer());
    }

    /// Time for which the window was closed between `from_ns` and `now_ns`, ns; 0 if it is open.
    pub fn closed_for_ns(&self, from_ns: u64, now_ns: u64) -> u64 {
        self.closed_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns.max(from_ns)))
    }

    /// Records that `ack` closed the window, unless it was closed.
    pub fn close(&mut self, ack: Sighting) {
        if self.closed_since_ns.is_none() {
            (self.closed_since_ns, self.closed_by) = (Some(ack.time_ns), Some(ack));
        }
    }

    /// Records that the window is open.
    pub fn open(&mut self) {
        self.closed_since_ns = None;
    }

    /// Records that `ack` leaves a window of `closed` bytes, which (almost) closes it, or opens it. Returns
    /// the time for which it had been closed since `from_ns` if it opens, ns; otherwise 0.
    pub(super) fn follow(&mut self, ack: Sighting, closed: Option<u64>, from_ns: u64) -> u64 {
        if let Some(window) = closed {
            if self.closed_since_ns.is_none() {
                self.closing_window = window;
            }
            self.close(ack);
            return 0;
        }
        let closed_ns = self.closed_for_ns(from_ns, ack.time_ns);
        self.open();
        closed_ns
    }

    /// Records data from `start` to `end` that may be a window probe.
    pub fn probe(&mut self, start: u64, end: u64) {
        let (from, to) = self.probed;
        self.probed = (if to >= start { from } else { start }, to.max(end));
    }

    /// Returns the end of the data sent beyond a closed window, if position `start` is in that
    /// data.
    pub fn probed_to(&self, start: u64) -> Option<u64> {
        let (from, to) = self.probed;
        (from <= start && start < to).then_some(to)
    }

    /// Returns whether the last limiting window was about `bytes`.
    pub fn is_at_last_level(&self, bytes: u64) -> bool {
        self.level.times > 0
            && bytes.abs_diff(self.level.bytes) <= self.level.bytes / WINDOW_ALIKE_PART
    }

    /// Records that a window of `bytes` limited the sender. If `unread`, the window had been more
    /// than twice as great.
    pub fn limit(&mut self, bytes: u64, unread: bool) {
        let [waits, of_reader] = &mut self.waits;
        *waits += 1;
        *of_reader += u32::from(unread);
        if self.is_at_last_level(bytes) {
            self.level.times += 1;
        } else {
            self.level = Level { bytes, times: 1 };
        }
        if self.level.times >= self.level_max.times {
            self.level_max = self.level;
        }
        // The window of a slow reader is sometimes smaller; only a greater one means that it opens.
        if bytes > self.not_exceeded.bytes + self.not_exceeded.bytes / WINDOW_ALIKE_PART {
            self.not_exceeded = Level { bytes, times: 1 };
        } else {
            self.not_exceeded.times += 1;
        }
    }

    /// Returns whether the window mostly limited the sender because received data was not read.
    pub fn is_read_slowly(&self) -> bool {
        let [waits, of_reader] = self.waits;
        2 * of_reader > waits
    }

    /// Number of times that the window limited the sender without opening meanwhile: at one height,
    /// and at any height. A window that was twice as great in the end (`end` bytes) is not limited
    /// by a buffer, and moves with unread data. It counts nevertheless if it was as great before,
    /// or if nothing more was sent by then: the greatest flight was `flight_max`.
    pub fn limits(&self, end: u64, flight_max: u64, smss: u64) -> [u32; 2] {
        if self.is_read_slowly() {
            return [0, self.waits[1]];
        }
        let (level, any) = (self.level_max, self.not_exceeded);
        let used = flight_max > any.bytes + any.bytes / WINDOW_ALIKE_PART + 2 * smss;
        let at_level = if level.has_opened(end) { 0 } else { level.times };
        [at_level, if any.has_opened(end) && used { 0 } else { any.times }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_closed_from_the_first_ack_that_closes_it() {
        let ack = |time_ns| Sighting { time_ns, ..Sighting::default() };
        let mut window = WindowHistory::NONE;
        assert_eq!([10, 20].map(|ns| window.follow(ack(ns), Some(0), 0)), [0, 0]);
        assert_eq!(window.closed_by(), Some(ack(10)));
        assert_eq!([window.closed_for_ns(0, 50), window.closed_for_ns(30, 50)], [40, 20]);
        assert_eq!(window.follow(ack(35), None, 30), 5);
        assert_eq!(window.closed_for_ns(0, 50), 0);
    }

    #[test]
    fn a_window_for_a_part_of_a_segment_is_narrow() {
        let mut window = WindowHistory::NONE;
        let narrow_after = |closed| {
            window.follow(Sighting::default(), closed, 0);
            window.is_narrow()
        };
        let windows = [Some(168), Some(0), None, Some(0), Some(168), None];
        assert_eq!(windows.map(narrow_after), [true, true, true, false, false, false]);
    }

    #[test]
    fn the_peer_of_the_sender_closed_the_window_whichever_side_that_is() {
        let mut window = WindowHistory::NONE;
        window.close(Sighting { time_ns: 10, from: Side::Server, ..Sighting::default() });
        window.set_side(Side::Server);
        assert_eq!(window.closed_by().map(|ack| ack.from), Some(Side::Client));
    }

    #[test]
    fn data_into_a_window_of_zero_is_a_probe() {
        let space = SendSpace::default();
        let mut window = WindowHistory { zero_advertisements: 1, ..WindowHistory::NONE };
        assert!(window.is_closed_or_zero(&space) && !window.is_beyond_zero(&space, 0));
        window.close(Sighting::default());
        assert!(window.is_beyond_zero(&space, 0));
        let mut almost = space;
        almost.window_field = 9;
        assert!(window.is_closed_or_zero(&almost) && !window.is_beyond_zero(&almost, 0));
    }

    #[test]
    fn probes_beyond_a_closed_window_extend_one_range() {
        let mut window = WindowHistory::NONE;
        window.probe(100, 101);
        window.probe(101, 103);
        assert_eq!([window.probed_to(100), window.probed_to(103)], [Some(103), None]);
        window.probe(200, 201);
        assert_eq!([window.probed_to(100), window.probed_to(200)], [None, Some(201)]);
    }

    #[test]
    fn a_window_of_one_height_limits_until_it_opens() {
        let mut window = WindowHistory::NONE;
        (0..3).for_each(|_| window.limit(10_000, false));
        assert!(window.is_at_last_level(11_000) && !window.is_at_last_level(15_000));
        assert_eq!(window.limits(10_000, 10_000, 1_460), [3, 3]);
        assert_eq!(window.limits(20_000, 10_000, 1_460), [0, 3], "no more was sent by then");
        assert_eq!(window.limits(20_000, 20_000, 1_460), [0, 0]);
    }

    #[test]
    fn a_window_that_shrinks_with_unread_data_has_no_height() {
        let mut window = WindowHistory::NONE;
        [9_000, 6_000, 3_000].into_iter().for_each(|bytes| window.limit(bytes, true));
        assert!(window.is_read_slowly());
        assert_eq!(window.limits(3_000, 9_000, 1_460), [0, 3]);
    }
}
