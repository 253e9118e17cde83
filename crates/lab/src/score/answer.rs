//! What a tool says about captures.
//!
//! An answer is a JSON object per capture, one after the other: `capture` (its path), `findings[]`
//! (`cause`, `culprit`, `lost_ns`). The names are those of tcpwhy's own report, which is an answer
//! as it is: it names its capture in `inputs[]`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::labels::{Class, Role};

/// What a tool says about one capture.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Answer {
    /// Path of the capture.
    #[serde(default)]
    pub capture: String,
    /// The captures of a report.
    #[serde(default)]
    inputs: Vec<Input>,
    /// What was found.
    pub findings: Vec<Named>,
    /// Sums of a report.
    #[serde(default)]
    totals: Totals,
    /// Time by owner, ns, where the tool gives every stretch of time to one.
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

/// A cause that is named.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Named {
    /// Its id in the taxonomy.
    pub cause: String,
    /// Fault or cost; by the taxonomy where it is not given.
    #[serde(default)]
    pub class: Option<Class>,
    /// Who has to change something.
    pub culprit: Culprit,
    /// What it cost, ns.
    #[serde(default)]
    pub lost_ns: u64,
    /// Latency without it.
    #[serde(default)]
    pub counterfactual: Option<Quantiles>,
    /// How sure the tool says it is, 0 to 1.
    #[serde(default)]
    pub confidence: Option<f64>,
}

/// Who has to change something.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Culprit {
    /// In which role.
    pub role: Role,
    /// Address, or address and port.
    #[serde(default)]
    pub endpoint: Option<String>,
}

/// A predicted latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Quantiles {
    /// Half of the requests take no longer, ns.
    pub p50_ns: u64,
}

/// A file of answers that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Not the JSON that is expected.
    #[error(
        "answer {number} cannot be read: {source}; an answer is \
         {{\"capture\": PATH, \"findings\": [{{\"cause\": ID, \"culprit\": {{\"role\": ROLE}}, \
         \"lost_ns\": N}}]}}, or a report of `tcpwhy --json`"
    )]
    NotAnAnswer {
        /// Which, from 1.
        number: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Nothing says what it is about.
    #[error("answer {number} does not name its capture: give `capture` or `inputs[].path`")]
    WithoutCapture {
        /// Which, from 1.
        number: usize,
    },
}

/// Reads answers that stand one after the other. Causes without a class get that of `class_of`,
/// or are faults.
///
/// # Errors
/// [`AnswerError`].
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

/// Answers, to be found by the capture they are about.
#[derive(Debug, Clone, Default)]
pub struct Answers(Vec<Answer>);

impl Answers {
    /// The last answer about `capture`, a path below the directory of the data set: an answer's own
    /// path may begin elsewhere.
    pub fn about(&self, capture: &Path) -> Option<&Answer> {
        self.0.iter().rev().find(|answer| Path::new(&answer.capture).ends_with(capture))
    }
}

impl Answer {
    /// Share of the time that the tool gives to nobody, if it says so.
    pub fn unknown_share(&self) -> Option<f64> {
        let unknown_ns = *self.ledger.get("unknown").unwrap_or(&0);
        (self.totals.wall_ns > 0).then(|| unknown_ns as f64 / self.totals.wall_ns as f64)
    }

    /// Time of all exchanges added up, ns, if the tool says so.
    pub fn wall_ns(&self) -> Option<u64> {
        Some(self.totals.wall_ns).filter(|ns| *ns > 0)
    }
}
