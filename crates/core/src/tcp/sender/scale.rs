//! Inference of the window scale (RFC 7323 §2.2) from the sender's behaviour under the offered
//! windows, if the SYNs were not captured.

use crate::judge::thresholds::ALIKE_PART;
use crate::judge::{Gap, Turn};
use crate::tcp::acks::SCALE_MAX;
use crate::tcp::sender::bulk::Bulk;
use crate::tcp::sender::space::SendSpace;
use crate::tcp::thresholds::{ROUND_NUMBER_MAX, SCALE_MET_MIN, SCALED_FIELD_MIN};

/// Returns whether `bytes` is no round number: a flight does not fill such a window exactly by
/// chance.
fn is_not_round(bytes: u64) -> bool {
    bytes > 0 && bytes >> bytes.trailing_zeros() >= ROUND_NUMBER_MAX
}

/// State of the offered window while its scale is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unscaled {
    /// Window field of the last ACK that took effect at the sender.
    field: u16,
    /// Window field before the last train of ACKs.
    field_before: u16,
    /// Least scale at which the windows were as great as the flight.
    scale: u8,
    /// Number of consecutive silences in which the flight filled a window of that scale.
    met_count: u8,
    /// Window field in the last of these silences.
    field_met: u16,
    /// `scale` became the connection's scale.
    is_inferred: bool,
}

impl Bulk {
    /// Infers the scale of the windows in `space` from a gap in which a sender with more to send
    /// waited for an ACK. If its flight is repeatedly at the edge of the window, at the least scale
    /// that allows such a flight, that is the scale, and the window was the limit. Returns whether
    /// this gap completed the inference.
    pub fn infer_scale(&mut self, space: &mut SendSpace, gap: &mut Gap) -> bool {
        if !gap.ack_triggered() || gap.repair.is_retransmission() {
            return false;
        }
        let is_known = space.window_scale().is_some();
        if is_known && !self.unscaled.is_inferred {
            return false;
        }
        let flight = gap.flight.before;
        // The longer the path to the sender, the less exactly its flight is known.
        let far_ns = gap.rtt.sender_ns.min(gap.rtt.base_ns);
        let loose = u128::from(flight) * u128::from(far_ns)
            / (u128::from(ALIKE_PART) * u128::from(gap.rtt.base_ns)).max(1);
        let loose = loose as u64;
        if is_known {
            // A sender does not exceed the window: the window was greater than with the inferred
            // scale.
            if gap.window.room.is_some_and(|room| -room > (gap.smss + loose) as i64) {
                space.set_window_scale(None);
                space.forget_edge();
                self.unscaled.discard();
            }
            return false;
        }
        // A sender that answers had waited for the request, and one with nothing more to send did
        // not wait for the window.
        if gap.turn == Turn::Answers || gap.unsent.drained {
            return false;
        }
        let Some((least, height)) = self.unscaled.fit(flight, loose, gap.next_segment()) else {
            return false;
        };
        if !self.unscaled.is_inferred {
            return false;
        }
        self.ceiling = 0;
        space.set_window_scale(Some(least));
        let room = height as i64 - flight as i64;
        (gap.window.bytes, gap.window.room) = (Some(height), Some(room));
        if let Some(ack) = &mut gap.acks.last {
            ack.opened_window = true;
        }
        true
    }
}

impl Unscaled {
    /// Records an offered window of unknown scale.
    pub fn offer(&mut self, field: u16) {
        self.field = field;
    }

    /// Saves the window field at the start of a train of ACKs.
    pub fn save(&mut self) {
        self.field_before = self.field;
    }

    /// Discards the inferred scale.
    fn discard(&mut self) {
        *self = Self { scale: self.scale, ..Self::default() };
    }

    /// Processes a flight that waited for an ACK before a `segment` more could be sent: counts it
    /// if it fills the window at the least scale that allows it. The flight is known to within
    /// `loose` bytes. Returns that scale and the height of the window.
    fn fit(&mut self, flight: u64, loose: u64, segment: u64) -> Option<(u8, u64)> {
        let field = self.field_before;
        let window = |scale| u64::from(field) << scale;
        let wide = |scale: &u8| field > 0 && window(*scale) + loose >= flight;
        let least = (self.scale..=SCALE_MAX).find(wide)?;
        let room = window(least) as i64 - flight as i64;
        let fills = room < segment as i64 && room <= flight as i64 / 4;
        // A constant flight under a constant window may have another reason if the window field is
        // smaller than its scale suggests.
        let is_evidence = least == 0
            || field >= SCALED_FIELD_MIN
            || room == 0 && is_not_round(flight)
            || self.met_count == 0
            || field.abs_diff(self.field_met) > field / 8;
        if !fills || least != self.scale {
            self.met_count = 0;
        }
        if fills && is_evidence {
            (self.met_count, self.field_met) = (self.met_count + 1, field);
        }
        (self.scale, self.is_inferred) = (least, self.met_count >= SCALE_MET_MIN);
        Some((least, window(least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::AckTrigger;

    /// Returns the scale that is inferred when a sender has 939 bytes in flight before each of four
    /// silences that an ACK ends, while its peer's windows vary.
    fn inferred_scale(turn: Turn, drained: bool) -> Option<u8> {
        let (mut bulk, mut space) = (Bulk::default(), SendSpace::default());
        for field in [470, 560, 470, 560] {
            bulk.unscaled.offer(field);
            bulk.unscaled.save();
            let mut gap =
                Gap { turn, next_len: 939, smss: 939, end_ns: 1_000_000, ..Gap::default() };
            gap.acks.last = Some(AckTrigger { effect_ns: 1_000_000, ..AckTrigger::default() });
            gap.flight.before = 939;
            gap.unsent.drained = drained;
            bulk.infer_scale(&mut space, &mut gap);
        }
        space.window_scale()
    }

    #[test]
    fn a_wait_at_the_windows_edge_shows_the_window_scale() {
        assert_eq!(inferred_scale(Turn::Continues, false), Some(1));
    }

    #[test]
    fn answers_of_one_size_and_messages_that_are_complete_show_no_scale() {
        assert_eq!(inferred_scale(Turn::Answers, false), None);
        assert_eq!(inferred_scale(Turn::Answers, true), None);
        assert_eq!(inferred_scale(Turn::Continues, true), None);
    }

    #[test]
    fn a_constant_flight_shows_a_scale_if_a_buffer_may_need_that() {
        let settles = |field: u16| {
            let mut unscaled = Unscaled { field_before: field, ..Unscaled::default() };
            let flight = 2 * u64::from(field) - 700;
            for _ in 0..3 {
                unscaled.fit(flight, 0, 1_448);
            }
            unscaled.is_inferred
        };
        assert!(settles(20_000) && !settles(12_000));
    }

    #[test]
    fn a_flight_beyond_the_window_refutes_an_inferred_scale() {
        let mut space = SendSpace::default();
        space.set_window_scale(Some(1));
        let mut bulk = Bulk::default();
        bulk.unscaled = Unscaled { scale: 1, is_inferred: true, ..Unscaled::default() };
        let mut gap = Gap { smss: 1_000, end_ns: 1_000_000, ..Gap::default() };
        gap.acks.last = Some(AckTrigger { effect_ns: 1_000_000, ..AckTrigger::default() });
        gap.window.room = Some(-1_000);
        bulk.infer_scale(&mut space, &mut gap);
        assert_eq!(space.window_scale(), Some(1));
        gap.window.room = Some(-1_001);
        bulk.infer_scale(&mut space, &mut gap);
        assert_eq!(space.window_scale(), None);
    }

    #[test]
    fn a_window_of_a_few_powers_of_two_is_round() {
        assert!(!is_not_round(29 << 10) && is_not_round(45 << 10));
    }
}
