//! What an application writes at a time, and how long it pauses of its own accord between two writes.
//!
//! Writes of one size end in small segments of one size. A writer who has to wait for room in its
//! buffer ends so too; but he waits only when the buffer is full, and goes on when an ACK has made
//! enough room in it: Linux wakes him when a third is free (`sk_stream_min_wspace`).

use super::*;
use crate::tcp::gap::{Gap, Turn};

/// An application that pauses for less than this is a busy host, ns.
pub const PAUSE_NS: u64 = 1_000_000;

/// At the end of a write of so many segments a congestion window stops by chance only seldom.
const LONG_SEGMENTS: u64 = 8;

/// Other ends in a row that make them those of the writes.
const STRANGERS: u8 = 3;

/// The writes of one sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pieces {
    /// Payload of the small segments that they end in; 0 before one is known.
    end_bytes: u32,
    /// Ends of another size in a row.
    strangers: u8,
    /// Where the stream stood when it went on last after a pause, and what was under way then.
    from: (u64, u64),
    /// When it began to fill a buffer with nothing in it, ns.
    empty_ns: u64,
    /// What was under way when it wrote another last, and the most with which it did so twice.
    beside: u64,
    beside_max: u64,
    /// What it had written into an empty buffer when it paused, of which it is not known whether there
    /// was room for more, and how long, ns.
    first: Option<(u64, u64)>,
    /// Where the last piece ended, and how long it was, bytes.
    last: (u64, u64),
    /// Pauses with room for more: how long together, ns, and how many.
    own: (u64, u32),
}

/// Whether a buffer had room for more with `written`, of whose sender `reached` has been under way: it
/// has held more, and took another piece beside `beside` bytes, when of what makes it full a third has to
/// go before its writer goes on. With some tolerance.
fn has_room(written: u64, beside: u64, reached: u64) -> bool {
    4 * beside > 3 * written && 8 * reached > 9 * written
}

impl Pieces {
    /// A piece ends at `position`.
    pub(super) fn end(&mut self, position: u64) {
        self.last = (position, position.saturating_sub(self.last.0));
    }

    /// Whether a message of so many bytes is written in several, by the last of them.
    pub(super) fn are_many_in(&self, message: u64) -> bool {
        self.last.1 > 0 && 2 * self.last.1 <= message
    }

    /// What this sender's pauses of its own last, ns; 0 if none is known.
    fn own_ns(&self) -> u64 {
        self.own.0 / u64::from(self.own.1.max(1))
    }

    fn note_own(&mut self, ns: u64) {
        self.own = (self.own.0 + ns, self.own.1 + 1);
    }

    /// Whether a piece that ends in so many bytes is one of those that are followed.
    fn follows(&mut self, end_bytes: u32) -> bool {
        if end_bytes == self.end_bytes {
            self.strangers = 0;
            return true;
        }
        self.strangers += 1;
        if self.end_bytes != 0 && self.strangers < STRANGERS {
            return false;
        }
        let Self { from, empty_ns, last, .. } = *self;
        *self = Self { end_bytes, from, empty_ns, last, ..Self::default() };
        true
    }

    /// A piece ended before `gap`, and the next begins at `start` with `flight` bytes under way.
    /// Answers how long its writer would have paused anyhow, ns.
    fn pause(&mut self, gap: &Gap, start: u64, flight: u64) -> u64 {
        let pause_ns = gap.len_ns().saturating_sub(gap.busy_ns);
        let written = (self.from.1 + start.saturating_sub(self.from.0)).max(gap.flight_first);
        let long = self.last.1 >= LONG_SEGMENTS * gap.smss;
        self.beside_max = self.beside_max.max(flight.min(self.beside));
        self.beside = flight;
        let (beside, reached) = (self.beside_max, gap.flight_reached);
        if let Some((_, ns)) = self.first.take_if(|it| has_room(it.0, beside, reached)) {
            self.note_own(ns);
        }
        // Until the ACK of what was written first a full buffer stays full.
        let filling_ns = gap.end_ns.saturating_sub(self.empty_ns);
        let unanswered = self.empty_ns > 0 && 4 * filling_ns < 3 * gap.rtt_base_ns;
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
    /// The silence `gap` ends at `start`, in a message that `began` at this place of the stream, at this
    /// time.
    pub fn follow_pieces(&mut self, gap: &mut Gap, start: u64, began: Option<(u64, u64)>) {
        let flight = self.flight();
        let ends =
            gap.turn == Turn::Continues && gap.last_small && gap.len_ns() >= PAUSE_NS + gap.busy_ns;
        let roomy = gap.room_before.is_some_and(|room| room >= gap.flight_first as i64);
        let bulk = match &mut self.bulk {
            Some(bulk) if ends || flight == 0 => bulk,
            // The first pause may be the only one that tells.
            none @ None if ends && roomy && gap.flight_first > gap.smss => {
                none.get_or_insert_default()
            }
            _ => return,
        };
        let pieces = &mut bulk.pieces;
        if let Some((position, time_ns)) = began.filter(|began| began.0 > pieces.from.0) {
            (pieces.from, pieces.empty_ns) = ((position, 0), time_ns);
        }
        let whole = gap.retransmission.is_none()
            && gap.missing_packets == 0
            && !gap.holed
            && !gap.in_recovery;
        let end_bytes = (u64::from(gap.last.payload_bytes) % gap.smss.max(1)) as u32;
        if ends && whole && pieces.follows(end_bytes) {
            gap.own_pause_ns = pieces.pause(gap, start, flight);
        }
        pieces.from = (start, flight);
        if flight == 0 {
            pieces.empty_ns = gap.end_ns;
        }
    }
}
