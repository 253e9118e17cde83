//! A captured frame as the analysis refers to it.

use crate::capture::FrameId;
use crate::wire::{Segment, Side};

/// A frame as captured at the vantage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Sighting {
    /// The frame.
    pub frame: FrameId,
    /// Capture time, ns.
    pub time_ns: u64,
    /// TCP or UDP payload of the frame, bytes.
    pub payload_bytes: u32,
    /// Side that sent the frame.
    pub from: Side,
}

impl Sighting {
    /// Returns the sighting of `segment`, sent by `from`.
    pub fn of(from: Side, segment: &Segment) -> Self {
        let Segment { frame, time_ns, payload_len: payload_bytes, .. } = *segment;
        Self { frame, time_ns, payload_bytes, from }
    }

    /// Returns `None` for the default value, since frame numbers begin at one.
    pub fn known(self) -> Option<Self> {
        (self.frame != FrameId::default()).then_some(self)
    }

    /// Sets this sighting to `here` unless it is already set.
    pub fn get_or_insert(&mut self, here: Self) {
        if self.known().is_none() {
            *self = here;
        }
    }
}
