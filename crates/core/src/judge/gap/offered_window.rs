//! The window that the receiver offers in a gap (RFC 9293 §3.8.6).

use crate::model::Sighting;

/// Probes of a closed window (RFC 9293 §3.8.6.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowProbes {
    /// Number of probes.
    pub sent: u32,
    /// Number of these answered without opening the window.
    pub answered: u32,
    /// The first of them.
    pub first: Option<Sighting>,
}

/// The offered window in a gap, as the sender knew it.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfferedWindow {
    /// Size of the window just before the last ACK, bytes; `None` if the scale is unknown.
    pub bytes: Option<u64>,
    /// Room in the window just before that ACK, bytes; `None` if the scale is unknown.
    pub room: Option<i64>,
    /// A window of about that size has limited the sender before.
    pub limited_before: bool,
    /// The receiver scales its windows, and the sender reads them unscaled.
    pub misread: bool,
    /// Time of the gap for which the receiver offered (almost) no window, as its own ACKs show, ns.
    pub closed_ns: u64,
    /// The ACK that closed the window, if it was closed.
    pub closed_by: Option<Sighting>,
    /// The ACK that closed the window left room for a part of a segment, with which a sender waits for
    /// more (RFC 9293 §3.8.6.2.1).
    pub is_narrow: bool,
    /// Window probes in the gap.
    pub probes: WindowProbes,
}

impl OfferedWindow {
    /// Returns whether the window is known to have had room for `bytes`.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.room.is_some_and(|room| room >= bytes as i64)
    }

    /// Returns whether the window had room for `bytes`, or may have had room because its scale is
    /// unknown.
    pub fn may_have_room_for(&self, bytes: u64) -> bool {
        self.room.is_none_or(|room| room >= bytes as i64)
    }

    /// Returns whether the window had room for the data that ended the gap, which began with
    /// `segment` bytes. A closed window has room for nothing, not even for a FIN.
    pub fn was_open(&self, segment: u64) -> bool {
        self.has_room_for(segment.max(1))
    }

    /// Returns whether the window had no room for the next `segment` (RFC 9293 §3.8.6.2.1).
    pub fn limits(&self, segment: u64) -> bool {
        self.room.is_some_and(|room| room < segment as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_room(room: Option<i64>) -> OfferedWindow {
        OfferedWindow { room, ..OfferedWindow::default() }
    }

    #[test]
    fn a_window_of_unknown_scale_neither_limits_nor_is_known_to_be_open() {
        let unknown = with_room(None);
        assert!(!unknown.limits(1_460) && !unknown.was_open(1_460));
        assert!(unknown.may_have_room_for(1_460) && !unknown.has_room_for(1_460));
    }

    #[test]
    fn a_window_limits_what_does_not_fit() {
        assert!(with_room(Some(1_459)).limits(1_460) && !with_room(Some(1_460)).limits(1_460));
        assert!(with_room(Some(-10)).limits(1), "the receiver took back what it had offered");
    }

    #[test]
    fn a_closed_window_is_not_open_for_a_fin() {
        assert!(!with_room(Some(0)).was_open(0) && with_room(Some(1)).was_open(0));
    }
}
