//! Where the trace is not what was sent: headers and data cut short, segments put together, a clock that
//! was set; and what routers marked.

use super::*;
use crate::capture::LATEST_NS;

impl Connection {
    /// What few packets have: cut headers, marks of congestion.
    #[cold]
    pub(super) fn note_facts(&mut self, side: Side, segment: &Segment) {
        if segment.facts.has(SegmentFlags::TRUNCATED_HEADER) {
            self.faults_mut().cut_headers += 1;
        }
        let [own, peer] = [side, side.peer()].map(|side| side as usize);
        if segment.facts.has(SegmentFlags::ECN_CE) {
            self.halves[own].trouble_mut().ecn_marked += 1;
        }
        // On a SYN it says that marks are understood (RFC 3168 §6.1.1).
        if segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::SYN) {
            self.halves[peer].trouble_mut().ecn_echoed += 1;
        }
        // A sender that was told of a mark answers as to a loss, and says so once (RFC 3168 §6.1.2).
        if segment.flags.has(TcpFlags::CWR) && !segment.flags.has(TcpFlags::SYN) {
            self.halves[own].reduce_window();
        }
    }

    pub(super) fn stepped_ns(&self) -> u64 {
        self.rare(|rare| &rare.faults).map_or(0, |faults| faults.stepped_ns)
    }

    /// The segment by a clock that does not go backward. After a step of the capture's clock
    /// durations are right again; that across the step is lost.
    pub(super) fn by_forward_clock(&mut self, segment: &Segment) -> Segment {
        let time_ns = segment.time_ns.saturating_add(self.stepped_ns()).min(LATEST_NS);
        let back_ns = self.last.time_ns.saturating_sub(time_ns);
        if back_ns >= STEP_NS {
            let faults = self.faults_mut();
            faults.stepped_ns = faults.stepped_ns.saturating_add(back_ns);
            self.halves.iter_mut().for_each(Half::clock_stepped);
        }
        Segment { time_ns: time_ns.max(self.last.time_ns), ..*segment }
    }

    /// Of data that was cut short, or put together, it is noted.
    pub(super) fn note_limits(&mut self, side: Side, segment: &Segment) {
        let truncated = segment.captured_len < segment.payload_len;
        let longer = u64::from(segment.payload_len) > self.halves[side as usize].captured_max();
        if truncated || longer {
            let faults = self.faults_mut();
            faults.truncated += u64::from(truncated);
            faults.super_packets += u64::from(longer);
        }
    }
}
