//! Man pages, made of what the arguments say of themselves.

use crate::args::Arguments;
use crate::error::Error;
use clap::builder::Resettable;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Writes a page of each command into `folder`, which is made where it is not there.
///
/// # Errors
/// [`Error::ManPages`] where they cannot be written.
pub fn run(folder: &Path) -> Result<ExitCode, Error> {
    // With names such as `tcpwhy-lab-run`, and with the arguments that all have.
    let mut command = Arguments::command();
    command.build();
    let made = fs::create_dir_all(folder).and_then(|()| pages(&command, folder));
    let failed = |source| Error::ManPages { path: folder.display().to_string(), source };
    made.map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    fs::write(folder.join(format!("{name}.1")), page(command, &name)?)?;
    // `tcpwhy help` is a command of its own; those below it repeat what their pages say.
    let is_own = |part: &&Command| part.get_name() != "help" || command.get_name() == "tcpwhy";
    let mut parts = command.get_subcommands().filter(is_own);
    parts.try_for_each(|part| pages(part, folder))
}

fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    // Examples are columns: the library would fill their lines as it fills a paragraph's.
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

/// A line as roff takes it: what it would read as a request or an escape stands for itself.
fn escaped(line: &str) -> String {
    format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq"))
}
