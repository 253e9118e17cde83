//! `tcpwhy lab verify --active`: runs the doctor on the server of a case, from the client's
//! namespace, as root and as a user without privileges, with the fault and without it.

mod cases;
mod situations;

use super::verify::VerifyArgs;
use crate::lab::error::Error;
use cases::{ACTIVE, Active};
use serde::Serialize;
use serde_json::Value;
use situations::{SITUATIONS, Situation};
use std::fmt::Write;
use std::process::ExitCode;
use tcpwhy_cli::output;
use tcpwhy_core::model::Cause;
use tcpwhy_lab::run::replacing_load;
use tcpwhy_lab::verify::params_of;
use tcpwhy_lab::{LabError, Stage, Variant, cleanup, verify};

/// Required accuracy of the unprivileged user, for cases that own sockets or an experiment can
/// decide.
const UNPRIVILEGED_MIN: f64 = 0.90;
const ROOT_MIN: f64 = 0.98;

/// A report of the doctor and whether it is right.
#[derive(Clone, Debug, Serialize)]
struct Judged {
    case: &'static str,
    /// `true` if a TLS proxy stands in front of the server.
    is_tls: bool,
    /// Name of the case in tables.
    #[serde(skip)]
    label: String,
    seed: u64,
    variant: &'static str,
    user: &'static str,
    cause: &'static str,
    /// `true` if own sockets or an experiment can decide the case.
    is_decided: bool,
    /// `true` if the cause and its culprit are named, or, without the fault, no fault is named.
    is_right: bool,
    /// Named causes with their roles.
    named: Vec<String>,
}

/// Runs the doctor on each case and prints the table.
///
/// # Errors Not root, or no such case.
pub fn run(asked: &VerifyArgs) -> Result<ExitCode, Error> {
    let is_asked_for = |case: &str| match asked.only.as_slice() {
        [] => true,
        names => names.iter().any(|name| name == case),
    };
    cleanup::on_interrupt();
    let (mut judged, mut not_run) = (Vec::new(), Vec::new());
    for active in ACTIVE.iter().filter(|it| is_asked_for(it.case)) {
        for task in verify::plan(&[active.case.to_owned()], false, asked.seed, asked.repeat)? {
            let label = active.label(task.seed);
            let before = judged.len();
            for variant in [Variant::Faulty, Variant::Healthy] {
                match examine(active, &task, variant) {
                    Ok(said) => judged.extend(said),
                    Err(Error::Lab(LabError::NotRoot)) => return Err(LabError::NotRoot.into()),
                    Err(error) => not_run.push(format!("{label}: {error}")),
                }
            }
            tell(asked, &label, &judged[before..]);
        }
    }
    for situation in SITUATIONS.iter().filter(|it| is_asked_for(it.name)) {
        for seed in asked.seed..asked.seed.saturating_add(asked.repeat) {
            let label = format!("{}-{seed}", situation.name);
            let before = judged.len();
            for variant in [Variant::Faulty, Variant::Healthy] {
                match examine_situation(situation, seed, variant) {
                    Ok(said) => judged.extend(said),
                    Err(Error::Lab(LabError::NotRoot)) => return Err(LabError::NotRoot.into()),
                    Err(error) => not_run.push(format!("{label}: {error}")),
                }
            }
            tell(asked, &label, &judged[before..]);
        }
    }
    let shares = shares(&judged);
    let holds = !judged.is_empty() && shares.holds() && not_run.is_empty();
    if asked.json {
        output::print_json(&serde_json::json!({
            "holds": holds, "shares": shares, "judged": judged, "not_run": not_run,
        }))?;
    } else {
        output::print(&render(&judged, &shares, &not_run))?;
    }
    Ok(ExitCode::from(u8::from(!holds)))
}

/// Says how the reports on one server were judged, unless no progress is wanted.
fn tell(asked: &VerifyArgs, label: &str, judged: &[Judged]) {
    if !asked.no_progress {
        let wrong: Vec<_> =
            judged.iter().filter(|it| counts(it) && !it.is_right).map(wrong).collect();
        let verdict = if wrong.is_empty() { "ok".to_owned() } else { wrong.join("; ") };
        output::note(&format!("{label:<40} {verdict}"));
    }
}

/// Examines the server of a situation as both users, and judges the reports.
fn examine_situation(
    situation: &'static Situation,
    seed: u64,
    variant: Variant,
) -> Result<Vec<Judged>, Error> {
    let (said, number) = situation.ask(seed, variant)?;
    let mut judged = Vec::new();
    for (report, user) in said.into_iter().zip(["root", "nobody"]) {
        let report = report?;
        let is_named = (situation.is_named)(&report, number);
        let mut named: Vec<String> =
            named(&report).iter().map(|(cause, role)| format!("{cause} ({role})")).collect();
        let kinds = report["doctor"]["faults"].as_array().into_iter().flatten();
        named.extend(kinds.map(|it| format!("fault {}", it["kind"])));
        named.extend(is_named.then(|| situation.shows.to_owned()));
        let has_fault = !faults(&report).is_empty();
        judged.push(Judged {
            case: situation.name,
            is_tls: false,
            label: format!("{}-{seed}", situation.name),
            seed,
            variant: variant.dir(),
            user,
            cause: situation.shows,
            is_decided: true,
            is_right: match variant {
                Variant::Faulty => is_named,
                Variant::Healthy => !is_named && !has_fault,
            },
            named,
        });
    }
    Ok(judged)
}

/// Returns what a report states as a fault: in its findings, beside them, or as errors of a load.
fn faults(report: &Value) -> Vec<String> {
    let of_doctor = report["doctor"]["faults"].as_array().into_iter().flatten();
    let of_load = report["errors"].as_object().into_iter().flat_map(|it| it.keys());
    let found = named(report).into_iter().map(|it| it.0).filter(|it| is_fault(it));
    let kinds = of_doctor.map(|it| it["kind"].to_string());
    found.chain(kinds).chain(of_load.cloned()).collect()
}

/// Runs the doctor as both users and judges its reports.
fn examine(
    active: &'static Active,
    task: &verify::Task,
    variant: Variant,
) -> Result<Vec<Judged>, Error> {
    let params = params_of(task, task.seed)?;
    let ask = move |stage: &Stage| active.ask(stage);
    let said = replacing_load(task.case, &params, task.seed, variant, ask)??;
    let mut judged = Vec::new();
    for (report, user) in said.into_iter().zip(["root", "nobody"]) {
        let report = report?;
        let named = named(&report);
        let is_cause = |it: &(String, String)| it.0 == active.cause.id() && it.1 == active.role;
        let is_right = match variant {
            Variant::Faulty => named.iter().any(is_cause),
            Variant::Healthy => !named.iter().any(is_cause) && faults(&report).is_empty(),
        };
        judged.push(Judged {
            case: active.case,
            is_tls: active.is_tls,
            label: active.label(task.seed),
            seed: task.seed,
            variant: variant.dir(),
            user,
            cause: active.cause.id(),
            is_decided: active.is_decided,
            is_right,
            named: named.iter().map(|(cause, role)| format!("{cause} ({role})")).collect(),
        });
    }
    Ok(judged)
}

fn is_fault(id: &str) -> bool {
    let class = Cause::from_id(id).map(Cause::class);
    class == Some(tcpwhy_core::model::Class::Fault)
}

/// Returns the causes and roles that a report names.
fn named(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().into_iter().flatten();
    findings.map(|it| (text(&it["cause"]), text(&it["culprit"]["role"]))).collect()
}

/// Number of right reports and of all, by user and variant.
#[derive(Clone, Copy, Debug, Serialize)]
struct Shares {
    nobody: (usize, usize),
    root: (usize, usize),
    healthy: (usize, usize),
}

impl Shares {
    fn holds(&self) -> bool {
        let share = |(right, all): (usize, usize)| right as f64 / all.max(1) as f64;
        share(self.nobody) >= UNPRIVILEGED_MIN
            && share(self.root) >= ROOT_MIN
            && self.healthy.0 == self.healthy.1
    }
}

fn shares(judged: &[Judged]) -> Shares {
    let of = |is_it: &dyn Fn(&Judged) -> bool| {
        let those: Vec<_> = judged.iter().filter(|it| is_it(it)).collect();
        (those.iter().filter(|it| it.is_right).count(), those.len())
    };
    let is_faulty = |it: &Judged| it.variant == Variant::Faulty.dir();
    Shares {
        nobody: of(&|it| is_faulty(it) && it.user == "nobody" && it.is_decided),
        root: of(&|it| is_faulty(it) && it.user == "root"),
        healthy: of(&|it| !is_faulty(it)),
    }
}

/// Returns whether a report counts for the required accuracy. A user who may not capture is not
/// expected to find what only packets show.
fn counts(it: &Judged) -> bool {
    it.is_decided || it.user == "root" || it.variant == Variant::Healthy.dir()
}

fn wrong(it: &Judged) -> String {
    let named = if it.named.is_empty() { "nothing".to_owned() } else { it.named.join(", ") };
    format!("{} {}: {named}", it.user, it.variant)
}

fn render(judged: &[Judged], shares: &Shares, not_run: &[String]) -> String {
    let mut text =
        format!("{:<32} {:<20} {:>8} {:>8} {:>8}\n", "case", "cause", "nobody", "root", "healthy");
    let mut rows: Vec<&str> = judged.iter().map(|it| &*it.label).collect();
    rows.dedup();
    for label in rows {
        let of = |user: Option<&str>, variant: Variant| {
            let mut those = judged.iter().filter(|it| {
                it.label == label
                    && it.variant == variant.dir()
                    && user.is_none_or(|user| it.user == user)
            });
            let is_asked = those.clone().any(|it| user != Some("nobody") || it.is_decided);
            match those.all(|it| it.is_right) {
                true => "named",
                false if is_asked => "wrong",
                false => "–",
            }
        };
        let cause = judged.iter().find(|it| it.label == label).map_or("", |it| it.cause);
        let healthy = if of(None, Variant::Healthy) == "named" { "silent" } else { "WRONG" };
        let _ = writeln!(
            text,
            "{label:<32} {cause:<20} {:>8} {:>8} {healthy:>8}",
            of(Some("nobody"), Variant::Faulty),
            of(Some("root"), Variant::Faulty),
        );
    }
    let of = |(right, all): (usize, usize)| format!("{right} of {all}");
    let _ = writeln!(
        text,
        "\nnamed with its culprit: {} without privileges (of those that this can decide), {} by root; \
         healthy and silent: {}",
        of(shares.nobody),
        of(shares.root),
        of(shares.healthy)
    );
    for it in judged.iter().filter(|it| counts(it) && !it.is_right) {
        let _ = writeln!(text, "  {} {}", it.label, wrong(it));
    }
    not_run.iter().for_each(|it| text += &format!("not run: {it}\n"));
    text
}
