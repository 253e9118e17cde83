//! Round trips from echoed timestamps (RFC 7323 §4.1), on a connection whose handshake was not
//! captured.

use crate::judge::thresholds::{DELAYED_ACK_MIN_NS, RTO_INITIAL_NS};
use crate::tcp::connection::cold::Cold;
use crate::tcp::connection::is_pure_ack;
use crate::tcp::path::Path;
use crate::wire::{Segment, Side};

/// Segment that carries timestamps, by how soon it follows the segment whose timestamp it echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimestampCarrier {
    /// An ACK without data, which is sent at once unless it is delayed.
    PureAck,
    /// Data of a message that its sender had begun before.
    Continuation,
    /// Any other segment: it may have waited for the application.
    Other,
}

impl TimestampCarrier {
    /// Returns what kind of segment carries the timestamps of `segment`. Its sender has begun a message
    /// if it `is_active`.
    #[inline]
    pub fn of(segment: &Segment, is_active: bool) -> Self {
        if is_pure_ack(segment) {
            Self::PureAck
        } else if segment.payload_len > 0 && is_active {
            Self::Continuation
        } else {
            Self::Other
        }
    }
}

/// A timestamp of one side that is to be echoed.
#[derive(Clone, Copy, Debug, Default)]
struct Echo {
    tsval: u32,
    /// Time at which the segment with it passed, ns.
    time_ns: u64,
    /// The peer has not yet echoed it.
    awaited: bool,
    /// The newest timestamp of the side and the time at which it first passed, ns. The time is 0 if
    /// it may have passed before the capture began, or has been echoed.
    newest: (u32, u64),
}

/// Timestamps to be echoed, indexed by side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echoes([Echo; 2]);

impl Echoes {
    /// Processes the timestamps of `segment`, which `side` sends. Returns the time since the timestamp
    /// that it echoes passed, ns, if that is known.
    fn take(&mut self, side: Side, segment: &Segment) -> Option<u64> {
        let sent = &mut self.0[side.peer()];
        let reached = sent.awaited && segment.tsecr.wrapping_sub(sent.tsval) as i32 >= 0;
        let rtt_ns = segment.time_ns.saturating_sub(sent.time_ns);
        let is_same = reached && sent.tsval == segment.tsecr;
        if reached {
            sent.awaited = false;
        }
        // A newer timestamp was echoed, which gives a better sample.
        let (newest, newest_ns) = sent.newest;
        let is_newest = !is_same && newest_ns > 0 && newest == segment.tsecr;
        let rtt_ns = if is_newest { segment.time_ns.saturating_sub(newest_ns) } else { rtt_ns };
        if is_newest {
            sent.newest.1 = 0;
        }
        self.0[side].note(segment);
        (is_same || is_newest).then_some(rtt_ns)
    }

    /// Exchanges the sides.
    pub fn swap(&mut self) {
        self.0.swap(0, 1);
    }
}

impl Echo {
    /// Records the timestamp of `segment`. Only one timestamp is timed at a time, since the clock of a
    /// stream advances before its echo is back. A timestamp that is not newer than the last one echoed
    /// may have been echoed before this segment was sent: some clocks tick twice a second.
    fn note(&mut self, segment: &Segment) {
        let newer = self.time_ns == 0 || segment.tsval.wrapping_sub(self.tsval) as i32 > 0;
        let is_first = self.time_ns == 0;
        if !self.awaited && newer {
            (self.tsval, self.time_ns, self.awaited) = (segment.tsval, segment.time_ns, true);
        }
        if is_first || segment.tsval.wrapping_sub(self.newest.0) as i32 > 0 {
            self.newest = (segment.tsval, if is_first { 0 } else { segment.time_ns });
        }
    }
}

/// Processes the timestamps of `segment`, which `side` sends, on a connection whose handshake was
/// not captured: an echoed timestamp bounds the round trip to the side that echoes it. A pure ACK is
/// sent at once unless it was delayed. Data that continues a message answers an ACK at once only if
/// much is in flight (`clocked`).
pub(super) fn take_timestamps(
    cold: &mut Cold,
    path: &mut Path,
    (side, segment): (Side, &Segment),
    carrier: TimestampCarrier,
    clocked: bool,
) {
    let rtt_ns = cold.echoes_mut().take(side, segment);
    let is_timed = |rtt_ns: &u64| *rtt_ns <= RTO_INITIAL_NS && cold.is_timed(segment, *rtt_ns);
    let carried = rtt_ns.filter(|_| carrier != TimestampCarrier::Other);
    if let Some(rtt_ns) = carried.filter(is_timed) {
        let is_pure = carrier == TimestampCarrier::PureAck;
        let is_exact = if is_pure { rtt_ns < DELAYED_ACK_MIN_NS } else { clocked };
        path.sample_without_handshake(side, rtt_ns, is_exact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(time_ns: u64, tsval: u32, tsecr: u32) -> Segment {
        Segment { time_ns, tsval, tsecr, ..Segment::default() }
    }

    #[test]
    fn an_echo_times_the_timestamp_that_it_answers() {
        let mut echoes = Echoes::default();
        assert_eq!(echoes.take(Side::Client, &stamped(10, 7, 0)), None);
        assert_eq!(echoes.take(Side::Server, &stamped(25, 3, 7)), Some(15));
        assert_eq!(echoes.take(Side::Server, &stamped(90, 4, 7)), None, "only the first echo does");
    }

    #[test]
    fn the_echo_of_a_newer_timestamp_is_timed_by_that() {
        let mut echoes = Echoes::default();
        echoes.take(Side::Client, &stamped(10, 7, 0));
        echoes.take(Side::Client, &stamped(20, 8, 0));
        assert_eq!(echoes.take(Side::Server, &stamped(25, 3, 8)), Some(5));
    }

    #[test]
    fn a_timestamp_that_may_be_older_than_the_capture_is_not_timed() {
        let mut echoes = Echoes::default();
        echoes.take(Side::Client, &stamped(10, 7, 0));
        echoes.take(Side::Server, &stamped(25, 3, 7));
        echoes.take(Side::Client, &stamped(30, 7, 3));
        assert_eq!(echoes.take(Side::Server, &stamped(45, 4, 7)), None);
    }
}
