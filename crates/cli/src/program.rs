//! What the programs `tcpwhy` and `tcpwhy-lab` do alike: end with a status, print help, find each
//! other.

use crate::error::{Error, sentences};
use crate::{output, spoken};
use clap::Command;
#[cfg(feature = "program")]
use clap_complete::Shell;
use std::env;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tcpwhy_core::model::clean::is_interpreted;

/// Exit status if the command failed.
pub const EXIT_FAILED: u8 = 2;

/// Returns the number of an exit status, for a process that does not end by returning it from `main`.
pub fn number(status: ExitCode) -> u8 {
    // The type can be compared and not read.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == status).unwrap_or(EXIT_FAILED)
}

/// Returns the exit status of a command that has ended, and prints its error.
pub fn ended<E: std::error::Error>(done: Result<ExitCode, E>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) => {
            output::note(&sentences(&error));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Prints help, the version, or what is wrong with the arguments.
pub fn print_parser_output(words: &clap::Error) -> ExitCode {
    // Arguments are often names of files, which a shell has listed.
    let plain = words.to_string();
    let is_inert = !plain.chars().any(|it| it != '\n' && is_interpreted(it));
    if words.use_stderr() && (spoken::is_translated() || !is_inert) {
        plain.lines().for_each(output::note);
        return ExitCode::from(EXIT_FAILED);
    }
    match words.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => ended(Err(Error::Write(error))),
        _ => ExitCode::from(u8::try_from(words.exit_code()).unwrap_or(EXIT_FAILED)),
    }
}

/// Returns the help of a program, or of the command of it that the words name.
///
/// # Errors
/// The word that is no command.
pub fn help(mut command: Command, words: &[String]) -> Result<String, String> {
    command.build();
    let mut asked = &mut command;
    for word in words {
        asked = asked.find_subcommand_mut(word).ok_or_else(|| word.clone())?;
    }
    Ok(asked.render_help().to_string())
}

/// Prints the completion script of the program `name` for a shell.
///
/// # Errors
/// [`Error::Write`] if it cannot be written.
#[cfg(feature = "program")]
pub fn completions(shell: Shell, mut command: Command, name: &str) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    output::print_unchanged(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of another program of this project: beside this one, or in `PATH`. Folders of
/// `PATH` that are relative to the present one are left out, so that root runs nothing that somebody
/// has put there.
pub fn companion(name: &str) -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(env::split_paths(&path));
    folders.filter(|folder| folder.is_absolute()).map(|it| it.join(name)).find(|it| it.is_file())
}
