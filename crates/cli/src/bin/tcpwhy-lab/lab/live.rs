//! `tcpwhy lab verify --live`: attaches `tcpwhy watch` in the middle of a load and judges its
//! report.

use super::score::{answers, judge_below};
use crate::lab::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tcpwhy_core::model::{Cause, Class};
use tcpwhy_lab::score::{Answers, Judged};
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
    judged.iter_mut().for_each(keep_names);
    judged.iter_mut().filter(|it| it.vantage == "server").for_each(expect_hooks);
    judged.iter_mut().for_each(|it| it.late |= late.contains(&it.variant));
    Ok(judged)
}

/// Removes the judgement of times: they were measured in another run and over all of it, so they
/// say nothing about five seconds.
fn keep_names(judged: &mut Judged) {
    judged.causes.iter_mut().for_each(|cause| cause.lost_ns = None);
    (judged.counterfactual, judged.kernel, judged.wall_error) = (None, None, None);
}

/// At the server hooks show what its own time was: there the name that a capture would give is not
/// enough.
fn expect_hooks(judged: &mut Judged) {
    let shown = |id: &str| {
        let cause = Cause::from_id(id);
        cause.is_some_and(|it| it.is_of_server_time() && it.class() == Class::Fault)
    };
    for cause in judged.causes.iter_mut().filter(|it| shown(&it.cause)) {
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
        report["capture"] = name.display().to_string().into();
        named.push(report.to_string());
    }
    Ok((named, is_late))
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
