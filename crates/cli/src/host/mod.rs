//! `tcpwhy host`: audits this host and lists first what explains a symptom that is present now.

mod args;
mod text;

pub use args::{EXAMPLES, Host};
pub use text::explained;

use crate::error::Error;
use crate::{output, terminal};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tcpwhy_host::{Audit, AuditError, Entry, Finding, Unread, audit};

/// Exit status if an entry explains a present symptom.
const EXIT_EXPLAINS: u8 = 1;

/// Audits the given namespace and prints the result.
///
/// # Errors The namespace does not exist, the kernel refuses to list sockets, or the report cannot
/// be read.
pub fn run(arguments: &Host) -> Result<ExitCode, Error> {
    let report = match &arguments.for_report {
        Some(path) => {
            let read = |source| Error::Read { path: path.display().to_string(), source };
            Some(fs::read(path).map_err(read)?)
        }
        None => None,
    };
    let sample = Duration::from_nanos(arguments.sample_ns);
    let audit = audit(&arguments.place(), sample, report.as_deref());
    let audit = audit.map_err(|error| match error {
        AuditError::Live(error) => Error::Live(error),
        AuditError::Report(why) => {
            let path = arguments.for_report.as_deref().unwrap_or(Path::new("the report"));
            Error::HostReport { path: path.display().to_string(), why }
        }
    })?;
    if arguments.json {
        output::print(&(serde_json::to_string_pretty(&Document::of(arguments, &audit))? + "\n"))?;
    } else {
        let look = terminal::look(&arguments.display, arguments.all);
        output::print(&text::render(arguments, &audit, &look))?;
    }
    let explains = audit.entries.iter().any(Entry::is_loud);
    Ok(if explains { ExitCode::from(EXIT_EXPLAINS) } else { ExitCode::SUCCESS })
}

/// The document that `--json` prints: docs/host.schema.json, which is made of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document<'a> {
    /// Version of this contract.
    #[cfg_attr(test, schemars(extend("const" = 1)))]
    schema_version: u64,
    /// Version of tcpwhy.
    tool_version: &'a str,
    /// The network namespace asked for; null: the caller's own, or that of pid.
    netns: Option<&'a str>,
    /// The process asked for.
    pid: Option<u32>,
    /// Length of the sample, ns.
    sample_ns: u64,
    /// The entries: those that explain a present symptom first, the most direct of them first.
    entries: &'a [Entry],
    /// Findings of the report that was passed.
    findings: &'a [Finding],
    /// The files and tables that could not be read.
    unread: &'a [Unread],
}

impl<'a> Document<'a> {
    fn of(arguments: &'a Host, audit: &'a Audit) -> Self {
        Self {
            schema_version: 1,
            tool_version: env!("CARGO_PKG_VERSION"),
            netns: arguments.netns.as_deref(),
            pid: arguments.pid,
            sample_ns: audit.sample_ns,
            entries: &audit.entries,
            findings: &audit.findings,
            unread: &audit.unread,
        }
    }
}

#[cfg(test)]
mod tests {
    use tcpwhy_testing::schema::Document;

    #[test]
    fn the_schema_of_audits_is_that_of_the_types() {
        let document = Document {
            name: "host",
            id: "urn:tcpwhy:host:1",
            title: "tcpwhy host",
            description: "What tcpwhy host --json prints, schema version 1. Entries that explain a \
                present symptom come first, the most direct first.",
            members_of_others: &[],
        };
        document.publish::<super::Document<'static>>();
    }
}
