//! Verdicts that later packets may change, and what is kept of each until then.

use crate::capture::FrameId;
use crate::judge::{self, Gap, timed_out};
use crate::model::{Cause, Owner, Sighting, Slice, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::connection::blocked::Blocked;
use crate::tcp::connection::doubt::Doubted;
use crate::tcp::connection::place::is_beside_receiver;
use crate::tcp::connection::queued::Queued;
use crate::tcp::connection::silence::move_cursor;
use crate::tcp::connection::suspended::{AckedLate, Answer, Suspended};
use crate::tcp::exchange::Change;
use crate::tcp::path::Path;
use crate::tcp::sender::{Kind, Sender, SinceDeparture};
use crate::tcp::timeline::Timeline;
use crate::tcp::trace::Trace;
use crate::wire::{Segment, Side};

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
    pub fn are_settled_except(&self, is_known: impl Fn(&Doubted) -> bool) -> bool {
        QUESTIONS.iter().all(|question| {
            let is_known =
                question.asks == Asks::Owner && self.doubted.as_deref().is_some_and(&is_known);
            is_known || !(question.is_open)(self)
        })
    }

    /// Returns whether a gap is not yet settled, which later segments may explain.
    #[inline]
    pub fn is_gap_open(&self) -> bool {
        // This is asked about each segment, so the table is not.
        let Self { counted, acked_late, doubted, blocked, .. } = self;
        let is_open = self.awaits_ack()
            || counted.is_some()
            || acked_late.is_some()
            || doubted.is_some()
            || blocked.is_some();
        debug_assert_eq!(
            is_open,
            QUESTIONS.iter().any(|it| it.asks != Asks::Queue && (it.is_open)(self))
        );
        is_open
    }

    /// Returns whether an ACK may show whether a retransmission was needed.
    #[inline]
    pub fn awaits_ack(&self) -> bool {
        self.suspended.is_some() || self.contested.is_some() || self.fast.is_some()
    }

    /// Returns whether it is open whether a response was queued.
    #[inline]
    pub fn is_queue_open(&self) -> bool {
        self.queued.is_some()
    }

    /// Drops what is open about gaps, once client and server turned out to be the other way round.
    pub fn begin_again(&mut self) {
        let (queued, queue_stays) = (self.queued.take(), self.queue_stays);
        *self = Self { queued, queue_stays, ..Self::default() };
    }
}

/// What the settling event of a question shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// Whether the segment that ended a gap was needed.
    Need,
    /// Which of two owners has a gap.
    Owner,
    /// Whether the sender's buffer was full.
    Buffer,
    /// Whether a response was queued.
    Queue,
}

/// What may settle a question. The `side` is that which sends.
pub(super) enum Event<'a> {
    /// Any packet.
    Packet { side: Side, segment: &'a Segment },
    /// A packet whose IP identification shows that it is late.
    Late { side: Side, number: u16 },
    /// An ACK that may answer a retransmission of the other side.
    Ack(Answer<'a>),
    /// An ACK of what was acknowledged before.
    SecondAck { side: Side, acked_ns: u64 },
    /// An ACK of the peer of data that `side` sent, and that was not captured.
    Unseen { side: Side },
    /// Something that is acknowledged and is no data in the stream: a keep-alive, or a probe.
    KeepAlive { side: Side },
    Data {
        side: Side,
        /// Position in the stream.
        start: u64,
        segment: &'a Segment,
        kind: Kind,
        /// What its sender knew.
        since: &'a SinceDeparture,
        /// Nothing was acknowledged that the capture does not contain.
        is_whole: bool,
    },
    /// The end of the capture, whose last frame is `last`.
    End { last: FrameId },
}

/// What follows for the connection from an event.
pub(super) enum Settlement {
    /// Nothing.
    None,
    /// The suspended retransmission counts as needed, and is attributed now.
    Counts,
    /// The data only continues a retransmission whose verdict stays open.
    Stays,
    /// Neither the last copy nor the one before it brought the ACK about.
    TooLate { last: Box<Suspended>, earlier: Option<Box<Suspended>> },
}

/// A kind of open question, of which a connection has at most one.
struct Question {
    asks: Asks,
    is_open: fn(&Questions) -> bool,
    /// Settles it with an event, or leaves it open.
    settle: fn(&mut Questions, &Event<'_>, &mut Settling<'_>) -> Settlement,
}

/// The kinds of questions, in the order in which an event settles them.
///
/// An ACK first shows whether a fast retransmission was needed, since that is older than a timer behind
/// it. Data ends the count of ACKs before it may begin another one. It then decides about the timer:
/// what that silence was has to be known before the sender's next one is looked at. Retransmissions
/// after lost ACKs come behind that, because they may become the suspended one. The owner of a gap and a
/// full buffer are asked about when no repair is left that would explain them. The queue of a
/// response depends on no other question.
const QUESTIONS: &[Question] = &[
    // Was a fast retransmission needed? An ACK tells which of both transmissions it answers.
    Question {
        asks: Asks::Need,
        is_open: |it| it.fast.is_some(),
        settle: |it, event, by| {
            if let Event::Ack(answer) = event
                && answer.advances
            {
                let rtt_ns = by.path.rtt_ns(answer.side);
                it.settle_fast(answer.side, answer.segment, rtt_ns, by);
            }
            Settlement::None
        },
    },
    // Did the receiver get both copies? It acknowledges each; nothing else may be acknowledged meanwhile.
    Question {
        asks: Asks::Need,
        is_open: |it| it.counted.is_some(),
        settle: |it, event, by| {
            match *event {
                Event::SecondAck { side, acked_ns } => it.settle_by_second_ack(side, acked_ns, by),
                Event::KeepAlive { side } | Event::Data { side, .. } => it.stop_counting_acks(side),
                _ => {}
            }
            Settlement::None
        },
    },
    // Was a retransmission by timer needed? An ACK tells, or what its sender does next.
    Question {
        asks: Asks::Need,
        is_open: |it| it.suspended.is_some() || it.contested.is_some(),
        settle: |it, event, by| match event {
            Event::Ack(answer) => it.settle_by_ack(answer, by),
            Event::Data { side, segment, kind, .. } => {
                it.settle_by_next(*side, segment, *kind, by.path)
            }
            Event::End { last } => {
                it.drop_last(*last);
                Settlement::Counts
            }
            _ => Settlement::None,
        },
    },
    // Had the sender waited for ACKs that were lost? What it sends next tells.
    Question {
        asks: Asks::Need,
        is_open: |it| it.acked_late.is_some(),
        settle: |it, event, by| match event {
            Event::Data { side, segment, since, .. }
                if it.settle_acked_late(*side, segment.time_ns, since, by) =>
            {
                Settlement::Counts
            }
            _ => Settlement::None,
        },
    },
    // Was the application busy, or did a timer repair a loss before the vantage? What the sender does
    // next tells, or a packet that was missing.
    Question {
        asks: Asks::Owner,
        is_open: |it| it.doubted.is_some(),
        settle: |it, event, by| {
            match *event {
                Event::Late { side, number } => it.settle_late(side, number, by),
                Event::Unseen { side } => it.arrived_unseen(side, by),
                Event::Data { side, start, segment, kind: Kind::New, since, is_whole } => {
                    it.settle_doubt(side, (start, segment), since, is_whole, by);
                }
                Event::Data { side, segment, kind: Kind::Fill(_), .. } => {
                    it.settle_skipped(side, segment, by);
                }
                _ => {}
            }
            Settlement::None
        },
    },
    // Was the sender's buffer full? The size of its next segment tells.
    Question {
        asks: Asks::Buffer,
        is_open: |it| it.blocked.is_some(),
        settle: |it, event, by| {
            if let Event::Data { side, segment, kind: Kind::New, .. } = event {
                it.settle_blocked(*side, segment, by);
            }
            Settlement::None
        },
    },
    // Was a response queued? The timestamps of the next packets tell.
    Question {
        asks: Asks::Queue,
        is_open: |it| it.queued.is_some(),
        settle: |it, event, by| {
            match event {
                Event::Packet { side, segment } => it.settle_queued(*side, segment, by),
                Event::End { .. } => it.queued = None,
                _ => {}
            }
            Settlement::None
        },
    },
];

/// What a question is settled with: the senders and the path that it is about, and the exchanges
/// whose time the verdict concerns.
pub(super) struct Settling<'a> {
    pub senders: &'a mut [Sender; 2],
    pub path: &'a Path,
    pub timeline: &'a mut Timeline,
}

impl Connection {
    /// Settles open questions with `event`. Returns whether the event is data that only continues a
    /// retransmission whose verdict stays open.
    #[inline(never)]
    pub(super) fn settle(&mut self, event: &Event<'_>) -> bool {
        for question in QUESTIONS {
            let Self { cold, senders, path, timeline, .. } = self;
            let Some(questions) = cold.questions_mut() else { return false };
            if !(question.is_open)(questions) {
                continue;
            }
            let mut by = Settling { senders, path, timeline };
            match ((question.settle)(questions, event, &mut by), event) {
                (Settlement::Counts, _) => self.resume(),
                (Settlement::Stays, _) => return true,
                (Settlement::TooLate { last, earlier }, Event::Ack(ack)) => {
                    let held = (&*last, earlier.as_deref());
                    wait_for_ack(&mut by, cold.trace_mut(), ack.segment, held);
                }
                _ => {}
            }
        }
        false
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
        self.senders[side.peer()].settle_repeated(segment, rtt_ns, has_dsack);
        let is_seen_sent = has_dsack && is_beside_receiver(&self.setup, &self.path, side.peer());
        let server_owes = has_dsack && self.framer.owes(Side::Server);
        let answer = Answer { side, segment, has_dsack, advances, is_seen_sent, server_owes };
        self.settle(&Event::Ack(answer));
    }

    /// Attributes the suspended gap: the retransmission was needed, or at least nothing contradicts
    /// that.
    pub(super) fn resume(&mut self) {
        let held = self.cold.questions_mut().and_then(|it| it.suspended.take());
        let Some(held) = held else { return };
        let Suspended { mut gap, end, .. } = *held;
        if let Some(fin_ns) = self.cold.ending().fin_ns[gap.sender]
            && !self.senders[gap.sender.peer()].volume.has_packets()
        {
            // In the only direction that was captured, the sender has closed.
            gap.end_ns = gap.end_ns.min(fin_ns.max(gap.start_ns));
        }
        if let Some(at_ns) =
            self.cold.ending().gave_up_ns(gap.sender, &self.senders[gap.sender], end)
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
    use crate::app::Label;
    use crate::capture::FrameId;
    use crate::judge::Gap;
    use crate::model::{Owner, Sighting, Slice, Slices};
    use crate::tcp::connection::doubt::Doubted;
    use crate::tcp::path::Path;
    use crate::tcp::sender::Sender;
    use crate::tcp::timeline::Timeline;
    use crate::wire::{BySide, Side};

    /// The frame that ends the silence of [`Waiting`].
    pub fn frame() -> FrameId {
        FrameId::new(0, 2)
    }

    /// A client that waits for its response; the server was silent until frame 2.
    pub struct Waiting {
        pub senders: BySide<Sender>,
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
