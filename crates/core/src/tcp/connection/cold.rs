//! What few connections have while they are open.

use super::*;

/// A timestamp of one side's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    pub tsval: u32,
    /// When it passed, ns.
    pub time_ns: u64,
    /// Its peer has not echoed it.
    pub awaited: bool,
    /// The side's newest timestamp, and when it passed first, ns; 0 where it may have passed before the capture
    /// began, or has been echoed.
    pub newest: (u32, u64),
}

/// By side.
type Echoes = [Echo; 2];

/// What an open connection seldom has: one pointer to all of it, in place of one to each.
#[derive(Clone, Default)]
pub(super) struct ColdState {
    /// How it ended, once it begins to.
    pub ending: Option<Ending>,
    /// The last timestamp of each side's packets whose echo tells something; only where the handshake was not
    /// captured.
    pub echoes: Option<Box<Echoes>>,
    /// A repetition by timer whose need is not yet known.
    pub suspended: Option<Box<Suspended>>,
    /// One after which its sender went on before it was known.
    pub contested: Option<Box<Suspended>>,
    /// One that seems to have been needed, until its sender goes on: a second ACK would say that its receiver
    /// has got both sendings.
    pub counted: Option<Box<Suspended>>,
    /// Repetitions by timer that only told of lost ACKs, until it is known who waited.
    pub told_late: Option<Box<ToldLate>>,
    /// The last silence that may turn out to be another's.
    pub doubted: Option<Box<doubt::Doubted>>,
    /// The last answer that has stood in queues by its timestamp, until its peer's tells the same of itself or not.
    pub queued: Option<Box<limits::Queued>>,
    /// The last wait of a sender whose buffer may have been full.
    pub blocked: Option<Box<blocked::Blocked>>,
    /// What is noted where somebody wants it drawn.
    pub trace: Option<Box<Trace>>,
    /// What ICMP errors said of it.
    pub icmp_report: Option<Box<IcmpReport>>,
    /// The queues that its transfers fill, by who sends.
    pub queue_delay: Option<Box<[QueueDelay; 2]>>,
    /// Limits of the trace, where it has any.
    pub faults: Option<Box<TraceFaults>>,
    /// Exchanges that are told once more is known of the path.
    #[expect(clippy::vec_box, reason = "they are in boxes before and after that")]
    pub kept: Vec<Box<Exchange>>,
    /// It is told with other addresses.
    pub is_copy: bool,
}

impl ColdState {
    /// Whether there is nothing that the next segment might change.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet_but(|_| false)
    }

    /// The same, but for a doubt of that kind.
    pub fn is_quiet_but(&self, known: impl FnOnce(&doubt::Doubted) -> bool) -> bool {
        let Self {
            ending,
            echoes: _,
            suspended,
            contested,
            counted,
            told_late,
            doubted,
            queued,
            blocked,
            trace,
            icmp_report,
            queue_delay,
            faults,
            kept,
            is_copy: _,
        } = self;
        let held = suspended.is_some() || contested.is_some() || counted.is_some();
        let repeated = held || told_late.is_some() || !kept.is_empty();
        let doubted = doubted.as_deref().is_some_and(|doubted| !known(doubted));
        let other = doubted || queued.is_some() || blocked.is_some() || queue_delay.is_some();
        let other_state =
            trace.is_some() || icmp_report.is_some() || faults.is_some() || ending.is_some();
        !(repeated || other || other_state)
    }

    /// Whether there is a silence that is not settled.
    #[inline]
    fn is_unsettled(&self) -> bool {
        let held = self.suspended.is_some() || self.contested.is_some();
        let repeated = held || self.counted.is_some();
        let doubted = self.doubted.is_some() || self.blocked.is_some();
        repeated || self.told_late.is_some() || doubted
    }
}

/// Room for it of connections that are over: nearly every one ends.
#[derive(Default)]
pub(in crate::tcp) struct SpareRares(
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")] Vec<Box<ColdState>>,
);

impl Clone for SpareRares {
    /// Room is no content: a copy begins without any.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Rooms kept.
const SPARE_MAX: usize = 32;

/// What is wrong with the trace of this connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceFaults {
    /// Frames captured twice.
    pub duplicates: u64,
    /// Bytes acknowledged that were never seen.
    pub missing_bytes: u64,
    /// Segments whose payload the snap length cut.
    pub truncated: u64,
    /// Segments whose header the snap length cut.
    pub cut_headers: u64,
    /// Segments longer than the MSS: GRO or TSO super-packets.
    pub super_packets: u64,
    /// Times data was acknowledged only with what its receiver sent next, and that too late or too much
    /// at once: an ACK was sent before, and not captured.
    pub missing_acks: u64,
    /// The capture's clock was set.
    pub clock_set: bool,
    /// [`SegmentFlags::CLOCK_SET`] of the last segment.
    pub clock_odd: bool,
    /// When it was set last, ns: a segment passed then.
    pub clock_set_ns: u64,
    /// By how much it is behind, ns.
    pub behind_ns: u64,
}

impl Connection {
    /// A part of what it seldom has.
    #[inline]
    pub(super) fn cold<T>(&self, part: impl Fn(&ColdState) -> &Option<Box<T>>) -> Option<&T> {
        self.cold.as_ref().and_then(|cold| part(cold).as_deref())
    }

    /// Whether it is told with other addresses, and not with these.
    #[inline]
    pub(super) fn is_copy(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.is_copy)
    }

    /// From now on nothing is told of it; answers whether that is new.
    pub fn leave_out(&mut self) -> bool {
        !std::mem::replace(&mut self.cold_mut().is_copy, true)
    }

    /// How it ended, once it begins to.
    #[inline]
    pub(super) fn ended(&self) -> Option<&Ending> {
        self.cold.as_ref()?.ending.as_ref()
    }

    /// Whether there is a silence of which what follows may tell more.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.is_unsettled())
    }

    /// The same, to be changed.
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

    /// It begins to end: gives it room for how, if it has none.
    #[inline]
    pub(super) fn lend_rare(&mut self, spare: &mut SpareRares) {
        if self.cold.is_none() {
            self.cold = spare.0.pop();
        }
    }

    /// It is over, and told of: its room for what is rare is kept for another, if there was little in it
    /// but how it ended.
    pub(in crate::tcp) fn give_back(&mut self, spare: &mut SpareRares) {
        let Some(mut cold) = self.cold.take() else { return };
        (cold.ending, cold.echoes, cold.is_copy) = (None, None, false);
        if cold.is_quiet() && spare.0.len() < SPARE_MAX {
            spare.0.push(cold);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn faults_mut(&mut self) -> &mut TraceFaults {
        self.cold_mut().faults.get_or_insert_default()
    }

    /// Notes from here on what drawing it needs.
    pub fn note_trace(&mut self) {
        self.cold_mut().trace = Some(Box::default());
    }

    /// What was noted, where [`note_trace`](Self::note_trace) asked for it.
    pub fn trace(&self) -> Option<&Trace> {
        self.cold(|cold| &cold.trace)
    }

    /// The same, to be added to.
    pub fn trace_mut(&mut self) -> Option<&mut Trace> {
        self.cold.as_mut()?.trace.as_deref_mut()
    }
}
