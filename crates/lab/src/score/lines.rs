//! Sums up the results of all captures: a line for each cause, and the bars that have to hold.

use std::collections::BTreeSet;

use serde::Serialize;

use super::calibration::{self, Bin};
use super::judge::{Judged, JudgedCause};
use super::{COUNTERFACTUAL_ERROR_MAX, LOST_TOLERANCE, WATCHED_TOLERANCE};

/// Smallest shares and largest errors of a sufficient diagnosis.
const RECALL_MIN: f64 = 0.98;
const PRECISION_MIN: f64 = 0.99;
const CULPRIT_MIN: f64 = 0.99;
const LOST_ERROR_MAX: f64 = 0.05;
const WITHIN_MIN: f64 = 0.90;
const WATCHED_MIN: f64 = 0.95;

/// The results of all captures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// Number of captures judged.
    pub captures: u64,
    /// Number of captures left out because their host or link did not keep time.
    pub late: u64,
    /// Number of judged captures without an answer.
    pub unanswered: u64,
    /// Results of each cause at each vantage.
    pub lines: Vec<Line>,
    /// Results of all causes together, at each vantage and at both.
    pub totals: Vec<Line>,
    /// Number of captures of runs without a fault, or of look-alikes.
    pub healthy: u64,
    /// Number of these for which a fault was named.
    pub healthy_with_faults: u64,
    /// Number of captures about which the tool claims something that the packets contradict.
    pub with_false_claims: u64,
    /// Number of predictions of the latency without the cause.
    pub counterfactuals: u64,
    /// Median of their relative errors; `None` if there are none.
    pub counterfactual_error: Option<f64>,
    /// Share of predictions that are right.
    pub counterfactual_right: Option<f64>,
    /// Number of captures in which the kernel counted a limit that matters.
    pub kernel: u64,
    /// Share of these in which the tool finds the limit.
    pub kernel_consistent: Option<f64>,
    /// Mean share of the time without an owner; `None` if the tool does not state it.
    pub unknown_share: Option<f64>,
    /// Share of right findings by stated confidence.
    pub calibration: Vec<Bin>,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// The results of a cause at a vantage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Id of the cause, or `all`.
    pub cause: String,
    /// `client`, `server`, or `both`.
    pub vantage: String,
    /// Number of captures with the cause in which it is visible.
    pub labelled: u64,
    /// Number of captures with the cause in which no packet shows it.
    pub hidden: u64,
    /// Number of labelled captures in which it was found.
    pub found: u64,
    /// Number of right findings with this id.
    pub right: u64,
    /// Number of wrong findings with this id.
    pub wrong: u64,
    /// Number of found causes with the right culprit.
    pub culprit_right: u64,
    /// Errors of the lost time, where that is known and the cause was found.
    pub lost: Lost,
}

/// Errors of the lost time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Lost {
    /// Number of values.
    pub count: u64,
    /// Median of the relative errors, without their signs.
    pub median_error: Option<f64>,
    /// Share of values within [`LOST_TOLERANCE`].
    pub within: Option<f64>,
    /// Share of values within [`WATCHED_TOLERANCE`].
    pub nearly: Option<f64>,
}

impl Line {
    /// Share of labelled captures in which the cause was found.
    pub fn recall(&self) -> Option<f64> {
        share(self.found, self.labelled)
    }

    /// Share of named causes that are right.
    pub fn precision(&self) -> Option<f64> {
        share(self.right, self.right + self.wrong)
    }

    /// Share of found causes with the right culprit.
    pub fn culprit(&self) -> Option<f64> {
        share(self.culprit_right, self.found)
    }
}

/// A bar: a value that has to reach a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bar {
    /// Name of the value.
    pub name: &'static str,
    /// The limit as text: `≥ 98 %`.
    pub limit: String,
    /// The value; `None` if there is no data.
    pub value: Option<f64>,
    /// `true` if the bar holds, or if there is no data.
    pub holds: bool,
    /// `true` if the bar has to hold.
    pub required: bool,
    /// `true` if the bar concerns times, not named causes.
    #[serde(skip)]
    is_of_time: bool,
}

impl Bar {
    fn at_least(name: &'static str, limit: f64, value: Option<f64>) -> Self {
        let holds = value.is_none_or(|value| value >= limit);
        Self {
            name,
            limit: format!("≥ {:.0} %", limit * 100.0),
            value,
            holds,
            required: true,
            is_of_time: false,
        }
    }

    /// Marks the bar as one that concerns times.
    fn of_time(self) -> Self {
        Self { is_of_time: true, ..self }
    }

    fn at_most(name: &'static str, limit: f64, value: Option<f64>) -> Self {
        let holds = value.is_none_or(|value| value <= limit);
        Self {
            name,
            limit: format!("≤ {:.0} %", limit * 100.0),
            value,
            holds,
            required: true,
            is_of_time: false,
        }
    }
}

impl Score {
    /// Sums up the judged captures.
    pub fn of(all: &[Judged]) -> Self {
        let punctual: Vec<Judged> = all.iter().filter(|one| !one.late).cloned().collect();
        let judged = punctual.as_slice();
        let causes: BTreeSet<&str> = judged.iter().flat_map(named).collect();
        let line = |cause: &str, vantage: &str| line(judged, cause, vantage);
        let lines = causes
            .iter()
            .flat_map(|cause| ["client", "server"].map(|vantage| line(cause, vantage)))
            .collect();
        let totals: Vec<Line> =
            ["client", "server", "both"].map(|vantage| line("all", vantage)).into();
        let healthy = judged.iter().filter(|one| one.causes.is_empty());
        let mut score = Self {
            captures: judged.len() as u64,
            late: (all.len() - judged.len()) as u64,
            unanswered: judged.iter().filter(|one| !one.answered).count() as u64,
            lines,
            healthy: healthy.clone().count() as u64,
            healthy_with_faults: healthy.filter(|one| !one.false_findings.is_empty()).count()
                as u64,
            bars: Vec::new(),
            totals,
            ..Self::checks(judged)
        };
        score.bars = score.bars();
        score
    }

    /// Sums up the checks that concern whole captures.
    fn checks(judged: &[Judged]) -> Self {
        let predicted: Vec<_> = judged.iter().filter_map(|one| one.counterfactual).collect();
        let right = predicted.iter().filter(|one| one.is_right()).count() as u64;
        let kernel: Vec<_> = judged.iter().filter_map(|one| one.kernel).collect();
        let consistent = kernel.iter().filter(|one| one.is_consistent()).count() as u64;
        let unknown: Vec<f64> = judged.iter().filter_map(|one| one.unknown_share).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Self {
            captures: 0,
            late: 0,
            unanswered: 0,
            lines: Vec::new(),
            totals: Vec::new(),
            healthy: 0,
            healthy_with_faults: 0,
            with_false_claims: judged.iter().filter(|one| !one.false_claims.is_empty()).count()
                as u64,
            counterfactuals: predicted.len() as u64,
            counterfactual_error: median(predicted.iter().map(|one| one.error()).collect()),
            counterfactual_right: share(right, predicted.len() as u64),
            kernel: kernel.len() as u64,
            kernel_consistent: share(consistent, kernel.len() as u64),
            unknown_share: (!unknown.is_empty()).then(|| mean(&unknown)),
            calibration: calibration::bins(judged),
            bars: Vec::new(),
        }
    }

    fn bars(&self) -> Vec<Bar> {
        let Some(all) = self.totals.last() else { return Vec::new() };
        let silent = share(self.healthy - self.healthy_with_faults, self.healthy);
        let without = self.captures - self.with_false_claims.min(self.captures);
        let true_claims = share(without, self.captures);
        let mut bars = vec![
            Bar::at_least("recall", RECALL_MIN, all.recall()),
            Bar::at_least("precision", PRECISION_MIN, all.precision()),
            Bar::at_least("culprit", CULPRIT_MIN, all.culprit()),
            Bar::at_least("healthy without a fault", 1.0, silent),
            Bar::at_least("captures without a false claim", 1.0, true_claims),
            Bar::at_most("lost time, median error", LOST_ERROR_MAX, all.lost.median_error)
                .of_time(),
            Bar::at_most(
                "counterfactual, median error",
                COUNTERFACTUAL_ERROR_MAX,
                self.counterfactual_error,
            )
            .of_time(),
            Bar::at_least("counterfactual in its interval", WITHIN_MIN, self.counterfactual_right)
                .of_time(),
            Bar::at_least("kernel's limits found", WITHIN_MIN, self.kernel_consistent).of_time(),
        ];
        bars.extend(self.calibration.iter().filter_map(|bin| {
            Some(Bar::at_least(bin.bar_name?, bin.right_min?, bin.right_share()))
        }));
        bars
    }

    /// Requires only the bars that concern named causes: the times of a few runs beside other work
    /// are unreliable.
    pub fn requires_names_only(mut self) -> Self {
        self.bars.iter_mut().for_each(|bar| bar.required = !bar.is_of_time);
        self
    }

    /// Requires the bars that concern named causes, and adds the shares that a watch gives to parts of the
    /// server's time. These are not required: a knob may cost more than one part, as a handler that computes
    /// costs its own request, too.
    pub fn requires_what_is_watched(self) -> Self {
        let mut score = self.requires_names_only();
        let nearly = score.totals.last().and_then(|all| all.lost.nearly);
        let shares = Bar::at_least("shares of the server's parts", WATCHED_MIN, nearly);
        score.bars.push(Bar { required: false, ..shares });
        score
    }

    /// Returns whether all required bars hold.
    pub fn holds(&self) -> bool {
        self.unanswered == 0 && self.bars.iter().all(|bar| bar.holds || !bar.required)
    }
}

/// Returns the ids that are labelled or named.
fn named(judged: &Judged) -> impl Iterator<Item = &str> {
    let causes = judged.causes.iter().map(|cause| cause.cause.as_str());
    causes.chain(judged.false_findings.iter().map(String::as_str))
}

fn line(judged: &[Judged], cause: &str, vantage: &str) -> Line {
    let here: Vec<&Judged> =
        judged.iter().filter(|one| vantage == "both" || one.vantage == vantage).collect();
    let is = |id: &str| cause == "all" || id == cause;
    let labelled: Vec<&JudgedCause> =
        here.iter().flat_map(|one| &one.causes).filter(|one| is(&one.cause)).collect();
    let seen: Vec<&JudgedCause> = labelled.iter().copied().filter(|one| !one.hidden).collect();
    let count = |findings: fn(&Judged) -> &Vec<String>| {
        here.iter().flat_map(|one| findings(one)).filter(|id| is(id)).count() as u64
    };
    let errors: Vec<f64> = seen.iter().filter_map(|one| one.lost_error()).map(f64::abs).collect();
    let within = |most: f64| {
        let count = errors.iter().filter(|error| **error <= most).count();
        share(count as u64, errors.len() as u64)
    };
    Line {
        cause: cause.to_owned(),
        vantage: vantage.to_owned(),
        labelled: seen.len() as u64,
        hidden: (labelled.len() - seen.len()) as u64,
        found: seen.iter().filter(|one| one.found).count() as u64,
        right: count(|one| &one.right_findings),
        wrong: count(|one| &one.false_findings),
        culprit_right: seen.iter().filter(|one| one.culprit_right == Some(true)).count() as u64,
        lost: Lost {
            count: errors.len() as u64,
            within: within(LOST_TOLERANCE),
            nearly: within(WATCHED_TOLERANCE),
            median_error: median(errors),
        },
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Median; of two middle values the greater, so that half of the values cannot pass a bar.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
