//! Positions in the stream of one direction (RFC 9293 §3.4): the origin of its sequence numbers,
//! and how far it was sent, seen and acknowledged.

use crate::tcp::sender::Sender;
use crate::tcp::sender::marks::Marks;
use crate::tcp::sequence::{Numbers, ORIGIN, Sequence, widen};
use crate::tcp::thresholds::WINDOW_MAX_BYTES;

impl Sender {
    /// Position of the sender's FIN, if one was sent.
    pub fn fin(&self) -> Option<u64> {
        self.marks.has(Marks::FINISHED).then(|| widen(self.fin, self.nxt))
    }

    /// Records a FIN at `position`.
    pub fn finish(&mut self, position: u64) {
        self.marks.note(Marks::FINISHED, true);
        self.fin = position as u32;
    }

    /// Position up to which everything was seen at the vantage.
    pub fn in_order(&self) -> u64 {
        self.history.as_deref().and_then(|history| history.holes.in_order()).unwrap_or(self.nxt)
    }

    /// Returns whether the position of the stream is known.
    pub fn started(&self) -> bool {
        self.marks.has(Marks::STARTED)
    }

    /// Number of bytes sent and, as the sender knows, not acknowledged (RFC 5681, FlightSize).
    pub fn flight(&self) -> u64 {
        self.nxt.saturating_sub(self.una())
    }

    /// Highest position acknowledged, as seen at the vantage.
    #[inline]
    pub fn una_seen(&self) -> u64 {
        widen(self.una_seen, self.nxt)
    }

    /// Highest position acknowledged as the sender knows (SND.UNA).
    #[inline]
    pub fn una(&self) -> u64 {
        widen(self.una, self.nxt)
    }

    /// Returns the position of the sequence number `seq` of a header; the first one sets the
    /// origin.
    pub fn position(&mut self, seq: u32) -> u64 {
        if !self.started() {
            self.marks.note(Marks::STARTED, true);
            self.sequence = Sequence::new(seq);
            self.nxt = ORIGIN;
            (self.una, self.una_seen) = (ORIGIN as u32, ORIGIN as u32);
        }
        self.sequence.position(seq, self.nxt)
    }

    /// Starts the stream again at the sequence number `seq`, before any of its data was seen.
    pub fn restart_at(&mut self, seq: u32) {
        self.marks.note(Marks::STARTED, false);
        self.position(seq);
    }

    /// Returns whether this sequence number lies beyond all that was sent.
    #[inline]
    pub fn is_ahead(&self, seq: u32) -> bool {
        self.started() && self.position_of(seq) > self.nxt
    }

    /// Returns the position of the sequence number `seq`, once the stream has begun.
    #[inline]
    pub fn position_of(&self, seq: u32) -> u64 {
        self.sequence.position(seq, self.nxt)
    }

    /// Returns whether data that begins with this sequence number was sent and is not yet
    /// acknowledged.
    pub fn is_under_way(&self, seq: u32) -> bool {
        let position = self.sequence.position(seq, self.nxt);
        self.started() && position >= self.una_seen() && position < self.nxt
    }

    /// Returns whether data before this sequence number may have been sent; up to one unscaled
    /// window (RFC 7323 §2.2) of it may not have been seen.
    pub fn may_have_sent(&self, seq: u32) -> bool {
        let position = self.sequence.position(seq, self.nxt);
        (self.una_seen()..=self.nxt + u64::from(u16::MAX)).contains(&position)
    }

    /// Extends the stream to `position`. The acknowledged position is no further behind than the
    /// greatest window, even if no ACK was captured.
    pub(super) fn extend_to(&mut self, position: u64) {
        let [una, una_seen] = [self.una(), self.una_seen()];
        let right_edge = self.right_edge().unwrap_or(una);
        self.nxt = position;
        let least = position.saturating_sub(WINDOW_MAX_BYTES);
        if una.min(una_seen).min(right_edge) < least {
            self.una = una.max(least) as u32;
            self.una_seen = una_seen.max(least) as u32;
            self.right_edge = right_edge.max(least) as u32;
        }
    }

    /// Sets the position at which the data of the stream begins, after the SYN.
    pub fn begin_data(&mut self, position: u64) {
        if position > self.nxt {
            self.extend_to(position);
            if let Some(history) = &mut self.history {
                history.holes.begin_at(position);
            }
        }
    }

    /// Takes back the acknowledgment of the data from `position` on, which has not reached the sender.
    #[cold]
    pub fn unacknowledge(&mut self, position: u64) {
        (self.una, self.una_seen) = (position as u32, position as u32);
        self.history_mut().losses.unheard_from = position;
    }

    /// Takes back the data from sequence number `seq` on: its receiver did not accept it, and the
    /// sender will send it again.
    #[cold]
    pub fn retract(&mut self, seq: u32) {
        let position = self.sequence.position(seq, self.nxt);
        self.rtts.repeat(position);
        self.sent.clear();
        self.small_end = None;
        self.unique_bytes = self.unique_bytes.saturating_sub(self.nxt.saturating_sub(position));
        self.nxt = position;
    }

    /// Range of the sequence numbers that the sender used; the first one is known only if
    /// `seen_begin`.
    pub fn numbers(&self, seen_begin: bool) -> Numbers {
        let first = self.sequence.first;
        let next = self.fin().map_or(self.nxt, |fin| self.nxt.max(fin + 1));
        let known = seen_begin && next.wrapping_sub(ORIGIN) < 1 << 31;
        Numbers::new(first.wrapping_add(next as u32), known.then_some(first))
    }

    /// Sequence number in the header of the first segment seen.
    pub fn first_number(&self) -> Option<u32> {
        self.started().then_some(self.sequence.first)
    }
}
