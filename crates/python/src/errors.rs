//! Errors of the analysis as Python exceptions.

use pyo3::exceptions::{PyLookupError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tcpwhy_cli::error::{Error, sentence};
use tcpwhy_core::capture;
use tcpwhy_core::survey::JoinError;

/// Returns the exception for `error`: `tcpwhy.CaptureError` where a capture cannot be read,
/// `LookupError` where the capture lacks what was asked for, `ValueError` for all others.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Missing { path, .. }
        | Error::Directory { path }
        | Error::Permission { path }
        | Error::Open { path, .. }
        | Error::Once { path }
        | Error::Join(JoinError::Once { path }) => capture_error(py, path, None, &sentence(error)),
        Error::Capture(
            capture::CaptureError::Unreadable { name, problem }
            | capture::CaptureError::NoneReadable { name, problem, .. },
        ) => capture_error(py, name, problem.offset(), &sentence(error)),
        Error::NotFound { .. } | Error::Drill(_) => PyLookupError::new_err(sentence(error)),
        _ => PyValueError::new_err(sentence(error)),
    }
}

fn capture_error(py: Python<'_>, path: &str, offset: Option<u64>, problem: &str) -> PyErr {
    static CAPTURE_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let problem =
        problem.strip_prefix(path).map_or(problem, |rest| rest.trim_start_matches([':', ' ']));
    let made = CAPTURE_ERROR
        .import(py, "tcpwhy._errors", "CaptureError")
        .and_then(|it| it.call1((path, problem, offset)));
    made.map_or_else(|error| error, PyErr::from_value)
}
