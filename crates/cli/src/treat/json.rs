//! Treatments as JSON (docs/treat.schema.json).

use super::course::End;
use serde_json::{Value, json};
use tcpwhy_core::compare::Comparison;
use tcpwhy_core::report::comparison;
use tcpwhy_treat::record::SocketChange;
use tcpwhy_treat::{
    Change, Counts, HostPlan, Newcomers, Record, Records, TreatError, TreatmentRequest, Undone,
    What,
};

const SCHEMA_VERSION: u32 = 1;
const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the treatments that are in effect now.
pub fn status(records: &Records) -> Value {
    let treatments: Vec<Value> = records.records.iter().map(treatment).collect();
    document("status", json!({ "treatments": treatments, "problems": problems(&records.garbage) }))
}

/// Returns the result of `undo`.
pub fn undone(all: &[(Record, Undone)], garbage: &[TreatError]) -> Value {
    let undone: Vec<&Undone> = all.iter().map(|(_, undone)| undone).collect();
    document("undo", json!({ "undone": undone, "problems": problems(garbage) }))
}

/// Returns what a treatment of sockets would change.
pub fn plan_sockets(asked: &TreatmentRequest, changes: &[SocketChange], counts: &Counts) -> Value {
    let changes: Vec<Change> = changes.iter().cloned().map(Change::Socket).collect();
    document(
        "plan",
        json!({
            "setting": asked.setting.id(),
            "changes": changes,
            "counts": self::counts(counts),
            "risk": null,
        }),
    )
}

/// Returns what a treatment of the host would change.
pub fn plan_host(plan: &HostPlan) -> Value {
    let setting = match &plan.what {
        What::Sysctl { name } => name,
        What::Resolver { .. } => "resolver",
        What::SynFlood { .. } => "syn-flood",
        What::Backlog { .. } => "backlog",
        What::Cwnd { .. } => "cwnd",
        What::Sockets { setting, .. } => setting.id(),
    };
    document(
        "plan",
        json!({
            "setting": setting,
            "changes": plan.changes,
            "counts": null,
            "risk": plan.risks.join("; "),
        }),
    )
}

/// Returns a treatment that has ended or is kept.
pub fn treated(
    record: &Record,
    counts: Option<&Counts>,
    compared: Option<&Comparison>,
    end: &End,
) -> Value {
    document(
        "treatment",
        json!({
            "treatment": treatment(record),
            "counts": counts.map(self::counts),
            "comparison": compared.map(|it| comparison::to_json(it, TOOL_VERSION)),
            "newcomers": end.newcomers.as_ref().map(newcomers),
            "guard": end.alarm,
            "trouble": end.trouble,
            "kept": end.undone.is_none() && !end.by_other,
            "undone": end.undone,
            "undone_by_other": end.by_other,
            "load": end.sent.map(|it| json!({ "answered": it.answered, "failed": it.failed })),
        }),
    )
}

fn document(kind: &str, fields: Value) -> Value {
    let mut document =
        json!({ "schema_version": SCHEMA_VERSION, "tool_version": TOOL_VERSION, "kind": kind });
    if let (Some(document), Value::Object(fields)) = (document.as_object_mut(), fields) {
        document.extend(fields);
    }
    document
}

fn treatment(record: &Record) -> Value {
    json!({
        "id": record.id,
        "what": record.what,
        "state": record.state,
        "is_running": tcpwhy_treat::is_running(record),
        "is_of_this_boot": tcpwhy_treat::is_of_this_boot(record),
        "by": record.by,
        "since": record.since,
        "changes": record.changes,
    })
}

fn newcomers(newcomers: &Newcomers) -> Value {
    match newcomers {
        Newcomers::Hook => json!({ "by": "hook", "because": null }),
        Newcomers::Listing(why) => json!({ "by": "listing", "because": why }),
    }
}

fn counts(counts: &Counts) -> Value {
    json!({
        "changed": counts.changed,
        "changed_new": counts.changed_new,
        "had_it": counts.had_it,
        "unreached": counts.unreached,
        "denied": counts.denied,
        "refused": counts.refused,
        "changed_meanwhile": counts.changed_meanwhile,
    })
}

fn problems(garbage: &[TreatError]) -> Vec<String> {
    garbage.iter().map(ToString::to_string).collect()
}
