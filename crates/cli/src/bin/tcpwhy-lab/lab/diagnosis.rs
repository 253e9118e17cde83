//! The diagnoses of the captures of a run, compared with what is true of them.

use crate::lab::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tcpwhy_cli::analysis::{self, Wanted};
use tcpwhy_cli::{sources, workers};
use tcpwhy_core::model::{Class, Finding, Report};
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::report::Ladder;
use tcpwhy_lab::{CaseResult, Cause, Labels};

/// The diagnosis of one capture.
pub struct Diagnosis {
    /// Where the capture was taken: `client` or `server`.
    pub vantage: String,
    path: PathBuf,
    /// The report on the capture.
    pub report: Report,
}

impl Diagnosis {
    /// Diagnoses all captures of a run.
    ///
    /// # Errors A capture cannot be read.
    pub fn of(result: &CaseResult, labels: &Labels) -> Result<Vec<Diagnosis>, Error> {
        let captures = labels.stage.captures.iter();
        let each = captures.filter_map(|capture| {
            let path = result.capture(labels, &capture.vantage)?;
            Some((capture.vantage.clone(), path))
        });
        each.map(|(vantage, path)| {
            let open = || sources::open(std::slice::from_ref(&path));
            let never = AtomicBool::new(false);
            let answer = analysis::analyse(open()?, &open, wanted(), |_| (), &never)?;
            Ok(Diagnosis { vantage, path, report: answer.report })
        })
        .collect()
    }

    /// Returns the findings that name a cause that is present, by its own name or by one that
    /// counts as right.
    pub fn naming(&self, truth: &Cause) -> impl Iterator<Item = &Finding> {
        self.report.findings.iter().filter(|finding| is_right(finding, truth))
    }

    /// Returns whether the findings name all of the causes.
    pub fn names_all(&self, truths: &[Cause]) -> bool {
        truths.iter().all(|truth| self.naming(truth).next().is_some())
    }

    /// Returns whether no packet of this capture shows any of the causes.
    pub fn sees_none(&self, truths: &[Cause]) -> bool {
        let here = self.vantage.as_str();
        truths.iter().all(|truth| truth.from_capture.unseen_at.contains(&here))
    }

    /// Time that the findings attribute to the causes, ns.
    pub fn lost_ns(&self, truths: &[Cause]) -> u64 {
        let is_true = |it: &&Finding| truths.iter().any(|truth| is_right(it, truth));
        self.report.findings.iter().filter(is_true).map(|finding| finding.lost_ns).sum()
    }

    /// Returns the first fault, if there is one.
    pub fn fault(&self) -> Option<&Finding> {
        self.report.findings.iter().find(|finding| finding.cause.class() == Class::Fault)
    }

    /// Draws the exchange from which a finding has its evidence.
    ///
    /// # Errors The capture cannot be read again.
    pub fn ladder(&self, finding: &Finding) -> Result<Option<Ladder>, Error> {
        let open = || sources::open(std::slice::from_ref(&self.path));
        let drawn = analysis::draw_evidence(&open, wanted().options, &self.report, finding)?;
        Ok(drawn.or_else(|| Ladder::of_lookup(finding)))
    }
}

/// Returns whether a finding counts as right for a cause that is present: from a capture alone,
/// some causes look alike.
fn is_right(finding: &Finding, truth: &Cause) -> bool {
    let (id, role) = (finding.cause.id(), finding.culprit.role.id());
    let mut verdicts = truth.from_capture.verdicts.iter();
    id == truth.cause
        || truth.also_right.contains(&id)
        || verdicts.any(|it| it.cause == id && it.culprit_role.id() == role)
}

fn wanted() -> Wanted {
    Wanted {
        options: Options { all: true, show_values: true, ..Options::default() },
        connection: None,
        exchange: None,
        all: true,
        threads: workers::available(),
        vantages: Some(1),
        why: None,
        check: false,
    }
}
