//! Height of the flight in each round: it grows (the congestion window opens) or stays at a ceiling
//! (a buffer is full).

use crate::judge::Shape;
use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN};
use crate::tcp::thresholds::{CEILING_DRAINED_ROUNDS, CEILING_LOW_ROUNDS, CEILING_SPENT_ROUNDS};

/// Follows the peak flight of each round (RFC 5681, FlightSize). A round ends when the data sent
/// at its beginning is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// Position whose ACK ends the round.
    round_end: u64,
    /// Greatest flight in this round, bytes.
    peak: u64,
    /// The sender waited for an ACK in this round.
    blocked: bool,
    /// Peak of the last blocked round, bytes.
    previous: u64,
    /// Height with which the peaks of later rounds are compared, bytes.
    reference: u64,
    /// Consecutive blocked rounds at `reference`.
    level_rounds: u32,
    /// Consecutive blocked rounds in which the sender had nothing more buffered.
    drained_rounds: u32,
    /// The sender had nothing more buffered the last time it waited.
    drained: bool,
    /// Rounds since the last growth in which the sender, as seen later, had nothing more buffered.
    emptied_rounds: u32,
    /// Greatest peak, bytes.
    greatest: u64,
    /// Number of consecutive blocked rounds that did not exceed `greatest`.
    spent_rounds: u32,
    /// Number of the last blocked rounds that exceeded the greatest peak by a segment or more, while
    /// none stayed below it.
    climbs: u32,
    /// Consecutive blocked rounds far below `reference`.
    low_rounds: u32,
    /// Number of these rounds with the same height as the round before.
    low_level_rounds: u32,
    /// Number of rounds.
    pub rounds: u32,
}

impl Rounds {
    /// Records a departure that left `flight` bytes outstanding up to `nxt`, with `una`
    /// acknowledged.
    pub fn depart(&mut self, una: u64, nxt: u64, flight: u64, mss: u64) {
        if una >= self.round_end {
            self.close(mss);
            self.round_end = nxt;
            self.peak = 0;
            self.blocked = false;
        }
        self.peak = self.peak.max(flight);
    }

    /// Records that the sender waited for an ACK in this round with `flight` bytes outstanding. If
    /// `drained`, it had nothing more buffered.
    pub fn block(&mut self, flight: u64, drained: bool) {
        self.blocked = true;
        self.drained = drained;
        self.peak = self.peak.max(flight);
    }

    /// Records that in the last such wait the application could not write more until the ACK came.
    /// Returns the height of the rounds, bytes.
    pub fn emptied(&mut self) -> u64 {
        self.emptied_rounds += 1;
        self.reference.max(self.greatest)
    }

    /// Records that a message begins: the congestion window may have closed while the connection
    /// was idle (RFC 5681 §4.1).
    pub fn restart(&mut self) {
        self.spent_rounds = 0;
    }

    /// Records a loss: from here on the congestion window limits the flight.
    pub fn reset(&mut self) {
        *self = Self { round_end: self.round_end, rounds: self.rounds, ..Self::default() };
    }

    /// Returns the shape of the rounds. The current round, in which the sender waits with `flight`
    /// bytes outstanding, is included if the ACK of `una` ends it.
    pub fn shape_with(&self, flight: u64, drained: bool, una: u64, mss: u64) -> Shape {
        let mut rounds = *self;
        if una >= rounds.round_end {
            rounds.block(flight, drained);
            rounds.close(mss);
        }
        rounds.shape()
    }

    fn shape(&self) -> Shape {
        let drained = self.drained_rounds >= CEILING_DRAINED_ROUNDS;
        let empty = drained || self.emptied_rounds >= CEILING_DRAINED_ROUNDS;
        let level = self.level_rounds >= HABIT_MIN || self.level_rounds > 0 && empty;
        if level || self.spent_rounds >= CEILING_SPENT_ROUNDS {
            Shape::Ceiling { bytes: self.reference.max(self.greatest), drained }
        } else {
            Shape::Opening
        }
    }

    /// Updates the greatest peak. Small buffers give uneven rounds, but none above the greatest; an
    /// opening window exceeds it in every round, even after a restart.
    fn follow_greatest(&mut self, tolerance: u64, mss: u64) {
        let exceeds = self.peak > self.greatest + tolerance;
        self.climbs = match self.peak.checked_sub(self.greatest) {
            Some(more) if more >= mss => self.climbs + 1,
            Some(_) => self.climbs,
            None => 0,
        };
        self.greatest = self.greatest.max(self.peak);
        self.spent_rounds = if exceeds { 0 } else { self.spent_rounds + 1 };
    }

    /// Returns whether the congestion window opens by a segment a round (RFC 5681 §3.1, congestion
    /// avoidance): no buffer grows like that.
    fn is_climbing(&self) -> bool {
        self.climbs >= HABIT_MIN
    }

    fn close(&mut self, mss: u64) {
        self.rounds += 1;
        if !self.blocked {
            return;
        }
        self.drained_rounds = if self.drained { self.drained_rounds + 1 } else { 0 };
        let tolerance = (2 * mss).max(self.reference / ALIKE_PART);
        // A receiver that acknowledges every second segment lets an opening window grow by half
        // (RFC 5681 §3.1).
        let by_half = 2 * (self.peak + tolerance) >= 3 * self.previous;
        let grew = by_half && self.peak > self.previous + tolerance;
        let opens = self.previous > 0 && grew;
        let is_level = self.peak.abs_diff(self.previous) <= tolerance;
        self.previous = self.peak;
        self.follow_greatest(tolerance, mss);
        if self.is_climbing() {
            (self.level_rounds, self.emptied_rounds, self.spent_rounds) = (0, 0, 0);
            self.reference = self.greatest;
            return;
        }
        if opens {
            self.reference = self.peak.max(self.reference);
            (self.level_rounds, self.emptied_rounds) = (0, 0);
            return;
        }
        if self.peak.abs_diff(self.reference) <= tolerance {
            self.level_rounds += 1;
        } else if self.peak > self.reference {
            self.reference = self.peak;
            self.level_rounds = 0;
        } else {
            // A single low round is the end of a message or a pause; several of them are a new
            // height.
            let repeats_height = self.low_rounds > 0 && is_level;
            self.low_rounds += 1;
            self.low_level_rounds += u32::from(repeats_height);
            if self.low_rounds > CEILING_LOW_ROUNDS {
                self.reference = self.peak;
                self.level_rounds = self.low_level_rounds;
                (self.low_rounds, self.low_level_rounds) = (0, 0);
            }
            return;
        }
        (self.low_rounds, self.low_level_rounds) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_448;

    /// Returns the shape after blocked rounds with these peaks, in segments.
    fn shape(peaks: &[u64]) -> Shape {
        let mut rounds = Rounds::default();
        let mut una = 0;
        for peak in peaks {
            let nxt = una + peak * MSS;
            rounds.depart(una, nxt, peak * MSS, MSS);
            rounds.block(peak * MSS, false);
            una = nxt;
        }
        rounds.shape_with(0, false, 0, MSS)
    }

    #[test]
    fn a_window_that_grows_by_a_segment_a_round_is_no_ceiling() {
        assert_eq!(shape(&[10, 20, 21, 21, 22, 23, 24, 25, 26, 27]), Shape::Opening);
        let bytes = 26 * MSS;
        let ceiling = Shape::Ceiling { bytes, drained: false };
        assert_eq!(shape(&[10, 20, 25, 25, 26, 25, 26, 25, 26, 25]), ceiling);
    }
}
