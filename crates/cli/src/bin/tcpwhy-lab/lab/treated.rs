//! `--treat`: `tcpwhy treat` cures cases while their load runs, instead of a restart with the fix.

use super::outcome::{CaseOutcome, failed};
use super::verify::{Progress, VerifyArgs};
use super::{Temporary, options};
use crate::lab::args::RunArgs;
use crate::lab::error::Error;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use tcpwhy_cli::output;
use tcpwhy_cli::progress::Waiting;
use tcpwhy_core::findings::prediction;
use tcpwhy_core::model::units;
use tcpwhy_core::report::{left, right};
use tcpwhy_lab::run::uncaptured;
use tcpwhy_lab::treated::{Ends, load_time, run_treated};
use tcpwhy_lab::verify::{Task, TaskOutcome as Ran, params_of, plan_treated, run_all};
use tcpwhy_lab::{Case, CaseResult, LabError, Labels, RunOptions, Treat, Variant, cleanup};

/// A treatment works if it brings at least this share of the improvement of the fix.
const CURED_MIN: f64 = 0.8;

/// The treatments of a case; empty if it has none.
pub fn of(case: &Case) -> &'static [Treat] {
    case.knob.map_or(&[], |knob| knob.treat)
}

/// The commands that treat a case, as a user would write them on the faulty host.
pub fn commands(case: &Case) -> Vec<String> {
    let quoted = |word: &&str| match *word {
        "{resolv_conf}" => "/etc/resolv.conf".to_owned(),
        "{resolver}" => "ADDRESS".to_owned(),
        word if word.contains(' ') => format!("'{word}'"),
        word => word.to_owned(),
    };
    let command = |treat: &Treat| {
        let words: Vec<String> = treat.arguments.iter().map(quoted).collect();
        format!("sudo tcpwhy treat {}", words.join(" "))
    };
    of(case).iter().map(command).collect()
}

/// Runs a case once and treats it while its load runs.
///
/// # Errors The case has no treatment, or cannot be run.
pub fn run(case: &Case, asked: &RunArgs, out: &Path) -> Result<CaseResult, Error> {
    if of(case).is_empty() {
        return Err(LabError::NotTreatable(case.name.to_owned()).into());
    }
    let options = options(asked, out);
    let waiting = Waiting::new(!asked.display.no_progress);
    waiting.tell(&format!("{}: timing the load with the fault", case.name));
    let params = tcpwhy_lab::run::params(case, &options)?;
    let timed = uncaptured(case, &params, options.seed, Variant::Faulty)?;
    let requests = &timed.observed.loaded.requests;
    let start_ns = requests.iter().map(|it| it.start_ns).min().unwrap_or(0);
    let end_ns = requests.iter().map(|it| it.end_ns).max().unwrap_or(0);
    waiting.tell(&format!("{}: running the load, and treating it meanwhile", case.name));
    treated(case, &options, Duration::from_nanos(end_ns.saturating_sub(start_ns)))
}

fn treated(case: &Case, options: &RunOptions, faulty: Duration) -> Result<CaseResult, Error> {
    let journal = Temporary(cleanup::temporary_dir()?);
    let treat = |ends: &Ends| begin(case, ends, &journal.0);
    Ok(run_treated(case, options, faulty, treat)?)
}

/// Treatments in effect; dropping the value undoes them.
struct Running(Vec<Child>);

fn begin(case: &Case, ends: &Ends, journal: &Path) -> Result<Running, LabError> {
    let mut running = Running(Vec::new());
    for treat in of(case) {
        let mut command = Command::new(super::tcpwhy()?);
        let filled = treat.arguments.iter().map(|word| ends.fill(word));
        command.arg("treat").args(filled).args(["--netns", ends.netns(treat.at), "--no-measure"]);
        command.env(tcpwhy_treat::DIRECTORY_VARIABLE, journal);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(not_started)?;
        cleanup::remember_child(child.id());
        running.0.push(child);
    }
    for (child, treat) in running.0.iter_mut().zip(of(case)) {
        // The pipe stays open: without a reader the treatment would end.
        let said = child.stdout.as_mut().map(BufReader::new);
        let mut lines = said.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        // The line that `tcpwhy treat` prints last before it waits.
        if !lines.any(|line| line.trim_start().starts_with("undo ")) {
            let mut stderr = String::new();
            let _ = child.stderr.take().map(|mut it| it.read_to_string(&mut stderr));
            let command = format!("tcpwhy treat {}", treat.arguments.join(" "));
            return Err(LabError::Command { command, stderr: stderr.trim().to_owned() });
        }
    }
    Ok(running)
}

fn not_started(source: std::io::Error) -> LabError {
    LabError::Io { what: "start tcpwhy treat".to_owned(), source }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // If the signal cannot be sent, the process has ended.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            let _ = child.wait();
            cleanup::forget_child(child.id());
        }
    }
}

/// Latency of a case: as predicted, after the treatment, and after the fix.
struct Row {
    case: &'static Case,
    seed: u64,
    before: Labels,
    predicted_mean_ns: Option<u64>,
    treated: Labels,
    fixed: Labels,
}

/// Returns the ends of a predicted mean.
fn ends_ns(likely_ns: u64) -> (u64, u64) {
    prediction::ends_ns(likely_ns, 0)
}

impl Row {
    fn of(case: &'static Case, run: &CaseResult, treated: CaseResult) -> Result<Self, Error> {
        let outcome = CaseOutcome::of(case, run)?;
        let labels = outcome.labels();
        let lost_ns = outcome.diagnosis().map_or(0, |it| it.lost_ns(outcome.causes()));
        let left_ns = labels.wall_ns.saturating_sub(lost_ns) / labels.exchanges.max(1);
        let before = treated.faulty.ok_or_else(|| LabError::NotTreatable(case.name.to_owned()))?;
        Ok(Self {
            case,
            seed: labels.seed,
            before,
            predicted_mean_ns: (lost_ns > 0).then_some(left_ns),
            treated: treated.healthy,
            fixed: run.healthy.clone(),
        })
    }

    /// Share of the fix's improvement that the treatment brings: of the failures that disappear if
    /// requests failed, else of the mean time.
    fn cured(&self) -> f64 {
        let share = |labels: &Labels| failed(labels) as f64 / labels.exchanges.max(1) as f64;
        let brought = |of: &dyn Fn(&Labels) -> f64| {
            (of(&self.before) - of(&self.treated)) / (of(&self.before) - of(&self.fixed))
        };
        let cured = match failed(&self.before) {
            0 => brought(&mean_ns),
            _ => brought(&share),
        };
        if cured.is_finite() { cured } else { 0.0 }
    }

    fn agrees(&self) -> bool {
        self.cured() >= CURED_MIN
    }

    fn json(&self) -> Value {
        let end = |labels: &Labels| {
            json!({
                "requests": labels.exchanges,
                "failed": failed(labels),
                "mean_ns": mean_ns(labels) as u64,
                "p50_ns": labels.latency_ns.p50_ns,
                "p99_ns": labels.latency_ns.p99_ns,
            })
        };
        json!({
            "case": self.case.name,
            "seed": self.seed,
            "commands": commands(self.case),
            "before": end(&self.before),
            "predicted_mean_ns": self.predicted_mean_ns,
            "predicted_ends_ns": self.predicted_mean_ns.map(ends_ns),
            "treated": end(&self.treated),
            "fixed": end(&self.fixed),
            "cured_share": self.cured(),
            "agrees": self.agrees(),
        })
    }
}

/// Mean of the servers' mean times. Requests are not weighted, since the number that a server gets
/// depends on how long they take.
fn mean_ns(labels: &Labels) -> f64 {
    let mut servers: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for request in &labels.requests {
        let server = servers.entry(&request.server_endpoint).or_default();
        *server = (server.0 + request.took_ns() as f64, server.1 + 1.0);
    }
    let means = servers.values().map(|(sum_ns, number)| sum_ns / number);
    means.sum::<f64>() / servers.len().max(1) as f64
}

/// Runs the cases that can be treated, first with the fix and then with the treatment.
///
/// # Errors Not root, no such case, or a capture cannot be read.
pub fn verify(asked: &VerifyArgs) -> Result<ExitCode, Error> {
    let tasks = plan_treated(&asked.only, asked.short, asked.seed, asked.repeat)?;
    cleanup::on_interrupt();
    let temporary = Temporary(cleanup::temporary_dir()?);
    let options = RunOptions { out: temporary.0.clone(), seed: asked.seed, set: Vec::new() };
    let jobs = asked.jobs.map_or_else(tcpwhy_cli::workers::available, usize::from);
    let progress = Progress::new(tasks.len(), !asked.no_progress);
    let done = |task: &Task, ran: Ran| {
        let row = ran.map_err(Error::from).and_then(|run| row(task, &options, &run));
        let verdict = match &row {
            Ok(row) => format!("{:.0} % of what the fix brings", 100.0 * row.cured()),
            Err(error) => error.to_string(),
        };
        progress.tell(task, &verdict);
        row
    };
    let mut rows = Vec::new();
    let mut not_run = Vec::new();
    for (task, row) in tasks.iter().zip(run_all(&tasks, &options, jobs, &done)) {
        match row {
            Ok(row) => rows.push(row),
            Err(Error::Lab(LabError::NotRoot)) => return Err(LabError::NotRoot.into()),
            Err(error) => not_run.push((task, error)),
        }
    }
    output::print(&render(asked.json, &rows, &not_run)?)?;
    let is_for_want =
        |(_, error): &(&Task, Error)| matches!(error, Error::Lab(LabError::Missing { .. }));
    let works = !rows.is_empty() && not_run.iter().all(is_for_want);
    Ok(ExitCode::from(u8::from(!works || !rows.iter().all(Row::agrees))))
}

fn row(task: &Task, options: &RunOptions, run: &CaseResult) -> Result<Row, Error> {
    let seed = run.healthy.seed;
    let faulty = run.faulty.as_ref().map(load_time).unwrap_or_default();
    let set = params_of(task, seed)?;
    // The same parameters as in the first run, also those that the task chose in addition to the
    // seed.
    let mut given = vec![("bbr".to_owned(), set.get("bbr")?.to_string())];
    if set.get("retry_pause_ns").is_ok_and(|pause_ns| pause_ns == 0) {
        // Requests that fail at once would end before anything is treated.
        given.push(("retry-pause".to_owned(), "50ms".to_owned()));
    }
    let options = RunOptions { seed, set: given, ..options.clone() };
    let treated = treated(task.case, &options, faulty)?;
    let row = Row::of(task.case, run, treated);
    cleanup::remove_dir(&run.dir);
    cleanup::remove_dir(&options.out.join(format!("{}-{seed}-treated", task.case.name)));
    row
}

fn render(as_json: bool, rows: &[Row], not_run: &[(&Task, Error)]) -> Result<String, Error> {
    if as_json {
        let why = |(task, error): &(&Task, Error)| json!({ "case": task.case.name, "seed": task.seed, "why": error.to_string() });
        let document = json!({
            "schema_version": 1,
            "tool_version": env!("CARGO_PKG_VERSION"),
            "cases": rows.iter().map(Row::json).collect::<Value>(),
            "not_run": not_run.iter().map(why).collect::<Value>(),
        });
        return Ok(serde_json::to_string_pretty(&document)? + "\n");
    }
    let columns = rows.iter().map(|row| row.case.name.len() + 4).max().unwrap_or(0).max(12);
    let mut text = format!(
        "{}{}{}{}{}{}\n",
        left("mean of a request", columns + 4),
        right("before", 10),
        right("predicted", 14),
        right("treated", 11),
        right("fixed", 11),
        right("cured", 8)
    );
    for row in rows {
        text += &line(row, columns + 4);
    }
    let agreeing = rows.iter().filter(|row| row.agrees()).count();
    text += &format!(
        "\n{agreeing} of {} treatments bring at least {:.0} % of what the fix brings, without a \
         restart\n",
        rows.len(),
        100.0 * CURED_MIN
    );
    for (task, error) in not_run {
        text += &format!("not run: {}-{}: {error}\n", task.case.name, task.seed);
    }
    Ok(text)
}

fn line(row: &Row, columns: usize) -> String {
    let mean = |labels: &Labels| units::duration(mean_ns(labels) as u64);
    let predicted = row.predicted_mean_ns.map(ends_ns);
    let predicted = predicted.map_or("–".to_owned(), |(least, most)| units::range(least, most));
    let mut line = format!(
        "{}{}{}{}{}{} %",
        left(&format!("{}-{}", row.case.name, row.seed), columns),
        right(&mean(&row.before), 10),
        right(&predicted, 14),
        right(&mean(&row.treated), 11),
        right(&mean(&row.fixed), 11),
        right(&format!("{:.0}", 100.0 * row.cured()), 6),
    );
    if failed(&row.before) > 0 {
        let failed = |labels: &Labels| format!("{} of {}", failed(labels), labels.exchanges);
        line += &format!("   failed {} → {}", failed(&row.before), failed(&row.treated));
    }
    if !row.agrees() {
        line += "   less than the fix";
    }
    line + "\n"
}
