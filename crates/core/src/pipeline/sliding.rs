//! A continuous diagnosis of a watched system, with reports of the last intervals and of the whole
//! time.
//!
//! Time is divided into intervals. The results of each are kept while the interval is in the
//! window, and then added to the results from before. A report of the window is the sum of its
//! intervals and of the open connections: unfinished exchanges are reported as if the capture ended
//! now.

use super::names::{self, LOOKUPS_MAX};
use super::{Analysis, Batch, Control, Found, Options};
use crate::capture::{Block, InputSummary};
use crate::findings::{self, Tally};
use crate::model::{Cause, Finding, Latency, Report, SlowExchange, Watched, Window};
use crate::wire::FlowKey;
use std::collections::VecDeque;

/// Time after which an idle connection is dropped, ns: TCP's default keep-alive (RFC 9293 §3.8.4:
/// at least two hours) and the nine probes of 75 s of Linux have shown by then whether its peer
/// exists.
const IDLE_MAX_NS: u64 = (7_200 + 9 * 75) * 1_000_000_000;

/// Least number of look-ups kept of an interval, however many intervals there are.
const LOOKUPS_MIN: usize = 1 << 8;

/// The exchanges that ended in one interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Their latency.
    pub latency: Latency,
    /// Those that took longest, in descending order (bounded).
    pub slowest: Vec<SlowExchange>,
    /// The causes, of those that were found in the window, that the interval shows.
    pub causes: Vec<Cause>,
}

/// A diagnosis on the calling thread. Memory grows with open connections and with the number of
/// intervals kept, not with packets.
pub struct Sliding {
    analysis: Analysis,
    batch: Batch,
    /// The intervals of the window, oldest first.
    window: VecDeque<Found>,
    intervals_max: usize,
    /// The results from before the window.
    before: Found,
    /// Number of look-ups that ended before the window.
    lookups_before: u64,
}

impl Sliding {
    /// Begins a diagnosis; a report of the window covers the last `intervals` intervals.
    pub fn new(options: Options, intervals: usize) -> Self {
        Self {
            analysis: Analysis::new(options),
            batch: Batch::default(),
            window: VecDeque::new(),
            intervals_max: intervals.max(1),
            before: Found::default(),
            lookups_before: 0,
        }
    }

    /// Processes the next frames, in time order.
    pub fn take(&mut self, block: &Block) {
        let Analysis { decoder, control, shards, .. } = &mut self.analysis;
        decoder.decode(block, &mut self.batch);
        control.take(&mut self.batch, block);
        for (index, shard) in shards.iter_mut().enumerate() {
            shard.take(index, &self.batch, block);
        }
    }

    /// Ends an interval, which contains the results since the end of the last one. The results of
    /// intervals that leave the window are added to the earlier results.
    pub fn cut(&mut self) {
        let Analysis { control, shards, options, .. } = &mut self.analysis;
        let excess = control.names.each_mut().map(super::Names::collect);
        control.settled.take(excess);
        let mut found = Found { lookups: control.take_finished_lookups(), ..Found::default() };
        let handshakes = control.quic.take_finished();
        findings::add_handshakes(handshakes, &options.window(), &mut found.tally);
        for shard in shards {
            shard.tracker.end_idle(control.overview.last_ns, IDLE_MAX_NS, &mut shard.tally);
            found.take_counts(&mut shard.tracker);
            found.tally.merge(shard.take_tally(options));
        }
        found.take_control(control);
        let room = (LOOKUPS_MAX / self.intervals_max).max(LOOKUPS_MIN);
        settle_excess(&mut found, room, &options.window());
        found.tally.keep_firsts_of_interval(self.intervals_max);
        found.tally.bound_interval();
        self.window.push_back(found);
        while self.window.len() > self.intervals_max
            && let Some(mut old) = self.window.pop_front()
        {
            self.lookups_before += old.lookups.len() as u64;
            let lookups = std::mem::take(&mut old.lookups);
            findings::link(lookups, &options.window(), &mut old.tally);
            self.before.merge(old);
            self.before.tally.bound_history();
        }
    }

    /// Returns the report of the window: its intervals, the results since the last one, and open
    /// connections. The entry of a connection covers all of it, including the time before the
    /// window.
    pub fn report(&self, inputs: &[InputSummary]) -> Report {
        let since_ns = self.window.iter().find_map(|found| found.overview.first_ns);
        self.report_of(Found::default(), since_ns.unwrap_or(u64::MAX), inputs)
    }

    /// Returns the exchanges that ended in the last interval, and the causes of `findings` that they show.
    pub fn last(&self, findings: &[Finding], inputs: &[InputSummary]) -> Interval {
        let Some(found) = self.window.back() else { return Interval::default() };
        let Analysis { control, options, .. } = &self.analysis;
        let mut slowest = found.tally.slowest.clone().finish();
        findings::confirm(&mut slowest, findings);
        // Some causes show in single exchanges, and others only in all of the interval together.
        let own = found.clone().report(options, control.observed(), inputs);
        let is_shown = |cause: &Cause| {
            own.findings.iter().any(|it| it.cause == *cause)
                || found.tally.causes.keys().any(|key| key.cause == *cause)
        };
        let mut causes: Vec<Cause> = findings.iter().map(|it| it.cause).filter(is_shown).collect();
        causes.sort_unstable();
        causes.dedup();
        Interval { exchanges: own.totals.exchanges, latency: own.latency, slowest, causes }
    }

    /// Returns the report of the whole time, including open connections.
    pub fn whole(&self, inputs: &[InputSummary]) -> Report {
        let mut report = self.report_of(self.before.clone(), 0, inputs);
        report.totals.lookups += self.lookups_before;
        report
    }

    /// Ends all connections that are not `kept`, as at the end of a capture, because no more
    /// packets of them are captured.
    pub fn keep_only(&mut self, kept: impl Fn(&FlowKey) -> bool) {
        for shard in &mut self.analysis.shards {
            shard.tracker.end_unless(&kept, &mut shard.tally);
        }
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.analysis.shards.iter().map(|shard| shard.tracker.open_connections()).sum()
    }

    /// Returns the sum of `before`, the window, and the connections that carried something since
    /// `since_ns`.
    fn report_of(&self, before: Found, since_ns: u64, inputs: &[InputSummary]) -> Report {
        let Analysis { control, shards, options, .. } = &self.analysis;
        let mut found = before;
        for interval in &self.window {
            found.merge(interval.clone());
        }
        for shard in shards {
            let mut tally = shard.tally.clone();
            shard.tracker.finish_copy(since_ns, &mut tally);
            found.tally.merge(tally);
            found.add_counts(&shard.tracker);
        }
        found.add_control(control);
        found.tally.remove_past_causes();
        found.lookups.extend(control.open_lookups());
        found.handshakes.extend(control.quic.open(since_ns));
        let watched = Watched {
            first_ns: found.overview.first_ns.unwrap_or(control.overview.last_ns),
            last_ns: found.overview.last_ns,
            sampled_share: 1.0,
        };
        let mut report = found.report(options, control.observed(), inputs);
        options.narrow(&mut report);
        report.watched = Some(watched);
        report
    }
}

/// Adds up the look-ups of an interval beyond the `room` for them.
fn settle_excess(found: &mut Found, room: usize, window: &Window) {
    let excess = names::excess(&mut found.lookups, room);
    if !excess.is_empty() {
        found.lookups_settled += excess.len() as u64;
        found.tally.notes.unlinked += excess.len() as u64;
        found.tally.link_part(excess, window);
    }
}

impl super::Shard {
    /// Removes and returns the sums so far.
    fn take_tally(&mut self, options: &Options) -> Tally {
        std::mem::replace(&mut self.tally, Self::tally(options))
    }
}

impl Control {
    /// Removes and returns the finished look-ups, each once.
    pub(crate) fn take_finished_lookups(&mut self) -> Vec<crate::dns::Lookup> {
        self.names.iter_mut().flat_map(super::Names::take_finished).collect()
    }

    /// Returns the look-ups in progress, as if the capture ended now.
    fn open_lookups(&self) -> Vec<crate::dns::Lookup> {
        self.names.iter().flat_map(|names| names.clone().finish(self.overview.last_ns)).collect()
    }
}
