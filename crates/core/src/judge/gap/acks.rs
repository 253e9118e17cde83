//! ACKs that took effect at the sender in a gap.

use crate::capture::FrameId;
use crate::model::Sighting;

/// The last ACK in a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckTrigger {
    /// Frame of the ACK.
    pub frame: FrameId,
    /// Time at which the ACK passed the vantage, ns.
    pub seen_ns: u64,
    /// Earliest time at which a segment sent on the arrival of the ACK can pass the vantage, ns.
    pub effect_ns: u64,
    /// The ACK carried neither data nor a FIN.
    pub pure: bool,
    /// Payload of the ACK, bytes.
    pub payload_bytes: u32,
    /// The ACK acknowledged all data in flight.
    pub acked_all: bool,
    /// Delay of the ACK at the receiver after the last segment that it covers, ns; `None` if
    /// unknown.
    pub delay_ns: Option<u64>,
    /// The ACK moved the right edge of the window, or opened a closed window.
    pub opened_window: bool,
    /// Timestamp that segments sent after its arrival echo, or a later one; 0 if they may echo an earlier
    /// one.
    pub tsval: u32,
}

impl AckTrigger {
    /// Returns whether a segment that echoes `tsecr` shows that the ACK had arrived: it echoes the ACK or a
    /// later one, on a clock that wraps (RFC 7323 §5.2).
    pub fn is_echoed_by(&self, tsecr: u32) -> bool {
        self.tsval != 0 && tsecr.wrapping_sub(self.tsval) as i32 >= 0
    }
}

/// The ACK of a small segment behind which more had been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallAck {
    /// The ACK.
    pub ack: Sighting,
    /// Position of the end of the small segment.
    pub end: u64,
}

/// ACKs that took effect in a gap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acks {
    /// The last ACK that moved SND.UNA or the right edge of the window, if there was one.
    pub last: Option<AckTrigger>,
    /// The one that acknowledged the last small segment, if more had been sent behind that.
    pub of_small: Option<SmallAck>,
    /// Number of ACKs that moved SND.UNA or the right edge of the window.
    pub count: u32,
    /// Time at which the first of these ACKs took effect, ns.
    pub first_effect_ns: Option<u64>,
    /// Time for which the peer's last packet was longer on its way to the vantage than its fastest one, as
    /// its timestamp shows, ns.
    pub queued_ns: u64,
    /// The departure that ended the gap echoes an earlier timestamp than that of the last ACK, so that it
    /// left before the ACK arrived (RFC 7323 §4.3).
    pub unheard: bool,
    /// Longest time from the arrival of the last ACK to the departure that ended the gap, ns, if its echo
    /// shows that: it echoes the last ACK, and had left before the next one arrived.
    pub left_within_ns: Option<u64>,
    /// An ACK that passed the vantage in the gap was lost on its way to the sender.
    pub lost: bool,
    /// The ACK of all data in flight that passed the vantage at least half a round trip before the end of
    /// the gap, if by the least round trip so far it had not arrived.
    pub under_way: Option<Sighting>,
    /// More full segments are unacknowledged than a receiver leaves so (RFC 9293 §3.8.6.3), and no ACK
    /// without data is in the capture of the connection.
    pub uncaptured: bool,
}

impl Acks {
    /// Returns whether the last ACK acknowledged all data in flight.
    pub fn cover_all(&self) -> bool {
        self.last.is_some_and(|ack| ack.acked_all)
    }

    /// Delay of the last ACK at the receiver, ns; 0 without an ACK or if it is unknown.
    pub fn delay_ns(&self) -> u64 {
        self.last.and_then(|ack| ack.delay_ns).unwrap_or(0)
    }

    /// Time from the effect of the last ACK to `end_ns`, within a gap that began at `start_ns`, ns, but no
    /// more than the echo permits; the whole length without an ACK.
    pub fn since_last_ns(&self, (start_ns, end_ns): (u64, u64)) -> u64 {
        let last_ns = self.last.map_or(start_ns, |ack| ack.effect_ns.max(start_ns));
        end_ns.saturating_sub(last_ns).min(self.left_within_ns.unwrap_or(u64::MAX))
    }

    /// Time from the effect of the first ACK to `end_ns`, within a gap that began at `start_ns`,
    /// ns; `end_ns` without an ACK.
    pub fn since_first_ns(&self, (start_ns, end_ns): (u64, u64)) -> u64 {
        end_ns.saturating_sub(self.first_effect_ns.map_or(0, |ns| ns.max(start_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_from_the_effect_of_an_ack_and_not_before_the_gap() {
        let at = |effect_ns| Acks {
            last: Some(AckTrigger { effect_ns, ..AckTrigger::default() }),
            first_effect_ns: Some(effect_ns),
            ..Acks::default()
        };
        assert_eq!(at(30).since_last_ns((10, 50)), 20);
        assert_eq!(at(5).since_last_ns((10, 50)), 40, "it took effect before the gap");
        assert_eq!(at(5).since_first_ns((10, 50)), 40);
        assert_eq!(at(60).since_last_ns((10, 50)), 0, "its sender may be nearer than estimated");
        assert_eq!(Acks::default().since_last_ns((10, 50)), 40);
    }

    #[test]
    fn a_delay_that_is_unknown_counts_for_nothing() {
        let delayed = |delay_ns| {
            let last = Some(AckTrigger { delay_ns, ..AckTrigger::default() });
            Acks { last, ..Acks::default() }.delay_ns()
        };
        assert_eq!([delayed(None), delayed(Some(40)), Acks::default().delay_ns()], [0, 40, 0]);
    }
}
