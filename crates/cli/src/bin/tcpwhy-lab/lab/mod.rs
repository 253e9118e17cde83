//! The commands of the lab: reproduce causes of slow connections with real software in namespaces,
//! and explain each case.

mod active;
mod args;
mod diagnosis;
mod error;
mod json;
mod keep;
mod list;
mod live;
mod outcome;
mod score;
mod story;
mod table;
mod treated;
mod verify;

use crate::lab::error::Error;
use args::{Arguments, LabCommand, RunArgs};
use clap::{CommandFactory, Parser};
use outcome::CaseOutcome;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tcpwhy_cli::progress::Waiting;
use tcpwhy_cli::{man, output, program, terminal};
use tcpwhy_lab::run::{Attempt, run_told};
use tcpwhy_lab::{Case, LabError, RunOptions, Variant, cleanup, find};

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => program::ended(run(&arguments.command)),
        Err(words) => program::print_parser_output(&words),
    }
}

/// Runs the given command.
///
/// # Errors [`Error::Lab`] if a case cannot be run on this system or with these arguments.
fn run(asked: &LabCommand) -> Result<ExitCode, Error> {
    match asked {
        LabCommand::List { case, json, display } => {
            let look = terminal::look(display, true);
            let text = match (case.as_deref().map(find).transpose()?, json) {
                (None, true) => serde_json::to_string_pretty(&list::json())? + "\n",
                (None, false) => list::text(&look),
                (Some(case), true) => serde_json::to_string_pretty(&list::describe(case))? + "\n",
                (Some(case), false) => list::one(case, &look),
            };
            output::print(&text)?;
        }
        LabCommand::Run(asked) => return run_case(asked),
        LabCommand::Score(asked) => return score::run(asked),
        LabCommand::Table(asked) => return table::run(asked),
        LabCommand::Verify(asked) => return verify::run(asked),
        LabCommand::Clean => {
            let removed = cleanup::clean()?;
            let text: String = removed.iter().map(|it| format!("removed {it}\n")).collect();
            output::print(if text.is_empty() { "nothing was left behind\n" } else { &text })?;
        }
        LabCommand::Help { words } => {
            let text = program::help(Arguments::command(), words).map_err(Error::NoHelp)?;
            output::print(&text)?;
        }
        LabCommand::Man { folder } => return Ok(man::run(Arguments::command(), folder)?),
        LabCommand::Completions { shell } => {
            return Ok(program::completions(*shell, Arguments::command(), "tcpwhy-lab")?);
        }
        LabCommand::Hold(asked) => {
            cleanup::on_interrupt();
            keep::hold(find(&asked.case)?, &options(asked, Path::new(".")))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a case and explains it; the exit status says whether the fault was named and repaired.
fn run_case(asked: &RunArgs) -> Result<ExitCode, Error> {
    let case = find(&asked.case)?;
    let look = terminal::look(&asked.display, false);
    cleanup::on_interrupt();
    // Without --out, the captures are needed only until the case has been explained.
    let temporary = match &asked.out {
        Some(_) => None,
        None => Some(Temporary(cleanup::temporary_dir()?)),
    };
    let out = asked.out.as_deref().or(temporary.as_ref().map(|it| it.0.as_path()));
    let out = out.unwrap_or(Path::new("."));
    let result = match asked.treat {
        true => treated::run(case, asked, out)?,
        false => waited(case, &options(asked, out), asked)?,
    };
    let outcome = CaseOutcome { is_treated: asked.treat, ..CaseOutcome::of(case, &result)? };
    let again = again(asked);
    let held = if asked.keep { Some(keep::start(asked)?) } else { None };
    let text = if asked.json {
        let story = json::story(&outcome, &again, held.as_ref())?;
        serde_json::to_string_pretty(&story)? + "\n"
    } else {
        let mut text = story::tell(&outcome, &again, &look)?;
        if asked.out.is_some() {
            text += &story::captures(&outcome, &look);
        }
        if let Some(held) = &held {
            text += &keep::commands(held, &outcome, &look);
        }
        text
    };
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(!outcome.is_good())))
}

/// Returns the path of `tcpwhy`, which the lab runs as a user would.
///
/// # Errors [`LabError::Io`] if it is not installed.
fn tcpwhy() -> Result<PathBuf, LabError> {
    program::companion("tcpwhy").ok_or_else(|| LabError::Io {
        what: "find tcpwhy beside tcpwhy-lab or in PATH".to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

/// A temporary directory, removed when dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        cleanup::remove_dir(&self.0);
    }
}

fn options(asked: &RunArgs, out: &Path) -> RunOptions {
    RunOptions { out: out.to_owned(), seed: asked.seed, set: asked.set.0.clone() }
}

/// Runs the case; a terminal shows its progress.
fn waited(
    case: &Case,
    options: &RunOptions,
    asked: &RunArgs,
) -> Result<tcpwhy_lab::CaseResult, LabError> {
    let waiting = Waiting::new(!asked.display.no_progress);
    run_told(case, options, &mut |Attempt { variant, number }| {
        let what = match (case.knob, variant) {
            (None, _) => "running the load",
            (_, Variant::Faulty) => "running the load with the fault",
            (_, Variant::Healthy) => "running it again, repaired",
        };
        let again = if number > 1 { ", once more: the host was too busy" } else { "" };
        waiting.tell(&format!("{}: {what}{again}", case.name));
    })
}

/// Returns the command that repeats the run.
fn again(asked: &RunArgs) -> String {
    let given = asked.set.0.iter().map(|(name, value)| format!(" --{name} {value}"));
    let treat = if asked.treat { " --treat" } else { "" };
    format!(
        "sudo tcpwhy lab run {} --seed {}{treat}{}",
        asked.case,
        asked.seed,
        given.collect::<String>()
    )
}
