//! State that few connections have while they are open.

use crate::judge::QueueDelay;
use crate::model::Sighting;
use crate::tcp::connection::accept::Refused;
use crate::tcp::connection::doubt::Doubted;
use crate::tcp::connection::echoes::Echoes;
use crate::tcp::connection::ending::Ending;
use crate::tcp::connection::faults::CaptureFaults;
use crate::tcp::connection::icmp::IcmpReport;
use crate::tcp::connection::kernel_answer::AskedKernel;
use crate::tcp::connection::questions::Questions;
use crate::tcp::connection::relayed::Relay;
use crate::tcp::exchange::{Exchange, Recording};
use crate::tcp::trace::Trace;
use crate::wire::{Segment, Side};

/// Rarely needed state of a connection, stored behind a single pointer, and allocated on demand.
#[derive(Clone, Default)]
pub struct Cold(Option<Box<ColdState>>);

/// The state that few connections have while they are open.
#[derive(Clone, Default)]
pub(super) struct ColdState {
    /// State of the ending, once it has begun.
    pub ending: Option<Ending>,
    /// The last timestamp of each side whose echo gives a sample; `None` if the handshake was
    /// captured.
    pub echoes: Option<Box<Echoes>>,
    /// Verdicts that later packets may change.
    pub questions: Questions,
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
    /// Number of requests without an answer that came behind one with which the connection ends.
    pub not_due: u8,
    /// RSTs and ICMP errors after which the client sent the SYN that they refused again: their number,
    /// and the last.
    pub refusals: Option<Box<(u32, Sighting)>>,
    /// Defects of the capture, if there are any.
    pub faults: Option<Box<CaptureFaults>>,
    /// Exchanges held back until more is known of the path.
    #[expect(clippy::vec_box, reason = "they are in boxes before and after that")]
    pub kept: Vec<Box<Exchange>>,
    /// Evidence that a proxy acknowledges in the name of the server.
    pub relay: Relay,
    /// The last segment that its receiver's kernel answers.
    pub asked_kernel: Option<AskedKernel>,
    /// If the handshake was not captured, least time after which the server acknowledged a byte of the
    /// client, with data or without, ns; 0 if it acknowledged none.
    pub acked_within_ns: u64,
    /// The last data for which no exchange waited.
    pub aside: Option<AsideData>,
    /// The connection is a copy of one with other addresses, and is reported only with those.
    pub is_copy: bool,
}

/// Data for which no exchange waited, by positions in the stream of its sender: a closing alert, for
/// example.
#[derive(Clone, Copy)]
pub(super) struct AsideData {
    pub sender: Side,
    /// Position of its first byte.
    pub start: u64,
    /// Position after its last byte.
    pub end: u64,
    /// The data of the same side before it.
    pub before: Sighting,
}

impl ColdState {
    /// Returns whether no state is pending that the next segment may change, except a doubt that
    /// satisfies `is_known`.
    pub fn is_quiet_except(&self, is_known: impl Fn(&Doubted) -> bool) -> bool {
        let Self {
            ending,
            echoes: _,
            questions,
            trace,
            icmp_report,
            queue_delay,
            refused: _,
            other_answer: _,
            ignored_resets: _,
            not_due: _,
            refusals: _,
            faults,
            kept,
            relay: _,
            asked_kernel: _,
            acked_within_ns: _,
            aside: _,
            is_copy: _,
        } = self;
        let is_recorded = trace.is_some() || queue_delay.is_some();
        let is_odd = icmp_report.is_some() || faults.is_some() || ending.is_some();
        kept.is_empty() && !is_recorded && !is_odd && questions.are_settled_except(is_known)
    }

    /// Keeps `data` as that for which no exchange waited, with what directly precedes it.
    pub fn set_aside(&mut self, data: AsideData) {
        let precedes = |it: &AsideData| it.sender == data.sender && it.end == data.start;
        let (start, before) = self
            .aside
            .filter(precedes)
            .map_or((data.start, data.before), |it| (it.start, it.before));
        self.aside = Some(AsideData { start, before, ..data });
    }
}

impl Cold {
    /// The state, if any of it was needed.
    #[inline]
    pub(super) fn get(&self) -> Option<&ColdState> {
        self.0.as_deref()
    }

    /// The state for changes, if any of it was needed.
    #[inline]
    pub(super) fn get_mut(&mut self) -> Option<&mut ColdState> {
        self.0.as_deref_mut()
    }

    /// The state, which is created on demand.
    #[cold]
    #[inline(never)]
    pub(super) fn get_or_create(&mut self) -> &mut ColdState {
        self.0.get_or_insert_default()
    }

    /// The timestamps to be echoed.
    #[inline]
    pub(super) fn echoes_mut(&mut self) -> &mut Echoes {
        self.0.get_or_insert_default().echoes.get_or_insert_default()
    }

    /// Returns a part of the state.
    #[inline]
    pub(super) fn part<T>(&self, part: impl Fn(&ColdState) -> &Option<Box<T>>) -> Option<&T> {
        self.get().and_then(|cold| part(cold).as_deref())
    }

    /// Returns whether the connection is a copy of one with other addresses, under which it is
    /// reported.
    #[inline]
    pub(super) fn is_copy(&self) -> bool {
        self.get().is_some_and(|cold| cold.is_copy)
    }

    /// Excludes the connection from the report; returns whether it was included before.
    pub fn exclude(&mut self) -> bool {
        !std::mem::replace(&mut self.get_or_create().is_copy, true)
    }

    /// Number of RSTs that their receivers ignored, since the connection went on.
    pub fn ignored_resets(&self) -> u64 {
        self.get().map_or(0, |cold| cold.ignored_resets.into())
    }

    /// Counts requests without an answer that came behind one with which the connection ends.
    pub(super) fn count_not_due(&mut self, count: u8) {
        if count > 0 {
            self.get_or_create().not_due = count;
        }
    }

    /// Number of requests without an answer that came behind one with which the connection ends.
    pub fn not_due(&self) -> u64 {
        self.get().map_or(0, |cold| cold.not_due.into())
    }

    /// Returns whether no exchange waited for the byte at `position` of `side`.
    #[inline]
    pub(super) fn is_aside(&self, side: Side, position: u64) -> bool {
        let aside = self.get().and_then(|cold| cold.aside);
        aside.is_some_and(|it| it.sender == side && (it.start..it.end).contains(&position))
    }

    /// Returns the data before the last that `side` has sent, up to `end`, if no exchange waited for that.
    pub(super) fn before_aside(&self, side: Side, end: u64) -> Option<Sighting> {
        let aside = self.get().and_then(|cold| cold.aside);
        let is_last = |it: &AsideData| it.sender == side && it.end == end;
        aside.filter(is_last).map(|it| it.before).filter(|it| it.known().is_some())
    }

    /// State of the ending, once it has begun.
    #[inline]
    pub(super) fn ended(&self) -> Option<&Ending> {
        self.get()?.ending.as_ref()
    }

    /// How the connection has ended so far.
    pub fn ending(&self) -> Ending {
        self.ended().copied().unwrap_or_default()
    }

    /// The state of the ending, for changes.
    #[cold]
    #[inline(never)]
    pub(super) fn ending_mut(&mut self) -> &mut Ending {
        self.get_or_create().ending.get_or_insert_default()
    }

    /// Defects of the capture that concern this connection.
    pub fn faults(&self) -> CaptureFaults {
        self.part(|cold| &cold.faults).copied().unwrap_or_default()
    }

    /// The defects of the capture, for additions.
    #[cold]
    #[inline(never)]
    pub(super) fn faults_mut(&mut self) -> &mut CaptureFaults {
        self.get_or_create().faults.get_or_insert_default()
    }

    /// Returns whether the capture's clock was set while the connection was open.
    pub(super) fn clock_was_set(&self) -> bool {
        self.part(|cold| &cold.faults).is_some_and(|faults| faults.clock_set)
    }

    /// Returns whether the clock was not set in the last `ns` before `segment`.
    pub(super) fn is_timed(&self, segment: &Segment, ns: u64) -> bool {
        self.part(|cold| &cold.faults).is_none_or(|faults| faults.is_timed(segment, ns))
    }

    /// Keeps `doubted` as the doubt about the last gap.
    pub(super) fn set_doubt(&mut self, doubted: Option<Doubted>) {
        match (doubted, self.questions_mut()) {
            (Some(doubted), _) => {
                self.get_or_create().questions.doubted = Some(Box::new(doubted));
            }
            (None, Some(questions)) => questions.doubted = None,
            (None, None) => {}
        }
    }

    /// Removes and returns the doubt about the last gap.
    pub(super) fn take_doubt(&mut self) -> Option<Doubted> {
        self.questions_mut()?.doubted.take().map(|doubted| *doubted)
    }

    /// The verdicts that later packets may change, if there were any.
    #[inline]
    pub(super) fn questions(&self) -> Option<&Questions> {
        self.get().map(|cold| &cold.questions)
    }

    /// The verdicts that later packets may change, if there were any, for changes.
    #[inline]
    pub(super) fn questions_mut(&mut self) -> Option<&mut Questions> {
        self.get_mut().map(|cold| &mut cold.questions)
    }

    /// Returns whether an ACK may show whether a retransmission was needed.
    #[inline]
    pub(super) fn awaits_ack(&self) -> bool {
        self.questions().is_some_and(Questions::awaits_ack)
    }

    /// Returns whether it is not yet settled whether a response was queued.
    #[inline]
    pub(super) fn is_queue_open(&self) -> bool {
        self.questions().is_some_and(|questions| questions.queued.is_some())
    }

    /// Returns whether a gap is not yet settled, which later segments may explain.
    #[inline]
    pub(super) fn is_gap_open(&self) -> bool {
        self.questions().is_some_and(Questions::is_gap_open)
    }

    /// Evidence that a proxy acknowledges in the name of the server.
    pub(super) fn relay(&self) -> Relay {
        self.get().map_or(Relay::Unknown, |cold| cold.relay)
    }

    /// If the handshake was not captured, least time after which the server acknowledged a byte of the
    /// client, with data or without, ns: an upper bound of the round trip to it (RFC 9293 §3.4).
    pub fn acked_within_ns(&self) -> Option<u64> {
        self.get().map(|cold| cold.acked_within_ns).filter(|&ns| ns > 0)
    }

    /// Notes that the server acknowledged a byte of the client `ns` after it.
    pub(super) fn note_acked_within(&mut self, ns: u64) {
        if self.acked_within_ns().is_none_or(|least_ns| ns < least_ns) {
            self.get_or_create().acked_within_ns = ns;
        }
    }

    /// Time at which the last expected segment passed, ns, if it has passed.
    pub fn over_ns(&self) -> Option<u64> {
        self.ended()?.over_ns
    }

    /// Records that nothing more is expected after `now_ns`.
    pub fn set_over(&mut self, now_ns: u64) {
        self.ending_mut().over_ns = Some(now_ns);
    }

    /// Returns whether both sides sent a FIN, or a RST ended the connection.
    pub fn is_over(&self) -> bool {
        self.ended().is_some_and(Ending::is_over)
    }

    /// ICMP errors about this connection, if there were any.
    pub fn icmp_report(&self) -> Option<&IcmpReport> {
        self.part(|cold| &cold.icmp_report)
    }

    /// Queueing delay that transfers of `sender` caused, if there was any.
    pub fn queue_delay(&self, sender: Side) -> Option<&QueueDelay> {
        let queue_delay = &self.part(|cold| &cold.queue_delay)?[sender];
        (!queue_delay.is_empty()).then_some(queue_delay)
    }

    /// Memory of the recorded queueing delays, bytes.
    pub(super) fn queue_delay_bytes(&self) -> usize {
        let queue_delay = self.part(|cold| &cold.queue_delay);
        queue_delay.map_or(0, |both| {
            size_of_val(both) + both.iter().map(QueueDelay::heap_bytes).sum::<usize>()
        })
    }

    /// What the exchanges of the connection record.
    pub(super) fn recording(&self) -> Recording {
        match self.trace() {
            None => Recording::Nothing,
            Some(trace) if trace.decided.is_none() => Recording::Parts,
            Some(_) => Recording::Revisions,
        }
    }

    /// Begins to record what a drawing of the connection needs.
    pub fn note_trace(&mut self) {
        self.get_or_create().trace = Some(Box::default());
    }

    /// Begins to record what an explanation of the connection needs: every gap with everything that
    /// was known.
    pub fn note_decisions(&mut self) {
        let gaps = Some(Vec::new());
        self.get_or_create().trace = Some(Box::new(Trace { decided: gaps, ..Trace::default() }));
    }

    /// The recording that [`note_trace`](Self::note_trace) began.
    pub fn trace(&self) -> Option<&Trace> {
        self.part(|cold| &cold.trace)
    }

    /// The recording, for additions.
    pub fn trace_mut(&mut self) -> Option<&mut Trace> {
        self.get_mut()?.trace.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_about_nothing_allocate_nothing() {
        let mut cold = Cold::default();
        cold.set_doubt(None);
        assert!(cold.take_doubt().is_none() && !cold.is_gap_open() && !cold.is_over());
        assert!(cold.get().is_none());
    }

    #[test]
    fn a_fault_of_the_capture_is_not_quiet() {
        let mut cold = Cold::default();
        cold.get_or_create();
        assert!(cold.get().is_some_and(|cold| cold.is_quiet_except(|_| false)));
        cold.faults_mut().truncated += 1;
        assert!(cold.get().is_some_and(|cold| !cold.is_quiet_except(|_| false)));
    }
}
