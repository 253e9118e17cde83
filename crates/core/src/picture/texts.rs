//! The texts of a report in each language but English, for the switch of a page; the report's JSON has the
//! English ones.

use crate::model::{Finding, Language, Report};
use crate::report::{Phrases, manual_json, phrases, text};
use crate::state;
use crate::{experiment, findings};
use serde_json::{Map, Value, json};

/// Returns the texts by language, in the order of the report's files, findings and observations.
pub(super) fn texts(report: &Report) -> Map<String, Value> {
    let others = Language::ALL.into_iter().filter(|language| *language != Language::English);
    others.map(|language| (language.id().to_owned(), of(report, language))).collect()
}

fn of(report: &Report, language: Language) -> Value {
    let observations = report.observations.iter().map(|it| phrases::observation(it, language).1);
    let problems = report.inputs.iter().map(|input| {
        let said = input.problems.iter().map(|it| findings::error_in(language, &it.to_string()));
        said.collect::<Vec<_>>()
    });
    json!({
        "problems": problems.collect::<Vec<_>>(),
        "answer": text::answer(report, language),
        "findings": report.findings.iter().map(|it| finding(it, language)).collect::<Vec<_>>(),
        "observations": observations.collect::<Vec<_>>(),
        "manuals": manuals(report, language),
    })
}

/// Returns the manuals of the causes that a report found.
pub(super) fn manuals(report: &Report, language: Language) -> Map<String, Value> {
    let causes = report.findings.iter().map(|finding| finding.cause);
    causes.map(|it| (it.id().to_owned(), manual_json(it, language))).collect()
}

/// Returns the texts of a finding; those of its evidence are in the order of the report's JSON.
fn finding(finding: &Finding, language: Language) -> Value {
    let phrases = Phrases::of(finding, language);
    let state = finding.state.iter().map(|it| state::sentence(it, language));
    let made = finding.experiments.iter();
    let made = made.map(|it| experiment::sentence(&it.experiment, language));
    let ruled_out = phrases.ruled_out.into_iter().map(|(_, why)| why);
    json!({
        "headline": phrases.headline,
        "what": phrases.what,
        "evidence": phrases.evidence.into_iter().chain(state).chain(made).collect::<Vec<_>>(),
        "ruled_out": ruled_out.collect::<Vec<_>>(),
        "fixes": phrases.fixes,
    })
}
