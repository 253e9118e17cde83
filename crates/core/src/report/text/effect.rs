//! The figure of latency that a headline states: the one in which the cost shows.

use super::finding::is_fault;
use crate::findings::prediction;
use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN};
use crate::model::units::{duration, roughly, upper_end};
use crate::model::{Finding, Language, Latency, Report};
use crate::say;

/// A figure of latency, as it is and as it would be, ns.
struct Figure {
    name: Name,
    now_ns: u64,
    /// The likely value without the cause.
    then_ns: u64,
    /// The upper end.
    most_ns: u64,
}

#[derive(Clone, Copy)]
enum Name {
    /// The latency of the only exchange.
    Only,
    Percentile(u64),
    Longest,
    Mean,
}

impl Figure {
    /// Returns the part of the latency that would be saved, 0 to 1.
    fn saved(&self) -> f64 {
        1.0 - self.then_ns.min(self.now_ns) as f64 / self.now_ns.max(1) as f64
    }
}

/// Describes a distribution of `count` latencies by two figures, or the only one.
pub(super) fn described(latency: &Latency, count: u64, language: Language) -> String {
    let [p50, p99, max] = [latency.p50_ns, latency.p99_ns, latency.max_ns].map(duration);
    match count {
        0 | 1 => max,
        _ if Latency::has_percentile(99, count) => say!(language, "p50_p99", p50, p99),
        _ => say!(language, "p50_longest", p50, max),
    }
}

/// Describes the latency predicted without a fault, for the exchanges that it could have affected,
/// which may be only some of the report's; empty if there is no prediction.
pub(super) fn prediction(report: &Report, finding: &Finding, language: Language) -> String {
    if !is_predicted(finding) {
        return String::new();
    }
    let Some(figure) = figure(report, finding) else { return String::new() };
    let count = finding.affected.of_exchanges;
    let of_all = count == report.totals.exchanges;
    if figure.most_ns >= figure.now_ns {
        return String::new();
    }
    let (now, then) = (duration(figure.now_ns), left_over(&figure, language));
    let id = match figure.name {
        Name::Only if of_all => "only_exchange",
        Name::Only => "only_exchange_there",
        Name::Percentile(percentile) => {
            let count = (!of_all).then_some(count);
            return say!(language, "percentile", count, percentile, now, then);
        }
        // That may be another exchange.
        Name::Longest if of_all => "longest",
        Name::Longest => "longest_there",
        Name::Mean if of_all => "mean",
        Name::Mean => "mean_there",
    };
    say!(language, id, count, now, then)
}

/// Takes one figure of a latency.
type Of = fn(&Latency) -> u64;

/// Returns the most common figure that shows the effect. The part saved of the mean is the share of
/// the cost in all time. A percentile that saves less hides a part of the cost; if all of them do,
/// it is the mean.
fn figure(report: &Report, finding: &Finding) -> Option<Figure> {
    let count = finding.affected.of_exchanges;
    let (now, then) = (&finding.latency, &finding.counterfactual);
    let figure = |name, of: Of| Figure {
        name,
        now_ns: of(now),
        then_ns: of(&then.likely),
        most_ns: of(&then.most),
    };
    if count == 1 {
        return Some(figure(Name::Only, |of| of.max_ns));
    }
    let percentiles: [(u64, Of); 3] =
        [(50, |of| of.p50_ns), (90, |of| of.p90_ns), (99, |of| of.p99_ns)];
    // The median of two is one of them, which the cause may not have touched.
    let are_several = count >= u64::from(HABIT_MIN);
    let percentiles = percentiles.into_iter();
    let percentiles =
        percentiles.filter(|(it, _)| are_several && Latency::has_percentile(*it, count));
    let figures = percentiles.map(|(it, of)| figure(Name::Percentile(it), of));
    let mut figures = figures.chain([figure(Name::Longest, |of| of.max_ns)]);
    let Some(wall_ns) = wall_ns(report, finding) else {
        return figures.max_by(|one, other| one.saved().total_cmp(&other.saved()));
    };
    let left_ns = wall_ns.saturating_sub(finding.lost_ns) / count.max(1);
    let mean = Figure {
        name: Name::Mean,
        now_ns: wall_ns / count.max(1),
        then_ns: left_ns,
        most_ns: prediction::ends_ns(left_ns, 0).1,
    };
    let enough = mean.saved() * (1.0 - 1.0 / ALIKE_PART as f64);
    figures.find(|it| it.saved() >= enough).or(Some(mean))
}

/// Returns the time of all exchanges that the finding could have affected, ns; `None` if the report
/// has no such sum.
fn wall_ns(report: &Report, finding: &Finding) -> Option<u64> {
    let count = finding.affected.of_exchanges;
    if count == report.totals.exchanges {
        return Some(report.totals.wall_ns);
    }
    let (_, server) = finding.evidence_flow.unwrap_or_default();
    let mut servers = report.endpoints.iter().filter(|it| it.exchanges == count);
    let at = servers.find(|it| it.endpoint == server || it.endpoint == finding.culprit.endpoint);
    at.map(|it| it.ledger.total_ns())
}

/// Formats a predicted figure with its upper end. No exchange takes less than a microsecond: below
/// that, only the upper end means something.
fn left_over(figure: &Figure, language: Language) -> String {
    let most = upper_end(figure.most_ns, figure.now_ns);
    if figure.then_ns < 1_000 {
        return say!(language, "at_most", most);
    }
    match roughly(figure.then_ns, figure.now_ns) {
        then if then == most => say!(language, "about", then),
        then => say!(language, "about", then, most),
    }
}

/// Returns whether the latency without the fault can be predicted. It cannot if all exchanges
/// failed or were never acknowledged, if nothing in the capture shows how long they take without it, or if they wait for their
/// turn in any case.
pub(super) fn is_predicted(finding: &Finding) -> bool {
    let in_vain = finding.cause.makes_exchanges_fail() || finding.counterfactual.likely.max_ns == 0;
    let unknown = ["unmeasured", "turn_ns", "given_up"];
    let is_measured = finding.facts.iter().all(|(name, _)| !unknown.contains(name));
    is_fault(finding) && finding.lost_ns > 0 && !in_vain && is_measured
}
