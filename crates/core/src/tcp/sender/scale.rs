//! The window scale of a connection whose SYNs were not captured (RFC 7323 §2.2): what its sender
//! does under the windows that it is offered shows it.

use super::*;
use crate::tcp::gap::{Gap, Turn};

/// Silences in a row at a window's edge that show its scale: a flight that grows is there by chance
/// once, but not twice.
const MET_MIN: u8 = 2;

/// A scale is no larger than the receiver's buffer needs (RFC 7323 §2.3): where one is in use, the
/// fields of a buffer that is full of promises are at least this wide.
const FIELD_WIDE: u16 = 1 << 14;

/// Numbers that programs and kernels like are a few times a power of two.
const FEW: u64 = 32;

/// Whether nobody chooses `bytes`: a flight that fills such a window to the byte is there by no chance.
fn is_odd(bytes: u64) -> bool {
    bytes > 0 && bytes >> bytes.trailing_zeros() >= FEW
}

/// The offered window while its scale is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unscaled {
    /// The header's field, as the sender knows.
    field: u16,
    /// The same before the last train of ACKs.
    field_before: u16,
    /// The least scale by which windows were as wide as the flight.
    scale: u8,
    /// Silences in a row in which the flight filled a window of that scale.
    met: u8,
    /// The field in the last of them.
    field_met: u16,
    /// That became the connection's scale.
    settled: bool,
}

impl Sender {
    /// A window was offered whose scale is not known.
    pub(super) fn offer_field(&mut self, field: u16) {
        self.marks.take_back(Marks::HAS_WINDOW);
        if let Some(bulk) = &mut self.bulk {
            bulk.unscaled.field = field;
        }
    }

    /// A train of ACKs begins.
    pub(super) fn hold_field(&mut self) {
        if self.window_scale.is_none()
            && let Some(bulk) = &mut self.bulk
        {
            bulk.unscaled.field_before = bulk.unscaled.field;
        }
    }

    /// A sender that had more to send waited for an ACK: with its flight at the edge of what it was offered by
    /// the least scale that allows for the flight, again and again, that is the scale, and the window was
    /// what it waited for. Answers whether that was found out.
    pub fn infer_scale(&mut self, gap: &mut Gap) -> bool {
        let Some(bulk) = &mut self.bulk else { return false };
        if !gap.ack_triggered() || gap.retransmission.is_some() {
            return false;
        }
        if self.window_scale.is_some() && !bulk.unscaled.settled {
            return false;
        }
        let known = &mut bulk.unscaled;
        let flight = gap.flight_before;
        // What was in flight is known less exactly the further away the sender is.
        let far_ns = gap.rtt_sender_ns.min(gap.rtt_base_ns);
        let loose =
            u128::from(flight) * u128::from(far_ns) / (8 * u128::from(gap.rtt_base_ns)).max(1);
        let loose = loose as u64;
        if self.window_scale.is_some() {
            // Senders keep to their windows: it was a wider one.
            let beyond = gap.room_before.is_some_and(|room| -room > (gap.smss + loose) as i64);
            if beyond {
                self.window_scale = None;
                self.marks.take_back(Marks::HAS_WINDOW);
                *known = Unscaled { scale: known.scale, ..Unscaled::default() };
            }
            return false;
        }
        // Who answered had waited for the question, and who had nothing more to send for no window.
        if gap.turn == Turn::Answers || gap.drained {
            return false;
        }
        let window = |scale| u64::from(known.field_before) << scale;
        let wide = |scale: &u8| known.field_before > 0 && window(*scale) + loose >= flight;
        let Some(least) = (known.scale..=SCALE_MAX).find(wide) else { return false };
        let room = window(least) as i64 - flight as i64;
        let fills = room < gap.next_len.min(gap.smss) as i64 && room <= flight as i64 / 4;
        let field = known.field_before;
        // A flight that stands still under a window that does the same may do so for another reason,
        // where the window is not as wide as its scale allows for.
        let tells = least == 0
            || field >= FIELD_WIDE
            || room == 0 && is_odd(flight)
            || known.met == 0
            || field.abs_diff(known.field_met) > field / 8;
        let height = window(least);
        if !fills || least != known.scale {
            known.met = 0;
        }
        if fills && tells {
            (known.met, known.field_met) = (known.met + 1, field);
        }
        (known.scale, known.settled) = (least, known.met >= MET_MIN);
        if !known.settled {
            return false;
        }
        bulk.ceiling = 0;
        self.window_scale = Some(least);
        (gap.window_before, gap.room_before) = (Some(height), Some(room));
        if let Some(ack) = &mut gap.ack {
            ack.opened_window = true;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scale that shows when a sender has 939 bytes in flight before each of four silences that an ACK ends, while
    /// its peer's windows vary.
    fn shown(turn: Turn, drained: bool) -> Option<u8> {
        let mut half = Sender { bulk: Some(Box::default()), ..Sender::default() };
        for field_before in [470, 560, 470, 560] {
            let bulk = half.bulk.as_mut().expect("a sender of bulk");
            bulk.unscaled.field_before = field_before;
            let ack = Some(AckTrigger { effect_ns: 1_000_000, ..AckTrigger::default() });
            let (flight_before, next_len, smss) = (939, 939, 939);
            let gap = Gap { turn, drained, ack, flight_before, next_len, smss, ..Gap::default() };
            half.infer_scale(&mut Gap { end_ns: 1_000_000, ..gap });
        }
        half.window_scale
    }

    #[test]
    fn who_had_more_to_send_and_waited_for_an_ack_at_a_windows_edge_shows_its_scale() {
        assert_eq!(shown(Turn::Continues, false), Some(1));
    }

    #[test]
    fn answers_of_one_size_and_messages_that_are_complete_show_no_scale() {
        assert_eq!(shown(Turn::Answers, false), None);
        assert_eq!(shown(Turn::Answers, true), None);
        assert_eq!(shown(Turn::Continues, true), None);
    }
}
