//! The beginning of a first pass: the captures are surveyed and opened.

use super::{JoinError, Survey, survey};
use crate::capture::{CaptureError, CaptureSet, Open, Source};
use crate::join::Sites;
use crate::pipeline::Options;

/// Captures of which nothing but their beginnings and the survey was read.
pub struct Begun {
    /// The options, completed by the survey.
    pub options: Options,
    /// The places at which the captures were taken.
    pub survey: Survey,
    /// The captures, at their first frame.
    pub capture: CaptureSet,
}

/// Surveys `sources`, opens them, and completes `options` with what a pass over them needs. `again`
/// opens them once more. `vantages` is the number of places that the user states; without it, the
/// packets show the places, except of a stream, which can be read only once.
///
/// # Errors
/// [`CaptureError`] if nothing can be read, [`JoinError`] if the places cannot be joined, or the
/// error of `again`.
pub fn begin<E: From<CaptureError> + From<JoinError>>(
    sources: Vec<Source>,
    again: &dyn Fn() -> Result<Vec<Source>, E>,
    mut options: Options,
    vantages: Option<u8>,
    go_on: &dyn Fn() -> bool,
) -> Result<Begun, E> {
    let once = sources.iter().find(|source| matches!(source.open, Open::Once(_)));
    let survey = match (once, vantages) {
        (_, Some(1)) => Survey::default(),
        (Some(once), Some(_)) => return Err(JoinError::Once { path: once.name.clone() }.into()),
        (None, Some(_)) => survey(again()?, true, go_on)?.required()?,
        (None, None) if sources.len() > 1 => survey(again()?, false, go_on)?,
        (_, None) => Survey::default(),
    };
    options.is_translated = survey.is_translated;
    let capture = CaptureSet::new(survey.assign_sites(sources))?;
    options.sites = Sites::of(&capture);
    options.add_keys(capture.keys());
    options.first_ns = capture.first_ns().unwrap_or(0);
    Ok(Begun { options, survey, capture })
}
