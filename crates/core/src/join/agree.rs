//! Joins two diagnoses of the same connections: each connection is reported by the place that sees
//! it better, and compared with the account of the other place.

use super::Minima;
use super::judge::Settled;
use super::pairs::{Pairs, Resets};
use crate::findings::thresholds::CONFIDENCE_MAX;
use crate::findings::{DROPPER, Tally, is_loss};
use crate::join::Sites;
use crate::model::{
    Cause, Class, Clocks, Crossing, Culprit, Fact, Family, Finding, Join, Observation, Place,
    Report, Role, Sight, Vantage,
};
use crate::wire::{Endpoint, Side};
use hashbrown::HashMap;

/// Results of both places of an input, over all shards.
#[derive(Default)]
pub struct Joint {
    settled: Settled,
    minima: Minima,
    crossings: HashMap<Endpoint, [Crossing; 2]>,
    resets: HashMap<(Endpoint, Side), Resets>,
    /// Time of the last segment at each place, ns.
    last_ns: [u64; 2],
}

impl Joint {
    /// Adds the results of a shard.
    pub fn take(&mut self, settled: Settled, pairs: Pairs) {
        self.settled.merge(settled);
        self.minima.merge(pairs.minima);
        for (server, theirs) in pairs.crossings {
            let mine = self.crossings.entry(server).or_default();
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                mine.merge(&theirs);
            }
        }
        for (mine, theirs) in self.last_ns.iter_mut().zip(pairs.last_ns) {
            *mine = (*mine).max(theirs);
        }
        for (of, theirs) in pairs.resets {
            self.resets.entry(of).or_default().merge(&theirs);
        }
    }

    /// Uses the transit times of datagrams if there are none of connections. The direction of
    /// queries may differ from that of connections, since servers look up names too.
    pub fn time(&mut self, minima: Minima) {
        if self.minima.calibrate().is_none() {
            self.minima = minima;
        }
    }

    /// Adds to `tally` the connections that both places saw, each as the better place saw it.
    /// Returns the account of the other place.
    pub fn split(&mut self, tally: &mut Tally) -> Tally {
        tally.merge(std::mem::take(&mut self.settled.reported));
        std::mem::take(&mut self.settled.other)
    }

    /// Compares `report` with `other`, the account of the other place. The clock of the second
    /// place has been corrected before, by the amount in `sites`.
    pub fn agree(self, report: &mut Report, other: &Report, sites: &Sites) {
        let mut crossings = [Crossing::default(); 2];
        for (mine, of_side) in self.crossings.values().flat_map(|it| it.iter().enumerate()) {
            crossings[mine].merge(of_side);
        }
        let clocks = self.minima.calibrate();
        let clocks = clocks.map(|clocks| Clocks {
            offset_ns: clocks.offset_ns.saturating_add(sites.ahead_ns()),
            ..clocks
        });
        let [by_first, by_second] = self.settled.used_by_place;
        let join = Join {
            vantages: [report.totals.vantage, other.totals.vantage],
            told_by: usize::from(by_second > by_first),
            clocks,
            connections: by_first + by_second,
            crossings,
        };
        for finding in &mut report.findings {
            let theirs = other.findings.iter().find(|it| is_same(it, finding));
            self.weigh(finding, theirs, &join, sites);
            self.locate(finding, &join);
            self.trace_resets(finding, &join);
        }
        crate::findings::arrange(&mut report.findings, &report.totals);
        report.observations.extend(left_out(report, other, &join, sites));
        report.observations.extend(self.observations(&join));
        report.join = Some(join);
    }

    /// Sets the places that see a finding. If both do, raises the confidence and takes the evidence
    /// of the place that sees it better.
    fn weigh(&self, finding: &mut Finding, theirs: Option<&Finding>, join: &Join, sites: &Sites) {
        if !self.crossings.contains_key(&server(finding)) {
            return;
        }
        let mut lost_ns =
            self.settled.lost_ns.get(&(finding.cause, shared_culprit(finding))).copied();
        let is_from_one_place = self.settled.used_by_place.contains(&0);
        if is_from_one_place && finding.cause.family() != Family::Ending {
            // Evidence from the whole capture may have changed the cost of a cause.
            let lost_ns = lost_ns.get_or_insert_default();
            lost_ns[join.told_by] = finding.lost_ns;
            if let Some(theirs) = theirs {
                lost_ns[1 - join.told_by] = theirs.lost_ns;
            }
        }
        let seen = lost_ns.unwrap_or_default().into_iter().enumerate();
        let seen = seen.filter(|&(_, lost_ns)| lost_ns > 0);
        finding.sights = seen.map(|(place, lost_ns)| Sight { place, lost_ns }).collect();
        let Some(theirs) = theirs else { return };
        let doubt = (1.0 - finding.confidence) * (1.0 - theirs.confidence);
        let sure = (1.0 - doubt).min(CONFIDENCE_MAX);
        let best = Some(best_place(finding));
        if shown_at(finding, sites) != best && shown_at(theirs, sites) == best {
            finding.evidence.clone_from(&theirs.evidence);
            finding.evidence_flow = theirs.evidence_flow;
            finding.evidence_exchange = theirs.evidence_exchange;
            finding.ruled_out.clone_from(&theirs.ruled_out);
            finding.facts.clone_from(&theirs.facts);
        }
        finding.confidence = (sure * 100.0).round() / 100.0;
    }

    /// Attributes a RST that was not seen at its sender's place to a host between the two places.
    fn trace_resets(&self, finding: &mut Finding, join: &Join) {
        let server = server(finding);
        let near = usize::from(finding.sender == Side::Server);
        let Some(resets) = self.resets.get(&(server, finding.sender)) else { return };
        let is_known =
            self.crossings.contains_key(&server) && self.settled.missing_bytes[near] == 0;
        if finding.cause.family() == Family::Ending
            && is_known
            && resets.are_forged(self.last_ns[near])
        {
            finding.culprit = Culprit { role: Role::Network, endpoint: server };
            finding.facts.push(("not_sent", Fact::Text(join.words(near).into())));
        }
    }

    /// States where packets were lost: between the two places, or beyond the one that saw them
    /// last.
    fn locate(&self, finding: &mut Finding, join: &Join) {
        let Some(crossings) = self.crossings.get(&server(finding)) else { return };
        let sides: &[Side] = match finding.cause {
            // Either packet of the handshake may have been lost.
            Cause::SynRetransmit => &Side::ALL,
            Cause::RetransmissionTimeout | Cause::FastRecovery | Cause::MtuBlackHole => {
                std::slice::from_ref(&finding.sender)
            }
            _ => return,
        };
        let mut all = Crossing::default();
        sides.iter().for_each(|&side| all.merge(&crossings[side]));
        let place = if all.lost_packets > 0 {
            "between the two captures".into()
        } else if all.appeared_packets == 0 && all.uncovered_packets == 0 {
            let receiver = usize::from(finding.sender == Side::Client);
            format!("beyond the capture {}, which shows it", join.words(receiver))
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
        for (place, bytes) in self.settled.missing_bytes.into_iter().enumerate() {
            if bytes > 0 {
                let other = Fact::Text(join.words(place).into());
                note("join_holes", vec![("bytes", Fact::Bytes(bytes)), ("other", other)]);
            }
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

/// Returns observations about faults that only the account which is not used for these connections
/// would report.
fn left_out(report: &Report, other: &Report, join: &Join, sites: &Sites) -> Vec<Observation> {
    let is_reported = |theirs: &&Finding| report.findings.iter().any(|it| is_same(it, theirs));
    let faults = other.findings.iter().filter(|it| it.cause.class() == Class::Fault);
    let note = |theirs: &Finding| {
        let place = shown_at(theirs, sites)?;
        let facts = vec![
            ("cause", Fact::Text(theirs.cause.id().into())),
            ("told", Fact::Text(join.words(place).into())),
            ("other", Fact::Text(join.words(1 - place).into())),
        ];
        Some(Observation { id: "join_refuted", facts, frames: Vec::new() })
    };
    faults.filter(|theirs| !is_reported(theirs)).filter_map(note).collect()
}

/// Returns the place at which the evidence was captured.
fn shown_at(finding: &Finding, sites: &Sites) -> Option<Place> {
    finding.evidence.first().map(|shown| sites.place(shown.frame))
}

/// Returns the place that sees a finding best: the end that has to change something; for the path,
/// the end where the cause is visible.
fn best_place(finding: &Finding) -> Place {
    let side = match finding.culprit.role {
        Role::Client => Side::Client,
        Role::Server => Side::Server,
        _ => finding.cause.witness(finding.sender),
    };
    usize::from(side == Side::Server)
}

/// Returns the server of the connections that a finding is about.
fn server(finding: &Finding) -> Endpoint {
    finding.evidence_flow.map_or(finding.culprit.endpoint, |(_, server)| server)
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.cause, shared_culprit(one)) == (other.cause, shared_culprit(other))
}

/// Returns the culprit as both places know it: packets that a host drops behind the capture there are
/// for the other place lost on the path.
fn shared_culprit(finding: &Finding) -> Culprit {
    let drops = finding.facts.iter().any(|(name, _)| *name == DROPPER);
    let of_path = Culprit { role: Role::Network, endpoint: server(finding) };
    if drops && is_loss(finding.cause) { of_path } else { finding.culprit }
}

impl Join {
    /// Returns the name of a place, as in "captured at the client".
    pub fn words(&self, place: Place) -> &'static str {
        match (self.vantages.get(place), place) {
            (Some(Vantage::Client), _) => "at the client",
            (Some(Vantage::Server), _) => "at the server",
            (_, 0) => "nearer the client",
            _ => "nearer the server",
        }
    }
}
