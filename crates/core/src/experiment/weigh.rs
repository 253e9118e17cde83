//! Experiments put beside the findings of a report.

use crate::findings;
use crate::findings::thresholds::CONFIDENCE_MAX;
use crate::model::experiment::{ERROR_MAX, Experiment, ExperimentEvidence, Suspect, Verdict};
use crate::model::{Cause, Fact, Finding, Histogram, Ledger, Owner, Report};

/// Adds to the findings of `report` what the experiments say for or against each, with the
/// confidence that follows, and names causes that only an experiment shows. All experiments are
/// kept in the report.
pub fn weigh(report: &mut Report, experiments: Vec<Experiment>) {
    let alone = alone(&experiments);
    for experiment in &experiments {
        let Some((suspect, agrees)) = experiment.verdict.suspect() else { continue };
        let mut is_known = false;
        for finding in report.findings.iter_mut().filter(|it| is_about(it, suspect)) {
            is_known = true;
            let evidence = ExperimentEvidence { agrees, experiment: experiment.clone() };
            finding.confidence = weighed(finding.confidence, agrees);
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

/// Whether the effect is one on requests. That one name server answers later than another is not:
/// what look-ups cost is known where they were made.
fn shows_alone(cause: Cause) -> bool {
    !cause.owners().contains(&Owner::Dns)
}

fn is_about(finding: &Finding, suspect: &Suspect) -> bool {
    let (one, other) = (finding.culprit, suspect.culprit);
    let same_place = one.endpoint.port == 0 || one.endpoint == other.endpoint;
    finding.cause == suspect.cause && one.role == other.role && same_place
}

/// Bayes' rule in odds. Without the effect an experiment supports a cause with at most
/// [`ERROR_MAX`], so it is at least so much likelier with it; and the other way round where it
/// refutes one.
fn weighed(confidence: f64, agrees: bool) -> f64 {
    let ratio = if agrees { ERROR_MAX.recip() } else { ERROR_MAX };
    let (with, without) = (confidence * ratio, 1.0 - confidence);
    let share = with / (with + without).max(f64::MIN_POSITIVE);
    (share.min(CONFIDENCE_MAX) * 100.0).round() / 100.0
}

/// How sure a cause is that only one of the experiments shows. Before they were made, nothing told apart the causes that
/// they are about, and that it is none of these: each was as likely.
fn alone(experiments: &[Experiment]) -> f64 {
    weighed(1.0 / (experiments.len() + 1) as f64, true)
}

/// A cause that only the experiment shows. What it costs is its effect on each exchange that took
/// so long.
fn found(report: &mut Report, experiment: &Experiment, suspect: &Suspect) -> Finding {
    let is_captured = report.totals.segments > 0;
    let hit = Hit::of(&report.latency_histogram, experiment);
    let lost_ns = own(report, suspect.cause, hit.lost_ns);
    let endpoint = report.endpoints.first();
    let mut finding = Finding {
        lost_ns,
        share: lost_ns as f64 / report.totals.wall_ns.max(1) as f64,
        latency: report.latency,
        counterfactual: hit.without.latency().at_most(&report.latency),
        is_unseen: is_captured,
        software: endpoint.and_then(|it| it.software.clone()),
        protocol: endpoint.map(|it| it.protocol).unwrap_or_default(),
        sender: suspect.sender,
        facts: facts(suspect.cause, experiment.effect_ns.unsigned_abs()),
        experiments: vec![ExperimentEvidence { agrees: true, experiment: experiment.clone() }],
        ..Finding::of_cause(suspect.cause, suspect.culprit)
    };
    finding.affected.exchanges = hit.exchanges;
    finding.affected.of_exchanges = report.totals.exchanges;
    finding.affected.connections = report.totals.connections;
    finding
}

/// The exchanges that can have had the effect, and what they would take without it.
#[derive(Default)]
struct Hit {
    exchanges: u64,
    lost_ns: u64,
    without: Histogram,
}

impl Hit {
    /// An exchange that took the effect and what is left with the change, or nearly so, had it.
    fn of(latency: &Histogram, experiment: &Experiment) -> Self {
        let effect_ns = experiment.effect_ns.unsigned_abs();
        let least_ns = effect_ns - effect_ns / 5;
        let mut hit = Self::default();
        for (ns, count) in latency.points() {
            let lost_ns = match ns >= least_ns {
                true => effect_ns.min(ns.saturating_sub(experiment.changed_ns.min(ns))),
                false => 0,
            };
            hit.exchanges += if lost_ns > 0 { count } else { 0 };
            hit.lost_ns = hit.lost_ns.saturating_add(lost_ns.saturating_mul(count));
            (0..count).for_each(|_| hit.without.record(ns - lost_ns));
        }
        hit
    }
}

/// Moves the time to the cause's owner, from those who have what nobody could tell; answers how
/// much.
fn own(report: &mut Report, cause: Cause, lost_ns: u64) -> u64 {
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

/// What the words of the cause can say of an effect.
fn facts(cause: Cause, effect_ns: u64) -> Vec<(&'static str, Fact)> {
    match cause {
        Cause::NagleDelayedAck | Cause::DelayedAck => {
            vec![("ack_delay_p50_ns", Fact::Ns(effect_ns))]
        }
        Cause::Http100Continue => vec![("wait_p50_ns", Fact::Ns(effect_ns))],
        _ => Vec::new(),
    }
}
