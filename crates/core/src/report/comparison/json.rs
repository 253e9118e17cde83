//! A comparison as JSON (`docs/comparison.schema.json`).

use super::sentence;
use crate::compare::thresholds::CONFIDENCE;
use crate::compare::{Comparison, Found, Measured};
use crate::model::Language;
use serde_json::{Value, json};

/// Returns the verdict in each language but English, which the JSON has: for a page's switch.
pub fn sentences(comparison: &Comparison) -> Value {
    let others = Language::ALL.into_iter().filter(|language| *language != Language::English);
    let said = others.map(|it| (it.id().to_owned(), json!(sentence(comparison, it))));
    said.collect::<serde_json::Map<_, _>>().into()
}

/// Version of the schema.
const SCHEMA_VERSION: u32 = 1;

/// Renders the whole comparison.
pub fn to_json(comparison: &Comparison, tool_version: &str) -> Value {
    let (before, after) = (&comparison.before, &comparison.after);
    let new = after.findings.iter().filter(|found| before.found(found).is_none());
    let causes: Vec<Value> =
        before.findings.iter().chain(new).map(|found| cause(comparison, found)).collect();
    let owner = |id: &str| {
        json!({
            "owner": id,
            "before_per_exchange_ns": before.ledger_per_exchange_ns(id),
            "after_per_exchange_ns": after.ledger_per_exchange_ns(id),
        })
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "tool_version": tool_version,
        "verdict": comparison.verdict,
        "worse": comparison.is_worse(),
        "exit_status": comparison.outcome() as u8,
        "sentence": sentence(comparison, Language::English),
        "min_change": comparison.options.min_change,
        "confidence": CONFIDENCE,
        "before": run(before),
        "after": run(after),
        "ranks": comparison.ranks,
        "tails": comparison.tails,
        "looks": comparison.looks,
        "exchanges_needed": comparison.exchanges_needed,
        "only_in": comparison.only_in,
        "causes": causes,
        "owners": comparison.owners().into_iter().map(owner).collect::<Vec<_>>(),
        "new_faults": comparison.new_faults,
        "gone_faults": comparison.gone_faults,
        "prediction": comparison.outlook(),
    })
}

fn run(run: &Measured) -> Value {
    json!({
        "name": run.name,
        "vantage": run.vantage,
        "exchanges": run.exchanges,
        "wall_ns": run.wall_ns,
        "mean_ns": run.mean_ns(),
        "latency": run.latency,
    })
}

/// Returns the cost of a cause per mean exchange before and after; null where it is not a finding.
fn cause(comparison: &Comparison, found: &Found) -> Value {
    let side = |run: &Measured| {
        let lost_ns = run.found(found).map(|found| found.lost_ns);
        lost_ns.map(|lost_ns| {
            json!({ "lost_ns": lost_ns, "lost_per_exchange_ns": lost_ns / run.exchanges.max(1) })
        })
    };
    json!({
        "cause": found.cause,
        "class": found.class,
        "role": found.role,
        "before": side(&comparison.before),
        "after": side(&comparison.after),
    })
}
