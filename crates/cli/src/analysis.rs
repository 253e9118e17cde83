//! The seam to the core: sources in, an answer out.

use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpwhy_core::capture::{Block, CaptureSet, Progress, Source};
use tcpwhy_core::filter::{Filter, Pick};
use tcpwhy_core::report::{Ladder, Report, Totals};

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
    mut progress: impl FnMut(Progress),
    interrupted: &AtomicBool,
) -> Result<Answer, Error> {
    let mut capture = CaptureSet::new(sources)?;
    let mut block = Block::default();
    let mut complete = true;
    while capture.next_block(&mut block)? {
        progress(capture.progress());
        if interrupted.load(Ordering::Relaxed) {
            complete = false;
            break;
        }
    }
    if wanted.connection.is_some() || wanted.exchange.is_some() {
        let what = wanted.connection.map_or("that exchange".into(), |pick| pick.to_string());
        return Err(Error::NotFound { what });
    }
    let inputs = capture.inputs().to_vec();
    let totals = Totals {
        first_ns: inputs.iter().filter_map(|input| input.first_ns).min().unwrap_or(0),
        last_ns: inputs.iter().filter_map(|input| input.last_ns).max().unwrap_or(0),
        ..Totals::default()
    };
    let mut report = Report { inputs, totals, ..Report::default() };
    report.findings.retain(|finding| wanted.filter.matches_cause(finding.cause));
    Ok(Answer { report, ladder: None, complete })
}
