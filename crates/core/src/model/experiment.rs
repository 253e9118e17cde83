//! What a controlled change measured, as reports carry it.

use crate::app::Side;
use crate::model::{Cause, Culprit};

/// The error that a verdict may have: of a hundred experiments on a change without any effect at
/// most one is taken for an effect, whenever it stops (Ville's inequality; see `tcpwhy-probe`,
/// `experiment`).
pub const ERROR_MAX: f64 = 0.01;

/// One thing changed, and what that did.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name: `quickack`, `one-write`, …; `experiment.md` has its words.
    pub name: &'static str,
    /// Median without the change, ns.
    pub usual_ns: u64,
    /// Median with it, ns.
    pub changed_ns: u64,
    /// By how much the change makes it faster: median of the pairs' differences, ns. Below 0 it is
    /// slower.
    pub effect_ns: i64,
    /// Where that median lies, ns: each end is wrong with at most [`ERROR_MAX`], and `None` where
    /// the trials are too few to bound it.
    pub interval_ns: (Option<i64>, Option<i64>),
    /// The least effect that counts, ns.
    pub floor_ns: u64,
    /// Pairs of trials, one with and one without the change, in random order.
    pub trials: u64,
    /// Requests sent for it.
    pub requests: u64,
    /// What it says.
    pub verdict: Verdict,
}

/// What an experiment says of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The change has the effect that it has where this is the cause.
    Supports(Suspect),
    /// It has not.
    Refutes(Suspect),
    /// The trials that were allowed cannot tell, or no cause depends on it.
    Undecided,
}

/// A cause, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The cause.
    pub cause: Cause,
    /// Who has to change something.
    pub culprit: Culprit,
    /// Who is waited for.
    pub sender: Side,
}

/// What an experiment says of a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentEvidence {
    /// It speaks for the finding; else against it.
    pub agrees: bool,
    /// The experiment.
    pub experiment: Experiment,
}

impl Verdict {
    /// `supports`, `refutes` or `undecided`.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Supports(_) => "supports",
            Self::Refutes(_) => "refutes",
            Self::Undecided => "undecided",
        }
    }

    /// What it speaks for or against, and which of both.
    pub fn suspect(&self) -> Option<(&Suspect, bool)> {
        match self {
            Self::Supports(suspect) => Some((suspect, true)),
            Self::Refutes(suspect) => Some((suspect, false)),
            Self::Undecided => None,
        }
    }
}
