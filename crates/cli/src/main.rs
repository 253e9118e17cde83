//! The `tcpwhy` command: arguments, files, exit codes, progress; no analysis.

mod analysis;
mod args;
mod compare;
mod error;
mod explain;
#[cfg(target_os = "linux")]
mod lab;
mod output;
mod progress;
mod sandbox;
mod sources;
mod terminal;
mod workers;

use args::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// The work could not be done.
const EXIT_FAILED: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Some(Command::Explain(explain)) => explain::run(&explain),
        #[cfg(target_os = "linux")]
        Some(Command::Lab { command }) => lab::run(&command),
        #[cfg(not(target_os = "linux"))]
        Some(Command::Lab { .. }) => Err(error::Error::NotLinux),
        Some(Command::Compare(compare)) => compare::run(&compare),
        Some(Command::Completions { shell }) => completions(shell),
        None => explain::run(&arguments.explain),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", error.sentences());
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<ExitCode, error::Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tcpwhy", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
