//! Verdicts that later packets may change, and what is kept of each until then.

use crate::app::Side;
use crate::judge::{self, Gap, timed_out};
use crate::model::{Cause, Owner, Sighting, Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::connection::blocked::Blocked;
use crate::tcp::connection::doubt::Doubted;
use crate::tcp::connection::place::is_beside_receiver;
use crate::tcp::connection::queued::Queued;
use crate::tcp::connection::silence::move_cursor;
use crate::tcp::connection::suspended::{AckedLate, Answer, Answered, Suspended};
use crate::tcp::exchange::Change;
use crate::tcp::path::Path;
use crate::tcp::sender::Sender;
use crate::tcp::timeline::Timeline;
use crate::tcp::trace::Trace;
use crate::wire::Segment;

/// The open questions of a connection, at most one of each kind.
#[derive(Clone, Default)]
pub(super) struct Questions {
    /// A retransmission by timer of which it is not yet known whether it was spurious.
    pub suspended: Option<Box<Suspended>>,
    /// Such a retransmission after its sender sent more data.
    pub contested: Option<Box<Suspended>>,
    /// The first fast retransmission of a recovery, until an ACK shows whether it answers that or
    /// the first transmission.
    pub fast: Option<Box<Suspended>>,
    /// A retransmission that seems to have been needed, until its sender sends more: a second ACK
    /// would show that the receiver got both transmissions.
    pub counted: Option<Box<Suspended>>,
    /// Retransmissions by timer after lost ACKs, until it is known whether the sender had waited
    /// for them.
    pub acked_late: Option<Box<AckedLate>>,
    /// The last gap that may yet be attributed to another owner.
    pub doubted: Option<Box<Doubted>>,
    /// The last response whose timestamp shows that it was queued, until later packets show whether
    /// this is right.
    pub queued: Option<Box<Queued>>,
    /// A delay of this sender has stayed from one segment to another, as in a queue.
    pub queue_stays: [bool; 2],
    /// The last wait of a sender whose buffer may have been full.
    pub blocked: Option<Box<Blocked>>,
}

impl Questions {
    /// Returns whether no question is open, except a doubt that satisfies `is_known`.
    pub fn are_settled_except(&self, is_known: impl FnOnce(&Doubted) -> bool) -> bool {
        let is_doubted = self.doubted.as_deref().is_some_and(|doubted| !is_known(doubted));
        !(self.is_repeated() || is_doubted || self.queued.is_some() || self.blocked.is_some())
    }

    /// Returns whether a gap is not yet settled, which later segments may explain.
    #[inline]
    pub fn is_gap_open(&self) -> bool {
        self.is_repeated() || self.doubted.is_some() || self.blocked.is_some()
    }

    /// Drops what is open about gaps, once client and server turned out to be the other way round.
    pub fn begin_again(&mut self) {
        (self.suspended, self.contested, self.doubted, self.fast) = (None, None, None, None);
    }

    /// Returns whether it is open whether a retransmission was needed.
    #[inline]
    fn is_repeated(&self) -> bool {
        let by_timer = self.suspended.is_some() || self.contested.is_some();
        let is_counted = self.counted.is_some() || self.acked_late.is_some();
        by_timer || is_counted || self.fast.is_some()
    }
}

/// What a question is settled with: the senders and the path that it is about, and the exchanges
/// whose time the verdict concerns.
pub(super) struct Settling<'a> {
    pub senders: &'a mut [Sender; 2],
    pub path: &'a Path,
    pub timeline: &'a mut Timeline,
}

impl Connection {
    /// Settles open questions by `settle`; returns its result, or `None` if there was never one.
    #[inline]
    pub(super) fn with_questions<T>(
        &mut self,
        settle: impl FnOnce(&mut Questions, Settling<'_>) -> T,
    ) -> Option<T> {
        let Self { cold, senders, path, timeline, .. } = self;
        Some(settle(cold.questions_mut()?, Settling { senders, path, timeline }))
    }

    /// Settles with an ACK of `side` what is open about the retransmissions of its peer.
    /// `has_dsack` and `advances` are as in [`Answer`].
    #[inline(never)]
    pub(super) fn settle_by_ack(
        &mut self,
        side: Side,
        segment: &Segment,
        has_dsack: bool,
        advances: bool,
    ) {
        let rtt_ns = self.path.rtt_ns(side);
        self.senders[side.peer() as usize].settle_repeated(segment, rtt_ns, has_dsack);
        let is_seen_sent = has_dsack && is_beside_receiver(&self.setup, &self.path, side.peer());
        let server_owes = has_dsack && self.framer.owes(Side::Server);
        let answer = Answer { side, segment, has_dsack, advances, is_seen_sent, server_owes };
        match self.with_questions(|it, mut by| it.settle_by_ack(&answer, &mut by)) {
            Some(Answered::Needed) => self.resume(),
            Some(Answered::TooLate { last, earlier }) => {
                let Self { cold, senders, path, timeline, .. } = self;
                let mut by = Settling { senders, path, timeline };
                wait_for_ack(&mut by, cold.trace_mut(), segment, (&last, earlier.as_deref()));
            }
            Some(Answered::Open) | None => {}
        }
    }

    /// Attributes the suspended gap: the retransmission was needed, or at least nothing contradicts
    /// that.
    pub(super) fn resume(&mut self) {
        let held = self.cold.questions_mut().and_then(|it| it.suspended.take());
        let Some(held) = held else { return };
        let Suspended { mut gap, end, .. } = *held;
        if let Some(fin_ns) = self.cold.ending().fin_ns[gap.sender as usize]
            && !self.senders[gap.sender.peer() as usize].volume.has_packets()
        {
            // In the only direction that was captured, the sender has closed.
            gap.end_ns = gap.end_ns.min(fin_ns.max(gap.start_ns));
        }
        if let Some(at_ns) =
            self.cold.ending().gave_up_ns(gap.sender, &self.senders[gap.sender as usize], end)
        {
            gap.end_ns = gap.end_ns.min(at_ns.max(gap.start_ns));
        }
        self.attribute(&gap, self.judge(&gap), end);
        move_cursor(&mut self.timeline, &mut self.senders, gap.sender, gap.end_ns);
    }
}

/// Attributes the time from the first copy of a response to `ack`, by which the client reports for
/// the first time that it has the response, and all copies of it: the server had nothing more to
/// do, and nothing was lost on the way to the client. The client or the way back stood still.
#[cold]
#[inline(never)]
fn wait_for_ack(
    by: &mut Settling<'_>,
    trace: Option<&mut Trace>,
    ack: &Segment,
    (held, earlier): (&Suspended, Option<&Suspended>),
) {
    let needless = |ns| Slice::of(Owner::RetransmissionTimeout, Cause::SpuriousRetransmission, ns);
    if let Some(Suspended { gap, .. }) = earlier {
        let slices = judge::judge(gap);
        let lost = timed_out(0).cause;
        let ns = slices.iter().filter(|slice| slice.cause == lost).map(|slice| slice.ns).sum();
        let (sender, frame) = (gap.sender, gap.next.frame);
        let (from, to) = (timed_out(ns), needless(ns));
        by.timeline.exchanges.revise(&Change::Slice { sender, frame, from, to });
    }
    let mut gap = held.gap;
    gap.start_ns = gap.start_ns.max(by.timeline.cursor_ns.min(gap.end_ns));
    let acked_ns = ack.time_ns.saturating_sub(by.path.rtt_ns(Side::Client));
    gap.end_ns = acked_ns.max(gap.end_ns);
    let mut slices = Slices::new(gap.len_ns());
    slices.take(needless(gap.len_ns()));
    if let Some(trace) = trace {
        // The first part ended with the last copy, the rest with the ACK.
        let copied_ns = held.gap.end_ns;
        let seen = Sighting::of(Side::Client, ack);
        let rest = Gap::between(gap.sender, copied_ns, gap.end_ns, gap.next, seen);
        let first = Gap { end_ns: copied_ns, ..gap };
        for part in [first, rest] {
            trace.gap(&part, [needless(part.len_ns())].iter());
        }
    }
    let open_ended = by.timeline.open_ended;
    by.timeline.exchanges.attribute(&slices, &gap, Some(held.end), open_ended);
    move_cursor(by.timeline, by.senders, Side::Server, gap.end_ns);
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Questions, Settling};
    use crate::app::{Label, Side};
    use crate::capture::FrameId;
    use crate::judge::Gap;
    use crate::model::{Owner, Sighting, Slice, Slices};
    use crate::tcp::connection::doubt::Doubted;
    use crate::tcp::path::Path;
    use crate::tcp::sender::Sender;
    use crate::tcp::timeline::Timeline;

    /// The frame that ends the silence of [`Waiting`].
    pub fn frame() -> FrameId {
        FrameId::new(0, 2)
    }

    /// A client that waits for its response; the server was silent until frame 2.
    pub struct Waiting {
        pub senders: [Sender; 2],
        pub path: Path,
        pub timeline: Timeline,
    }

    impl Waiting {
        /// Creates one whose silence is attributed to `slice`.
        pub fn attributed_to(slice: Slice) -> Self {
            let mut timeline = Timeline::new();
            let asked = Sighting { frame: FrameId::new(0, 1), time_ns: 1, ..Sighting::default() };
            timeline.ask(asked, [1; 2], &Label::default());
            let next = Sighting { frame: frame(), time_ns: 1 + slice.ns, ..asked };
            let gap = Gap::between(Side::Server, asked.time_ns, next.time_ns, asked, next);
            let mut slices = Slices::new(slice.ns);
            slices.take(slice);
            timeline.exchanges.attribute(&slices, &gap, None, false);
            let senders = [Sender::of(Side::Client), Sender::of(Side::Server)];
            Self { senders, path: Path::default(), timeline }
        }

        pub fn settling(&mut self) -> Settling<'_> {
            let Self { senders, path, timeline } = self;
            Settling { senders, path, timeline }
        }

        /// Time of the exchange that belongs to `owner`, ns.
        pub fn ns_of(&self, owner: Owner) -> u64 {
            self.timeline.exchanges.front().map_or(0, |exchange| exchange.ledger.of(owner))
        }
    }

    #[test]
    fn nothing_is_open_at_first() {
        let questions = Questions::default();
        assert!(!questions.is_gap_open() && questions.are_settled_except(|_| false));
    }

    #[test]
    fn a_known_doubt_is_no_reason_to_wait() {
        let doubted = Some(Box::new(Doubted::of_response(frame(), 5)));
        let mut questions = Questions { doubted, ..Questions::default() };
        assert!(questions.is_gap_open());
        assert!(questions.are_settled_except(|_| true) && !questions.are_settled_except(|_| false));
        questions.begin_again();
        assert!(!questions.is_gap_open());
    }
}
