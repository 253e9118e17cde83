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
use serde_json::json;
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
        output::print(&(serde_json::to_string_pretty(&document(&report))? + "\n"))?;
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

fn document(report: &Report) -> serde_json::Value {
    json!({
        "schema_version": 1,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "duration_ns": report.duration_ns,
        "hooks_missing": report.hooks_missing,
        "uncounted": report.uncounted,
        "netns": report.netns,
        "drops": report.drops,
    })
}
