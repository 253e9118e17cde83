//! `tcpwhy host`: audits this host and lists first what explains a symptom that is present now.

mod args;
mod text;

pub use args::{EXAMPLES, Host};
pub use text::explained;

use crate::error::Error;
use crate::{output, terminal};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tcpwhy_host::{Audit, AuditError, Entry, audit};

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
        output::print(&(serde_json::to_string_pretty(&json(arguments, &audit))? + "\n"))?;
    } else {
        let look = terminal::look(&arguments.display, arguments.all);
        output::print(&text::render(arguments, &audit, &look))?;
    }
    let explains = audit.entries.iter().any(Entry::is_loud);
    Ok(if explains { ExitCode::from(EXIT_EXPLAINS) } else { ExitCode::SUCCESS })
}

fn json(arguments: &Host, audit: &Audit) -> serde_json::Value {
    json!({
        "schema_version": 1,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "netns": arguments.netns,
        "pid": arguments.pid,
        "sample_ns": audit.sample_ns,
        "entries": audit.entries,
        "findings": audit.findings,
        "unread": audit.unread,
    })
}
