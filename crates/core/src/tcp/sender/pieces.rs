//! Sizes of an application's writes, and its own pauses between them.
//!
//! Writes of one size end in small segments of one size. Waits for room in the send buffer end in
//! the same way; but a writer waits only if the buffer is full, and continues when ACKs have made
//! enough room: Linux wakes it when a third of the buffer is free (`sk_stream_min_wspace`).

use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN, HOST_DELAY_MAX_NS, INITIAL_WINDOW_SEGMENTS};
use crate::judge::{Gap, Turn};
use crate::tcp::sender::bulk::Bulk;

/// Record of the writes of one sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pieces {
    /// Payload of the small segments in which writes end, bytes; 0 if not yet known.
    end_bytes: u32,
    /// Number of consecutive writes that end in a segment of another size.
    other_sizes: u8,
    /// Position of the stream when the sender last continued after a pause, and the flight at that
    /// time.
    resumed: (u64, u64),
    /// Time at which the sender began to fill an empty buffer, ns.
    filling_since_ns: u64,
    /// Flight when the sender last began another write, bytes.
    flight_at_write: u64,
    /// Greatest flight with which the sender began another write twice, bytes.
    flight_at_write_max: u64,
    /// Number of bytes written into an empty buffer before a pause of which it is unknown whether
    /// there was room for more, and length of the pause, ns.
    undecided: Option<(u64, u64)>,
    /// Position at which the last write ended, and its length, bytes.
    last_write: (u64, u64),
    /// Total length, ns, and number of the pauses during which there was room for more.
    own_pauses: (u64, u32),
}

/// Returns whether a buffer with `written` bytes had room for more: it has held more (`reached`
/// bytes were in flight), and took another write while `flight_at_write` bytes were in flight,
/// whereas a writer to a full buffer would have waited until a third was free. The comparisons
/// include some tolerance.
fn has_room(written: u64, flight_at_write: u64, reached: u64) -> bool {
    let enough = written + written / ALIKE_PART;
    3 * flight_at_write > 2 * enough && reached > enough
}

impl Pieces {
    /// Records that a write ends at `position`.
    pub(super) fn end(&mut self, position: u64) {
        self.last_write = (position, position.saturating_sub(self.last_write.0));
    }

    /// Returns whether a message of this length takes several writes, judged by the length of the
    /// last write.
    pub(super) fn are_many_in(&self, message: u64) -> bool {
        self.last_write.1 > 0 && 2 * self.last_write.1 <= message
    }

    /// Mean length of the sender's own pauses, ns; 0 if none is known.
    fn own_ns(&self) -> u64 {
        self.own_pauses.0 / u64::from(self.own_pauses.1.max(1))
    }

    fn note_own(&mut self, ns: u64) {
        self.own_pauses = (self.own_pauses.0 + ns, self.own_pauses.1 + 1);
    }

    /// Returns whether a write that ends in a segment of `end_bytes` belongs to those that are
    /// followed.
    fn follows(&mut self, end_bytes: u32) -> bool {
        if end_bytes == self.end_bytes {
            self.other_sizes = 0;
            return true;
        }
        self.other_sizes += 1;
        if self.end_bytes != 0 && u32::from(self.other_sizes) < HABIT_MIN {
            return false;
        }
        let Self { resumed, filling_since_ns, last_write, .. } = *self;
        *self = Self { end_bytes, resumed, filling_since_ns, last_write, ..Self::default() };
        true
    }

    /// Processes `gap` between two writes; the next write begins at `start` with `flight` bytes in
    /// flight. Returns how long the writer would have paused in any case, ns.
    fn pause(&mut self, gap: &Gap, start: u64, flight: u64) -> u64 {
        let pause_ns = gap.len_ns().saturating_sub(gap.bottleneck.busy_ns);
        let written = (self.resumed.1 + start.saturating_sub(self.resumed.0)).max(gap.flight.first);
        let is_long = self.last_write.1 >= INITIAL_WINDOW_SEGMENTS * gap.smss;
        self.flight_at_write_max = self.flight_at_write_max.max(flight.min(self.flight_at_write));
        self.flight_at_write = flight;
        let (flight_at_write, reached) = (self.flight_at_write_max, gap.flight.reached);
        if let Some((_, ns)) = self.undecided.take_if(|it| has_room(it.0, flight_at_write, reached))
        {
            self.note_own(ns);
        }
        // A full buffer stays full until the ACK of the first data.
        let filling_ns = gap.end_ns.saturating_sub(self.filling_since_ns);
        let unanswered = self.filling_since_ns > 0
            && filling_ns < gap.rtt.base_ns - gap.rtt.base_ns / ALIKE_PART;
        if unanswered || is_long && has_room(written, flight_at_write, reached) {
            self.note_own(pause_ns);
            return pause_ns;
        }
        if is_long && self.resumed.1 == 0 {
            self.undecided = Some((written, pause_ns));
        }
        self.own_ns()
    }
}

/// Returns whether `gap` lies between two writes, the first of which ended in a small segment.
fn is_between_writes(gap: &Gap) -> bool {
    gap.turn == Turn::Continues
        && gap.last_small
        && gap.len_ns() >= HOST_DELAY_MAX_NS + gap.bottleneck.busy_ns
}

impl Pieces {
    /// Follows the silence `gap`, which ends at position `start` with `flight` bytes in flight, in a
    /// message that `began` at that position and time.
    fn follow(&mut self, gap: &mut Gap, start: u64, flight: u64, began: Option<(u64, u64)>) {
        if let Some((position, time_ns)) = began.filter(|began| began.0 > self.resumed.0) {
            (self.resumed, self.filling_since_ns) = ((position, 0), time_ns);
        }
        let whole = !gap.repair.is_retransmission()
            && !gap.losses.missing.any()
            && !gap.misses_data
            && !gap.losses.in_recovery;
        let end_bytes = (u64::from(gap.last.payload_bytes) % gap.smss.max(1)) as u32;
        if is_between_writes(gap) && whole && self.follows(end_bytes) {
            gap.pace.own_pause_ns = self.pause(gap, start, flight);
        }
        self.resumed = (start, flight);
        if flight == 0 {
            self.filling_since_ns = gap.end_ns;
        }
    }
}

impl Bulk {
    /// Follows the silence `gap` of a sender with this state, if it has any, which ends at position
    /// `start` with `flight` bytes in flight, in a message that `began` at that position and time.
    pub fn follow_pieces(
        bulk: &mut Option<Box<Self>>,
        gap: &mut Gap,
        (start, flight): (u64, u64),
        began: Option<(u64, u64)>,
    ) {
        let ends = is_between_writes(gap);
        let has_room = gap.window.room.is_some_and(|room| room >= gap.flight.first as i64);
        let bulk = match bulk {
            Some(bulk) if ends || flight == 0 => bulk,
            // The first pause may be the only evidence.
            none @ None if ends && has_room && gap.flight.first > gap.smss => {
                none.get_or_insert_default()
            }
            _ => return,
        };
        bulk.pieces.follow(gap, start, flight, began);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A pause of 20 ms at `at_ms` after a write that ended in a segment of `last` bytes.
    fn pause(at_ms: u64, last: u32) -> Gap {
        let (start_ns, end_ns) = ((at_ms - 20) * MS, at_ms * MS);
        let turn = Turn::Continues;
        let mut gap =
            Gap { turn, start_ns, end_ns, smss: 1_000, last_small: true, ..Gap::default() };
        gap.last.payload_bytes = last;
        gap.rtt.base_ns = 100 * MS;
        gap
    }

    #[test]
    fn a_pause_before_the_first_data_can_be_acknowledged_is_the_writers_own() {
        let mut pieces = Pieces::default();
        let mut gap = pause(50, 300);
        pieces.follow(&mut gap, 2_300, 2_300, Some((1, 10 * MS)));
        assert_eq!(gap.pace.own_pause_ns, 20 * MS);
        let mut later = pause(150, 300);
        pieces.follow(&mut later, 4_600, 2_300, None);
        assert_eq!(later.pace.own_pause_ns, 20 * MS, "as long as the known one");
    }

    #[test]
    fn writes_of_another_size_are_not_followed() {
        let mut pieces = Pieces::default();
        pieces.follow(&mut pause(50, 300), 2_300, 2_300, Some((1, 10 * MS)));
        let mut other = pause(60, 301);
        pieces.follow(&mut other, 4_601, 2_300, None);
        assert_eq!(other.pace.own_pause_ns, 0);
    }

    #[test]
    fn the_first_pause_with_room_in_the_window_makes_a_bulk_sender() {
        let is_made = |room| {
            let (mut bulk, mut gap) = (None, pause(50, 300));
            (gap.flight.first, gap.window.room) = (2_300, Some(room));
            Bulk::follow_pieces(&mut bulk, &mut gap, (2_300, 2_300), None);
            bulk.is_some()
        };
        assert_eq!([2_300, 2_299].map(is_made), [true, false]);
    }

    #[test]
    fn a_message_of_twice_the_last_write_takes_several() {
        let mut pieces = Pieces::default();
        pieces.end(1_000);
        pieces.end(3_000);
        assert!(pieces.are_many_in(4_000) && !pieces.are_many_in(3_999));
    }
}
