//! Waits for a receiver whose application does not read: the receiver first delays its ACKs, then
//! closes the window.

use crate::judge::thresholds::ALIKE_PART;
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Slice, Slices};
use crate::tcp::sender::space::SendSpace;

/// Slices of gaps that may turn out to be a wait for the reader.
#[derive(Clone, Debug, Default)]
pub struct Unread {
    /// Right edge of the offered window when it last moved by more than a little, and the position
    /// acknowledged at that time.
    since: (u64, u64),
    /// Slices of silences since then.
    slices: Vec<Slice>,
}

impl Unread {
    /// Keeps the slices of gaps while the right edge of the window in `space` does not move. Until
    /// it moves, the receiving application may have read nothing.
    pub fn note(&mut self, gap: &Gap, slices: &Slices, space: &SendSpace, smss: u64) {
        let (edge, una) = (space.right_edge(), space.una());
        // The edge moves a little even if nothing is read: windows are offered in units (RFC 7323
        // §2.2), and a kernel that merges segments finds room for more.
        let (edge_then, una_then) = self.since;
        let little = (una - una_then) / ALIKE_PART + 2 * smss;
        let moved = edge.is_none_or(|edge| edge > edge_then + little);
        if moved || gap.turn == Turn::Answers || gap.repair.is_retransmission() {
            self.since = (edge.unwrap_or(0), una);
            self.slices.clear();
        } else if gap.flight.before >= 2 * smss {
            for slice in slices.iter().filter(|slice| slice.cause.is_some_and(may_be_a_reader)) {
                self.add(slice);
            }
        }
    }

    fn add(&mut self, slice: &Slice) {
        if slice.cause == Some(Cause::SendBuffer) {
            // A ceiling also takes the time that was attributed to an opening window.
            for earlier in self.slices.iter_mut().filter(|it| it.cause == Some(Cause::SlowStart)) {
                (earlier.owner, earlier.cause) = (slice.owner, slice.cause);
            }
        }
        match self.slices.iter_mut().find(|earlier| earlier.cause == slice.cause) {
            Some(earlier) => earlier.ns += slice.ns,
            None => self.slices.push(*slice),
        }
    }

    /// Removes and returns the slices that were kept. They belong to the reader, since the window
    /// has closed.
    pub fn take(&mut self) -> Vec<Slice> {
        std::mem::take(&mut self.slices)
    }
}

/// Returns whether gaps may seem to have `cause` while the receiver delays its ACKs. (RFC 9293
/// §3.8.6.3 asks for an immediate ACK of every second full segment; Linux sends it as long as the
/// application reads.) A sender that sends new data as a probe meanwhile (RFC 8985 §7.3) seems to
/// have been busy.
fn may_be_a_reader(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::SendBuffer
            | Cause::DelayedAck
            | Cause::ReceiveWindow
            | Cause::SlowStart
            | Cause::ServerThink
            | Cause::ClientThink
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Owner;
    use crate::tcp::sequence::ORIGIN;

    const SMSS: u64 = 1_000;

    /// Notes a gap of 5 ns owned by `cause` while the window is offered up to `edge`.
    fn note(unread: &mut Unread, edge: u64, owner: Owner, cause: Cause) {
        let mut space = SendSpace::default();
        space.position(0);
        space.offer(ORIGIN + edge);
        let mut gap = Gap { turn: Turn::Continues, ..Gap::default() };
        gap.flight.before = 2 * SMSS;
        let mut slices = Slices::new(5);
        slices.take(Slice::of(owner, cause, 5));
        unread.note(&gap, &slices, &space, SMSS);
    }

    #[test]
    fn waits_are_the_readers_while_the_edge_of_the_window_stands_still() {
        let mut unread = Unread::default();
        note(&mut unread, 50_000, Owner::CongestionWindow, Cause::SlowStart);
        note(&mut unread, 50_000 + 2 * SMSS, Owner::CongestionWindow, Cause::SlowStart);
        note(&mut unread, 50_000, Owner::CongestionWindow, Cause::SlowStart);
        let taken = unread.take();
        assert_eq!(taken.iter().map(|slice| slice.ns).collect::<Vec<_>>(), [10]);
        assert!(unread.take().is_empty());
    }

    #[test]
    fn a_window_that_moves_shows_that_the_reader_reads() {
        let mut unread = Unread::default();
        for edge in [50_000, 50_000, 53_000] {
            note(&mut unread, edge, Owner::Server, Cause::ServerThink);
        }
        assert!(unread.take().is_empty());
    }

    #[test]
    fn a_full_buffer_takes_the_time_of_an_opening_window() {
        let mut unread = Unread::default();
        note(&mut unread, 50_000, Owner::CongestionWindow, Cause::SlowStart);
        note(&mut unread, 50_000, Owner::CongestionWindow, Cause::SlowStart);
        note(&mut unread, 50_000, Owner::SendBuffer, Cause::SendBuffer);
        let taken = unread.take();
        assert_eq!((taken.len(), taken[0].cause), (1, Some(Cause::SendBuffer)));
    }
}
