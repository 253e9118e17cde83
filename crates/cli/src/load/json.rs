//! A load as JSON (docs/load.schema.json).

use super::Explained;
use crate::error::Error;
use serde_json::{Map, Value, json};
use tcpwhy_core::report::json as report_json;
use tcpwhy_probe::load::{FailureKind, LoadOutcome, Pace, Plan, Second, Times, Uneven};
use tcpwhy_probe::target::Ask;

const SCHEMA_VERSION: u32 = 1;
const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the document with a line feed at its end.
///
/// # Errors Not expected: every value has a JSON form.
pub fn render(plan: &Plan, outcome: &LoadOutcome, explained: &Explained) -> Result<String, Error> {
    let diagnosis = diagnosis(explained)?;
    let part = |name: &str, none: Value| diagnosis.get(name).cloned().unwrap_or(none);
    let uneven = Uneven::of(plan, outcome);
    let mut document = json!({
        "schema_version": SCHEMA_VERSION,
        "tool_version": TOOL_VERSION,
        "interrupted": outcome.interrupted,
        "target": plan.target.to_string(),
        "address": outcome.address.map(|it| it.to_string()),
        "server": outcome.server,
        "location": outcome.location,
        "connections": plan.connections,
        "streams": plan.streams,
        "threads": outcome.threads,
        "loop": if plan.pace == Pace::Closed { "closed" } else { "open" },
        "rate": rate(plan),
        "new_connections": plan.new_connections,
        "elapsed_ns": outcome.elapsed_ns,
        "planned": outcome.planned,
        "sent": outcome.sent,
        "requests": outcome.requests,
        "unanswered": outcome.unanswered,
        "not_sent": outcome.not_sent(),
        "ended": outcome.ended.as_ref().map(|it| json!({ "reason": it.name(), "why": it.to_string() })),
        "requests_per_second": outcome.requests_per_second(),
        "bytes": outcome.bytes,
        "bytes_per_second": outcome.bytes as f64 / (outcome.elapsed_ns.max(1) as f64 / 1e9),
        "latency": times(&outcome.latency),
        "first_byte": times(&outcome.first_byte),
        "connect": times(&outcome.connect),
        "tls": times(&outcome.tls),
        "tls_resumed": outcome.tls_resumed,
        "standstills": uneven.standstills,
        "open_p99_ns": uneven.open_p99.map(|it| it.ns),
        "tail": uneven.tail,
        "late_connects": uneven.late_connects,
        "errors": errors(outcome)?,
        "statuses": statuses(outcome),
        "time_series": outcome.seconds.iter().map(second).collect::<Vec<_>>(),
        "findings": part("findings", json!([])),
        "observations": part("observations", json!([])),
        "captured": captured(explained, &diagnosis),
        "sockets": explained.sockets,
        "note": explained.note,
        "notes": explained.notes,
    });
    // One more field would be too many for the macro.
    document["health"] = json!(health(plan, outcome));
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    Ok(text)
}

/// Returns the report on the load's own packets, in the format of the capture report.
fn diagnosis(explained: &Explained) -> Result<Value, Error> {
    let Some(report) = &explained.report else { return Ok(Value::Null) };
    Ok(serde_json::from_str(&report_json::render_line(report, TOOL_VERSION)?)?)
}

/// Describes the packets from which the findings were made.
fn captured(explained: &Explained, diagnosis: &Value) -> Value {
    let Some(report) = &explained.report else { return Value::Null };
    json!({
        "exchanges": report.totals.exchanges,
        "connections": report.totals.connections,
        "sampled_share": report.watched.map_or(1.0, |it| it.sampled_share),
        "dropped_packets": explained.dropped_packets,
        "latency": diagnosis["latency"],
        "wall_ns": report.totals.wall_ns,
        "ledger": diagnosis["ledger"],
    })
}

fn rate(plan: &Plan) -> Option<f64> {
    match plan.pace {
        Pace::Closed => None,
        Pace::PerSecond(rate) => Some(rate),
    }
}

/// Writes a distribution, and which of its values are lower bounds.
fn times(times: &Times) -> Value {
    let all = [
        ("mean_ns", times.mean()),
        ("p50_ns", times.quantile(0.5)),
        ("p75_ns", times.quantile(0.75)),
        ("p90_ns", times.quantile(0.9)),
        ("p99_ns", times.quantile(0.99)),
        ("p999_ns", times.quantile(0.999)),
        ("p9999_ns", times.quantile(0.9999)),
        ("max_ns", times.max()),
    ];
    let bounds: Vec<&str> =
        all.iter().filter(|(_, it)| it.at_least).map(|(name, _)| *name).collect();
    let mut document = json!({
        "count": times.count(),
        "unanswered": times.unanswered(),
        "min_ns": times.min_ns(),
        "at_least": bounds,
    });
    for (name, it) in all {
        document[name] = json!(it.ns);
    }
    document
}

fn errors(outcome: &LoadOutcome) -> Result<Value, Error> {
    let of = |(kind, count): (&FailureKind, &u64)| -> Result<(String, Value), Error> {
        let name = serde_json::to_value(kind)?;
        Ok((name.as_str().unwrap_or_default().to_owned(), json!(count)))
    };
    let all: Result<Map<String, Value>, Error> = outcome.errors.iter().map(of).collect();
    Ok(Value::Object(all?))
}

fn statuses(outcome: &LoadOutcome) -> Map<String, Value> {
    outcome.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect()
}

/// Returns the answers to health checks of gRPC; `None` if none was asked for.
fn health(plan: &Plan, outcome: &LoadOutcome) -> Option<Map<String, Value>> {
    let health = outcome.health.iter();
    (plan.target.ask == Ask::HealthCheck)
        .then(|| health.map(|(health, count)| (health.to_string(), json!(count))).collect())
}

fn second(second: &Second) -> Value {
    json!({
        "requests": second.requests,
        "errors": second.errors,
        "p50_ns": second.latency.quantile_ns(0.5),
        "p99_ns": second.latency.quantile_ns(0.99),
        "max_ns": second.latency.latency().max_ns,
    })
}
