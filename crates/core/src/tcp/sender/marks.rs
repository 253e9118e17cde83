//! Boolean properties of a direction.

/// One bit each, because every open connection has two of these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks(u8);

impl Marks {
    /// The stream has an origin for its positions.
    pub const STARTED: u8 = 1;
    /// A window of known size was offered: the right edge is set.
    pub const HAS_WINDOW: u8 = 1 << 1;
    /// A FIN was sent: its position is set.
    pub const FINISHED: u8 = 1 << 2;
    /// The sender has waited for the ACKs of full segments one or two at a time.
    pub const STEPS: u8 = 1 << 3;
    /// Its data was acknowledged by a pure ACK: the time of such an ACK depends on the path and
    /// the receiver's kernel, and on no application.
    pub const ACKED_ALONE: u8 = 1 << 4;
    /// One of its messages ended without PSH.
    pub const UNPUSHED_END: u8 = 1 << 5;
    /// A full segment with PSH was directly followed by more: Linux sets it in every burst that
    /// the network card splits (TSO).
    pub const PUSHES_EARLY: u8 = 1 << 6;
    /// Its segments echoed the timestamp of an ACK that had arrived, or a later one.
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

    pub fn take_back(&mut self, mark: u8) {
        self.0 &= !mark;
    }
}
