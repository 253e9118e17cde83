//! Results of controlled changes, as reports carry them.

use crate::model::{Cause, Culprit};
use crate::wire::Side;

/// The error probability of a verdict: at most one of a hundred experiments on a change without
/// effect reports an effect, whenever the experiment stops (Ville's inequality; see `tcpwhy-probe`,
/// `experiment`).
pub const ERROR_MAX: f64 = 0.01;

/// The measured effect of one change.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Name of the change: `quickack`, `one-write`, …; its texts are in `experiment.md`.
    pub name: &'static str,
    /// Median without the change, ns.
    pub usual_ns: u64,
    /// Median with the change, ns.
    pub changed_ns: u64,
    /// Time that the change saves, ns: the median of the pairs' differences. Negative if the change
    /// makes requests slower.
    pub effect_ns: i64,
    /// Confidence interval of `effect_ns`, ns: each end is wrong with a probability of at most
    /// [`ERROR_MAX`]; `None` if there are too few trials to bound it.
    pub interval_ns: (Option<i64>, Option<i64>),
    /// Smallest effect that counts, ns.
    pub floor_ns: u64,
    /// Number of pairs of trials, one with and one without the change, in random order.
    pub trials: u64,
    /// Requests sent for the experiment.
    pub requests: u64,
    /// The conclusion.
    pub verdict: Verdict,
}

/// The conclusion of an experiment about a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The change has the effect expected if this is the cause.
    Supports(Suspect),
    /// The change does not have the effect expected if this is the cause.
    Refutes(Suspect),
    /// The allowed number of trials decides nothing, or no cause depends on the change.
    Undecided,
}

/// A suspected cause and its culprit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The cause.
    pub cause: Cause,
    /// The party that has to change something.
    pub culprit: Culprit,
    /// The side that is waited for.
    pub sender: Side,
}

/// The conclusion of an experiment about a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentEvidence {
    /// The experiment supports the finding; otherwise it refutes it.
    pub agrees: bool,
    /// The experiment.
    pub experiment: Experiment,
}

impl Verdict {
    /// Returns `supports`, `refutes` or `undecided`.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Supports(_) => "supports",
            Self::Refutes(_) => "refutes",
            Self::Undecided => "undecided",
        }
    }

    /// Returns the suspect, and whether the verdict supports it.
    pub fn suspect(&self) -> Option<(&Suspect, bool)> {
        match self {
            Self::Supports(suspect) => Some((suspect, true)),
            Self::Refutes(suspect) => Some((suspect, false)),
            Self::Undecided => None,
        }
    }
}
