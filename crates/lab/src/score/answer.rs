//! A tool's answers about captures.
//!
//! An answer is a JSON object for each capture, one after the other: `capture` (its path),
//! `findings[]` (`cause`, `culprit`, `lost_ns`). The names are those of tcpwhy's own report, which
//! is a valid answer: it names its capture in `inputs[]`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{INTERVAL_NS_MAX, INTERVAL_SHARE_MAX, NOISE_NS, NOISE_PART};
use crate::labels::{Class, Role};

/// A tool's answer about one capture.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Answer {
    /// Path of the capture.
    #[serde(default)]
    pub capture: String,
    /// The captures of a report.
    #[serde(default)]
    inputs: Vec<Input>,
    /// The findings.
    pub findings: Vec<Named>,
    /// Sums of a report.
    #[serde(default)]
    totals: Totals,
    /// Time by owner, ns, if the tool attributes all time.
    #[serde(default)]
    pub ledger: BTreeMap<String, u64>,
    /// Claims that were compared with the packets, if the tool does that.
    #[serde(default)]
    checked: Vec<Claim>,
}

/// A claim that was compared with the packets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Claim {
    claim: String,
    verdict: String,
    #[serde(default)]
    why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Input {
    path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Totals {
    #[serde(default)]
    wall_ns: u64,
}

/// A named cause.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Named {
    /// The id in the taxonomy.
    pub cause: String,
    /// Fault or cost; if not given, that of the taxonomy.
    #[serde(default)]
    pub class: Option<Class>,
    /// The culprit, which has to change something.
    pub culprit: Culprit,
    /// Time it cost, ns.
    #[serde(default)]
    pub lost_ns: u64,
    /// Latency without the cause.
    #[serde(default)]
    pub counterfactual: Option<Predicted>,
    /// Confidence that the tool states, 0 to 1.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// How much it is about.
    #[serde(default)]
    pub affected: Affected,
}

/// How many exchanges and connections a finding is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Affected {
    /// Number of exchanges.
    #[serde(default)]
    pub exchanges: u64,
    /// Number of connections.
    #[serde(default)]
    pub connections: u64,
}

impl Affected {
    /// Returns the number of exchanges, or of connections if no exchange is affected.
    pub fn cases(self) -> u64 {
        if self.exchanges > 0 { self.exchanges } else { self.connections }
    }
}

/// The culprit, which has to change something.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Culprit {
    /// The role.
    pub role: Role,
    /// Address, or address and port.
    #[serde(default)]
    pub endpoint: Option<String>,
}

/// A predicted latency: the likely value, and the ends of its interval if the tool states them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Predicted {
    /// Median, ns.
    pub p50_ns: u64,
    /// Lower end.
    #[serde(default)]
    pub least: Option<Quantiles>,
    /// Upper end.
    #[serde(default)]
    pub most: Option<Quantiles>,
}

impl Predicted {
    /// Returns both ends of the median of another run, ns. A value without ends is the middle of
    /// the widest interval that is narrow enough. Stated ends are those of the run that was
    /// captured; the run with the fix differs from it by the noise of its hosts as well.
    pub fn ends_ns(&self) -> (u64, u64) {
        let half_ns = (self.p50_ns as f64 * INTERVAL_SHARE_MAX / 2.0) as u64;
        let half_ns = half_ns.max(INTERVAL_NS_MAX / 2);
        let (Some(least), Some(most)) = (self.least, self.most) else {
            return (self.p50_ns.saturating_sub(half_ns), self.p50_ns.saturating_add(half_ns));
        };
        let noise_ns = (self.p50_ns / NOISE_PART).max(NOISE_NS);
        let least_ns = least.p50_ns.min(self.p50_ns.saturating_sub(noise_ns));
        (least_ns, most.p50_ns.max(self.p50_ns.saturating_add(noise_ns)))
    }
}

/// Percentiles of a latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Quantiles {
    /// Median, ns.
    pub p50_ns: u64,
}

impl Answer {
    /// Returns each claim that the packets contradict, with what they show.
    pub fn false_claims(&self) -> impl Iterator<Item = String> + '_ {
        let wrong = self.checked.iter().filter(|it| it.verdict == "false");
        wrong.map(|it| format!("{}: {}", it.claim, it.why))
    }
}

/// Errors in a file of answers.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Not the JSON that is expected.
    #[error(
        "answer {number} cannot be read: {source}; an answer is \
         {{\"capture\": PATH, \"findings\": [{{\"cause\": ID, \"culprit\": {{\"role\": ROLE}}, \
         \"lost_ns\": N}}]}}, or a report of `tcpwhy --json`"
    )]
    NotAnAnswer {
        /// Number of the answer, from 1.
        number: usize,
        /// The error in it.
        source: serde_json::Error,
    },
    /// The answer does not name its capture.
    #[error("answer {number} does not name its capture: give `capture` or `inputs[].path`")]
    WithoutCapture {
        /// Number of the answer, from 1.
        number: usize,
    },
}

/// Reads answers that follow one another in a file. Causes without a class get that of `class_of`,
/// or count as faults.
///
/// # Errors [`AnswerError`].
pub fn read_answers(
    text: &[u8],
    class_of: impl Fn(&str) -> Option<Class>,
) -> Result<Answers, AnswerError> {
    let stream = serde_json::Deserializer::from_slice(text).into_iter::<Answer>();
    let mut answers = Vec::new();
    for (number, answer) in (1..).zip(stream) {
        let mut answer = answer.map_err(|source| AnswerError::NotAnAnswer { number, source })?;
        if let (true, Some(input)) = (answer.capture.is_empty(), answer.inputs.first()) {
            answer.capture = input.path.clone();
        }
        if answer.capture.is_empty() {
            return Err(AnswerError::WithoutCapture { number });
        }
        for named in &mut answer.findings {
            let class = named.class.or_else(|| class_of(&named.cause));
            named.class = Some(class.unwrap_or(Class::Fault));
        }
        answers.push(answer);
    }
    Ok(Answers(answers))
}

/// Answers that can be found by their capture.
#[derive(Debug, Clone, Default)]
pub struct Answers(Vec<Answer>);

impl Answers {
    /// Returns the last answer about `capture`, a path relative to the directory of the data set;
    /// the path in an answer may begin elsewhere.
    pub fn about(&self, capture: &Path) -> Option<&Answer> {
        self.0.iter().rev().find(|answer| Path::new(&answer.capture).ends_with(capture))
    }
}

impl Answer {
    /// Share of the time that the tool attributes to no owner, if it states it.
    pub fn unknown_share(&self) -> Option<f64> {
        let unknown_ns = *self.ledger.get("unknown").unwrap_or(&0);
        (self.totals.wall_ns > 0).then(|| unknown_ns as f64 / self.totals.wall_ns as f64)
    }

    /// Sum of the times of all exchanges, ns, if the tool states it.
    pub fn wall_ns(&self) -> Option<u64> {
        Some(self.totals.wall_ns).filter(|ns| *ns > 0)
    }
}
