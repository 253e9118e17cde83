//! `tcpwhy lab verify --live`: attaches `tcpwhy watch` in the middle of a load and judges its
//! report.

use super::score::{answers, judge_below};
use crate::lab::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tcpwhy_core::model::{Cause, Class};
use tcpwhy_lab::score::{Answers, Judged, JudgedCause};
use tcpwhy_lab::stage::INTERFACE;
use tcpwhy_lab::verify::{Task, params_of};
use tcpwhy_lab::{CaseResult, LabError, Labels, Request, run};

/// Time for which the watch is attached. It is longer if a single request takes longer, for example
/// when a resolver's timer of 5 s expires.
const ATTACHED: Duration = Duration::from_secs(5);

/// Runs the loads of `result` again and watches each at both ends. The last line of each watch is
/// judged by the labels in `result`, as if it were the report on the capture of that end; it does
/// not count if link or host were late while it was attached.
///
/// # Errors A load cannot be run again, or a watch prints no report.
pub fn judge_live(task: &Task, out: &Path, result: &CaseResult) -> Result<Vec<Judged>, Error> {
    let mut reports = Vec::new();
    let mut late = Vec::new();
    for labels in result.faulty.iter().chain([&result.healthy]) {
        let (of_both, is_late) = watched(task, out, result, labels)?;
        reports.extend(of_both);
        late.extend(is_late.then_some(labels.variant));
    }
    let mut judged = judge_below(out, &result.dir, Some(&read(&reports.concat())?))?;
    judged.iter_mut().for_each(keep_what_is_watched);
    judged.iter_mut().filter(|it| it.vantage == "server").for_each(expect_hooks);
    judged.iter_mut().for_each(|it| it.late |= late.contains(&it.variant));
    Ok(judged)
}

/// Removes the judgement of times, which were measured in another run and over all of it. Only the share
/// that a part of the server's time has of all time can be compared: it is what that part would have cost
/// if the watch had seen that run.
fn keep_what_is_watched(judged: &mut Judged) {
    let watched = judged.wall_error.map(|error| 1.0 + error).filter(|part| *part > 0.0);
    for cause in &mut judged.causes {
        let is_of_hooks = judged.vantage == "server" && is_shown_by_hooks(cause);
        let lost_ns = cause.lost_ns.filter(|_| is_of_hooks && cause.found);
        cause.lost_ns = lost_ns.zip(watched).map(|(ns, part)| (ns as f64 / part) as u64);
        cause.true_lost_ns = cause.true_lost_ns.map(|ns| ns.saturating_sub(cause.beside_ns));
    }
    (judged.counterfactual, judged.kernel, judged.wall_error) = (None, None, None);
}

/// Returns whether kernel hooks at the server show a cause that packets do not: what its time was, or the
/// queue of its interface.
fn is_shown_by_hooks(judged: &JudgedCause) -> bool {
    let Some(cause) = Cause::from_id(&judged.cause) else { return false };
    let is_of_server = cause.is_of_server_time() && cause.class() == Class::Fault;
    is_of_server || cause == Cause::Bufferbloat && judged.hidden
}

/// At the server hooks show what its own time was: there the name that a capture would give is not
/// enough.
fn expect_hooks(judged: &mut Judged) {
    for cause in judged.causes.iter_mut().filter(|it| is_shown_by_hooks(it)) {
        cause.hidden = false;
        cause.found = judged.right_findings.contains(&cause.cause);
        cause.culprit_right = cause.culprit_right.filter(|_| cause.found);
    }
}

fn read(reports: &str) -> Result<Answers, Error> {
    answers(reports.as_bytes(), Path::new("tcpwhy watch"))
}

/// Returns the reports of both ends on one load, each with the capture of that end as its input, and
/// whether link or host were late.
fn watched(
    task: &Task,
    out: &Path,
    result: &CaseResult,
    labels: &Labels,
) -> Result<(Vec<String>, bool), Error> {
    let seed = labels.seed;
    let params = params_of(task, seed)?;
    let longest_ns = labels.requests.iter().map(Request::took_ns).max().unwrap_or(0);
    // Long enough that the watch sees one request as a whole after the one that is in progress.
    let attached = ATTACHED.max(Duration::from_nanos(2 * longest_ns) + Duration::from_secs(1));
    // The labels describe the traffic on this interface; programs of a case may also communicate
    // with each other on the same host.
    let interface = if params.get("any_interface")? > 0 { "any" } else { INTERFACE };
    let at_both = |ends: [&str; 2]| {
        thread::scope(|scope| {
            let watches = ends.map(|netns| scope.spawn(move || watch(netns, interface, attached)));
            watches.map(|it| it.join().unwrap_or_else(|_| Err(nothing("it panicked"))))
        })
    };
    let (reports, is_late) = run::observed(task.case, &params, seed, labels.variant, at_both)?;
    let mut named = Vec::new();
    for (vantage, report) in ["client", "server"].into_iter().zip(reports) {
        let capture = result.capture(labels, vantage);
        let capture = capture.ok_or_else(|| nothing("there is no capture to compare it with"))?;
        let name = capture.strip_prefix(out).unwrap_or(&capture);
        let mut report: serde_json::Value = serde_json::from_str(&report?)?;
        keep_largest_parts(&mut report);
        report["capture"] = name.display().to_string().into();
        named.push(report.to_string());
    }
    Ok((named, is_late))
}

/// Reduces the cost of findings whose server's time was divided to that of their largest part.
fn keep_largest_parts(report: &mut serde_json::Value) {
    let findings = report["findings"].as_array_mut().into_iter().flatten();
    for finding in findings {
        let evidence = finding["evidence"].as_array().into_iter().flatten();
        let mut divided = evidence.filter(|it| it["setting"] == "server time");
        let Some(value) = divided.next().and_then(|it| it["value"].as_str()) else { continue };
        let Some((part, whole)) = value.split_once('/') else { continue };
        let parsed = part.parse::<f64>().ok().zip(whole.parse::<f64>().ok());
        if let (Some((part, whole)), Some(lost_ns)) = (parsed, finding["lost_ns"].as_f64()) {
            finding["lost_ns"] = ((lost_ns * part / whole.max(1.0)) as u64).into();
        }
    }
}

/// Returns the last line of `tcpwhy watch` in the namespace `netns`.
fn watch(netns: &str, interface: &str, attached: Duration) -> Result<String, Error> {
    let attached = format!("{}ms", attached.as_millis());
    let mut command = Command::new(super::tcpwhy()?);
    command.args(["watch", "--netns", netns, "--interface", interface, "--for", &attached]);
    command.args(["--budget", "none", "--json"]);
    let output = command.stdin(Stdio::null()).output().map_err(Error::Keep)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().next_back();
    let said = String::from_utf8_lossy(&output.stderr);
    last.map(str::to_owned).ok_or_else(|| nothing(said.trim()))
}

fn nothing(why: &str) -> Error {
    LabError::NotReproduced(format!("tcpwhy watch printed no report: {why}")).into()
}
