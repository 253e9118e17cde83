//! `tcpwhy probe`: measures the path to a target.

mod args;
mod text;

pub use args::{EXAMPLES, Probe};

use crate::dns::findings;
use crate::drops::Screen;
use crate::error::Error;
use crate::progress::Waiting;
use crate::{output, sandbox, terminal};
use serde_json::{Value, json};
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tcpwhy_privileged::{Helper, Permitted, Protocol};
use tcpwhy_probe::dns::Judged;
use tcpwhy_probe::path::{Family, Method, Report, judge, probe};

/// Exit status if there is a fault.
const EXIT_FAULTS: u8 = 1;
/// Interval at which the table on the terminal is redrawn.
const REDRAWN: Duration = Duration::from_millis(100);

/// Measures, and prints the findings; a terminal shows the measurements as they come in.
///
/// # Errors The name does not resolve, or no packet can be sent to its address.
pub fn run(arguments: &Probe) -> Result<ExitCode, Error> {
    let plan = arguments.plan();
    let helper = Helper::start(Permitted { probes: true, ..Permitted::default() })?;
    sandbox::confine_measuring(None);
    let stop = terminal::interruptible();
    let look = terminal::look(&arguments.display, false);
    let mut screen = Screen::new(arguments.json || arguments.display.no_progress);
    let waiting =
        Waiting::new(!arguments.json && !screen.is_live() && !arguments.display.no_progress);
    let (mut shown, mut failed): (Option<Instant>, Option<Error>) = (None, None);
    let raw = raw_sockets(&helper);
    let report = probe(&arguments.target, &plan, &raw, stop, &mut |doing, report| {
        waiting.tell(doing);
        let due = shown.is_none_or(|shown| shown.elapsed() >= REDRAWN);
        if screen.is_live() && due && failed.is_none() {
            shown = Some(Instant::now());
            failed = screen.show(&text::running(doing, report, &look)).err();
        }
    });
    screen.clear()?;
    drop(waiting);
    let report = report?;
    let judged = judge(&report);
    if arguments.json {
        output::print_json(&document(arguments, &report, &judged))?;
    } else {
        output::print(&text::render(&report, &judged, &verify(arguments), &look))?;
    }
    match failed {
        Some(error) => Err(error),
        None if findings::any_fault(&judged) => Ok(ExitCode::from(EXIT_FAULTS)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Returns a function that gets raw sockets from the process with rights.
pub fn raw_sockets(helper: &Helper) -> impl Fn(Family, Method) -> io::Result<OwnedFd> {
    |family, method| {
        let protocol = if method == Method::Tcp { Protocol::Tcp } else { Protocol::Icmp };
        helper.raw_socket(family == Family::V4, protocol)
    }
}

fn verify(arguments: &Probe) -> String {
    format!("tcpwhy probe {}", arguments.target)
}

fn document(arguments: &Probe, report: &Report, judged: &[Judged]) -> Value {
    let findings = judged.iter().map(|it| findings::document(it, &verify(arguments)));
    json!({
        "schema_version": 1,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "target": report.target,
        "address": report.address,
        "lookup": report.lookup,
        "echo": report.echo,
        "syn": report.syn,
        "connect": report.connect,
        "path": report.path,
        "step": report.step,
        "mtu": report.mtu,
        "request": report.request,
        "skipped": report.skipped,
        "packets_sent": report.packets_sent,
        "findings": findings.collect::<Vec<_>>(),
    })
}
