//! A diagnosis without end, for a system that is watched: reports of the last while, and of all of it.
//!
//! Time is cut into intervals. What was found in each is kept for as long as it is in the window, and then
//! added to what was found before. A report of the window is the sum of its intervals and of what is
//! under way now: exchanges that are not over are reported as they would be if the capture ended here.

use super::{Analysis, Batch, Control, Found, Options};
use crate::capture::{Block, InputSummary};
use crate::findings::{self, Tally};
use crate::model::{Report, Watched};
use crate::wire::FlowKey;
use std::collections::VecDeque;

/// How long a connection is followed on which nothing passes, ns: TCP's default keep-alive (RFC 9293
/// §3.8.4: two hours at least) and Linux's nine probes of 75 s have shown by then whether its peer is there.
const IDLE_MAX_NS: u64 = (7_200 + 9 * 75) * 1_000_000_000;

/// A diagnosis on the calling thread. Memory grows with open connections and with the number of intervals
/// kept, not with packets.
pub struct Sliding {
    analysis: Analysis,
    batch: Batch,
    /// The intervals of the window, oldest first.
    window: VecDeque<Found>,
    intervals_max: usize,
    /// All that was found before the window.
    before: Found,
    /// Look-ups that were over before the window.
    lookups_before: u64,
}

impl Sliding {
    /// Begins; a report of the window covers the last `intervals` intervals.
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

    /// Takes the next frames, in order of time.
    pub fn take(&mut self, block: &Block) {
        let Analysis { decoder, control, shards, .. } = &mut self.analysis;
        decoder.decode(block, &mut self.batch);
        control.take(&mut self.batch, block);
        for (index, shard) in shards.iter_mut().enumerate() {
            shard.take(index, &self.batch, block);
        }
    }

    /// Ends an interval: what was found since the last one is its part. Intervals that leave the window are
    /// added to what was before.
    pub fn cut(&mut self) {
        let Analysis { control, shards, options, .. } = &mut self.analysis;
        let mut found = Found { lookups: control.take_finished_lookups(), ..Found::default() };
        for shard in shards {
            shard.tracker.end_idle(control.last_ns, IDLE_MAX_NS, &mut shard.tally);
            found.take_counts(&mut shard.tracker);
            found.tally.merge(shard.take_tally(options));
        }
        found.take_control(control);
        found.tally.keep_firsts_of_interval(self.intervals_max);
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

    /// What the window shows: the intervals that were cut last, what came since, and what is under way. A connection's own
    /// entry covers all that was seen of it, also what was before the window.
    pub fn report(&self, inputs: &[InputSummary]) -> Report {
        let since_ns = self.window.iter().find_map(|found| found.first_ns);
        self.report_of(Found::default(), since_ns.unwrap_or(u64::MAX), inputs)
    }

    /// What was found since it began, with what is under way.
    pub fn whole(&self, inputs: &[InputSummary]) -> Report {
        let mut report = self.report_of(self.before.clone(), 0, inputs);
        report.totals.lookups += self.lookups_before;
        report
    }

    /// No packet of connections that are not `kept` comes any more, because fewer are captured: these end
    /// here, as all would at the end of a capture.
    pub fn keep_only(&mut self, kept: impl Fn(&FlowKey) -> bool) {
        for shard in &mut self.analysis.shards {
            shard.tracker.end_unless(&kept, &mut shard.tally);
        }
    }

    /// Connections that are open.
    pub fn open_connections(&self) -> usize {
        self.analysis.shards.iter().map(|shard| shard.tracker.open_connections()).sum()
    }

    /// The sum of `before`, the window, and what is under way on connections that carried something since
    /// `since_ns`.
    fn report_of(&self, before: Found, since_ns: u64, inputs: &[InputSummary]) -> Report {
        let Analysis { control, shards, options, .. } = &self.analysis;
        let mut found = before;
        for interval in &self.window {
            found.merge(interval.clone());
        }
        for shard in shards {
            let mut tally = shard.tally.clone();
            shard.tracker.peek(since_ns, &mut tally);
            found.tally.merge(tally);
            found.add_counts(&shard.tracker);
        }
        found.add_control(control);
        found.tally.leave_out_past_causes();
        found.lookups.extend(control.open_lookups());
        let watched = Watched {
            first_ns: found.first_ns.unwrap_or(control.last_ns),
            last_ns: found.last_ns,
            sampled_share: 1.0,
        };
        let (joiner, translated) = (control.joiner.clone(), control.translated.clone());
        let mut report = found.report(options, joiner, translated, inputs);
        options.narrow(&mut report);
        report.watched = Some(watched);
        report
    }
}

impl super::Shard {
    /// What was added up so far; it begins again.
    fn take_tally(&mut self, options: &Options) -> Tally {
        std::mem::replace(&mut self.tally, Self::tally(options))
    }
}

impl Control {
    /// Look-ups that are over, each once.
    fn take_finished_lookups(&mut self) -> Vec<crate::dns::Lookup> {
        self.names.iter_mut().flat_map(super::Names::take_finished).collect()
    }

    /// Look-ups under way, as they would be if the capture ended here.
    fn open_lookups(&self) -> Vec<crate::dns::Lookup> {
        self.names.iter().flat_map(|names| names.clone().finish(self.last_ns)).collect()
    }
}
