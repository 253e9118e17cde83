//! The last data segment of a sender.

use crate::capture::FrameId;

/// Unit of `apart`, ns, in which any distance within a flight fits into 16 bits.
const APART_UNIT_NS: u64 = 4_000;

/// The last data segment that a sender sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departure {
    /// Time at which it passed the vantage, ns.
    pub time_ns: u64,
    /// Frame of the segment.
    pub frame: FrameId,
    /// Length of the payload, bytes.
    pub len: u32,
    /// The segment, or the last one if the frame joins several, was below the SMSS.
    pub small: bool,
    /// The segment emptied the sender's buffer, as its PSH flag (RFC 9293 §3.9.1.2, MUST-61) or FIN
    /// shows.
    pub pushed: bool,
    /// Time since the previous departure of the same flight, in [`APART_UNIT_NS`]; 0 if it began a
    /// flight.
    pub(super) apart: u16,
}

impl Departure {
    /// Time since the previous departure of the same flight, ns; 0 if this one began a flight.
    pub fn apart_ns(&self) -> u64 {
        u64::from(self.apart) * APART_UNIT_NS
    }

    /// Time from this departure to `time_ns`, in [`APART_UNIT_NS`].
    pub(super) fn until(&self, time_ns: u64) -> u16 {
        let units = time_ns.saturating_sub(self.time_ns) / APART_UNIT_NS;
        u16::try_from(units).unwrap_or(u16::MAX)
    }
}
