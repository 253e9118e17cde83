//! Two diagnoses of the same connections to one: told by the place that measures best, checked
//! against the other.

use super::lane::Crossing;
use super::pairs::{Pairs, Place};
use super::{Clocks, Minima};
use crate::app::Side;
use crate::cause::{Cause, Class, Role, Tally};
use crate::report::{Culprit, Fact, Finding, Join, Observation, Report, Sight, Vantage};
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// No two views make a finding surer than this.
const CONFIDENCE_MAX: f64 = 0.99;

/// What both places of an input saw, over all its shards.
#[derive(Default)]
pub struct Joint {
    both: [Tally; 2],
    minima: Minima,
    crossings: HashMap<Endpoint, [Crossing; 2]>,
    connections: u64,
    told_by: Place,
    /// Time lost to each cause as the other place has it, ns, however little.
    elsewhere: HashMap<(Cause, Culprit), u64>,
    /// Bytes that the other place missed.
    missing_bytes: u64,
}

impl Joint {
    /// Adds what a shard found out.
    pub fn take(&mut self, both: [Tally; 2], pairs: Pairs) {
        for (mine, theirs) in self.both.iter_mut().zip(both) {
            mine.merge(theirs);
        }
        self.minima.merge(pairs.minima);
        for (server, theirs) in pairs.crossings {
            let mine = self.crossings.entry(server).or_default();
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                mine.merge(&theirs);
            }
        }
    }

    /// How fast datagrams came across, for where no connection tells. Who asks whom may be the
    /// other way round: servers look up names too.
    pub fn time(&mut self, minima: Minima) {
        if self.minima.calibrate().is_none() {
            self.minima = minima;
        }
    }

    /// Adds to `tally` what both saw, as the place tells it that sees better; answers what the other
    /// tells. What a request took is measured best where it was made, unless the capture there
    /// has holes that the other has not.
    pub fn split(&mut self, tally: &mut Tally) -> Tally {
        let [first, second] = std::mem::take(&mut self.both);
        let defect = |tally: &Tally| (tally.one_way(), tally.notes.missing_bytes());
        let (told, other) = if defect(&second) < defect(&first) {
            self.told_by = 1;
            (second, first)
        } else {
            (first, second)
        };
        self.connections = told.connections;
        self.missing_bytes = other.notes.missing_bytes();
        for (key, cause) in &other.causes {
            *self.elsewhere.entry((key.cause, key.culprit)).or_default() += cause.lost_ns;
        }
        tally.merge(told);
        other
    }

    /// Checks `report` against `other`, what the other place tells. The clock of the second place
    /// was set back by `ahead_ns` before.
    pub fn agree(self, report: &mut Report, other: &Report, ahead_ns: i64) {
        let mut vantages = [report.totals.vantage, other.totals.vantage];
        if self.told_by == 1 {
            vantages.reverse();
        }
        let mut crossings = [Crossing::default(); 2];
        for (mine, of_side) in self.crossings.values().flat_map(|it| it.iter().enumerate()) {
            crossings[mine].merge(of_side);
        }
        let clocks = self.minima.calibrate();
        let clocks = clocks.map(|clocks| Clocks {
            offset_ns: clocks.offset_ns.saturating_add(ahead_ns),
            ..clocks
        });
        let told_by = self.told_by;
        let join = Join { vantages, told_by, clocks, connections: self.connections, crossings };
        self.check(report, other, &join);
        self.complete(report, other);
        for finding in &mut report.findings {
            self.locate(finding, &join);
        }
        report.observations.extend(self.observations(&join));
        report.join = Some(join);
    }

    /// What this place says is confirmed by the other, or refuted by it.
    fn check(&self, report: &mut Report, other: &Report, join: &Join) {
        let mut refuted = Vec::new();
        report.findings.retain_mut(|finding| {
            if !self.crossings.contains_key(&server(finding)) {
                return true;
            }
            let theirs = other.findings.iter().find(|it| is_same(it, finding));
            let lost_ns = match theirs {
                Some(theirs) => Some(theirs.lost_ns),
                None => self.elsewhere.get(&(finding.cause, finding.culprit)).copied(),
            };
            if theirs.is_none() && self.is_refuted(finding, other, lost_ns.unwrap_or(0)) {
                refuted.push(finding.cause);
                return false;
            }
            finding.sights.push(Sight { place: self.told_by, lost_ns: finding.lost_ns });
            if let Some(lost_ns) = lost_ns {
                finding.sights.push(Sight { place: 1 - self.told_by, lost_ns });
            }
            finding.sights.sort_unstable_by_key(|sight| sight.place);
            if let Some(theirs) = theirs {
                self.confirm(finding, theirs);
            }
            true
        });
        for cause in refuted {
            let facts = vec![
                ("cause", Fact::Text(cause.id().into())),
                ("told", Fact::Text(join.words(self.told_by).into())),
                ("other", Fact::Text(join.words(1 - self.told_by).into())),
            ];
            report.observations.push(Observation { id: "join_refuted", facts, frames: Vec::new() });
        }
    }

    /// Whether the other place sees better who was waited for, and sees another cause or none.
    fn is_refuted(&self, finding: &Finding, other: &Report, lost_there_ns: u64) -> bool {
        let replaced = other.findings.iter().any(|it| replaces(it, finding));
        let contradicted = best_place(finding) != self.told_by
            && self.missing_bytes == 0
            && 2 * lost_there_ns < finding.lost_ns;
        finding.cause.class() == Class::Fault && (replaced || contradicted)
    }

    /// Both say so: the proof is that of the place that sees better.
    fn confirm(&self, finding: &mut Finding, theirs: &Finding) {
        let doubt = (1.0 - finding.confidence) * (1.0 - theirs.confidence);
        let sure = (1.0 - doubt).min(CONFIDENCE_MAX);
        if best_place(finding) != self.told_by && !theirs.evidence.is_empty() {
            finding.evidence.clone_from(&theirs.evidence);
            finding.evidence_flow = theirs.evidence_flow;
            finding.ruled_out.clone_from(&theirs.ruled_out);
            finding.facts.clone_from(&theirs.facts);
        }
        finding.confidence = (sure * 100.0).round() / 100.0;
    }

    /// Adds faults that show at the other place only, where that sees better.
    fn complete(&self, report: &mut Report, other: &Report) {
        let wall_ns = report.totals.wall_ns.max(1) as f64;
        for theirs in &other.findings {
            let is_new = report.findings.iter().all(|it| !is_same(it, theirs));
            let is_fault = theirs.cause.class() == Class::Fault;
            if is_new && is_fault && best_place(theirs) != self.told_by {
                let mut finding = theirs.clone();
                finding.share = finding.lost_ns as f64 / wall_ns;
                let place = 1 - self.told_by;
                finding.sights = vec![Sight { place, lost_ns: finding.lost_ns }];
                report.findings.push(finding);
            }
        }
        crate::cause::arrange(&mut report.findings, &report.totals);
    }

    /// Where the packets were lost: between the two places, or behind the one that saw them last.
    fn locate(&self, finding: &mut Finding, join: &Join) {
        let Some(crossings) = self.crossings.get(&server(finding)) else { return };
        let sides: &[Side] = match finding.cause {
            // Either half of a handshake may have been lost.
            Cause::SynRetransmit => &Side::ALL,
            Cause::RetransmissionTimeout | Cause::FastRecovery | Cause::MtuBlackHole => {
                std::slice::from_ref(&finding.sender)
            }
            _ => return,
        };
        let mut all = Crossing::default();
        sides.iter().for_each(|&side| all.merge(&crossings[side as usize]));
        let place = if all.lost_packets > 0 {
            "between the two captures".into()
        } else if all.appeared_packets == 0 && all.uncovered_packets == 0 {
            let receiver = usize::from(finding.sender == Side::Client);
            format!("behind the capture {}, which has it", join.words(receiver))
        } else {
            return;
        };
        let facts = [
            ("place", Fact::Text(place)),
            ("lost_between", Fact::Count(all.lost_packets)),
            ("of_between", Fact::Count(all.packets + all.lost_packets)),
        ];
        for (name, fact) in facts {
            finding.facts.retain(|(of, _)| *of != name);
            if fact != Fact::Count(0) {
                finding.facts.push((name, fact));
            }
        }
    }

    fn observations(&self, join: &Join) -> Vec<Observation> {
        let mut all = Vec::new();
        let mut note = |id, facts| all.push(Observation { id, facts, frames: Vec::new() });
        let other = 1 - self.told_by;
        if self.missing_bytes > 0 {
            let facts = vec![
                ("bytes", Fact::Bytes(self.missing_bytes)),
                ("other", Fact::Text(join.words(other).into())),
            ];
            note("join_holes", facts);
        }
        let appeared: u64 = join.crossings.iter().map(|it| it.appeared_packets).sum();
        if appeared > 0 {
            note("join_appeared", vec![("count", Fact::Count(appeared))]);
        }
        if join.clocks.is_none() {
            note("join_uncertain", Vec::new());
        }
        all
    }
}

/// Where it is seen best: at the end that has to change something; of the path, at that of whoever
/// was waited for.
fn best_place(finding: &Finding) -> Place {
    let side = match finding.culprit.role {
        Role::Client => Side::Client,
        Role::Server => Side::Server,
        _ => finding.sender,
    };
    usize::from(side == Side::Server)
}

/// Whose connections it is about.
fn server(finding: &Finding) -> Endpoint {
    finding.evidence_flow.map_or(finding.culprit.endpoint, |(_, server)| server)
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.cause, one.culprit) == (other.cause, other.culprit)
}

/// Whether `better`, which the server's end alone can prove, is what looks like a lost SYN from
/// afar.
fn replaces(better: &Finding, finding: &Finding) -> bool {
    let proven = match better.cause {
        Cause::SynFlood => {
            matches!(finding.cause, Cause::SynRetransmit | Cause::AcceptQueueOverflow)
        }
        Cause::AcceptQueueOverflow => finding.cause == Cause::SynRetransmit,
        _ => false,
    };
    proven && better.culprit.endpoint == finding.culprit.endpoint
}

impl Join {
    /// What a place is called, as in "captured at the client".
    pub fn words(&self, place: Place) -> &'static str {
        match (self.vantages.get(place), place) {
            (Some(Vantage::Client), _) => "at the client",
            (Some(Vantage::Server), _) => "at the server",
            (_, 0) => "nearer the client",
            _ => "nearer the server",
        }
    }
}
