//! `tcpwhy lab verify`: runs the cases, judges tcpwhy's diagnoses and prints the accuracy.

use super::score::{judge_below, shown};
use super::{Temporary, live, treated};
use crate::lab::error::Error;
use clap::{Args, ValueHint};
use tcpwhy_cli::output;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tcpwhy_core::model::units;
use tcpwhy_lab::score::{Judged, Score, render_wrong};
use tcpwhy_lab::verify::{Task, TaskOutcome, plan, run_all};
use tcpwhy_lab::{LabError, RunOptions, cleanup};

/// Shown below the options in the help.
pub const NOTES: &str = "\
Examples:
  sudo tcpwhy lab verify --seed 7 --out captures
  sudo tcpwhy lab verify --only send_buffer,receive_window --repeat 5
  sudo tcpwhy lab verify --short --json | jq .score.bars
  sudo tcpwhy lab verify --short --live
  sudo tcpwhy lab verify --active --only nginx_nodelay_off,server_think
  sudo tcpwhy lab verify --treat

The seed determines all parameters; a case that does not reproduce is tried with two other seeds,
and the output says so. docs/lab-format.md has the rules and the bars.

Exit status: 0 all bars hold, 1 one does not or a case did not work, 2 nothing could be run.";

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Seed for everything random: parameters, addresses, losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Run each case this many times, with successive seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repeat: u64,

    /// Only these cases
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Run one case of each mechanism, in two minutes; the bars for times need not hold
    #[arg(long, conflicts_with = "only")]
    pub short: bool,

    /// Attach `tcpwhy watch` for 5 s in the middle of each load, at both ends, and judge what it names
    #[arg(long, conflicts_with = "out")]
    pub live: bool,

    /// Run `tcpwhy URL` on the server of each case that is visible from outside, as `nobody` and as
    /// root
    #[arg(long, conflicts_with_all = ["out", "live", "short"])]
    pub active: bool,
    /// Treat what `tcpwhy treat` can treat while the load runs, and compare with the prediction and
    /// the fix
    #[arg(long, conflicts_with_all = ["out", "live", "active"])]
    pub treat: bool,

    /// Keep captures and labels in DIR, a data set for `lab score`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Number of cases that run at once; those whose link was late are run again alone [default:
    /// one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: Option<u16>,

    /// Print the score as JSON (docs/score.schema.json; with --treat: docs/lab-treat.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Print no progress while cases run
    #[arg(long)]
    pub no_progress: bool,
}

/// Runs and judges the cases.
///
/// # Errors Not root, no such case, or a capture cannot be read.
pub fn run(asked: &VerifyArgs) -> Result<ExitCode, Error> {
    if asked.active {
        return super::active::run(asked);
    }
    if asked.treat {
        return treated::verify(asked);
    }
    let tasks = plan(&asked.only, asked.short, asked.seed, asked.repeat)?;
    cleanup::on_interrupt();
    let temporary = match &asked.out {
        Some(_) => None,
        None => Some(Temporary(cleanup::temporary_dir()?)),
    };
    let out = asked.out.as_ref().or(temporary.as_ref().map(|it| &it.0));
    let out = out.cloned().unwrap_or_default();
    let verification = Verification {
        out: &out,
        keeps: asked.out.is_some(),
        live: asked.live,
        progress: Progress::new(tasks.len(), !asked.no_progress),
    };
    let options = RunOptions { out: out.clone(), seed: asked.seed, set: Vec::new() };
    let jobs = asked.jobs.map_or_else(tcpwhy_cli::workers::available, usize::from);
    let results =
        run_all(&tasks, &options, jobs, &|task, outcome| verification.judge(task, outcome));
    drop(temporary);
    let mut judged = Vec::new();
    let mut not_run = Vec::new();
    let mut run_again = Vec::new();
    for (task, result) in tasks.iter().zip(results) {
        match result {
            Ok((seed, one)) => {
                judged.extend(one);
                run_again.extend((seed != task.seed).then_some((*task, seed)));
            }
            Err(Error::Lab(LabError::NotRoot)) => return Err(LabError::NotRoot.into()),
            Err(error) => not_run.push(NotRun { task: *task, error }),
        }
    }
    let score = Score::of(&judged);
    let score = match (asked.live, asked.short) {
        (true, _) => score.requires_what_is_watched(),
        (false, true) => score.requires_names_only(),
        (false, false) => score,
    };
    output::print(&render(asked, &score, &judged, &not_run, &run_again)?)?;
    let works = !judged.is_empty() && not_run.iter().all(NotRun::is_for_want_of_a_program);
    Ok(ExitCode::from(u8::from(!score.holds() || !works)))
}

/// A case that could not be run.
struct NotRun {
    task: Task,
    error: Error,
}

impl NotRun {
    fn is_for_want_of_a_program(&self) -> bool {
        matches!(self.error, Error::Lab(LabError::Missing { .. }))
    }
}

/// A verification in progress.
struct Verification<'a> {
    out: &'a Path,
    keeps: bool,
    live: bool,
    progress: Progress,
}

impl Verification<'_> {
    /// Judges the diagnoses of a task's captures; returns them with the seed of the run.
    fn judge(&self, task: &Task, outcome: TaskOutcome) -> Result<(u64, Vec<Judged>), Error> {
        let judged = outcome.map_err(Error::from).and_then(|result| {
            let judged = match self.live {
                true => live::judge_live(task, self.out, &result),
                false => judge_below(self.out, &result.dir, None),
            };
            if !self.keeps {
                cleanup::remove_dir(&result.dir);
            }
            Ok((result.healthy.seed, judged?))
        });
        let verdict = match &judged {
            Ok((_, judged)) if render_wrong(judged).is_empty() => "ok".to_owned(),
            Ok((_, judged)) => {
                let wrong = render_wrong(judged);
                wrong.first().map(|(_, words)| words.clone()).unwrap_or_default()
            }
            Err(error) => error.to_string(),
        };
        self.progress.tell(task, &verdict);
        judged
    }
}

/// Prints a line on standard error for each case that ends.
pub struct Progress {
    wanted: bool,
    tasks: usize,
    begun: Instant,
    done: Mutex<usize>,
}

impl Progress {
    /// Starts with this number of cases; prints only if it is `wanted`.
    pub fn new(tasks: usize, wanted: bool) -> Self {
        Self { wanted, tasks, begun: Instant::now(), done: Mutex::new(0) }
    }

    /// Records that a case has ended.
    pub fn tell(&self, task: &Task, verdict: &str) {
        let mut done = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *done += 1;
        let took = self.begun.elapsed();
        let left = took.mul_f64((self.tasks - *done) as f64 / *done as f64);
        if self.wanted {
            output::note(&format!(
                "{:>4}/{} {:<40} {verdict}  ({} left)",
                *done,
                self.tasks,
                format!("{}-{}", task.case.name, task.seed),
                shown_duration(left),
            ));
        }
    }
}

fn shown_duration(time: Duration) -> String {
    units::duration(time.as_secs().saturating_mul(1_000_000_000))
}

fn render(
    asked: &VerifyArgs,
    score: &Score,
    judged: &[Judged],
    not_run: &[NotRun],
    run_again: &[(Task, u64)],
) -> Result<String, Error> {
    let dir = asked.out.as_deref();
    let mut text = shown(score, judged, dir, asked.json)?;
    if asked.json {
        let mut value: serde_json::Value = serde_json::from_str(&text)?;
        let why = |it: &NotRun| {
            serde_json::json!({
                "case": it.task.case.name, "seed": it.task.seed, "why": it.error.to_string(),
            })
        };
        value["not_run"] = not_run.iter().map(why).collect();
        let again = |(task, seed): &(Task, u64)| serde_json::json!({ "case": task.case.name, "seed": task.seed, "run_with_seed": seed });
        value["run_again"] = run_again.iter().map(again).collect();
        return Ok(serde_json::to_string_pretty(&value)? + "\n");
    }
    for (task, seed) in run_again {
        let name = task.case.name;
        text += &format!("{name}-{} did not reproduce: {name}-{seed} is in its place\n", task.seed);
    }
    for it in not_run {
        text += &format!("not run: {}-{}: {}\n", it.task.case.name, it.task.seed, it.error);
    }
    Ok(text)
}
