//! The steps of the walk: each with what it showed or why it was left out, told as it happens.

use serde::Serialize;
use std::io::Write;
use std::time::Instant;
use tcpwhy_core::model::units;

/// A step that was taken, or left out.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its name: `name`, `path`, `connect`, …
    pub step: &'static str,
    /// `done`, `failed` or `skipped`.
    pub outcome: &'static str,
    /// How long it took, ns.
    pub took_ns: u64,
    /// What it showed, or why it was left out.
    pub what: String,
}

/// All steps so far.
pub struct Steps {
    is_told: bool,
    taken: Vec<Step>,
}

impl Steps {
    /// Tells each on standard error, if it `is_told`.
    pub fn new(is_told: bool) -> Self {
        Self { is_told, taken: Vec::new() }
    }

    /// What comes next, and how much it sends at most.
    pub fn announce(&self, what: &str) {
        self.tell(&format!("tcpwhy: {what}"));
    }

    /// A step that began then is over.
    pub fn done(&mut self, step: &'static str, began: Instant, what: String) {
        self.add(step, "done", Some(began), what);
    }

    /// A step that began then failed.
    pub fn failed(&mut self, step: &'static str, began: Instant, what: String) {
        self.add(step, "failed", Some(began), what);
    }

    /// A step is left out.
    pub fn skipped(&mut self, step: &'static str, why: impl Into<String>) {
        self.add(step, "skipped", None, why.into());
    }

    /// All of them.
    pub fn taken(&self) -> &[Step] {
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
        self.taken.push(Step { step, outcome, took_ns, what });
    }

    fn tell(&self, line: &str) {
        if self.is_told {
            // A reader of standard error that has gone away is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}
