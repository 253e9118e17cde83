//! Fast path of an ACK that only acknowledges, to a sender without any loss or other fault before.
//! Its effects are those of [`Sender::acked`], but no other case is considered.

use crate::tcp::acks::{Ack, Offer};
use crate::tcp::sender::Sender;
use crate::tcp::sender::marks::Marks;
use crate::wire::{Segment, TcpFlags};

impl Sender {
    /// Processes such an ACK. Returns the position that it acknowledges and its round-trip sample,
    /// ns; `None` if it is another kind of ACK, and then nothing has changed.
    #[inline]
    pub fn acked_plainly(&mut self, segment: &Segment, tsval: u32) -> Option<(u64, Option<u64>)> {
        let (nxt, una_seen) = (self.nxt, self.una_seen());
        let una = self.sequence.position(segment.ack, nxt);
        let pure = segment.payload_len == 0;
        let finished = self.marks.has(Marks::FINISHED);
        // A FIN takes one position without data.
        let of_fin = finished && una == nxt + 1 && self.fin == nxt as u32;
        let repeats = una == una_seen && pure && nxt > una;
        if una < una_seen || una > nxt && !of_fin || repeats {
            return None;
        }
        let (longest, _) = self.sent.arrived(una);
        self.sizes.acknowledge(longest);
        let ack = Ack {
            seen_ns: segment.time_ns,
            frame: segment.frame,
            una,
            offer: Offer::of(una, segment.window, self.window_scale),
            payload_bytes: segment.payload_len,
            duplicate: false,
            paced: false,
            tsval,
        };
        let again = una == una_seen || finished;
        if !(again && self.changes_nothing(&ack)) {
            self.pending.push(&ack);
        }
        self.acked_window = segment.window;
        if una == una_seen {
            return Some((una, None));
        }
        let alone = pure && !segment.flags.has(TcpFlags::FIN);
        self.marks.note(Marks::ACKED_ALONE, alone && self.unique_bytes > 0);
        Some((una, self.advance_una_seen(segment.time_ns, una, self.shows_arrival(alone))))
    }
}
