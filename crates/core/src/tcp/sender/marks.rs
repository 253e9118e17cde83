//! What is known of a direction by yes or no.

/// One bit each: there are two of these for every open connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks(u8);

impl Marks {
    /// Stream positions have an origin.
    pub const STARTED: u8 = 1;
    /// A window was offered whose size is known: the right edge is set.
    pub const HAS_WINDOW: u8 = 1 << 1;
    /// FIN was sent: its position is set.
    pub const FINISHED: u8 = 1 << 2;
    /// It has waited for the ACKs of full segments one or two at a time.
    pub const STEPS: u8 = 1 << 3;
    /// What it sent has been acknowledged by a packet that had nothing else to say: when such an ACK
    /// comes is up to the path and the receiver's kernel, and no application.
    pub const ACKED_ALONE: u8 = 1 << 4;
    /// A message of it ended without PSH.
    pub const UNPUSHED_END: u8 = 1 << 5;
    /// A full segment that carried PSH was followed by more at once: Linux sets it in every burst
    /// that its card cuts up.
    pub const PUSHES_EARLY: u8 = 1 << 6;
    /// What it sent echoed the timestamp of an ACK that had come to it, or a later one.
    pub const ECHOES: u8 = 1 << 7;

    #[inline]
    pub fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    /// Sets it, for good, where `holds`.
    #[inline]
    pub fn note(&mut self, mark: u8, holds: bool) {
        self.0 |= if holds { mark } else { 0 };
    }

    pub fn take_back(&mut self, mark: u8) {
        self.0 &= !mark;
    }
}
