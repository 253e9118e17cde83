//! Retransmissions that may have been spurious: the decision is postponed until an ACK, or what the
//! sender does next, shows it.

use crate::capture::FrameId;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{Gap, Recovery};
use crate::tcp::connection::doubt::{revise_overtaken, revise_spurious};
use crate::tcp::connection::questions::{Questions, Settlement, Settling};
use crate::tcp::path::Path;
use crate::tcp::sender::{Kind, Sender, SinceDeparture, Stamp, too_early};
use crate::wire::{Segment, Side};

/// A retransmission by timer of which it is not yet known whether it was spurious.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    /// The gap that the retransmission ended.
    pub gap: Gap,
    /// Position of the end of the retransmission in the stream.
    pub end: u64,
    /// Timestamp of the retransmission.
    pub stamp: Stamp,
}

/// Retransmissions by timer of data that had arrived and whose ACKs were lost: the first ACK that
/// the sender received answers the retransmission.
#[derive(Clone, Debug)]
pub(super) struct AckedLate {
    last: Suspended,
    /// The retransmission before it, which was still undecided when the sender sent more.
    earlier: Option<Suspended>,
}

/// An ACK that may answer a retransmission.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a> {
    /// Side that sends the ACK.
    pub side: Side,
    pub segment: &'a Segment,
    /// A D-SACK in it reports data as received twice.
    pub has_dsack: bool,
    /// It advances SND.UNA.
    pub advances: bool,
    /// The ACKs of its sender are captured as it sends them, so that a lost one was seen.
    pub is_seen_sent: bool,
    /// The server has begun a message whose announced length it has not yet sent.
    pub server_owes: bool,
}

impl Suspended {
    /// Returns whether the first block of `answer`, a D-SACK, names data of the retransmission, which `sender`
    /// sent (RFC 2883 §4).
    fn is_named_by(&self, answer: &Answer<'_>, sender: &Sender) -> bool {
        let named = answer.segment.sack[0];
        let start = self.end.saturating_sub(self.gap.next_len);
        answer.has_dsack
            && sender.space.position_of(named.left) < self.end
            && sender.space.position_of(named.right) > start
    }

    /// Returns whether the retransmission was needed, if `ack` shows that; `sender` sent it.
    fn was_needed(
        &self,
        sender: &Sender,
        rtt_receiver_ns: u64,
        ack: &Segment,
        dsack: bool,
    ) -> Option<bool> {
        let of_first = self.stamp.is_first_answered(ack, self.gap.end_ns, rtt_receiver_ns);
        let acked = sender.space.una_seen() >= self.end;
        match dsack || of_first && acked {
            true => Some(false),
            // An ACK without a timestamp that does not cover the data answers what came before it.
            false => (!of_first && (acked || !self.stamp.is_unstamped())).then_some(true),
        }
    }

    /// Returns whether `answer`, the first ACK to advance SND.UNA, comes as soon after the
    /// retransmission as the answer to it: the earlier ACKs were lost.
    fn shows_lost_acks(&self, answer: &Answer<'_>, rtt_ns: u64) -> bool {
        let now_ns = answer.segment.time_ns;
        let at_once = now_ns.saturating_sub(self.gap.end_ns) <= 2 * rtt_ns + HOST_DELAY_MAX_NS;
        answer.has_dsack
            && answer.advances
            && at_once
            && !answer.is_seen_sent
            && !too_early(now_ns, self.gap.end_ns, rtt_ns)
    }

    /// Returns whether `answer`, by which the client reports for the first time that it has a
    /// response, comes too late for an answer to the last copy of it, which this is: neither that copy
    /// nor the one before it, `earlier`, brought it about. If no round trip is known, it is bounded by
    /// the timer, which is never shorter (RFC 6298 §2.3).
    fn is_answered_late(
        &self,
        answer: &Answer<'_>,
        earlier: Option<&Self>,
        server: &Sender,
        path: &Path,
    ) -> bool {
        if !(answer.has_dsack && answer.advances && answer.side == Side::Client) {
            return false;
        }
        let timers_ns = [Some(self), earlier].into_iter().flatten().map(|it| it.gap.len_ns());
        let answer_ns = match path.has_sample(Side::Client) {
            true => 2 * path.rtt_ns(Side::Client) + HOST_DELAY_MAX_NS,
            false => timers_ns.min().unwrap_or(u64::MAX),
        };
        let waited_ns = answer.segment.time_ns.saturating_sub(self.gap.end_ns);
        waited_ns > answer_ns
            && server.space.una_seen() >= self.end.max(server.space.nxt)
            && !answer.server_owes
    }
}

impl Questions {
    /// Decides, with an ACK, whether the retransmission by the timer of its peer was needed. It was
    /// spurious if a D-SACK reports the data as received, or if the ACK answers the first
    /// transmission. If the answer to a spurious retransmission is the first ACK to advance SND.UNA,
    /// the earlier ACKs were lost.
    #[inline(never)]
    pub fn settle_by_ack(&mut self, answer: &Answer<'_>, by: &mut Settling<'_>) -> Settlement {
        let &Answer { side, segment, has_dsack, .. } = answer;
        let rtt_ns = by.path.rtt_ns(side);
        let of_peer = |held: &mut Box<Suspended>| held.gap.sender != side;
        let contested = self.contested.take_if(of_peer);
        let suspended = self.suspended.take_if(of_peer);
        if let Some(held) = suspended.as_deref().filter(|it| it.shows_lost_acks(answer, rtt_ns)) {
            let (last, earlier) = (held.clone(), contested.map(|held| *held));
            self.acked_late = Some(Box::new(AckedLate { last, earlier }));
            return Settlement::None;
        }
        let server = &by.senders[Side::Server];
        let earlier = contested.as_deref();
        if let Some(last) = suspended.as_ref()
            && last.is_answered_late(answer, earlier, server, by.path)
        {
            return Settlement::TooLate { last: last.clone(), earlier: contested };
        }
        let sender = &by.senders[side.peer()];
        if let Some(held) = contested {
            let is_named = held.is_named_by(answer, sender);
            match held.was_needed(sender, rtt_ns, segment, is_named) {
                Some(false) => revise_spurious(by.timeline, &held.gap),
                Some(true) => {}
                None => self.contested = Some(held),
            }
        }
        let Some(held) = suspended else { return Settlement::None };
        let needed = held.was_needed(sender, rtt_ns, segment, held.is_named_by(answer, sender));
        if needed != Some(false) {
            self.suspended = Some(held);
        } else if side == Side::Server && (segment.payload_len > 0 || has_dsack) {
            by.senders[Side::Client].note_first_answered(&held.gap);
        }
        if needed != Some(true) {
            return Settlement::None;
        }
        self.count_acks(&by.senders[side.peer()]);
        Settlement::Counts
    }

    /// Decides, with an ACK of `side` that advances SND.UNA, whether a fast retransmission of its peer
    /// was needed. If the ACK answers the first transmission (RFC 3522), later segments had only
    /// overtaken that, and nothing was lost.
    #[cold]
    #[inline(never)]
    pub fn settle_fast(&mut self, side: Side, ack: &Segment, rtt_ns: u64, by: &mut Settling<'_>) {
        let Some(held) = self.fast.take_if(|held| held.gap.sender != side) else { return };
        if !held.stamp.is_first_answered(ack, held.gap.end_ns, rtt_ns) {
            return;
        }
        let sender = &mut by.senders[held.gap.sender];
        if sender.space.una_seen() < held.end {
            self.fast = Some(held);
            return;
        }
        sender.history_mut().counts.revert_fast();
        revise_overtaken(by.timeline, &held.gap);
    }

    /// Keeps a retransmission of `sender` for which ACKs are to be counted: its peer acknowledged data
    /// that was retransmitted once by timer, and neither timestamps nor a D-SACK show which
    /// transmission the ACK answers.
    fn count_acks(&mut self, sender: &Sender) {
        let all_acked = sender.space.una_seen() >= sender.space.nxt;
        let once = |held: &Suspended| {
            held.gap.repair.original.is_some()
                && !held.gap.losses.in_recovery
                && held.stamp.is_unstamped()
        };
        self.counted = self.suspended.clone().filter(|held| all_acked && once(held));
    }

    /// Stops counting the ACKs of a retransmission when `side`, which sent it, sends something else
    /// that is acknowledged, as a keep-alive is (RFC 9293 §3.8.4).
    #[inline]
    pub fn stop_counting_acks(&mut self, side: Side) {
        self.counted.take_if(|held| held.gap.sender == side);
    }

    /// Processes a second ACK of `side` for the same position: it answers another copy of the
    /// segment (RFC 9293 §3.10.7.4). One ACK per transmission means that nothing was lost. An ACK
    /// directly after the first may be a window update of the reading application whose change the
    /// window scale hides, and is not counted.
    #[cold]
    #[inline(never)]
    pub fn settle_by_second_ack(&mut self, side: Side, acked_ns: u64, by: &mut Settling<'_>) {
        let sender = &mut by.senders[side.peer()];
        if acked_ns < sender.una_seen_ns.saturating_add(HOST_DELAY_MAX_NS) {
            return;
        }
        let of_peer = |held: &mut Box<Suspended>| held.gap.sender != side;
        if let Some(held) = self.counted.take_if(of_peer) {
            sender.history_mut().counts.acked_twice += 1;
            revise_spurious(by.timeline, &held.gap);
        }
    }

    /// Decides whether the retransmission stays undecided when `side` sends `segment`: it does while
    /// all outstanding data is retransmitted at once.
    #[inline(never)]
    pub fn settle_by_next(
        &mut self,
        side: Side,
        segment: &Segment,
        kind: Kind,
        path: &Path,
    ) -> Settlement {
        let Some(held) = &self.suspended else { return Settlement::None };
        let by_timer = kind == Kind::Retransmission(Recovery::Timer);
        if held.gap.sender != side {
            if kind == Kind::New {
                // The retransmission was still under way when the peer sent new data: the first
                // transmission had arrived.
                self.suspended = None;
            }
            return Settlement::None;
        }
        if by_timer && segment.time_ns < held.gap.end_ns + path.rtt_ns(side.peer()) {
            return Settlement::Stays;
        }
        self.contested = Some(held.clone());
        Settlement::Counts
    }

    /// Decides about retransmissions after lost ACKs when `side` sends. If it continues at once
    /// with the ACK that its timer brought about, it had waited for that ACK. Otherwise it had
    /// nothing more to send, and the time belongs to the application. Returns whether the last one
    /// was needed.
    #[inline(never)]
    pub fn settle_acked_late(
        &mut self,
        side: Side,
        now_ns: u64,
        since: &SinceDeparture,
        by: &mut Settling<'_>,
    ) -> bool {
        let Some(late) = self.acked_late.take() else { return false };
        let gap = &late.last.gap;
        let tolerance_ns = gap.trigger_tolerance_ns();
        let goes_on = gap.sender == side
            && by.timeline.active == Some(side)
            && since.acks.last.is_some_and(|ack| {
                ack.effect_ns >= gap.end_ns && now_ns.saturating_sub(ack.effect_ns) <= tolerance_ns
            });
        if goes_on {
            self.suspended = Some(Box::new(late.last));
        } else {
            // The repeated data had arrived, so the peer answers its first copy.
            by.senders[gap.sender].note_first_answered(gap);
            if let Some(earlier) = late.earlier {
                revise_spurious(by.timeline, &earlier.gap);
            }
        }
        goes_on
    }

    /// Drops an undecided retransmission in `last`, the last frame of the capture: it ends before the
    /// answer to it, and the first transmission may only have been late.
    pub fn drop_last(&mut self, last: FrameId) {
        if self.contested.is_none() {
            self.suspended
                .take_if(|held| held.gap.next.frame == last && !held.gap.losses.in_recovery);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A retransmission of the server, which ended a gap at 300 ms.
    fn suspended() -> Suspended {
        let mut gap = Gap { sender: Side::Server, end_ns: 300 * MS, ..Gap::default() };
        gap.next.frame = FrameId::new(0, 7);
        Suspended { gap, end: 1_000, stamp: Stamp::default() }
    }

    fn open() -> Questions {
        Questions { suspended: Some(Box::new(suspended())), ..Questions::default() }
    }

    /// A path whose round trip to the client takes 20 ms.
    fn path() -> Path {
        let mut path = Path::default();
        path.sample(Side::Client, 20 * MS);
        path
    }

    fn at(time_ns: u64) -> Segment {
        Segment { time_ns, ..Segment::default() }
    }

    #[test]
    fn a_dsack_or_an_early_ack_shows_that_a_retransmission_was_needless() {
        let server = Sender::of(Side::Server);
        let needed = |ack: &Segment, dsack| {
            let held = Suspended { end: 0, ..suspended() };
            held.was_needed(&server, 20 * MS, ack, dsack)
        };
        assert_eq!(needed(&at(320 * MS), true), Some(false));
        assert_eq!(needed(&at(305 * MS), false), Some(false));
        assert_eq!(needed(&at(320 * MS), false), Some(true));
        let unacknowledged = suspended().was_needed(&server, 20 * MS, &at(305 * MS), false);
        assert_eq!(unacknowledged, None);
    }

    #[test]
    fn more_retransmissions_at_once_leave_it_open() {
        let repeated = Kind::Retransmission(Recovery::Timer);
        let next = |time_ns, kind| open().settle_by_next(Side::Server, &at(time_ns), kind, &path());
        assert!(matches!(next(310 * MS, repeated), Settlement::Stays));
        assert!(matches!(next(330 * MS, repeated), Settlement::Counts));
        assert!(matches!(next(310 * MS, Kind::New), Settlement::Counts));
    }

    #[test]
    fn new_data_of_the_peer_shows_that_the_first_transmission_had_arrived() {
        let mut questions = open();
        let next = questions.settle_by_next(Side::Client, &at(310 * MS), Kind::New, &path());
        assert!(matches!(next, Settlement::None) && questions.suspended.is_none());
    }

    #[test]
    fn a_capture_that_ends_with_a_retransmission_does_not_judge_it() {
        let mut questions = open();
        questions.drop_last(FrameId::new(0, 6));
        assert!(questions.suspended.is_some());
        questions.drop_last(FrameId::new(0, 7));
        assert!(questions.suspended.is_none());
    }
}
