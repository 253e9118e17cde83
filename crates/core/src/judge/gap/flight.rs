//! Unacknowledged data of a sender in a gap.

use crate::judge::Shape;

/// The flight of a sender in a gap, and what it shows of the congestion window and send buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    /// Flight when the sender fell silent, bytes.
    pub first: u64,
    /// Flight just before the last ACK (or at the end, if there was none), bytes.
    pub before: u64,
    /// The capture begins within that flight, so that more may have been in flight.
    pub cut: bool,
    /// Greatest flight since the sender's last loss, or ever, bytes.
    pub reached: u64,
    /// Time between the last two departures of the first flight, ns.
    pub apart_ns: u64,
    /// A small segment was in flight before the last train of ACKs, which covers it.
    pub small_acked: bool,
    /// Least size of the congestion window if nothing had been lost, bytes.
    pub cwnd_opened: u64,
    /// The window may have begun with one segment, since the SYN or the SYN-ACK was sent again.
    pub opens_from_one: bool,
    /// The sender has waited for the ACKs of full segments one or two at a time.
    pub waits_per_segment: bool,
    /// Shape of the flight, round by round.
    pub shape: Shape,
}

impl Flight {
    /// Returns whether neither the congestion window nor the send buffer can have been the limit:
    /// the flight with the next `segment` was reached before, without a loss since then. If the
    /// capture joins segments, only the first of them counts.
    pub fn is_free_for(&self, segment: u64) -> bool {
        self.has_reached(self.before + segment)
    }

    /// Returns whether as much as `bytes` was in flight before, without a loss since.
    pub fn has_reached(&self, bytes: u64) -> bool {
        bytes <= self.reached
    }

    /// Returns whether the flight fills the congestion window of a sender that began with the usual
    /// one (RFC 6928 §2) and lost nothing, to less than a full segment of `smss`. A tail loss probe
    /// may be one segment beyond it (RFC 8985 §7.3).
    pub fn fills_opened(&self, smss: u64) -> bool {
        let filled = self.cwnd_opened.saturating_sub(smss.saturating_sub(1));
        !self.cut
            && !self.opens_from_one
            && !self.is_free_for(smss)
            && (filled..=self.cwnd_opened + smss).contains(&self.before)
    }

    /// Returns the fewest segments with which the congestion window can have begun: two, or one if a
    /// SYN or SYN-ACK was lost (RFC 5681 §3.1).
    pub fn initial_segments(&self) -> u64 {
        if self.opens_from_one { 1 } else { 2 }
    }

    /// Returns whether at least `segments` full segments of `smss` were in flight before the last
    /// ACK. Less may be messages of an application.
    pub fn has_segments(&self, segments: u64, smss: u64) -> bool {
        self.before >= segments * smss
    }

    /// Height at which the flight has stopped in several rounds, bytes.
    pub fn ceiling(&self) -> Option<u64> {
        match self.shape {
            Shape::Ceiling { bytes, .. } => Some(bytes),
            Shape::Opening => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_that_was_exceeded_before_has_no_limit_in_the_sender() {
        let flight = Flight { before: 2_000, reached: 3_000, ..Flight::default() };
        assert!(flight.is_free_for(1_000) && !flight.is_free_for(1_001));
    }

    #[test]
    fn only_a_constant_flight_has_a_ceiling() {
        let shape = Shape::Ceiling { bytes: 40_000, drained: false };
        assert_eq!(Flight { shape, ..Flight::default() }.ceiling(), Some(40_000));
        assert_eq!(Flight::default().ceiling(), None);
    }

    #[test]
    fn a_flight_fills_the_window_if_no_full_segment_has_room_in_it() {
        let fills = |before| {
            let cwnd_opened = 14_600;
            Flight { before, cwnd_opened, reached: before, ..Flight::default() }.fills_opened(1_460)
        };
        assert!(!fills(13_140) && fills(13_141) && fills(14_600));
        assert!(fills(16_060) && !fills(16_061), "a probe is one segment");
        let cut = Flight { cut: true, before: 14_600, cwnd_opened: 14_600, ..Flight::default() };
        assert!(!cut.fills_opened(1_460), "more may be in flight");
    }

    #[test]
    fn a_flight_is_measured_in_full_segments() {
        let flight = Flight { before: 2_920, ..Flight::default() };
        assert!(flight.has_segments(2, 1_460) && !flight.has_segments(3, 1_460));
    }
}
