//! `tcpwhy sockets`: the TCP sockets of the running system, and what their state says of latency.

mod args;
mod groups;
mod text;

pub use args::{EXAMPLES, Sockets};

use crate::error::Error;
use crate::{output, terminal};
use serde::Serialize;
use std::process::ExitCode;
use tcpwhy_live::sockets::{Strength, Survey, survey};

/// Exit status where the state of a socket shows that something limits it.
const EXIT_LIMITS: u8 = 1;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema_version: u64,
    tool_version: &'a str,
    #[serde(flatten)]
    survey: &'a Survey,
}

/// Surveys the sockets asked for and prints them.
///
/// # Errors
/// The kernel refuses to list them, or a process or namespace asked for does not exist.
pub fn run(arguments: &Sockets) -> Result<ExitCode, Error> {
    let survey = survey(&arguments.selection())?;
    if arguments.json {
        output::print_json(&Report {
            schema_version: 1,
            tool_version: env!("CARGO_PKG_VERSION"),
            survey: &survey,
        })?;
    } else {
        let look = terminal::look(&arguments.display, arguments.all);
        output::print(&text::render(&survey, &look))?;
    }
    Ok(if limits(&survey) { ExitCode::from(EXIT_LIMITS) } else { ExitCode::SUCCESS })
}

fn limits(survey: &Survey) -> bool {
    let mut verdicts = survey.sockets.iter().flat_map(|socket| &socket.verdicts);
    verdicts.any(|verdict| verdict.strength == Strength::Limits)
}
