//! Man pages, generated from the definitions of the arguments.

use crate::error::Error;
use crate::written::Written;
use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Writes a page for each command of a program into `folder`, which is created if it does not exist.
///
/// # Errors [`Error::ManPages`] or [`Error::Output`] if they cannot be written.
pub fn run(mut command: Command, folder: &Path) -> Result<ExitCode, Error> {
    // Builds full names such as `tcpwhy-lab-run` and adds the global arguments to each command.
    command.build();
    let failed = |source| Error::ManPages { path: folder.display().to_string(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    pages(&command, folder)?;
    Ok(ExitCode::SUCCESS)
}

fn pages(command: &Command, folder: &Path) -> Result<(), Error> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let text = page(command, &name).map_err(Error::Write)?;
    let none: &[&Path] = &[];
    Written::unconfined(&folder.join(format!("{name}.1")), none)?.finish_with(&text)?;
    // `tcpwhy help` gets a page; the help commands below other commands only repeat their pages.
    let is_own = |part: &&Command| part.get_name() != "help" || command.get_name() == "tcpwhy";
    // A command that passes `--help` on is another program, which writes its own pages.
    let is_here = |part: &&Command| !part.is_hide_set() && !part.is_disable_help_flag_set();
    let mut parts = command.get_subcommands().filter(is_own).filter(is_here);
    parts.try_for_each(|part| pages(part, folder))
}

fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    // Examples are set in columns, and the library would reflow them as a paragraph.
    let examples = command.get_after_help().map(ToString::to_string);
    let bare = command.clone().after_help(Resettable::Reset).name(name.to_owned());
    let mut text = Vec::new();
    Man::new(bare).render(&mut text)?;
    if let Some(examples) = examples {
        text.extend_from_slice(b".SH EXAMPLES\n.nf\n");
        for line in examples.lines().filter(|line| line.trim() != "Examples:") {
            text.extend_from_slice(escaped(line).as_bytes());
        }
        text.extend_from_slice(b".fi\n");
    }
    Ok(text)
}

/// Escapes a line for roff, so that nothing in it is read as a request or an escape.
fn escaped(line: &str) -> String {
    format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq"))
}
