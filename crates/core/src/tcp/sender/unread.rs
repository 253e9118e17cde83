//! Waits for a receiver whose application reads nothing: first it keeps back its ACKs, then it
//! closes the window.

use super::*;
use crate::cause::{Cause, Slice, Slices};
use crate::tcp::gap::{Gap, Turn};

impl Sender {
    /// Keeps what a silence was put down to while the window's right edge stands still: until it
    /// moves, the receiving application may have read nothing.
    pub fn note_unread(&mut self, gap: &Gap, slices: &Slices) {
        if self.bulk.is_none() {
            return;
        }
        let (edge, una, smss) = (self.right_edge(), self.una(), self.smss());
        let Some(bulk) = &mut self.bulk else { return };
        // A little it moves though nobody reads: windows are offered in units (RFC 7323 §2.2), and
        // a kernel that packs segments together finds room for more.
        let (edge_then, una_then) = bulk.unread_since;
        let little = (una - una_then) / 8 + 2 * smss;
        let moved = edge.is_none_or(|edge| edge > edge_then + little);
        if moved || gap.turn == Turn::Answers || gap.retransmission.is_some() {
            bulk.unread_since = (edge.unwrap_or(0), una);
            bulk.unread.clear();
        } else if gap.flight_before >= 2 * smss {
            for slice in slices.iter().filter(|slice| slice.cause.is_some_and(may_be_a_reader)) {
                bulk.add_unread(slice);
            }
        }
    }

    /// The window has closed: what was kept is that reader's doing.
    pub fn take_unread(&mut self) -> Vec<Slice> {
        self.bulk.as_mut().map(|bulk| std::mem::take(&mut bulk.unread)).unwrap_or_default()
    }
}

/// What a sender seems to be held up by whose receiver keeps back its ACKs (RFC 9293 §3.8.6.3 has
/// every second full segment acknowledged at once; Linux does so as long as somebody reads). One
/// that sends a probe of new data meanwhile (RFC 8985 §7.3) seems to have been busy.
fn may_be_a_reader(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::SendBuffer
            | Cause::ReceiveWindow
            | Cause::SlowStart
            | Cause::ServerThink
            | Cause::ClientThink
    )
}

impl Bulk {
    fn add_unread(&mut self, slice: &Slice) {
        if slice.cause == Some(Cause::SendBuffer) {
            // A ceiling takes over what was put down to a window that opens.
            for earlier in self.unread.iter_mut().filter(|it| it.cause == Some(Cause::SlowStart)) {
                (earlier.owner, earlier.cause) = (slice.owner, slice.cause);
            }
        }
        match self.unread.iter_mut().find(|earlier| earlier.cause == slice.cause) {
            Some(earlier) => earlier.ns += slice.ns,
            None => self.unread.push(*slice),
        }
    }
}
