//! A case as JSON: labels, reports, comparison, verdict.

use super::diagnosis::Diagnosis;
use super::keep::Held;
use super::list::fix;
use super::outcome::CaseOutcome;
use crate::lab::error::Error;
use serde_json::{Map, Value, json};
use tcpwhy_core::report::{comparison, json};

/// Returns the whole document. `held` describes the stage if it was kept up.
///
/// # Errors A value has no JSON form.
pub fn story(outcome: &CaseOutcome<'_>, again: &str, held: Option<&Held>) -> Result<Value, Error> {
    let version = env!("CARGO_PKG_VERSION");
    let case = outcome.case;
    Ok(json!({
        "schema_version": 1,
        "tool_version": version,
        "case": case.name,
        "layer": case.layer,
        "class": case.class,
        "summary": case.summary,
        "command": again,
        "fix": fix(case, &outcome.labels().params),
        "treated": outcome.is_treated.then(|| super::treated::commands(case)),
        "directory": outcome.result.dir,
        "labels": {
            "faulty": serde_json::to_value(&outcome.result.faulty)?,
            "healthy": serde_json::to_value(&outcome.result.healthy)?,
        },
        "reports": { "before": reports(&outcome.before)?, "after": reports(&outcome.after)? },
        "comparison": outcome.comparison.as_ref().map(|it| comparison::to_json(it, version)),
        "named": outcome.is_named(),
        "fixed": outcome.is_fixed(),
        "sentence": outcome.sentence(),
        "kept": held,
    }))
}

/// Returns the reports by vantage.
fn reports(diagnoses: &[Diagnosis]) -> Result<Value, Error> {
    let mut all = Map::new();
    for diagnosis in diagnoses {
        let report = json::render(&diagnosis.report, env!("CARGO_PKG_VERSION"))?;
        all.insert(diagnosis.vantage.clone(), serde_json::from_str(&report)?);
    }
    Ok(Value::Object(all))
}
