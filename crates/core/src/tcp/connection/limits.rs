//! Where the trace is not what was sent: headers and data cut short, segments put together, a clock that
//! was set; and what routers marked.

use super::*;
use crate::capture::LATEST_NS;

/// A queue shorter than this may as well be in both directions, ns; a clock that is set by less costs little.
const STEP_TOLD_NS: u64 = 100_000_000;

/// By how much two clocks that tick in milliseconds may differ about the same step, ns.
const SAME_NS: u64 = 4_000_000;

/// An answer that has stood in queues, by its timestamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    sender: Side,
    frame: FrameId,
    /// What was put down to that.
    slice: Slice,
    /// How long, ns.
    queued_ns: u64,
}

impl Connection {
    /// What few packets have: cut headers, marks of congestion.
    #[cold]
    pub(super) fn note_facts(&mut self, side: Side, segment: &Segment) {
        if segment.facts.has(SegmentFlags::TRUNCATED_HEADER) {
            self.faults_mut().cut_headers += 1;
        }
        let [own, peer] = [side, side.peer()].map(|side| side as usize);
        if segment.facts.has(SegmentFlags::ECN_CE) {
            self.senders[own].trouble_mut().ecn_marked += 1;
        }
        // On a SYN it says that marks are understood (RFC 3168 §6.1.1).
        if segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::SYN) {
            self.senders[peer].trouble_mut().ecn_echoed += 1;
        }
        // A sender that was told of a mark answers as to a loss, and says so once (RFC 3168 §6.1.2).
        if segment.flags.has(TcpFlags::CWR) && !segment.flags.has(TcpFlags::SYN) {
            self.senders[own].reduce_window();
        }
    }

    /// Whether the capture's clock was set while the connection was open.
    pub(super) fn clock_was_set(&self) -> bool {
        self.cold(|cold| &cold.faults).is_some_and(|faults| faults.clock_set)
    }

    /// Whether no clock was set in the last `ns` before `segment`.
    pub(super) fn is_timed(&self, segment: &Segment, ns: u64) -> bool {
        let set_ns = self.cold(|cold| &cold.faults).map_or(0, |faults| faults.clock_set_ns);
        segment.time_ns.saturating_sub(ns) > set_ns || set_ns == 0
    }

    /// The segment by a clock that does not go backward, and that was set before it an odd number of times, or not.
    /// After a step of the capture's clock durations are right again; that across the step is unknown.
    #[cold]
    pub(super) fn by_forward_clock(&mut self, segment: &Segment, clock_odd: bool) -> Segment {
        let last_ns = self.last.time_ns;
        let was = self.cold(|cold| &cold.faults).copied().unwrap_or_default();
        // Unless it was set forward again.
        let behind_ns = if segment.time_ns >= last_ns { 0 } else { was.behind_ns };
        let time_ns = segment.time_ns.saturating_add(behind_ns).min(LATEST_NS);
        let back_ns = last_ns.saturating_sub(time_ns);
        let steps = back_ns >= STEP_NS;
        let time_ns = time_ns.max(last_ns);
        if steps || behind_ns != was.behind_ns || clock_odd != was.clock_odd {
            let faults = self.faults_mut();
            faults.behind_ns = behind_ns.saturating_add(if steps { back_ns } else { 0 });
            (faults.clock_set, faults.clock_odd, faults.clock_set_ns) = (true, clock_odd, time_ns);
            self.senders.iter_mut().for_each(Sender::clock_stepped);
        }
        Segment { time_ns, ..*segment }
    }

    /// Of data that was cut short, or put together, it is noted.
    pub(super) fn note_limits(&mut self, side: Side, segment: &Segment) {
        let truncated = segment.captured_len < segment.payload_len;
        let longer = u64::from(segment.payload_len) > self.senders[side as usize].captured_max();
        if truncated || longer {
            let faults = self.faults_mut();
            faults.truncated += u64::from(truncated);
            faults.super_packets += u64::from(longer);
        }
    }

    /// `side` answers at `now_ns`: where all that its peer has sent is acknowledged, the answer left after that
    /// had come there. If it stood in queues for longer by its timestamp, no queue is what it shows: the
    /// capture's clock was set forward, or its host stood still.
    pub(super) fn check_clock(&mut self, side: Side, now_ns: u64) {
        let asked = &self.senders[side.peer() as usize];
        // Of a question that came again it may be the first that is answered.
        let once = asked.last.time_ns > 0 && !asked.is_troubled();
        let answers = once && asked.una_seen() >= asked.nxt;
        let under_way_ns = now_ns.saturating_sub(asked.last.time_ns);
        if answers && self.senders[side as usize].queued_ns() > under_way_ns {
            self.senders.iter_mut().for_each(Sender::clock_stepped);
        }
    }

    /// An answer stood in queues by its timestamp, as far as is known.
    pub(super) fn doubt_queue(&mut self, gap: &Gap, slices: &Slices) {
        let queued_ns = self.senders[gap.sender as usize].queued_ns();
        if gap.turn == Turn::Continues || queued_ns < STEP_TOLD_NS {
            return;
        }
        let slice = slices.iter().find(|slice| slice.owner == Owner::Queueing);
        if let Some(&slice) = slice {
            let (sender, frame) = (gap.sender, gap.next.frame);
            self.cold_mut().queued = Some(Box::new(Queued { sender, frame, slice, queued_ns }));
        }
    }

    /// `side` has sent something after such an answer: if that was as long under way by its timestamp, both clocks
    /// say that the time has not passed, and the capture's was set forward.
    #[cold]
    pub(super) fn settle_queued(&mut self, side: Side) {
        let of_peer = |queued: &mut Box<Queued>| queued.sender != side;
        let cold = self.cold.as_mut();
        let Some(queued) = cold.and_then(|cold| cold.queued.take_if(of_peer)) else { return };
        let also_ns = self.senders[side as usize].queued_ns();
        if also_ns.abs_diff(queued.queued_ns) > SAME_NS {
            return;
        }
        let unknown = Slice::plain(Owner::Unknown, queued.slice.ns);
        self.timeline.revise(queued.sender, queued.frame, queued.slice, unknown);
        self.senders.iter_mut().for_each(Sender::clock_stepped);
    }
}
