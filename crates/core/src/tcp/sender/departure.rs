//! The last data segment of a sender.

use crate::capture::FrameId;
use crate::model::Sighting;
use crate::wire::Side;

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
    /// Frame of this departure, which `from` sent.
    pub fn sighting(&self, from: Side) -> Sighting {
        let Self { frame, time_ns, len: payload_bytes, .. } = *self;
        Sighting { frame, time_ns, payload_bytes, from }
    }

    /// Delay of its ACK, which passed at `acked_ns`, beyond the round trip to the receiver, ns.
    pub fn ack_delay_ns(&self, acked_ns: u64, rtt_receiver_ns: u64) -> u64 {
        acked_ns.saturating_sub(self.time_ns + rtt_receiver_ns)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_beyond_the_longest_that_fits_are_cut() {
        let last = Departure { time_ns: 1_000, ..Departure::default() };
        let apart_ns = |time_ns| Departure { apart: last.until(time_ns), ..last }.apart_ns();
        assert_eq!([500, 4_999, 5_000].map(apart_ns), [0, 0, 4_000]);
        assert_eq!(apart_ns(u64::MAX), u64::from(u16::MAX) * 4_000);
    }
}
