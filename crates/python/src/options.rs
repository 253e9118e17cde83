//! Options of an analysis, as in the command line.

use crate::errors::exception;
use crate::inputs::Input;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use tcpwhy_cli::analysis::Wanted;
use tcpwhy_cli::args::{Analysing, Reporting, parse_duration, parse_filter, parse_percent};
use tcpwhy_cli::state;
use tcpwhy_core::filter::nearest;
use tcpwhy_core::model::Cause;
use tcpwhy_core::state::State;

/// The keyword arguments of `tcpwhy.read`, in the words of the command line.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Keywords {
    filter: Option<String>,
    min_share: Option<String>,
    min_lost: Option<String>,
    cause: Option<String>,
    sockets: Option<PathBuf>,
    vantages: Option<u8>,
    threads: Option<u16>,
    show_values: bool,
    all: bool,
}

/// Captures, and what is asked about them.
#[derive(Clone)]
pub struct Asked {
    /// The captures.
    pub inputs: Arc<[Input]>,
    /// Options as the command parses them.
    pub analysing: Analysing,
    /// The state of sockets.
    pub state: Option<State>,
    cause: Option<Cause>,
    show_values: bool,
    all: bool,
}

impl Asked {
    /// Parses the options.
    ///
    /// # Errors
    /// `ValueError` for an option that is not understood, or a list of sockets that cannot be read.
    pub fn new(
        py: Python<'_>,
        inputs: Vec<(PathBuf, Option<Bound<'_, PyAny>>)>,
        keywords: Keywords,
    ) -> PyResult<Self> {
        let inputs = inputs.into_iter().map(|(name, content)| Input::of(name, content));
        let inputs: Vec<Input> = inputs.collect::<PyResult<_>>()?;
        let filter = keywords.filter.as_deref().map(parse_filter).transpose();
        let reporting = Reporting {
            filter: filter.map_err(|error| wrong("filter", &error))?,
            min_share: parsed("min_share", keywords.min_share.as_deref(), parse_percent)?,
            min_lost: parsed("min_lost", keywords.min_lost.as_deref(), parse_duration)?,
        };
        if keywords.vantages.is_some_and(|it| !(1..=2).contains(&it)) {
            return Err(wrong("vantages", &"there are 1 or 2 places"));
        }
        if keywords.threads.is_some_and(|it| !(1..=1024).contains(&it)) {
            return Err(wrong("threads", &"write a number from 1 to 1024"));
        }
        let analysing = Analysing {
            reporting,
            sockets: keywords.sockets,
            keylog: None,
            vantages: keywords.vantages,
            threads: keywords.threads,
        };
        Ok(Self {
            inputs: inputs.into(),
            state: state::of(&analysing).map_err(|error| exception(py, &error))?,
            analysing,
            cause: keywords.cause.as_deref().map(cause).transpose()?,
            show_values: keywords.show_values,
            all: keywords.all,
        })
    }

    /// Returns these as the command's options for an analysis.
    pub fn wanted(&self) -> Wanted {
        let mut wanted = Wanted { all: self.all, ..Wanted::of(&self.analysing) };
        (wanted.options.all, wanted.options.show_values) = (self.all, self.show_values);
        wanted.options.filter.also_causes(self.cause);
        wanted
    }

    /// Returns the names of the captures.
    pub fn names(&self) -> Vec<PathBuf> {
        self.inputs.iter().map(Input::name).collect()
    }
}

fn parsed<T>(
    name: &str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, String>,
) -> PyResult<Option<T>> {
    text.map(parse).transpose().map_err(|error| wrong(name, &error))
}

fn wrong(name: &str, why: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {why}"))
}

fn cause(name: &str) -> PyResult<Cause> {
    Cause::from_id(name).ok_or_else(|| {
        let meant = nearest(name, Cause::ALL.iter().map(|cause| cause.id()));
        let meant = meant.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
        wrong("cause", &format!("no cause is called `{name}`{meant}"))
    })
}
