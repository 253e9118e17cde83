//! `tcpwhy.compare`: two runs, as reports or as the JSON of reports.

use crate::report::Analysis;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tcpwhy_core::compare::{Measured, Options, compare as compare_runs};
use tcpwhy_core::report::{Look, comparison};

/// One run.
#[derive(FromPyObject)]
pub enum Run<'py> {
    /// A report.
    Analysed(Bound<'py, Analysis>),
    /// Name and content of a report that was stored as JSON.
    Stored(String, Vec<u8>),
}

impl Run<'_> {
    fn measured(&self) -> PyResult<Measured> {
        match self {
            Self::Analysed(analysis) => {
                let analysis = analysis.get();
                if analysis.report().interrupted {
                    let why = "a run that was not read to its end cannot be compared";
                    return Err(PyValueError::new_err(why));
                }
                Ok(Measured::of(analysis.name(), analysis.report()))
            }
            Self::Stored(name, json) => Measured::from_json(name, json)
                .map_err(|error| PyValueError::new_err(format!("{name}: {error}"))),
        }
    }
}

/// Compares two runs; changes below the share `min_change` (0 to 1) of the latency before are ignored.
/// Returns the comparison as JSON, and as text of `width` columns.
///
/// # Errors
/// `ValueError` if a run has no exchange, or was not read to its end.
#[pyfunction]
pub fn compare(
    before: Run<'_>,
    after: Run<'_>,
    min_change: f64,
    width: usize,
) -> PyResult<(String, String)> {
    let compared = compare_runs(before.measured()?, after.measured()?, Options { min_change })
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let value = comparison::to_json(&compared, env!("CARGO_PKG_VERSION"));
    let json = serde_json::to_string_pretty(&value)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((json, comparison::render(&compared, &Look { width, ..Look::default() })))
}
