//! State that few connections have while they are open.

use crate::judge::QueueDelay;
use crate::tcp::connection::accept::Refused;
use crate::tcp::connection::ending::Ending;
use crate::tcp::connection::icmp::IcmpReport;
use crate::tcp::connection::relayed::Relay;
use crate::tcp::connection::suspended::{AckedLate, Suspended};
use crate::tcp::connection::{Connection, blocked, doubt, limits};
use crate::tcp::exchange::Exchange;
use crate::tcp::trace::Trace;
use crate::wire::Segment;

/// A timestamp of one side that is to be echoed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    pub tsval: u32,
    /// Time at which the segment with it passed, ns.
    pub time_ns: u64,
    /// The peer has not yet echoed it.
    pub awaited: bool,
    /// The newest timestamp of the side and the time at which it first passed, ns. The time is 0 if
    /// it may have passed before the capture began, or has been echoed.
    pub newest: (u32, u64),
}

/// Timestamps to be echoed, indexed by side.
type Echoes = [Echo; 2];

/// Rarely needed state of a connection, stored behind a single pointer.
#[derive(Clone, Default)]
pub(super) struct ColdState {
    /// State of the ending, once it has begun.
    pub ending: Option<Ending>,
    /// The last timestamp of each side whose echo gives a sample; `None` if the handshake was
    /// captured.
    pub echoes: Option<Box<Echoes>>,
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
    pub doubted: Option<Box<doubt::Doubted>>,
    /// The last response whose timestamp shows that it was queued, until later packets show whether
    /// this is right.
    pub queued: Option<Box<limits::Queued>>,
    /// A delay of this sender has stayed from one segment to another, as in a queue.
    pub queue_stays: [bool; 2],
    /// The last wait of a sender whose buffer may have been full.
    pub blocked: Option<Box<blocked::Blocked>>,
    /// Gaps recorded for a drawing or an explanation.
    pub trace: Option<Box<Trace>>,
    /// ICMP errors about the connection.
    pub icmp_report: Option<Box<IcmpReport>>,
    /// Queueing delay that transfers cause, indexed by sender.
    pub queue_delay: Option<Box<[QueueDelay; 2]>>,
    /// The last segments that their receivers would not accept, indexed by sender.
    pub refused: Option<Box<[Refused; 2]>>,
    /// The last SYN-ACK of another host than the one that answered first.
    pub other_answer: Option<Box<Segment>>,
    /// Number of RSTs that their receivers ignored.
    pub ignored_resets: u32,
    /// Defects of the capture, if there are any.
    pub faults: Option<Box<CaptureFaults>>,
    /// Exchanges held back until more is known of the path.
    #[expect(clippy::vec_box, reason = "they are in boxes before and after that")]
    pub kept: Vec<Box<Exchange>>,
    /// Evidence that a proxy acknowledges in the name of the server.
    pub relay: Relay,
    /// The connection is a copy of one with other addresses, and is reported only with those.
    pub is_copy: bool,
}

impl ColdState {
    /// Returns whether no state is pending that the next segment may change, except a doubt that
    /// satisfies `is_known`.
    pub fn is_quiet_except(&self, is_known: impl FnOnce(&doubt::Doubted) -> bool) -> bool {
        let Self {
            ending,
            echoes: _,
            suspended,
            contested,
            fast,
            counted,
            acked_late,
            doubted,
            queued,
            queue_stays: _,
            blocked,
            trace,
            icmp_report,
            queue_delay,
            refused: _,
            other_answer: _,
            ignored_resets: _,
            faults,
            kept,
            relay: _,
            is_copy: _,
        } = self;
        let held = suspended.is_some() || contested.is_some() || counted.is_some();
        let repeated = held || fast.is_some() || acked_late.is_some() || !kept.is_empty();
        let doubted = doubted.as_deref().is_some_and(|doubted| !is_known(doubted));
        let other = doubted || queued.is_some() || blocked.is_some() || queue_delay.is_some();
        let other_state =
            trace.is_some() || icmp_report.is_some() || faults.is_some() || ending.is_some();
        !(repeated || other || other_state)
    }

    /// Returns whether a gap is not yet settled.
    #[inline]
    fn is_unsettled(&self) -> bool {
        let held = self.suspended.is_some() || self.contested.is_some() || self.fast.is_some();
        let repeated = held || self.counted.is_some();
        let doubted = self.doubted.is_some() || self.blocked.is_some();
        repeated || self.acked_late.is_some() || doubted
    }
}

/// Defects of the capture that concern one connection.
#[derive(Clone, Copy, Debug, Default)]
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

impl Connection {
    /// Returns a part of the rarely needed state.
    #[inline]
    pub(super) fn cold<T>(&self, part: impl Fn(&ColdState) -> &Option<Box<T>>) -> Option<&T> {
        self.cold.as_ref().and_then(|cold| part(cold).as_deref())
    }

    /// Returns whether the connection is a copy of one with other addresses, under which it is
    /// reported.
    #[inline]
    pub(super) fn is_copy(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.is_copy)
    }

    /// Excludes the connection from the report; returns whether it was included before.
    pub fn exclude(&mut self) -> bool {
        !std::mem::replace(&mut self.cold_mut().is_copy, true)
    }

    /// Number of RSTs that their receivers ignored, since the connection went on.
    pub fn ignored_resets(&self) -> u64 {
        self.cold.as_ref().map_or(0, |cold| cold.ignored_resets.into())
    }

    /// State of the ending, once it has begun.
    #[inline]
    pub(super) fn ended(&self) -> Option<&Ending> {
        self.cold.as_ref()?.ending.as_ref()
    }

    /// Returns whether a gap is not yet settled, which later segments may explain.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.is_unsettled())
    }

    /// Returns the rarely needed state, which is created on demand.
    #[cold]
    #[inline(never)]
    pub(super) fn cold_mut(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn ending_mut(&mut self) -> &mut Ending {
        self.cold_mut().ending.get_or_insert_default()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn faults_mut(&mut self) -> &mut CaptureFaults {
        self.cold_mut().faults.get_or_insert_default()
    }

    /// Begins to record what a drawing of the connection needs.
    pub fn note_trace(&mut self) {
        self.cold_mut().trace = Some(Box::default());
    }

    /// Begins to record what an explanation of the connection needs: every gap with everything that
    /// was known.
    pub fn note_decisions(&mut self) {
        let gaps = Some(Vec::new());
        self.cold_mut().trace = Some(Box::new(Trace { decided: gaps, ..Trace::default() }));
    }

    /// The recording that [`note_trace`](Self::note_trace) began.
    pub fn trace(&self) -> Option<&Trace> {
        self.cold(|cold| &cold.trace)
    }

    /// The recording, for additions.
    pub fn trace_mut(&mut self) -> Option<&mut Trace> {
        self.cold.as_mut()?.trace.as_deref_mut()
    }
}
