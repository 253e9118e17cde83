//! Waits for a receiver whose application does not read: the receiver first delays its ACKs, then
//! closes the window.

use crate::judge::thresholds::ALIKE_PART;
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Slice, Slices};
use crate::tcp::sender::Sender;
use crate::tcp::sender::bulk::Bulk;

impl Sender {
    /// Keeps the slices of gaps while the right edge of the window does not move. Until it moves,
    /// the receiving application may have read nothing.
    pub fn note_unread(&mut self, gap: &Gap, slices: &Slices) {
        if self.bulk.is_none() {
            return;
        }
        let (edge, una, smss) = (self.space.right_edge(), self.space.una(), self.smss());
        let Some(bulk) = &mut self.bulk else { return };
        // The edge moves a little even if nothing is read: windows are offered in units (RFC 7323
        // §2.2), and a kernel that merges segments finds room for more.
        let (edge_then, una_then) = bulk.unread_since;
        let little = (una - una_then) / ALIKE_PART + 2 * smss;
        let moved = edge.is_none_or(|edge| edge > edge_then + little);
        if moved || gap.turn == Turn::Answers || gap.repair.is_retransmission() {
            bulk.unread_since = (edge.unwrap_or(0), una);
            bulk.unread.clear();
        } else if gap.flight.before >= 2 * smss {
            for slice in slices.iter().filter(|slice| slice.cause.is_some_and(may_be_a_reader)) {
                bulk.add_unread(slice);
            }
        }
    }

    /// Removes and returns the slices that were kept. They belong to the reader, since the window
    /// has closed.
    pub fn take_unread(&mut self) -> Vec<Slice> {
        self.bulk.as_mut().map(|bulk| std::mem::take(&mut bulk.unread)).unwrap_or_default()
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
            | Cause::ReceiveWindow
            | Cause::SlowStart
            | Cause::ServerThink
            | Cause::ClientThink
    )
}

impl Bulk {
    fn add_unread(&mut self, slice: &Slice) {
        if slice.cause == Some(Cause::SendBuffer) {
            // A ceiling also takes the time that was attributed to an opening window.
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
