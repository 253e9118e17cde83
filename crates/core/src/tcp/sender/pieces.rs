//! Sizes of an application's writes, and its own pauses between them.
//!
//! Writes of one size end in small segments of one size. Waits for room in the send buffer end so
//! too; but a writer waits only if the buffer is full, and goes on when ACKs have made enough
//! room: Linux wakes it when a third is free (`sk_stream_min_wspace`).

use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN, HOST_DELAY_MAX_NS, INITIAL_WINDOW_SEGMENTS};
use crate::judge::{Gap, Turn};
use crate::tcp::sender::Sender;

/// The writes of one sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pieces {
    /// Payload of the small segments in which writes end, bytes; 0 if not yet known.
    end_bytes: u32,
    /// Consecutive ends of another size.
    strangers: u8,
    /// Position of the stream when the sender last went on after a pause, and the flight then.
    from: (u64, u64),
    /// Time at which it began to fill an empty buffer, ns.
    empty_ns: u64,
    /// The flight when it last began another write, and the greatest with which it did so twice,
    /// bytes.
    beside: u64,
    beside_max: u64,
    /// Bytes written into an empty buffer before a pause of which it is unknown whether there was
    /// room for more, and the length of the pause, ns.
    first: Option<(u64, u64)>,
    /// Position at which the last write ended, and its length, bytes.
    last: (u64, u64),
    /// Pauses although there was room for more: total length, ns, and number.
    own: (u64, u32),
}

/// Returns whether a buffer with `written` bytes had room for more: it has held more (`reached`
/// bytes were in flight), and took another write beside `beside` bytes, while a writer to a full
/// buffer would have waited until a third was free.
fn has_room(written: u64, beside: u64, reached: u64) -> bool {
    let enough = written + written / ALIKE_PART;
    3 * beside > 2 * enough && reached > enough
}

impl Pieces {
    /// Records that a write ends at `position`.
    pub(super) fn end(&mut self, position: u64) {
        self.last = (position, position.saturating_sub(self.last.0));
    }

    /// Returns whether a message of this length takes several writes, judged by the last of them.
    pub(super) fn are_many_in(&self, message: u64) -> bool {
        self.last.1 > 0 && 2 * self.last.1 <= message
    }

    /// Mean of this sender's own pauses, ns; 0 if none is known.
    fn own_ns(&self) -> u64 {
        self.own.0 / u64::from(self.own.1.max(1))
    }

    fn note_own(&mut self, ns: u64) {
        self.own = (self.own.0 + ns, self.own.1 + 1);
    }

    /// Returns whether a write with this end belongs to those that are followed.
    fn follows(&mut self, end_bytes: u32) -> bool {
        if end_bytes == self.end_bytes {
            self.strangers = 0;
            return true;
        }
        self.strangers += 1;
        if self.end_bytes != 0 && u32::from(self.strangers) < HABIT_MIN {
            return false;
        }
        let Self { from, empty_ns, last, .. } = *self;
        *self = Self { end_bytes, from, empty_ns, last, ..Self::default() };
        true
    }

    /// Handles `gap` between two writes; the next begins at `start` with `flight` bytes in flight.
    /// Returns how long the writer would have paused in any case, ns.
    fn pause(&mut self, gap: &Gap, start: u64, flight: u64) -> u64 {
        let pause_ns = gap.len_ns().saturating_sub(gap.bottleneck.busy_ns);
        let written = (self.from.1 + start.saturating_sub(self.from.0)).max(gap.flight.first);
        let long = self.last.1 >= INITIAL_WINDOW_SEGMENTS * gap.smss;
        self.beside_max = self.beside_max.max(flight.min(self.beside));
        self.beside = flight;
        let (beside, reached) = (self.beside_max, gap.flight.reached);
        if let Some((_, ns)) = self.first.take_if(|it| has_room(it.0, beside, reached)) {
            self.note_own(ns);
        }
        // Until the ACK of the first data a full buffer stays full.
        let filling_ns = gap.end_ns.saturating_sub(self.empty_ns);
        let unanswered =
            self.empty_ns > 0 && filling_ns < gap.rtt.base_ns - gap.rtt.base_ns / ALIKE_PART;
        if unanswered || long && has_room(written, beside, reached) {
            self.note_own(pause_ns);
            return pause_ns;
        }
        if long && self.from.1 == 0 {
            self.first = Some((written, pause_ns));
        }
        self.own_ns()
    }
}

impl Sender {
    /// Follows the silence `gap`, which ends at position `start`, in a message with this begin
    /// (position and time).
    pub fn follow_pieces(&mut self, gap: &mut Gap, start: u64, began: Option<(u64, u64)>) {
        let flight = self.flight();
        let ends = gap.turn == Turn::Continues
            && gap.last_small
            && gap.len_ns() >= HOST_DELAY_MAX_NS + gap.bottleneck.busy_ns;
        let roomy = gap.window.room.is_some_and(|room| room >= gap.flight.first as i64);
        let bulk = match &mut self.bulk {
            Some(bulk) if ends || flight == 0 => bulk,
            // The first pause may be the only one with evidence.
            none @ None if ends && roomy && gap.flight.first > gap.smss => {
                none.get_or_insert_default()
            }
            _ => return,
        };
        let pieces = &mut bulk.pieces;
        if let Some((position, time_ns)) = began.filter(|began| began.0 > pieces.from.0) {
            (pieces.from, pieces.empty_ns) = ((position, 0), time_ns);
        }
        let whole = !gap.repair.is_retransmission()
            && !gap.losses.missing.any()
            && !gap.holed
            && !gap.losses.in_recovery;
        let end_bytes = (u64::from(gap.last.payload_bytes) % gap.smss.max(1)) as u32;
        if ends && whole && pieces.follows(end_bytes) {
            gap.pace.own_pause_ns = pieces.pause(gap, start, flight);
        }
        pieces.from = (start, flight);
        if flight == 0 {
            pieces.empty_ns = gap.end_ns;
        }
    }
}
