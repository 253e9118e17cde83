//! Before and after: whether a change helped, by how much, and whether the number of exchanges
//! suffices to show it.
//!
//! Read first: H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
//! stochastically larger than the other" (1947); J. L. Hodges and E. L. Lehmann, "Estimates of
//! location based on rank tests" (1963); N. Cliff, "Dominance statistics" (1993).
//!
//! ```text
//! Report, JSON report ─► Measured ─┐
//!                                  ├─ compare ─► Comparison ─► text, JSON
//! Report, JSON report ─► Measured ─┘
//! ```
//!
//! Latencies are not normally distributed, so no distribution is assumed: the test compares ranks,
//! the shift is the median of all differences, and the tails are counts. Everything is computed
//! from counted durations, whatever their number, without random sampling.

mod load;
mod looks;
mod measured;
mod normal;
mod outlook;
mod ranks;
mod sample;
mod tails;
pub mod thresholds;

pub use load::{Load, OnlyIn};
pub use looks::Look;
pub use measured::{Found, Measured, ReportError};
pub use outlook::{Outlook, Predicted};
pub use ranks::Ranks;
pub use sample::Sample;
pub use tails::Tail;

use crate::compare::thresholds::CONFIDENCE;
use crate::model::Latency;
use std::collections::BTreeSet;

/// Points of the distribution at which the slow end is compared.
const TAILS: [f64; 2] = [0.9, 0.99];

/// Significance level of one test, chosen so that all tests together (ranks and [`TAILS`]) keep to
/// [`CONFIDENCE`] (Bonferroni).
const SIGNIFICANCE: f64 = (1.0 - CONFIDENCE) / (1 + TAILS.len()) as f64;

/// Options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Changes below this share of the latency before do not matter, however significant.
    pub min_change: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { min_change: 0.05 }
    }
}

/// The change of the latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Typical or slow exchanges take less time, and none take more.
    Faster,
    /// Typical or slow exchanges take more time, and none take less.
    Slower,
    /// One end of the distribution became faster, the other slower.
    Mixed,
    /// A change that matters is excluded by the tests.
    Equal,
    /// The number of exchanges is too small to show a difference; there may be one.
    NoDifferenceShown,
    /// One run has requests that the other lacks: their latencies are not comparable.
    OtherLoad,
}

/// The result of a comparison, as the exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonOutcome {
    /// Shown to be faster or equal, without a new fault.
    NotWorse = 0,
    /// Slower at either end of the distribution, or with a new fault.
    Worse = 1,
    /// The runs are not comparable.
    NotComparable = 2,
    /// The number of exchanges is too small to decide.
    NotShown = 3,
}

/// The reason why nothing can be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// One run has no exchange.
    #[error("{name}: there is no exchange in it, so there is no latency to compare")]
    NoExchange {
        /// The name of the run.
        name: String,
    },
}

/// The result of comparing two runs.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The run before the change.
    pub before: Measured,
    /// The run after the change.
    pub after: Measured,
    /// The options.
    pub options: Options,
    /// The change of the latency.
    pub verdict: Verdict,
    /// The test of ranks. Without it (for a report that has percentiles only) the verdict is based
    /// on p50 and p99 alone, and chance is not excluded.
    pub ranks: Option<Ranks>,
    /// The slow end, at 90 and 99 %.
    pub tails: Vec<Tail>,
    /// Percentiles that differ, the most different first, if the verdict is not based on a test of
    /// them; empty if the latency is shown to have changed, or not to have changed.
    pub looks: Vec<Look>,
    /// Number of exchanges in each run that would be significant if the figures stay as they are.
    pub exchanges_needed: Option<u64>,
    /// Requests that only one of the runs has.
    pub only_in: Vec<OnlyIn>,
    /// Faults found only in the run after.
    pub new_faults: Vec<Found>,
    /// Faults found only in the run before.
    pub gone_faults: Vec<Found>,
}

impl Comparison {
    /// Returns whether the change did harm: slower at either end of the distribution, or a new
    /// fault.
    pub fn is_worse(&self) -> bool {
        self.outcome() == ComparisonOutcome::Worse
    }

    /// Returns whether the change did harm on the whole. Where one end of the distribution became
    /// faster and the other slower, the mean exchange decides.
    pub fn does_harm(&self) -> bool {
        match self.verdict {
            Verdict::Mixed if self.new_faults.is_empty() => {
                self.after.mean_ns() >= self.before.mean_ns()
            }
            _ => self.is_worse(),
        }
    }

    /// Returns the result. A run that is faster only by untested percentiles, or whose slow end
    /// looks slower, is not shown to be faster.
    pub fn outcome(&self) -> ComparisonOutcome {
        match self.verdict {
            Verdict::OtherLoad => ComparisonOutcome::NotComparable,
            Verdict::Slower | Verdict::Mixed => ComparisonOutcome::Worse,
            _ if !self.new_faults.is_empty() => ComparisonOutcome::Worse,
            Verdict::NoDifferenceShown => ComparisonOutcome::NotShown,
            Verdict::Faster | Verdict::Equal if self.ranks.is_none() => ComparisonOutcome::NotShown,
            Verdict::Faster | Verdict::Equal if !self.looks.is_empty() => {
                ComparisonOutcome::NotShown
            }
            Verdict::Faster | Verdict::Equal => ComparisonOutcome::NotWorse,
        }
    }

    /// Returns the ids of all owners in either run, most time first.
    pub fn owners(&self) -> Vec<&str> {
        let all: BTreeSet<&str> =
            self.before.ledger.keys().chain(self.after.ledger.keys()).map(String::as_str).collect();
        let mut all: Vec<&str> = all.into_iter().collect();
        let most = |id: &str| {
            let of = |run: &Measured| run.ledger_per_exchange_ns(id);
            std::cmp::Reverse(of(&self.before).max(of(&self.after)))
        };
        all.sort_by_key(|id| (most(id), *id));
        all
    }
}

/// Compares two runs of the same load.
///
/// # Errors
/// [`CompareError`] if one of them is empty.
pub fn compare(
    before: Measured,
    after: Measured,
    options: Options,
) -> Result<Comparison, CompareError> {
    for run in [&before, &after] {
        if run.exchanges == 0 {
            return Err(CompareError::NoExchange { name: run.name.clone() });
        }
    }
    let only_in = load::differences(&before.load, &after.load);
    let samples = before.sample.as_ref().zip(after.sample.as_ref());
    let (ranks, tails) = match samples.map(|(before, after)| looks::judged(before, after)) {
        Some((ranks, tails)) => (Some(ranks), tails),
        None => (None, Vec::new()),
    };
    let (mut verdict, is_settled) = judge(&before, &after, (ranks.as_ref(), &tails), options);
    let (mut looks, mut exchanges_needed) = (Vec::new(), None);
    if let Some((one, other)) = samples.filter(|_| !is_settled) {
        looks = looks::looks(one, other, options);
        match verdict {
            Verdict::Faster => looks.retain(Look::is_slower),
            Verdict::Mixed => looks.retain(|look| !look.is_slower()),
            _ => {}
        }
        exchanges_needed = looks::needed([one, other], |one, other| {
            let (ranks, tails) = looks::judged(one, other);
            judge(&before, &after, (Some(&ranks), &tails), options).1
        });
    }
    if load::is_another(&only_in) {
        (verdict, looks, exchanges_needed) = (Verdict::OtherLoad, Vec::new(), None);
    }
    let new_faults = faults_only_in(&after, &before);
    let gone_faults = faults_only_in(&before, &after);
    Ok(Comparison {
        before,
        after,
        options,
        verdict,
        ranks,
        tails,
        looks,
        exchanges_needed,
        only_in,
        new_faults,
        gone_faults,
    })
}

/// Returns the verdict, and whether it is settled. It is not if a change that matters may be hidden
/// behind a verdict without one, or if exchanges are faster while the slow end makes the mean
/// exchange slower, or the reverse: typical exchanges take longer, and the slow end that is gone
/// makes the mean exchange faster.
fn judge(
    before: &Measured,
    after: &Measured,
    (ranks, tails): (Option<&Ranks>, &[Tail]),
    options: Options,
) -> (Verdict, bool) {
    let changes = match ranks {
        Some(ranks) => tested(before, ranks, tails, options),
        None => untested(&before.latency, &after.latency, options),
    };
    let [least, most] = looks::weights(before, after, tails);
    let matters = |weight: f64| ranks.is_some() && weight > 0.0 && weight >= options.min_change;
    match verdict(&changes, ranks, before, options) {
        Verdict::Equal if matters(most) || matters(-least) => (Verdict::NoDifferenceShown, false),
        Verdict::Faster if matters(most) => (Verdict::Faster, false),
        Verdict::Slower if matters(-least) => (Verdict::Mixed, false),
        Verdict::NoDifferenceShown => (Verdict::NoDifferenceShown, false),
        verdict => (verdict, true),
    }
}

/// A change that is both significant and large enough to matter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Less,
    More,
}

impl Change {
    /// Returns the change between two latencies, if the difference matters.
    fn between(before_ns: u64, after_ns: u64, options: Options) -> Option<Self> {
        let least = options.min_change * before_ns as f64;
        let change = after_ns as f64 - before_ns as f64;
        match change {
            _ if change.abs() < least || change == 0.0 => None,
            _ if change < 0.0 => Some(Self::Less),
            _ => Some(Self::More),
        }
    }
}

fn tested(before: &Measured, ranks: &Ranks, tails: &[Tail], options: Options) -> Vec<Change> {
    let p50_ns = before.latency.p50_ns;
    let shifted = p50_ns.saturating_add_signed(ranks.shift_ns);
    let typical =
        (ranks.p_value < SIGNIFICANCE).then(|| Change::between(p50_ns, shifted, options)).flatten();
    let slow = tails.iter().filter(|tail| tail.p_value < SIGNIFICANCE).filter_map(|tail| {
        let change = Change::between(tail.before_ns, tail.after_ns, options)?;
        // The share above the common threshold has to agree.
        let more = tail.after_share > tail.before_share;
        (more == (change == Change::More)).then_some(change)
    });
    typical.into_iter().chain(slow).collect()
}

fn untested(before: &Latency, after: &Latency, options: Options) -> Vec<Change> {
    let points = [(before.p50_ns, after.p50_ns), (before.p99_ns, after.p99_ns)];
    points.iter().filter_map(|&(before, after)| Change::between(before, after, options)).collect()
}

fn verdict(
    changes: &[Change],
    ranks: Option<&Ranks>,
    before: &Measured,
    options: Options,
) -> Verdict {
    let less = changes.contains(&Change::Less);
    let more = changes.contains(&Change::More);
    let least = options.min_change * before.latency.p50_ns as f64;
    let excluded = |ranks: &Ranks| {
        let within = |[low, high]: [i64; 2]| low as f64 > -least && (high as f64) < least;
        ranks.shift_interval_ns.is_some_and(within)
    };
    match (less, more) {
        (true, true) => Verdict::Mixed,
        (true, false) => Verdict::Faster,
        (false, true) => Verdict::Slower,
        (false, false) if ranks.is_none_or(excluded) => Verdict::Equal,
        (false, false) => Verdict::NoDifferenceShown,
    }
}

/// Returns the faults of `run` that `other` lacks, each cause and role once.
fn faults_only_in(run: &Measured, other: &Measured) -> Vec<Found> {
    let faults = |run: &Measured| -> Vec<Found> {
        run.findings.iter().filter(|found| found.class == "fault").cloned().collect()
    };
    let known = faults(other);
    let mut only = faults(run);
    only.retain(|found| !known.iter().any(|known| known.is_same(found)));
    only
}
