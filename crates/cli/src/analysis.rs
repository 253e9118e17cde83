//! The seam to the core: sources in, an answer out.

use crate::error::Error;
use crate::workers;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpwhy_core::capture::{CaptureSet, Progress, Source};
use tcpwhy_core::cause::Floors;
use tcpwhy_core::filter::{Filter, Pick};
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::report::{Ladder, Report};

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The part to look at.
    pub filter: Filter,
    /// The connection to draw.
    pub connection: Option<Pick>,
    /// The exchange to draw, 1-based.
    pub exchange: Option<u64>,
    /// Whether kinds may show values.
    pub show_values: bool,
    /// Whether nothing is left out of lists.
    pub all: bool,
    /// From which share on a cost is a finding, 0 to 1.
    pub cost_share_min: Option<f64>,
    /// From how much per exchange on, ns.
    pub cost_lost_min_ns: Option<u64>,
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
    wanted: &Wanted,
    mut progress: impl FnMut(Progress) + Send,
    interrupted: &AtomicBool,
) -> Result<Answer, Error> {
    let mut capture = CaptureSet::new(sources)?;
    let mut analysis = Analysis::new(options(wanted));
    let threads = wanted.threads.unwrap_or_else(workers::available);
    let complete = workers::run(&mut analysis, &mut capture, threads, &mut |capture| {
        progress(capture.progress());
        !interrupted.load(Ordering::Relaxed)
    })?;
    if wanted.connection.is_some() || wanted.exchange.is_some() {
        let what = wanted.connection.map_or("that exchange".into(), |pick| pick.to_string());
        return Err(Error::NotFound { what });
    }
    let mut report = analysis.finish(capture.inputs());
    report.findings.retain(|finding| wanted.filter.matches_cause(finding.cause));
    Ok(Answer { report, ladder: None, complete })
}

fn options(wanted: &Wanted) -> Options {
    let mut floors = Floors::default();
    if let Some(share) = wanted.cost_share_min {
        floors.cost_share = share;
    }
    if let Some(ns) = wanted.cost_lost_min_ns {
        floors.cost_ns = ns;
    }
    Options { floors, ..Options::default() }
}
