//! Captures to the data of a report page, on the calling thread.

use std::io::Read;
use tcpwhy_core::capture::{Block, CaptureError, CaptureSet, Progress, Source};
use tcpwhy_core::filter::{Filter, FilterError, parse_share};
use tcpwhy_core::model::{Invocation, NothingToJudge};
use tcpwhy_core::page;
use tcpwhy_core::picture;
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::survey::{Begun, JoinError, begin};

/// The request of the page: its worker writes it in JSON.
#[derive(Debug, Default, serde::Deserialize)]
pub struct Asked {
    /// Names and sizes (bytes) of the files.
    pub files: Vec<(String, u64)>,
    /// Text of the filter; empty without one.
    pub filter: String,
    /// Least share of a cost that is reported, in per cent; empty for the default.
    pub min_share: String,
    /// Number of places at which the files were captured; `None`: as the packets show.
    pub vantages: Option<u8>,
    /// HTTP targets are shown literally.
    pub show_values: bool,
    /// Random number that only this browser knows.
    pub seed: u32,
    /// Code of the language of errors, as in `--lang`.
    pub language: String,
}

/// The reason why there is no report, worded as the command does.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what it is")]
pub enum PageError {
    #[error("the filter: {0}")]
    Filter(#[from] FilterError),
    #[error("the least share of a cost: write a number from 0 to 100")]
    Share,
    #[error("{0}")]
    Capture(#[from] CaptureError),
    #[error("{0}")]
    Join(#[from] JoinError),
    #[error("{0}")]
    Nothing(#[from] NothingToJudge),
    #[error("the report cannot be put into JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// A stage of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The analysis.
    First = 0,
    /// The drawings.
    Second = 1,
}

/// How the files are read.
pub trait Reading: Clone + Send + Sync + 'static {
    /// The bytes of a file from its start.
    type File: Read + Send + 'static;

    /// Opens the file with this index.
    fn open(&self, index: usize) -> Self::File;

    /// Takes note of the progress of a pass.
    fn progress(&self, pass: Pass, progress: Progress);
}

/// Returns the data of the page that shows what is `asked`: the document of
/// [`page::render`].
///
/// # Errors
/// [`PageError`] if an option is wrong, nothing can be read, or there is nothing to judge.
pub fn document(asked: &Asked, reading: &impl Reading) -> Result<String, PageError> {
    let filter = asked.filter.trim();
    let filter = if filter.is_empty() { None } else { Some(Filter::parse(filter)?) };
    let mut options = Options {
        filter: filter.clone().unwrap_or_default(),
        show_values: asked.show_values,
        seed: asked.seed.into(),
        ..Options::default()
    };
    if !asked.min_share.trim().is_empty() {
        options.floors.cost_share = parse_share(asked.min_share.trim()).ok_or(PageError::Share)?;
    }
    let again = || Ok::<_, PageError>(sources(asked, reading));
    let begun = begin(again()?, &again, options, asked.vantages, &|| true)?;
    let Begun { options, survey, mut capture } = begun;
    let mut analysis = Analysis::new(options.clone());
    analysis.run(&mut capture, &mut |capture| {
        reading.progress(Pass::First, capture.progress());
        true
    })?;
    let mut report = analysis.finish(capture.inputs());
    drop(capture);
    if let Some(nothing) = NothingToJudge::of(&report) {
        return Err(match filter {
            Some(_) => {
                let hint = "try without it, or a wider one".into();
                NothingToJudge::Filtered { hint }.into()
            }
            None => nothing.into(),
        });
    }
    let mut pass = picture::Pass::new(&options, &report);
    let mut capture = CaptureSet::new(survey.assign_sites(again()?))?;
    let mut block = Block::default();
    while capture.next_block(&mut block)? {
        pass.take(&block);
        reading.progress(Pass::Second, capture.progress());
    }
    let names = asked.files.iter().map(|(name, _)| name.clone()).collect();
    let filter = filter.as_ref().map(Filter::text);
    report.asked = Invocation::of_captures(names, filter, asked.vantages);
    let data = page::data(&report, &pass.finish(), env!("CARGO_PKG_VERSION"))?;
    Ok(page::document(&[data], None, None))
}

fn sources(asked: &Asked, reading: &impl Reading) -> Vec<Source> {
    let source = |(index, (name, bytes)): (usize, &(String, u64))| {
        let reading = reading.clone();
        Source::file(name.clone(), Some(*bytes), move || Ok(reading.open(index)))
    };
    asked.files.iter().enumerate().map(source).collect()
}
