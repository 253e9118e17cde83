//! The seam to the core: sources in, an answer out.

use crate::drive::{self, Reading};
use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tcpwhy_core::capture::{Block, CaptureSet, Progress, Source};
use tcpwhy_core::filter::Pick;
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::report::{Ladder, Report};

/// What the user asked for.
pub struct Wanted {
    /// What the core wants to know; the first frame's time is filled in here.
    pub options: Options,
    /// The connection to draw.
    pub connection: Option<Pick>,
    /// The exchange to draw, 1-based.
    pub exchange: Option<u64>,
    /// Threads; one per core if not given.
    pub threads: Option<usize>,
}

/// What was found out.
pub struct Answer {
    /// The report.
    pub report: Report,
    /// The connection or exchange that was asked for.
    pub ladder: Option<Ladder>,
    /// Whether the input was read to its end.
    pub complete: bool,
}

/// Reads `sources` to their end, or until `interrupted`, and analyses what was read.
///
/// # Errors
/// [`Error::Capture`] where nothing can be read, [`Error::NotFound`] where the connection or
/// exchange is not there.
pub fn analyse(
    sources: Vec<Source>,
    wanted: Wanted,
    mut progress: impl FnMut(Progress),
    interrupted: &AtomicBool,
) -> Result<Answer, Error> {
    let capture = CaptureSet::new(sources)?;
    let mut reading = Reading { capture, progress: &mut progress, interrupted };
    let mut first = Block::default();
    let mut options = wanted.options;
    if reading.next(&mut first)? {
        options.first_ns = first.entries.first().map_or(0, |entry| entry.time_ns);
    }
    let mut analysis = Analysis::new(options);
    let cores = || thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = wanted.threads.unwrap_or_else(cores);
    drive::run(&mut analysis, first, &mut reading, threads)?;
    if wanted.connection.is_some() || wanted.exchange.is_some() {
        let what = wanted.connection.map_or("that exchange".into(), |pick| pick.to_string());
        return Err(Error::NotFound { what });
    }
    let report = analysis.finish(reading.capture.inputs());
    Ok(Answer { report, ladder: None, complete: !interrupted.load(Ordering::Relaxed) })
}
