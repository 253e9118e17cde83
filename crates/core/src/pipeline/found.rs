//! The result of a pass, or of a part of one, before it becomes a report.

use super::observed::Observed;
use super::overview::Overview;
use super::{Control, Options, addresses};
use crate::capture::InputSummary;
use crate::dns::Lookup;
use crate::findings::{self, Tally};
use crate::model::quic::Handshake;
use crate::model::{Fact, Observation, Report, Window};
use crate::tcp::Tracker;
use crate::wire::DecodeCounts;

/// Sums and look-ups of a period of time.
#[derive(Clone, Default, serde::Deserialize, serde::Serialize)]
pub(crate) struct Found {
    pub tally: Tally,
    pub lookups: Vec<Lookup>,
    /// Handshakes of QUIC.
    pub handshakes: Vec<Handshake>,
    /// Number of look-ups that are added up already.
    pub lookups_settled: u64,
    /// Counts and times of all frames.
    pub overview: Overview,
    /// TCP segments in the time window of the report.
    pub segments: u64,
    /// Number of connections excluded because they are copies of others.
    pub copies: u64,
}

impl Found {
    /// Moves the counts of `tracker` here.
    pub fn take_counts(&mut self, tracker: &mut Tracker) {
        self.segments += std::mem::take(&mut tracker.segments);
        self.copies += std::mem::take(&mut tracker.copies);
        self.tally.notes.port_reuses += std::mem::take(&mut tracker.port_reuses);
        self.tally.notes.evicted += std::mem::take(&mut tracker.evicted);
        self.tally.notes.discarded_bytes += tracker.take_discarded_bytes();
    }

    /// Moves the counts of `control` here.
    pub fn take_control(&mut self, control: &mut Control) {
        self.overview.merge(&control.overview.split());
        let (tally, lookups) = control.settled.remove();
        self.tally.merge(tally);
        self.tally.quic.omitted += control.quic.take_omitted();
        self.lookups_settled += lookups;
    }

    /// Adds the counts of `tracker`, which are not reset.
    pub fn add_counts(&mut self, tracker: &Tracker) {
        self.segments += tracker.segments;
        self.copies += tracker.copies;
        self.tally.notes.port_reuses += tracker.port_reuses;
        self.tally.notes.evicted += tracker.evicted;
        self.tally.notes.discarded_bytes += tracker.discarded_bytes();
    }

    /// Adds the counts of `control`, which are not reset.
    pub fn add_control(&mut self, control: &Control) {
        self.overview.merge(&control.overview);
        self.tally.merge(control.settled.tally.clone());
        self.lookups_settled += control.settled.count;
    }

    /// Adds all of `other`, which covers a later period.
    pub fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.lookups.extend(other.lookups);
        self.handshakes.extend(other.handshakes);
        self.lookups_settled += other.lookups_settled;
        self.overview.merge(&other.overview);
        self.segments += other.segments;
        self.copies += other.copies;
    }

    /// Returns the report.
    pub fn report(
        mut self,
        options: &Options,
        observed: Observed,
        inputs: &[InputSummary],
    ) -> Report {
        let mut report = Report { inputs: inputs.to_vec(), ..Report::default() };
        let window = options.window();
        let within = self.lookups.iter().filter(|it| window.overlaps(it.start_ns, it.end_ns));
        report.totals.lookups = within.count() as u64 + self.lookups_settled;
        report.totals.segments = self.segments;
        findings::add_handshakes(self.handshakes, &window, &mut self.tally);
        findings::link(self.lookups, &window, &mut self.tally);
        let Overview { counts, stamps, numbers, first_ns, last_ns } = &mut self.overview;
        counts.merge(&observed.joined.errors);
        report.observations.extend(observed.joined.observation());
        let copy = observed.copy.and_then(|it| it.observation(self.copies));
        report.observations.extend(copy);
        if options.is_translated {
            let (facts, frames) = (Vec::new(), Vec::new());
            report.observations.push(Observation { id: "address_translation", facts, frames });
        }
        report.observations.extend(damage(counts));
        report.totals.decode_errors = *counts;
        report.totals.first_ns = first_ns.unwrap_or(0);
        report.totals.last_ns = *last_ns;
        report.totals.window = (!window.is_all()).then(|| Window {
            from_ns: window.from_ns.max(report.totals.first_ns),
            until_ns: window.until_ns.min(report.totals.last_ns),
        });
        report.settled = options.log_settling.then(Vec::new);
        findings::assemble(self.tally, &options.floors, &mut report);
        stamps.settle(numbers.are_made_up(), &mut report);
        report.observations.extend(addresses::observations(&observed.doubles, &report.findings));
        report
    }
}

/// Returns the observation about packets that contradict their own lengths.
fn damage(counts: &DecodeCounts) -> Option<Observation> {
    let first = counts.first_damaged()?;
    let damaged = counts.errors().filter(|(error, _)| error.is_damage());
    let count = damaged.map(|(_, count)| count).sum();
    let facts = vec![("count", Fact::Count(count))];
    Some(Observation { id: "damaged_packets", facts, frames: vec![first] })
}
