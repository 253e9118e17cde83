//! Boolean properties of a direction.

/// Set of properties, one bit each, because every open connection has two such sets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks(u8);

impl Marks {
    /// The origin of the stream positions is known.
    pub const STARTED: u8 = 1;
    /// A window of known size was offered: the right edge is set.
    pub const HAS_WINDOW: u8 = 1 << 1;
    /// A FIN was sent: its position is set.
    pub const FINISHED: u8 = 1 << 2;
    /// The sender has waited for the ACKs of full segments one or two at a time.
    pub const WAITS_PER_SEGMENT: u8 = 1 << 3;
    /// A pure ACK acknowledged its data: the time of such an ACK depends on the path and the
    /// receiver's kernel, and on no application.
    pub const ACKED_ALONE: u8 = 1 << 4;
    /// A message of the sender ended without PSH.
    pub const UNPUSHED_END: u8 = 1 << 5;
    /// A full segment with PSH was directly followed by more data: Linux sets PSH in every burst
    /// that the network card splits (TSO).
    pub const PUSHES_EARLY: u8 = 1 << 6;
    /// The segments of the sender echoed the timestamp of an ACK that had arrived, or a later one.
    pub const ECHOES: u8 = 1 << 7;

    #[inline]
    pub fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    /// Sets the bit permanently if `holds`.
    #[inline]
    pub fn note(&mut self, mark: u8, holds: bool) {
        self.0 |= if holds { mark } else { 0 };
    }

    pub fn clear(&mut self, mark: u8) {
        self.0 &= !mark;
    }
}
