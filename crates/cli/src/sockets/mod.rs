//! `tcpwhy sockets`: lists the TCP sockets of the running system and what limits them.

mod args;
mod groups;
mod text;

pub use args::{EXAMPLES, Sockets};

use crate::error::Error;
use crate::{output, terminal};
use serde::Serialize;
use std::process::ExitCode;
use tcpwhy_core::state::State;
use tcpwhy_live::sockets::{Selection, Strength, Survey, survey};

/// Exit status if the state of a socket shows that something limits it.
const EXIT_LIMITS: u8 = 1;

/// The document that `--json` prints: docs/sockets.schema.json, which is made of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Report<'a> {
    /// Version of this contract.
    #[cfg_attr(test, schemars(extend("const" = 1)))]
    schema_version: u64,
    /// Version of tcpwhy.
    tool_version: &'a str,
    #[serde(flatten)]
    survey: &'a Survey,
}

impl<'a> Report<'a> {
    fn of(survey: &'a Survey) -> Self {
        Self { schema_version: 1, tool_version: env!("CARGO_PKG_VERSION"), survey }
    }
}

/// Lists the selected sockets and prints them.
///
/// # Errors The kernel refuses to list them, or a process or namespace does not exist.
pub fn run(arguments: &Sockets) -> Result<ExitCode, Error> {
    let survey = survey(&arguments.selection())?;
    if arguments.json {
        output::print_json(&Report::of(&survey))?;
    } else {
        let look = terminal::look(&arguments.display, arguments.all);
        output::print(&text::render(&survey, &look))?;
    }
    Ok(if limits(&survey) { ExitCode::from(EXIT_LIMITS) } else { ExitCode::SUCCESS })
}

/// Returns the state of the sockets of `selection` as evidence for findings. It goes through the
/// same document as a stored file, so that both give the same result.
///
/// # Errors The kernel refuses to list them, or what is selected does not exist.
pub fn state(selection: &Selection) -> Result<State, Error> {
    Ok(serde_json::from_value(serde_json::to_value(Report::of(&survey(selection)?))?)?)
}

fn limits(survey: &Survey) -> bool {
    let mut verdicts = survey.sockets.iter().flat_map(|socket| &socket.verdicts);
    verdicts.any(|verdict| verdict.strength == Strength::Limits)
}

#[cfg(test)]
mod tests {
    use super::Report;
    use tcpwhy_testing::schema::Document;

    #[test]
    fn the_schema_of_sockets_is_that_of_the_types() {
        let document = Document {
            name: "sockets",
            id: "urn:tcpwhy:sockets:1",
            title: "tcpwhy sockets",
            description: "What tcpwhy sockets --json prints, schema version 1. Sizes are bytes. A name \
                that begins with tcpi_ is a field of TCP_INFO (linux/tcp.h), with its unit at the end.",
            members_of_others: &[],
        };
        document.publish::<Report<'static>>();
    }
}
