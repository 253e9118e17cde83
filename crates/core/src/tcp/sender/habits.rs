//! Habits of a sender and of its receiver's kernel: what their earlier segments have shown.

use crate::tcp::sender::departure::Departure;

/// The sender has waited for the ACKs of full segments one or two at a time.
const WAITS_PER_SEGMENT: u8 = 1;
/// A pure ACK acknowledged its data: the time of such an ACK depends on the path and the receiver's
/// kernel, and on no application.
const ACKED_ALONE: u8 = 1 << 1;
/// A message of the sender ended without PSH.
const UNPUSHED_END: u8 = 1 << 2;
/// A full segment with PSH was directly followed by more data: Linux sets PSH in every burst that
/// the network card splits (TSO).
const PUSHES_EARLY: u8 = 1 << 3;
/// The segments of the sender echoed the timestamp of an ACK that had arrived, or a later one.
const ECHOES: u8 = 1 << 4;

/// Set of habits, one bit each, because every open connection has two such sets. A habit that was
/// seen once is not forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits(u8);

impl Habits {
    #[inline]
    fn has(self, habit: u8) -> bool {
        self.0 & habit != 0
    }

    #[inline]
    fn note(&mut self, habit: u8, holds: bool) {
        self.0 |= if holds { habit } else { 0 };
    }

    /// Returns whether the sender has waited for the ACKs of full segments one or two at a time.
    pub fn waits_per_segment(self) -> bool {
        self.has(WAITS_PER_SEGMENT)
    }

    /// Records that the sender waits for the ACKs of full segments one or two at a time.
    pub fn note_waits_per_segment(&mut self) {
        self.note(WAITS_PER_SEGMENT, true);
    }

    /// Returns whether the time of an ACK shows when the data arrived. An ACK with data is sent
    /// when the application sends the data, unless pure ACKs are captured too: then a pure ACK
    /// would have come before.
    #[inline]
    pub fn shows_arrival(self, is_pure: bool) -> bool {
        is_pure || self.has(ACKED_ALONE)
    }

    /// Records an ACK of data, which is `alone` if it is a pure ACK.
    #[inline]
    pub(super) fn note_acked(&mut self, alone: bool) {
        self.note(ACKED_ALONE, alone);
    }

    /// Returns whether the sender echoes the timestamps of ACKs that have arrived.
    #[inline]
    pub fn echoes(self) -> bool {
        self.has(ECHOES)
    }

    /// Records whether a segment echoed the timestamp of an ACK that had arrived.
    #[inline]
    pub(super) fn note_echo(&mut self, echoed: bool) {
        self.note(ECHOES, echoed);
    }

    /// Records that a message ended with the departure `last`.
    pub fn end_message(&mut self, last: &Departure) {
        self.note(UNPUSHED_END, last.len > 0 && !last.pushed);
    }

    /// Records that more data directly followed the full segment `last`.
    #[inline]
    pub(super) fn continue_at_once(&mut self, last: &Departure) {
        self.note(PUSHES_EARLY, last.pushed);
    }

    /// Returns whether the sender had nothing more buffered after its departure `last`, as far as
    /// PSH shows. If the sender sets PSH not only at the end of the buffered data, a segment below
    /// the SMSS is needed as well.
    pub fn drained(self, last: &Departure) -> bool {
        last.pushed && (last.small || !self.has(PUSHES_EARLY))
    }

    /// Returns whether the sender had more in its buffer after its departure `last`, which did not
    /// end a write. The absence of PSH means that only if the sender is not known to end messages
    /// without PSH.
    pub fn has_unsent(self, last: &Departure) -> bool {
        last.len > 0 && !self.drained(last) && !self.has(UNPUSHED_END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departure(small: bool, pushed: bool) -> Departure {
        Departure { len: 100, small, pushed, ..Departure::default() }
    }

    #[test]
    fn psh_shows_that_the_buffer_is_empty_unless_the_sender_sets_it_early() {
        let mut habits = Habits::default();
        let full = departure(false, true);
        assert!(habits.drained(&full) && !habits.has_unsent(&full));
        habits.continue_at_once(&full);
        assert!(!habits.drained(&full) && habits.drained(&departure(true, true)));
    }

    #[test]
    fn a_missing_psh_means_nothing_after_a_message_that_ended_without() {
        let mut habits = Habits::default();
        let unpushed = departure(true, false);
        assert!(habits.has_unsent(&unpushed));
        assert!(!habits.has_unsent(&Departure::default()), "nothing was sent");
        habits.end_message(&unpushed);
        assert!(!habits.has_unsent(&unpushed) && !habits.drained(&unpushed));
    }

    #[test]
    fn an_ack_with_data_shows_the_arrival_only_if_pure_acks_are_captured() {
        let mut habits = Habits::default();
        assert!(habits.shows_arrival(true) && !habits.shows_arrival(false));
        habits.note_acked(true);
        assert!(habits.shows_arrival(false));
    }

    #[test]
    fn a_habit_is_not_forgotten() {
        let mut habits = Habits::default();
        habits.note_echo(true);
        habits.note_echo(false);
        habits.note_waits_per_segment();
        assert!(habits.echoes() && habits.waits_per_segment());
    }
}
