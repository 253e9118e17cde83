//! `tcpwhy._native`, the compiled part of the Python package `tcpwhy`: captures in, reports as JSON and
//! text out, tables by the Arrow C data interface. The Python files beside it make objects of these.
//!
//! Work is done on threads of its own without the interpreter's lock ([`interrupt`]). No packet and no
//! row becomes a Python object.

mod arrow;
mod compared;
mod errors;
mod inputs;
mod interrupt;
mod options;
mod percentiles;
mod report;
mod stages;
mod table;

use pyo3::prelude::*;
use std::ffi::OsString;
use std::io::Write;
use tcpwhy_cli::program::number;
use tcpwhy_core::findings::words;
use tcpwhy_core::model::{Cause, Language};
use tcpwhy_core::report::{Look, render_manual};

/// Runs the command `tcpwhy` with `words`, the first of which is its name, and ends the process with its
/// exit status: the command confines the process, so that Python cannot go on in it.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) {
    py.detach(|| {
        let status = tcpwhy_cli::main(words.into_iter());
        // What is lost here, nobody reads.
        let _ = std::io::stdout().flush();
        std::process::exit(number(status).into())
    })
}

/// Returns id, class and title of every cause.
#[pyfunction]
fn causes() -> Vec<(&'static str, &'static str, &'static str)> {
    Cause::ALL
        .iter()
        .map(|it| (it.id(), it.class().id(), words(*it, Language::English).title))
        .collect()
}

/// Returns the manual of a cause as text of `width` columns; `None` if there is no such cause.
#[pyfunction]
fn manual(cause: &str, width: usize) -> Option<String> {
    let look = Look { width, ..Look::default() };
    Cause::from_id(cause).map(|cause| render_manual(cause, &look))
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::compared::compare;
    #[pymodule_export]
    use super::report::{Analysis, read};
    #[pymodule_export]
    use super::stages::{Bucket, Control, Run, Scatter, StageError, peek, plan};
    #[pymodule_export]
    use super::table::{Batch, Batches, Table, no_rows, stream};
    #[pymodule_export]
    use super::{causes, main, manual};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
