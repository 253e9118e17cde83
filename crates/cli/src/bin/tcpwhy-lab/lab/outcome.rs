//! The outcome of a case: whether the fault was named, and whether the fix helped.

use super::diagnosis::Diagnosis;
use crate::lab::error::Error;
use tcpwhy_core::compare::{Comparison, Measured, Options, compare};
use tcpwhy_core::model::{Finding, units};
use tcpwhy_lab::{Case, CaseResult, Cause, Class, Labels, Request, Role};

/// A case after its runs, with the diagnoses of their captures.
pub struct CaseOutcome<'a> {
    /// The case.
    pub case: &'a Case,
    /// The results of its runs.
    pub result: &'a CaseResult,
    /// The diagnoses of the run with the fault, or of the look-alike.
    pub before: Vec<Diagnosis>,
    /// The diagnoses of the run after the fix, if there is one.
    pub after: Vec<Diagnosis>,
    /// Index in `before` of the diagnosis that is shown in full.
    pub shown: usize,
    /// Comparison of both runs by the client's own clock, with the causes that were found.
    pub comparison: Option<Comparison>,
    /// `true` if `after` is the same run after a treatment that was applied while it went on.
    pub is_treated: bool,
}

impl<'a> CaseOutcome<'a> {
    /// Diagnoses all captures.
    ///
    /// # Errors A capture cannot be read.
    pub fn of(case: &'a Case, result: &'a CaseResult) -> Result<Self, Error> {
        let before = Diagnosis::of(result, result.faulty.as_ref().unwrap_or(&result.healthy))?;
        let after = match result.faulty {
            Some(_) => Diagnosis::of(result, &result.healthy)?,
            None => Vec::new(),
        };
        let shown = shown(&before, causes(result));
        // The time until a request fails is no measure of latency.
        let faulty = result.faulty.as_ref().filter(|faulty| failed(faulty) < faulty.exchanges);
        let comparison = faulty.and_then(|faulty| {
            let run = |name: &str, labels: &Labels, diagnoses: &[Diagnosis]| {
                let by_clock =
                    Measured::of_durations(name, labels.requests.iter().map(Request::took_ns));
                let report = &diagnoses.get(shown)?.report;
                Some(Measured { findings: Measured::of(name, report).findings, ..by_clock })
            };
            let before = run("before", faulty, &before)?;
            let after = run("after", &result.healthy, &after)?;
            // Without requests there is nothing to compare.
            compare(before, after, Options::default()).ok()
        });
        Ok(Self { case, result, before, after, shown, comparison, is_treated: false })
    }

    /// Labels of the run that is diagnosed: the one with the fault, if there is one.
    pub fn labels(&self) -> &Labels {
        self.result.faulty.as_ref().unwrap_or(&self.result.healthy)
    }

    /// The causes that are present in this run.
    pub fn causes(&self) -> &[Cause] {
        causes(self.result)
    }

    /// The diagnosis that is shown in full.
    pub fn diagnosis(&self) -> Option<&Diagnosis> {
        self.before.get(self.shown)
    }

    /// The finding with the greatest cost among those of the shown diagnosis that name a cause.
    pub fn finding(&self) -> Option<&Finding> {
        let diagnosis = self.diagnosis()?;
        let naming = self.causes().iter().filter_map(|cause| diagnosis.naming(cause).next());
        naming.max_by_key(|finding| finding.lost_ns)
    }

    /// Returns whether the diagnosis is right: it names the causes, or no fault if there is none.
    pub fn is_named(&self) -> bool {
        match self.result.faulty {
            Some(_) if !self.is_unseen() => {
                self.diagnosis().is_some_and(|it| it.names_all(self.causes()))
            }
            _ => self.before.iter().all(|it| it.fault().is_none()),
        }
    }

    /// Returns whether no packet at either end shows the causes; then a report without findings is
    /// right.
    fn is_unseen(&self) -> bool {
        self.before.iter().all(|it| it.sees_none(self.causes()))
    }

    /// Returns whether the fix helped: the causes are gone, and requests take less time or fewer
    /// fail. `None` if there is nothing to fix.
    pub fn is_fixed(&self) -> Option<bool> {
        let (faulty, healthy) = (self.result.faulty.as_ref()?, &self.result.healthy);
        let better = failed(healthy) < failed(faulty)
            || healthy.latency_ns.mean_ns < faulty.latency_ns.mean_ns;
        Some(self.is_gone() && better)
    }

    /// Returns whether the causes are gone after the fix, or cost less than half. A cause that is
    /// not a fault (distance, a handshake) may remain and only has to cost less.
    fn is_gone(&self) -> bool {
        let (Some(before), Some(after)) = (self.diagnosis(), self.after.get(self.shown)) else {
            return false;
        };
        let still = if self.case.class == Class::Cost { 0.9 } else { 0.5 };
        match before.lost_ns(self.causes()) {
            0 if self.is_unseen() => true,
            0 => !after.names_all(self.causes()),
            lost_ns => (after.lost_ns(self.causes()) as f64) < still * lost_ns as f64,
        }
    }

    /// Returns whether almost no cost of the causes remains after the fix: the prediction assumes
    /// that none remains.
    pub fn is_all_gone(&self) -> bool {
        let lost_ns = |it: Option<&Diagnosis>| it.map_or(0, |it| it.lost_ns(self.causes()));
        lost_ns(self.after.get(self.shown)) <= lost_ns(self.diagnosis()) / 10
    }

    /// Returns whether the case ended as expected in all respects.
    pub fn is_good(&self) -> bool {
        self.is_named() && self.is_fixed().unwrap_or(true)
    }

    /// Describes the outcome in one sentence.
    pub fn sentence(&self) -> String {
        let Some(fixed) = self.is_fixed() else {
            return match self.before.iter().find_map(|it| it.fault()) {
                None => "There is no fault, and none was named.".to_owned(),
                Some(fault) => {
                    format!("There is no fault, but {} was named.", fault.cause.id())
                }
            };
        };
        let what = if self.case.class == Class::Cost { "cost" } else { "fault" };
        let (at, not): (Vec<_>, Vec<_>) =
            self.before.iter().partition(|it| it.names_all(self.causes()));
        let named = match (at.as_slice(), not.as_slice()) {
            ([], _) if self.is_unseen() && self.is_named() => {
                "shows in no packet and none was named".to_owned()
            }
            ([], _) => "was not named".to_owned(),
            ([end], [other]) if other.sees_none(self.causes()) => {
                format!("was named at the {} (no packet at the other end shows it)", end.vantage)
            }
            ([end], [_, ..]) => format!("was named at the {} (not at the other end)", end.vantage),
            _ => "was named at both ends".to_owned(),
        };
        let joined = if self.is_named() == fixed { "and" } else { "but" };
        let worked = match fixed {
            true if self.is_treated => "the treatment cured it without a restart",
            true => "the fix worked",
            false if self.is_gone() => "without it requests took no less time",
            false if self.is_treated => "it is there after the treatment too",
            false => "it is there after the fix too",
        };
        format!("The {what} {named}, {joined} {worked}{}.", self.change())
    }

    /// Describes the change that the user sees.
    fn change(&self) -> String {
        let (before, after) = (self.labels(), &self.result.healthy);
        let (failed_before, failed_after) = (failed(before), failed(after));
        if failed_after < failed_before {
            let of = before.exchanges;
            return format!(": {failed_before} of {of} requests failed, now {failed_after}");
        }
        let [one, other] = [before.latency_ns.mean_ns, after.latency_ns.mean_ns];
        let [mean, now] = [one, other].map(units::duration);
        let times = one as f64 / other.max(1) as f64;
        let times = if times >= 1.5 { format!(", {times:.1} times faster") } else { String::new() };
        format!(": mean {mean} → {now}{times}")
    }
}

/// Number of failed requests.
pub fn failed(labels: &Labels) -> u64 {
    labels.requests.iter().filter(|request| request.error.is_some()).count() as u64
}

fn causes(result: &CaseResult) -> &[Cause] {
    result.faulty.as_ref().map_or(&[], |faulty| faulty.causes.as_slice())
}

/// Chooses the diagnosis to show: the one at the culprit's end has the best evidence, the one at
/// the client sees all exchanges. An end whose diagnosis does not name the causes is not chosen.
fn shown(diagnoses: &[Diagnosis], causes: &[Cause]) -> usize {
    let at_server = causes.first().is_some_and(|cause| cause.culprit_role == Role::Server);
    let best = if at_server { "server" } else { "client" };
    let order = |it: &Diagnosis| (it.names_all(causes), it.vantage == best);
    let all = diagnoses.iter().enumerate();
    all.max_by_key(|(_, it)| order(it)).map_or(0, |(index, _)| index)
}
