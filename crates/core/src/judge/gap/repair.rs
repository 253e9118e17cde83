//! The end of a gap by a retransmission or a late packet.

use crate::model::Sighting;

/// The trigger of a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// A timer triggered it: the RTO (RFC 6298) or the tail loss probe (RFC 8985 §7).
    Timer,
    /// Duplicate ACKs, SACK or RACK triggered it (RFC 5681 §3.2, RFC 8985).
    Fast,
}

/// The departure that ended a gap, if it was not new data in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repair {
    /// Trigger, if the departure is a retransmission. Its original was seen or was lost before the
    /// vantage.
    pub trigger: Option<Recovery>,
    /// If the departure is a retransmission: the frame that it repeats, if that was seen.
    pub original: Option<Sighting>,
    /// The departure is a retransmission of data that had never passed the vantage.
    pub unseen: bool,
    /// If the departure is a retransmission: no later data had been sent.
    pub tail: bool,
    /// If the departure is a retransmission: its sender, at the vantage, has not taken in the answer
    /// that acknowledges the original, though that had passed the vantage.
    pub deaf: bool,
    /// Later packets overtook the departure.
    pub overtaken: bool,
    /// Time since the first packet that overtook the departure passed, ns.
    pub late_ns: u64,
}

impl Repair {
    /// Returns whether a retransmission ended the gap.
    pub fn is_retransmission(&self) -> bool {
        self.trigger.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_was_overtaken_is_no_retransmission() {
        let late = Repair { overtaken: true, late_ns: 5, ..Repair::default() };
        assert!(!late.is_retransmission());
        let again = Repair { trigger: Some(Recovery::Fast), ..Repair::default() };
        assert!(again.is_retransmission());
    }
}
