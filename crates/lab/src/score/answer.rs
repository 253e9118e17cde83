//! A tool's answers about captures.
//!
//! An answer is a JSON object for each capture, one after the other: `capture` (its path),
//! `findings[]` (`cause`, `culprit`, `lost_ns`). The names are those of tcpwhy's own report, which
//! is a valid answer: it names its capture in `inputs[]`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

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
    pub counterfactual: Option<Quantiles>,
    /// Confidence that the tool states, 0 to 1.
    #[serde(default)]
    pub confidence: Option<f64>,
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

/// A predicted latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Quantiles {
    /// Median, ns.
    pub p50_ns: u64,
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
