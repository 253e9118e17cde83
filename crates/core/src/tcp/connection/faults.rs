//! Differences between the capture and what was sent: truncated headers and data, joined segments,
//! steps of the clock. Also congestion marks of routers.

use crate::capture::{LATEST_NS, STEP_NS};
use crate::model::Sighting;
use crate::tcp::connection::cold::Cold;
use crate::tcp::sender::Sender;
use crate::tcp::setup::Setup;
use crate::wire::{BySide, Segment, SegmentFlags, Side, TcpFlags};

/// Defects of the capture that concern one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureFaults {
    /// Frames captured twice.
    pub duplicates: u64,
    /// Bytes that were acknowledged and never seen.
    pub missing_bytes: u64,
    /// Segments whose payload was truncated by the snap length.
    pub truncated: u64,
    /// Segments whose header was truncated by the snap length.
    pub cut_headers: u64,
    /// Segments longer than the MSS: GRO or TSO super-packets.
    pub super_packets: u64,
    /// Number of times that data was acknowledged only by a data segment of its receiver, too late
    /// or for too much data at once: the ACK before it was sent and not captured.
    pub missing_acks: u64,
    /// The capture's clock was set.
    pub clock_set: bool,
    /// Value of [`SegmentFlags::CLOCK_SET`] of the last segment.
    pub clock_odd: bool,
    /// Time of the last step of the clock, ns; a segment passed at that time.
    pub clock_set_ns: u64,
    /// Time by which the capture's clock was set back and is still behind, ns.
    pub behind_ns: u64,
    /// Number of ACKs that are stamped before what they acknowledge.
    pub reversed: u64,
    /// Last time that was given to a segment instead of its own, which was earlier, ns.
    pub raised_ns: u64,
}

/// The time of a segment on a clock that never goes backward.
pub(super) struct Corrected {
    pub time_ns: u64,
    /// The defects of the capture with those that the segment shows.
    pub faults: CaptureFaults,
    /// An effect has passed before its cause, so that a stamp is wrong.
    pub is_reversed: bool,
    /// The capture's clock was set.
    pub is_set: bool,
}

impl CaptureFaults {
    /// Returns whether the clock was not set in the last `ns` before `segment`.
    pub(super) fn is_timed(&self, segment: &Segment, ns: u64) -> bool {
        segment.time_ns.saturating_sub(ns) > self.clock_set_ns || self.clock_set_ns == 0
    }

    /// Returns the time of `segment`, which passed after another one at `last_ns`. If `clock_odd`,
    /// the clock was set an odd number of times before it. After a step of the capture's clock
    /// durations are right again; the duration across the step is unknown. `is_reversed` returns
    /// whether a segment that is stamped before the one before it is an effect of that.
    pub(super) fn correct(
        mut self,
        segment: &Segment,
        last_ns: u64,
        clock_odd: bool,
        is_reversed: impl FnOnce() -> bool,
    ) -> Corrected {
        let before = self;
        // The clock is still behind, unless it was set forward again.
        let behind_ns = if segment.time_ns >= last_ns { 0 } else { before.behind_ns };
        let time_ns = segment.time_ns.saturating_add(behind_ns).min(LATEST_NS);
        let back_ns = last_ns.saturating_sub(time_ns);
        let is_reversed = back_ns > 0 && back_ns < STEP_NS && is_reversed();
        let steps = back_ns >= STEP_NS || is_reversed;
        let time_ns = time_ns.max(last_ns);
        if is_reversed {
            (self.reversed, self.raised_ns) = (before.reversed + 1, time_ns);
        } else if back_ns > 0 || before.raised_ns > 0 {
            self.raised_ns = if back_ns > 0 { time_ns } else { 0 };
        }
        let is_set = steps || behind_ns != before.behind_ns || clock_odd != before.clock_odd;
        if is_set {
            self.behind_ns = behind_ns.saturating_add(if steps { back_ns } else { 0 });
            (self.clock_set, self.clock_odd, self.clock_set_ns) = (true, clock_odd, time_ns);
        }
        Corrected { time_ns, faults: self, is_reversed, is_set }
    }
}

/// Returns whether `segment` of `side`, which is stamped earlier than the segment before it, `last`, is
/// the first to acknowledge that: an effect has passed before its cause, so that one of the two
/// stamps is wrong. Interfaces and processors of one host deliver frames late, with the right times,
/// but no ACK leaves before what it acknowledges. The stamp before must be that of its frame, and not
/// `raised_ns`.
pub(super) fn is_reversed(
    (side, segment): (Side, &Segment),
    last: &Sighting,
    raised_ns: u64,
    senders: &BySide<Sender>,
    setup: &Setup,
) -> bool {
    let (is_client, last_ns) = (side == Side::Client, last.time_ns);
    let peer = &senders[side.peer()];
    let syn_ns = if is_client { setup.syn_ack_first_ns() } else { setup.syn_first_ns() };
    let opens = segment.flags.has(TcpFlags::SYN) || is_client;
    let answers_syn = !setup.is_established() && opens && syn_ns == Some(last_ns);
    let answers_data = peer.last.time_ns == last_ns && peer.space.is_first_acked_by(segment);
    segment.flags.has(TcpFlags::ACK) && last_ns != raised_ns && (answers_syn || answers_data)
}

/// Counts a segment of `sender` whose data was truncated, or that consists of joined segments.
pub(super) fn note_size(cold: &mut Cold, sender: &Sender, segment: &Segment) {
    let truncated = segment.captured_len < segment.payload_len;
    let longer = u64::from(segment.payload_len) > sender.sizes.captured_max();
    if truncated || longer {
        let faults = cold.faults_mut();
        faults.truncated += u64::from(truncated);
        faults.super_packets += u64::from(longer);
    }
}

/// Records properties that few packets have: truncated headers and congestion marks. `is_ecn` is
/// `false` if the handshake shows that ECN is not in use.
#[cold]
pub(super) fn note_rare_properties(
    cold: &mut Cold,
    senders: &mut BySide<Sender>,
    (side, segment): (Side, &Segment),
    is_ecn: bool,
) {
    if segment.facts.has(SegmentFlags::TRUNCATED_HEADER) {
        cold.faults_mut().cut_headers += 1;
    }
    // A RST ends the connection, and echoes no mark (RFC 3168 §6.1).
    if !is_ecn || segment.flags.has(TcpFlags::RST) {
        return;
    }
    let [own, peer] = [side, side.peer()].map(|side| side as usize);
    if segment.facts.has(SegmentFlags::ECN_CE) {
        senders[own].history_mut().ecn.marked += 1;
    }
    // On a SYN the flag negotiates ECN (RFC 3168 §6.1.1).
    if segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::SYN) {
        senders[peer].history_mut().ecn.echoed += 1;
    }
    // A sender reacts to a mark as to a loss, and announces it once (RFC 3168 §6.1.2).
    if segment.flags.has(TcpFlags::CWR) && !segment.flags.has(TcpFlags::SYN) {
        senders[own].reduce_window();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn at(time_ns: u64) -> Segment {
        Segment { time_ns, ..Segment::default() }
    }

    #[test]
    fn a_late_frame_keeps_the_time_of_the_frame_before_it() {
        let late = CaptureFaults::default().correct(&at(5), 8, false, || false);
        assert_eq!((late.time_ns, late.is_set, late.faults.raised_ns), (8, false, 8));
        let next = late.faults.correct(&at(9), 8, false, || false);
        assert_eq!((next.time_ns, next.faults), (9, CaptureFaults::default()));
    }

    #[test]
    fn after_a_step_back_durations_are_right_again() {
        let last_ns = 100 * SECOND_NS;
        let stepped =
            CaptureFaults::default().correct(&at(40 * SECOND_NS), last_ns, false, || false);
        assert!(stepped.is_set && stepped.faults.clock_set);
        assert_eq!(stepped.time_ns, last_ns);
        let next = stepped.faults.correct(&at(41 * SECOND_NS), last_ns, false, || false);
        assert_eq!((next.time_ns, next.is_set), (last_ns + SECOND_NS, false));
        assert!(!next.faults.is_timed(&at(last_ns + SECOND_NS), 2 * SECOND_NS));
        assert!(next.faults.is_timed(&at(last_ns + SECOND_NS), SECOND_NS / 2));
    }

    #[test]
    fn an_effect_before_its_cause_is_a_wrong_stamp() {
        let reversed = CaptureFaults::default().correct(&at(5), 8, false, || true);
        assert_eq!((reversed.time_ns, reversed.faults.reversed), (8, 1));
        assert!(reversed.is_reversed && reversed.is_set);
    }
}
