//! Responses whose timestamp shows that they were queued, until later packets show whether this is
//! right.

use crate::capture::FrameId;
use crate::judge::thresholds::{INITIAL_WINDOW_BYTES, QUEUE_DELAY_MIN_NS};
use crate::judge::{Gap, Turn};
use crate::model::{Owner, Slice, Slices};
use crate::tcp::connection::cold::Cold;
use crate::tcp::connection::is_pure_ack;
use crate::tcp::connection::questions::{Questions, Settling};
use crate::tcp::exchange::Change;
use crate::tcp::sender::Sender;
use crate::tcp::thresholds::CLOCK_STEP_SAME_NS;
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Segment, Side};

/// A response whose timestamp shows that it was queued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    sender: Side,
    frame: FrameId,
    /// Slice attributed to the queue.
    slice: Slice,
    /// Queueing delay, ns.
    queued_ns: u64,
    /// Time at which it passed, ns.
    time_ns: u64,
    /// Timestamp of the peer's last packet before it.
    heard_before: u32,
    /// The peer has sent a packet since.
    is_heard: bool,
    /// The sender itself had so much in flight that it can have filled the queue.
    is_own: bool,
}

impl Queued {
    /// Returns what is kept of the response that ended `gap`, if its timestamp shows that it was
    /// queued.
    fn of(gap: &Gap, slices: &Slices, senders: &BySide<Sender>) -> Option<Self> {
        let queued_ns = senders[gap.sender].clock.queued_ns();
        if gap.turn == Turn::Continues || queued_ns < QUEUE_DELAY_MIN_NS {
            return None;
        }
        let &slice = slices.iter().find(|slice| slice.owner == Owner::Queueing)?;
        let (sender, frame, time_ns) = (gap.sender, gap.next.frame, gap.next.time_ns);
        Some(Self {
            sender,
            frame,
            slice,
            queued_ns,
            time_ns,
            heard_before: senders[sender.peer()].packets.last.tsval,
            is_heard: false,
            is_own: gap.flight.before > INITIAL_WINDOW_BYTES,
        })
    }

    /// Attributes the time of a queue that did not exist to no owner.
    fn deny(&self, timeline: &mut Timeline) {
        let to = Slice::plain(Owner::Unknown, self.slice.ns);
        let (sender, frame, from) = (self.sender, self.frame, self.slice);
        timeline.revise_any(&Change::Slice { sender, frame, from, to });
    }
}

impl Questions {
    /// Decides about such a response when `side` sends `segment`.
    #[cold]
    pub fn settle_queued(&mut self, side: Side, segment: &Segment, by: &mut Settling<'_>) {
        let Some(queued) = self.queued.as_deref().copied() else { return };
        let now_ns = by.senders[side].clock.queued_ns();
        if segment.time_ns.saturating_sub(queued.time_ns) >= queued.queued_ns {
            self.queued = None;
        }
        if queued.sender == side {
            return self.settle_aged(&queued, now_ns, segment, by.timeline);
        }
        if queued.is_heard {
            return;
        }
        // If the timestamp of the peer shows the same delay, the clocks of both senders did not
        // count that time: the capture's clock was set forward. On a clock of unknown rate the delay is
        // a lower bound: one of more than half leaves too little for a queue.
        let is_bound = !by.senders[side].clock.runs() && now_ns > queued.queued_ns / 2;
        if is_bound || now_ns.abs_diff(queued.queued_ns) <= CLOCK_STEP_SAME_NS {
            queued.deny(by.timeline);
            self.queued = None;
            by.senders.iter_mut().for_each(Sender::clock_stepped);
        } else if let Some(queued) = self.queued.as_mut() {
            queued.is_heard = true;
        }
    }

    /// Decides about a response when its sender sends `segment`, which is queued for `now_ns`. A
    /// path is first in, first out. The sender's kernel acknowledged at once what its peer sent behind
    /// the response, so that the response was the last in a queue that is now empty, although less
    /// time has passed than the delay. Nothing of the sender itself filled that queue. So either the
    /// timestamp was taken long before the response was sent, or the path stood still. Where a delay
    /// of this sender has stayed before, others fill a queue.
    fn settle_aged(
        &mut self,
        queued: &Queued,
        now_ns: u64,
        segment: &Segment,
        timeline: &mut Timeline,
    ) {
        let is_later = |echo: u32| echo.wrapping_sub(queued.heard_before) as i32 > 0;
        if !queued.is_heard || !segment.echoes().is_some_and(is_later) {
            return;
        }
        let lost_ns = queued.queued_ns.saturating_sub(now_ns);
        let passed_ns = segment.time_ns.saturating_sub(queued.time_ns);
        let is_at_once = is_pure_ack(segment) && passed_ns < lost_ns;
        self.queued = None;
        let stays = &mut self.queue_stays[queued.sender];
        *stays |= queued.is_own || now_ns >= queued.queued_ns / 2;
        if !*stays && is_at_once {
            queued.deny(timeline);
        }
    }
}

/// Keeps the response that ended `gap`, if its timestamp shows that it was queued.
pub(super) fn note_queued(cold: &mut Cold, senders: &BySide<Sender>, gap: &Gap, slices: &Slices) {
    if let Some(queued) = Queued::of(gap, slices, senders) {
        cold.get_or_create().questions.queued = Some(Box::new(queued));
    }
}

/// Checks the clock when `side` answers at `now_ns`. If all data of the peer is acknowledged, the
/// answer was sent after that data had arrived. A timestamp that shows a longer queueing delay is
/// wrong: the capture's clock was set forward, or the sender's host was suspended.
pub(super) fn check_clock(senders: &mut BySide<Sender>, side: Side, now_ns: u64) {
    let requester = &senders[side.peer()];
    // If the request was repeated, the answer may be to its first copy.
    let once = requester.last.time_ns > 0 && !requester.is_troubled();
    let answers = once && requester.space.una_seen() >= requester.space.nxt;
    let under_way_ns = now_ns.saturating_sub(requester.last.time_ns);
    if answers && senders[side].clock.queued_ns() > under_way_ns {
        senders.iter_mut().for_each(Sender::clock_stepped);
    }
}

/// Stops using a clock of unknown rate of `side` if it shows that `segment` left earlier than the packet
/// whose timestamp it echoes had passed. Such a clock stands still at times, as that of a virtual machine
/// without a processor does.
pub(super) fn check_echo(senders: &mut BySide<Sender>, side: Side, segment: &Segment) {
    let clock = &senders[side].clock;
    let queued_ns = clock.queued_ns();
    if queued_ns == 0 || clock.runs() {
        return;
    }
    let heard = segment.echoes().and_then(|it| senders[side.peer()].clock.first_passed_ns(it));
    if heard.is_some_and(|heard_ns| queued_ns > segment.time_ns.saturating_sub(heard_ns)) {
        senders[side].clock.stop_using();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Cause;
    use crate::tcp::connection::questions::tests::{Waiting, frame};
    use crate::wire::{SegmentFlags, TcpFlags};

    const NS: u64 = 20_000_000;

    fn queued(queued_ns: u64) -> (Waiting, Questions) {
        let slice = Slice::of(Owner::Queueing, Cause::Bufferbloat, NS);
        let queued = Queued {
            sender: Side::Server,
            frame: frame(),
            slice,
            queued_ns,
            time_ns: NS,
            heard_before: 0,
            is_heard: false,
            is_own: false,
        };
        let queued = Some(Box::new(queued));
        (Waiting::attributed_to(slice), Questions { queued, ..Questions::default() })
    }

    #[test]
    fn a_clock_that_stands_still_while_its_sender_hears_its_peer_is_not_used() {
        let facts = SegmentFlags(SegmentFlags::TIMESTAMPS);
        let at = |ms: u64, tsval, tsecr| {
            let (time_ns, flags) = (ms * 1_000_000, TcpFlags(TcpFlags::ACK));
            Segment { time_ns, flags, tsval, tsecr, facts, ..Segment::default() }
        };
        let queued_ms = |tsecr| {
            let mut waiting = Waiting::attributed_to(Slice::plain(Owner::Server, NS));
            for (side, segment) in [
                (Side::Server, at(1_000, 500, 70)),
                (Side::Client, at(1_000, 70, 500)),
                (Side::Server, at(9_000, 2_500, 70)),
                (Side::Client, at(9_090, 8_160, 2_500)),
                (Side::Server, at(9_100, 2_500, tsecr)),
            ] {
                waiting.senders[side].clock.observe_packet(&segment);
                check_echo(&mut waiting.senders, side, &segment);
            }
            waiting.senders[Side::Server].clock.queued_ns() / 1_000_000
        };
        assert!(
            (95..100).contains(&queued_ms(70)),
            "it left before its sender had heard the client again"
        );
        assert_eq!(queued_ms(8_160), 0, "it left less than 10 ms before");
    }

    #[test]
    fn the_same_delay_of_both_sides_is_a_step_of_the_clock() {
        let (mut waiting, mut questions) = queued(CLOCK_STEP_SAME_NS);
        let heard = Segment { time_ns: NS, ..Segment::default() };
        questions.settle_queued(Side::Client, &heard, &mut waiting.settling());
        assert_eq!((waiting.ns_of(Owner::Queueing), waiting.ns_of(Owner::Unknown)), (0, NS));
        assert!(questions.queued.is_none());
    }

    #[test]
    fn a_delay_of_one_side_only_stays_a_queue() {
        let (mut waiting, mut questions) = queued(50 * CLOCK_STEP_SAME_NS);
        let heard = Segment { time_ns: NS, ..Segment::default() };
        questions.settle_queued(Side::Client, &heard, &mut waiting.settling());
        assert_eq!(waiting.ns_of(Owner::Queueing), NS);
        assert!(questions.queued.is_some_and(|queued| queued.is_heard));
    }
}
