//! The steps of an examination, each with its result or the reason it was left out, printed as they
//! happen.

use crate::output;
use serde::Serialize;
use std::time::Instant;
use tcpwhy_core::model::units;

/// A step that was taken or left out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExaminationStep {
    /// The name: `name`, `path`, `connect`, …
    pub step: &'static str,
    /// How it ended.
    #[cfg_attr(test, schemars(extend("enum" = ["done", "failed", "skipped"])))]
    pub outcome: &'static str,
    /// How long it took, ns.
    pub took_ns: u64,
    /// The result of the step, or the reason it was left out.
    pub what: String,
}

/// All steps so far.
pub struct Steps {
    is_told: bool,
    taken: Vec<ExaminationStep>,
}

impl Steps {
    /// Starts without steps; each step is printed on standard error if `is_told`.
    pub fn new(is_told: bool) -> Self {
        Self { is_told, taken: Vec::new() }
    }

    /// Announces the largest amount of traffic that will be sent, also if steps are not printed.
    pub fn announce(&self, what: &str) {
        output::note(&format!("tcpwhy: {what}"));
    }

    /// Records a step that began at `began` and succeeded.
    pub fn done(&mut self, step: &'static str, began: Instant, what: String) {
        self.add(step, "done", Some(began), what);
    }

    /// Records a step that began at `began` and failed.
    pub fn failed(&mut self, step: &'static str, began: Instant, what: String) {
        self.add(step, "failed", Some(began), what);
    }

    /// Records a step that was left out.
    pub fn skipped(&mut self, step: &'static str, why: impl Into<String>) {
        self.add(step, "skipped", None, why.into());
    }

    /// Returns all steps so far.
    pub fn taken(&self) -> &[ExaminationStep] {
        &self.taken
    }

    fn add(
        &mut self,
        step: &'static str,
        outcome: &'static str,
        began: Option<Instant>,
        what: String,
    ) {
        let took_ns = began.map_or(0, |began| began.elapsed().as_nanos() as u64);
        let what = units::printable(&what);
        let took = began.map_or_else(String::new, |_| units::duration(took_ns));
        let note = if outcome == "done" { String::new() } else { format!("{outcome}: ") };
        self.tell(&format!("  {step:<11} {took:>8}  {note}{what}"));
        self.taken.push(ExaminationStep { step, outcome, took_ns, what });
    }

    fn tell(&self, line: &str) {
        if self.is_told {
            output::note(line);
        }
    }
}
