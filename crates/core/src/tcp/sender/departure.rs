//! The last data that a sender sent.

use crate::capture::FrameId;

/// Enough for the segments of one flight on any link, in 16 bits.
const APART_UNIT_NS: u64 = 4_000;

/// The last departure, and what the sender learned since.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departure {
    /// When it passed the vantage, ns.
    pub time_ns: u64,
    /// Its frame.
    pub frame: FrameId,
    /// Payload bytes.
    pub len: u32,
    /// Its last segment was below the SMSS.
    pub small: bool,
    /// It emptied the sender's buffer, by its PSH flag (RFC 9293 §3.9.1.2, MUST-61), or FIN.
    pub pushed: bool,
    /// How long after the departure before it passed, of the same flight, in [`APART_UNIT_NS`]; 0
    /// where it began a flight.
    pub(super) apart: u16,
}

impl Departure {
    /// How long after the departure before it passed, of the same flight, ns; 0 where it began one.
    pub fn apart_ns(&self) -> u64 {
        u64::from(self.apart) * APART_UNIT_NS
    }

    /// The time to `time_ns`, as it is kept.
    pub(super) fn until(&self, time_ns: u64) -> u16 {
        let units = time_ns.saturating_sub(self.time_ns) / APART_UNIT_NS;
        u16::try_from(units).unwrap_or(u16::MAX)
    }
}
