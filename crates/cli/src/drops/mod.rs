//! `tcpwhy drops`: shows packets that the kernel drops as it happens, first those that harm a
//! connection.

mod args;
mod screen;
mod text;

pub use args::{Drops, EXAMPLES};
pub use screen::Screen;

use crate::error::Error;
use crate::progress::Waiting;
use crate::{output, terminal};
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tcpwhy_live::drops::{Harm, Report, Watch};

/// Exit status if a drop harmed a connection.
const EXIT_HURT: u8 = 1;
/// Interval at which Ctrl-C is checked.
const STEP: Duration = Duration::from_millis(50);

/// Watches for the given time or until Ctrl-C, and prints the drops.
///
/// # Errors The process or namespace does not exist, or this process may not look into it.
pub fn run(arguments: &Drops) -> Result<ExitCode, Error> {
    terminal::interruptible();
    let mut watch = Watch::start(&arguments.watched())?;
    let report = observe(&mut watch, arguments)?;
    if arguments.json {
        output::print(&(serde_json::to_string_pretty(&Document::of(&report))? + "\n"))?;
    } else {
        let look = terminal::look(&arguments.display, arguments.all);
        output::print(&text::render(&report, &look))?;
    }
    let hurt = report.drops.iter().any(|line| line.harm == Harm::Hurts);
    Ok(if hurt { ExitCode::from(EXIT_HURT) } else { ExitCode::SUCCESS })
}

/// Waits until the end; a terminal shows the drops so far.
fn observe(watch: &mut Watch, arguments: &Drops) -> Result<Report, Error> {
    let whole = Duration::from_nanos(arguments.for_ns);
    let interval = Duration::from_nanos(arguments.interval_ns).max(STEP);
    let mut screen = Screen::new(arguments.json);
    let waiting = Waiting::new(!screen.is_live() && !arguments.display.no_progress);
    waiting.tell("watching what the kernel drops (Ctrl-C: what is known)");
    let started = Instant::now();
    let mut shown: Option<Instant> = None;
    while started.elapsed() < whole && !terminal::is_interrupted() {
        if screen.is_live() && shown.is_none_or(|shown| shown.elapsed() >= interval) {
            shown = Some(Instant::now());
            let look = terminal::look(&arguments.display, arguments.all);
            let left = whole.saturating_sub(started.elapsed());
            screen.show(&text::running(&watch.report(), left, &look))?;
        }
        std::thread::sleep(STEP.min(whole.saturating_sub(started.elapsed())));
    }
    screen.clear()?;
    Ok(watch.report())
}

/// The document that `--json` prints: docs/drops.schema.json, which is made of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document<'a> {
    /// Version of this contract.
    #[cfg_attr(test, schemars(extend("const" = 1)))]
    schema_version: u64,
    /// Version of tcpwhy.
    tool_version: &'a str,
    #[serde(flatten)]
    report: &'a Report,
}

impl<'a> Document<'a> {
    fn of(report: &'a Report) -> Self {
        Self { schema_version: 1, tool_version: env!("CARGO_PKG_VERSION"), report }
    }
}

#[cfg(test)]
mod tests {
    use tcpwhy_testing::schema::Document;

    #[test]
    fn the_schema_of_drops_is_that_of_the_types() {
        let document = Document {
            name: "drops",
            id: "urn:tcpwhy:drops:1",
            title: "tcpwhy drops",
            description: "What tcpwhy drops --json prints, schema version 1: packets that the kernel \
                dropped while it was watched.",
            members_of_others: &[],
        };
        document.publish::<super::Document<'static>>();
    }
}
