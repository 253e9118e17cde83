//! `tcpwhy lab`: reproduces what makes connections slow, with real software in namespaces.

mod args;
mod score;

pub use args::LabCommand;

use crate::error::Error;
use crate::output;
use args::RunArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use tcpwhy_lab::{CASES, CaseResult, Labels, RunOptions, cleanup, find};

/// Does what was asked for.
///
/// # Errors
/// [`Error::Lab`]: a case cannot be run here, or not as asked.
pub fn run(asked: &LabCommand) -> Result<ExitCode, Error> {
    let text = match asked {
        LabCommand::List => list(),
        LabCommand::Clean => cleanup::clean().iter().map(|it| format!("removed {it}\n")).collect(),
        LabCommand::Run(asked) => run_case(asked)?,
        LabCommand::Score(asked) => return score::run(asked),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> String {
    let line = |case: &tcpwhy_lab::Case| {
        format!("{:<12} {:<30} {}\n", case.layer.id(), case.name, case.summary)
    };
    CASES.iter().map(line).collect()
}

fn run_case(asked: &RunArgs) -> Result<String, Error> {
    let case = find(&asked.case)?;
    let out = asked.out.clone().unwrap_or_else(|| PathBuf::from("."));
    let options = RunOptions { out, seed: asked.seed, set: asked.set.0.clone() };
    cleanup::on_interrupt();
    Ok(shown(&tcpwhy_lab::run(case, &options)?))
}

fn shown(result: &CaseResult) -> String {
    let runs = result.faulty.iter().chain([&result.healthy]);
    format!("{}\n{}", result.dir.display(), runs.map(shown_run).collect::<String>())
}

fn shown_run(labels: &Labels) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut text = format!(
        "  {:<8} {} exchanges, {:.1} ms in all, p50 {:.2} p99 {:.2} max {:.2} ms\n",
        format!("{:?}", labels.variant).to_lowercase(),
        labels.exchanges,
        ms(labels.wall_ns),
        ms(labels.latency_ns.p50_ns),
        ms(labels.latency_ns.p99_ns),
        ms(labels.latency_ns.max_ns),
    );
    for cause in &labels.causes {
        let lost = cause.lost_ns.map_or("?".to_owned(), |ns| format!("{:.1} ms", ms(ns)));
        text += &format!("           {} lost {lost}: {}\n", cause.cause, cause.lost_ns_how);
    }
    text
}
