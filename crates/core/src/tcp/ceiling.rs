//! The height of the flight, round by round: growing (a congestion window that opens), or a
//! ceiling (a buffer).

/// What the last rounds of a sender looked like that was waiting for ACKs with window to spare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Too few rounds to tell, or the flight still grows.
    #[default]
    Opening,
    /// The flight has stood at the same height for some rounds.
    Ceiling {
        /// That height, bytes.
        bytes: u64,
        /// The sender had nothing more buffered each time: no congestion window held it back.
        drained: bool,
    },
}

/// Rounds at one height that make a ceiling.
const LEVEL_ROUNDS: u32 = 3;

/// The same where the sender each time had nothing more buffered, though there was more to come: a
/// window that opens holds back what is buffered. One such round may be a write that fitted.
const DRAINED_ROUNDS: u32 = 2;

/// Rounds that stay below the greatest and make a ceiling of it.
const SPENT_ROUNDS: u32 = 7;

/// Rounds below it that are taken for pauses.
const LOW_ROUNDS: u32 = 3;

/// Follows the peak flight of each round (RFC 5681's FlightSize, a round ends when what was
/// sent at its beginning is acknowledged).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// Position whose ACK ends the round.
    round_end: u64,
    /// Greatest flight in this round.
    peak: u64,
    /// The sender was held back by ACKs in this round.
    blocked: bool,
    /// Peak of the last blocked round.
    previous: u64,
    /// Height that the rounds are compared with.
    reference: u64,
    /// Consecutive blocked rounds at `reference`.
    level_rounds: u32,
    /// Consecutive blocked rounds after which the sender had nothing more buffered.
    drained_rounds: u32,
    /// The sender had nothing more buffered when it was held back last.
    drained: bool,
    /// Rounds since it last grew after which the sender turned out to have had nothing more buffered.
    emptied_rounds: u32,
    /// Consecutive rounds that grew.
    growths: u32,
    /// Greatest peak, and blocked rounds that did not exceed it.
    greatest: u64,
    spent_rounds: u32,
    /// Consecutive blocked rounds far below it.
    low_rounds: u32,
    /// Of them those at the height of the one before.
    low_level_rounds: u32,
    /// Rounds in all, and round trips spent opening.
    pub rounds: u32,
}

impl Rounds {
    /// A departure left `flight` bytes outstanding up to `nxt`, with `una` acknowledged.
    pub fn depart(&mut self, una: u64, nxt: u64, flight: u64, mss: u64) {
        if una >= self.round_end {
            self.close(mss);
            self.round_end = nxt;
            self.peak = 0;
            self.blocked = false;
        }
        self.peak = self.peak.max(flight);
    }

    /// The sender waited for an ACK in this round, with `flight` bytes outstanding and perhaps
    /// nothing more buffered.
    pub fn block(&mut self, flight: u64, drained: bool) {
        self.blocked = true;
        self.drained = drained;
        self.peak = self.peak.max(flight);
    }

    /// The last of these times the sender's application could write nothing more until the ACK came.
    /// Answers the height of the rounds, bytes.
    pub fn emptied(&mut self) -> u64 {
        self.emptied_rounds += 1;
        self.reference.max(self.greatest)
    }

    /// A message begins: the window may have been closed by idleness (RFC 5681 §4.1).
    pub fn restart(&mut self) {
        self.spent_rounds = 0;
    }

    /// A loss: what follows is the congestion window's doing.
    pub fn reset(&mut self) {
        *self = Self { round_end: self.round_end, rounds: self.rounds, ..Self::default() };
    }

    /// What the rounds show, with the one that the sender is held back in with `flight` bytes
    /// outstanding, if the ACK of `una` ends it.
    pub fn shape_with(&self, flight: u64, drained: bool, una: u64, mss: u64) -> Shape {
        let mut rounds = *self;
        if una >= rounds.round_end {
            rounds.block(flight, drained);
            rounds.close(mss);
        }
        rounds.shape()
    }

    fn shape(&self) -> Shape {
        // A window that opens grows by half or more each round.
        let drained = self.drained_rounds >= DRAINED_ROUNDS;
        let empty = drained || self.emptied_rounds >= DRAINED_ROUNDS;
        let level = self.level_rounds >= LEVEL_ROUNDS || self.level_rounds > 0 && empty;
        if level || self.spent_rounds >= SPENT_ROUNDS {
            Shape::Ceiling { bytes: self.reference.max(self.greatest), drained }
        } else {
            Shape::Opening
        }
    }

    /// Small buffers give uneven rounds, but none that goes beyond the greatest; a window that
    /// opens does so every round, be it from a new beginning.
    fn follow_greatest(&mut self, tolerance: u64) {
        let exceeds = self.peak > self.greatest + tolerance;
        self.greatest = self.greatest.max(self.peak);
        self.spent_rounds = if exceeds || self.growths >= 2 { 0 } else { self.spent_rounds + 1 };
    }

    fn close(&mut self, mss: u64) {
        self.rounds += 1;
        if !self.blocked {
            return;
        }
        self.drained_rounds = if self.drained { self.drained_rounds + 1 } else { 0 };
        let tolerance = (2 * mss).max(self.reference / 8);
        let grew = self.peak * 5 >= self.previous * 7 && self.peak > self.previous + tolerance;
        let opens = self.previous > 0 && grew;
        let stands = self.peak.abs_diff(self.previous) <= tolerance;
        self.previous = self.peak;
        self.growths = if opens { self.growths + 1 } else { 0 };
        self.follow_greatest(tolerance);
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
            // A low round is the end of a message or a pause; several are a new height.
            let again = self.low_rounds > 0 && stands;
            self.low_rounds += 1;
            self.low_level_rounds += u32::from(again);
            if self.low_rounds > LOW_ROUNDS {
                self.reference = self.peak;
                self.level_rounds = self.low_level_rounds;
                (self.low_rounds, self.low_level_rounds) = (0, 0);
            }
            return;
        }
        (self.low_rounds, self.low_level_rounds) = (0, 0);
    }
}
