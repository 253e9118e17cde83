//! The seam to the core: sources in, an answer out.

use crate::error::Error;
use crate::workers;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpwhy_core::capture::{CaptureSet, Progress, Source};
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
    mut progress: impl FnMut(Progress) + Send,
    interrupted: &AtomicBool,
) -> Result<Answer, Error> {
    let mut capture = CaptureSet::new(sources)?;
    let mut options = wanted.options;
    options.first_ns = capture.first_ns().unwrap_or(0);
    let mut analysis = Analysis::new(options);
    let threads = wanted.threads.unwrap_or_else(workers::available);
    let complete = workers::run(&mut analysis, &mut capture, threads, &mut |capture| {
        progress(capture.progress());
        !interrupted.load(Ordering::Relaxed)
    })?;
    if wanted.connection.is_some() || wanted.exchange.is_some() {
        let what = wanted.connection.map_or("that exchange".into(), |pick| pick.to_string());
        return Err(Error::NotFound { what });
    }
    let report = analysis.finish(capture.inputs());
    Ok(Answer { report, ladder: None, complete })
}
