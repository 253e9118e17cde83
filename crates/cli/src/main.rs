//! The `tcpwhy` command: arguments, files, exit codes and progress. It contains no analysis.

// All text is printed by `output`, which removes control characters.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod analysis;
mod annotate;
mod anonymize;
mod args;
mod compare;
#[cfg(target_os = "linux")]
mod dns;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod drops;
mod error;
mod explain;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod lab;
mod load;
mod man;
mod nothing_left;
mod one_of;
mod output;
mod page;
#[cfg(target_os = "linux")]
mod probe;
mod progress;
mod sandbox;
#[cfg(target_os = "linux")]
mod sockets;
mod sources;
mod state;
mod tables;
#[cfg(target_os = "linux")]
mod tap;
mod terminal;
#[cfg(target_os = "linux")]
mod treat;
#[cfg(target_os = "linux")]
mod watch;
mod workers;
mod written;

use args::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::io::Write;
use std::process::ExitCode;
use tcpwhy_core::model::clean::is_interpreted;

/// Exit status if the command failed.
const EXIT_FAILED: u8 = 2;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(args::with_command(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(words) => return print_parser_output(&words),
    };
    let done = match arguments.command {
        Some(Command::Explain(explain)) => explain::run(&explain),
        #[cfg(target_os = "linux")]
        Some(Command::Lab { command }) => lab::run(&command),
        #[cfg(not(target_os = "linux"))]
        Some(Command::Lab { .. }) => Err(error::Error::NotLinux),
        #[cfg(target_os = "linux")]
        Some(Command::Doctor(arguments)) => doctor::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Sockets(arguments)) => sockets::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Watch(arguments)) => watch::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Host(arguments)) => host::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Drops(arguments)) => drops::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Treat(arguments)) => treat::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Dns(arguments)) => dns::run(&arguments),
        Some(Command::Load(arguments)) => load::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Probe(arguments)) => probe::run(&arguments),
        Some(Command::Annotate(arguments)) => annotate::run(&arguments),
        Some(Command::Report(arguments)) => page::run(&arguments),
        Some(Command::Anonymize(arguments)) => anonymize::run(&arguments),
        Some(Command::Compare(compare)) => compare::run(&compare),
        Some(Command::Help { words }) => help(&words),
        Some(Command::Man { folder }) => man::run(&folder),
        Some(Command::Completions { shell }) => completions(shell),
        None => explain::run(&arguments.explain),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            output::note(&error.sentences());
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Prints help, the version, or what is wrong with the arguments.
fn print_parser_output(words: &clap::Error) -> ExitCode {
    // Arguments are often names of files, which a shell has listed.
    let plain = words.to_string();
    if words.use_stderr() && plain.chars().any(|it| it != '\n' && is_interpreted(it)) {
        plain.lines().for_each(output::note);
        return ExitCode::from(EXIT_FAILED);
    }
    match words.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            output::note(&error::Error::Write(error).sentences());
            ExitCode::from(EXIT_FAILED)
        }
        _ => ExitCode::from(u8::try_from(words.exit_code()).unwrap_or(EXIT_FAILED)),
    }
}

/// Prints the general help, that of a command, or the manual of a cause.
fn help(words: &[String]) -> Result<ExitCode, error::Error> {
    if let [word] = words
        && let Some(manual) = explain::named_manual(word, &terminal::look(&args::PLAIN, false))
    {
        output::print(&manual)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Arguments::command();
    command.build();
    let mut asked = &mut command;
    for word in words {
        let unknown = error::Error::no_help(word);
        asked = asked.find_subcommand_mut(word).ok_or(unknown)?;
    }
    output::print(&asked.render_help().to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn completions(shell: clap_complete::Shell) -> Result<ExitCode, error::Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tcpwhy", &mut script);
    output::print_unchanged(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
