//! Adds the evidence of experiments to the findings of a report.

use crate::findings::thresholds::CONFIDENCE_MAX;
use crate::findings::{self, prediction};
use crate::judge::thresholds::ALIKE_PART;
use crate::model::experiment::{ERROR_MAX, Experiment, ExperimentEvidence, Suspect, Verdict};
use crate::model::{Cause, Fact, Finding, Histogram, Ledger, Owner, Report};

/// Adds to the findings of `report` the evidence of the experiments for or against each, adapts
/// their confidence, and adds causes that only an experiment shows. All experiments are kept in the
/// report.
pub fn weigh(report: &mut Report, experiments: Vec<Experiment>) {
    let alone = alone(&experiments);
    let is_captured = report.totals.segments > 0;
    for experiment in &experiments {
        let Some((suspect, agrees)) = experiment.verdict.suspect() else { continue };
        let mut is_known = false;
        for finding in report.findings.iter_mut().filter(|it| is_about(it, suspect)) {
            is_known = true;
            let evidence = ExperimentEvidence { agrees, experiment: experiment.clone() };
            // A finding that neither packets nor the state of a socket show rests on the experiment.
            let is_other_kind = is_captured || !finding.state.is_empty();
            finding.confidence =
                if is_other_kind { weighed(finding.confidence, agrees) } else { alone };
            finding.experiments.push(evidence);
        }
        let is_alone = !is_known && shows_alone(suspect.cause);
        if let (true, Verdict::Supports(suspect)) = (is_alone, &experiment.verdict) {
            let finding = found(report, experiment, suspect);
            report.findings.push(Finding { confidence: alone, ..finding });
        }
    }
    report.experiments.extend(experiments);
    findings::arrange(&mut report.findings, &report.totals);
}

/// Returns whether an experiment alone can prove a cause: its effect must be on requests. A name
/// server that answers later than another is no proof, since the cost of look-ups is known only at
/// the client that made them.
fn shows_alone(cause: Cause) -> bool {
    !cause.owners().contains(&Owner::Dns)
}

fn is_about(finding: &Finding, suspect: &Suspect) -> bool {
    let (one, other) = (finding.culprit, suspect.culprit);
    let same_place = one.endpoint.port == 0 || one.endpoint == other.endpoint;
    finding.cause == suspect.cause && one.role == other.role && same_place
}

/// Applies Bayes' rule in odds. The probability that an experiment wrongly supports a cause is at
/// most [`ERROR_MAX`], which bounds the likelihood ratio; the same holds if it refutes a cause.
fn weighed(confidence: f64, agrees: bool) -> f64 {
    let ratio = if agrees { ERROR_MAX.recip() } else { ERROR_MAX };
    let (with, without) = (confidence * ratio, 1.0 - confidence);
    let share = with / (with + without).max(f64::MIN_POSITIVE);
    (share.min(CONFIDENCE_MAX) * 100.0).round() / 100.0
}

/// Returns the confidence in a cause that only one of the experiments shows. Before them, all
/// causes that they are about, none of these, and another one that the same change affects, were
/// equally likely.
fn alone(experiments: &[Experiment]) -> f64 {
    weighed(1.0 / (experiments.len() + 2) as f64, true)
}

/// Returns the finding of a cause that only the experiment shows. Its cost is the effect on each
/// exchange that took long enough.
fn found(report: &mut Report, experiment: &Experiment, suspect: &Suspect) -> Finding {
    let is_captured = report.totals.segments > 0;
    let hit = Hit::of(&report.latency_histogram, experiment);
    let lost_ns = attribute(report, suspect.cause, hit.lost_ns);
    let endpoint = report.endpoints.first();
    let effect = findings::effect_fact(suspect.cause)
        .map(|name| (name, Fact::Ns(experiment.effect_ns.unsigned_abs())));
    let mut finding = Finding {
        lost_ns,
        share: findings::share_of(lost_ns, report.totals.wall_ns),
        latency: report.latency,
        counterfactual: prediction::of(&report.latency_histogram, &hit.now, &hit.without, 0),
        is_unseen: is_captured,
        software: endpoint.and_then(|it| it.software.clone()),
        protocol: endpoint.map(|it| it.protocol).unwrap_or_default(),
        sender: suspect.sender,
        facts: effect.into_iter().collect(),
        experiments: vec![ExperimentEvidence { agrees: true, experiment: experiment.clone() }],
        ..Finding::of_cause(suspect.cause, suspect.culprit)
    };
    finding.affected.exchanges = hit.exchanges;
    finding.affected.of_exchanges = report.totals.exchanges;
    finding.affected.connections = report.totals.connections;
    finding
}

/// The exchanges that may have been affected, with their latencies now and without the effect.
#[derive(Default)]
struct Hit {
    exchanges: u64,
    lost_ns: u64,
    now: Histogram,
    without: Histogram,
}

impl Hit {
    /// Selects exchanges that took about as long as the effect plus the time with the change.
    fn of(latency: &Histogram, experiment: &Experiment) -> Self {
        let effect_ns = experiment.effect_ns.unsigned_abs();
        let least_ns = effect_ns - effect_ns / ALIKE_PART;
        let mut hit = Self::default();
        for (ns, count) in latency.points() {
            let lost_ns = match ns >= least_ns {
                true => effect_ns.min(ns.saturating_sub(experiment.changed_ns.min(ns))),
                false => 0,
            };
            if lost_ns == 0 {
                continue;
            }
            hit.exchanges += count;
            hit.lost_ns = hit.lost_ns.saturating_add(lost_ns.saturating_mul(count));
            hit.now.record_many(ns, count);
            hit.without.record_many(ns - lost_ns, count);
        }
        hit
    }
}

/// Moves time to the owner of the cause from owners that cannot be distinguished without the
/// experiment. Returns how much was moved.
fn attribute(report: &mut Report, cause: Cause, lost_ns: u64) -> u64 {
    let Some(&to) = cause.owners().first() else { return 0 };
    let take = |ledger: &mut Ledger| {
        let from = [Owner::Unknown, Owner::Server, Owner::Client, Owner::Connect];
        from.into_iter()
            .filter(|&from| from != to)
            .fold(0, |taken, from| taken + ledger.transfer(from, to, lost_ns.saturating_sub(taken)))
    };
    if let [endpoint] = report.endpoints.as_mut_slice() {
        take(&mut endpoint.ledger);
    }
    take(&mut report.ledger)
}
