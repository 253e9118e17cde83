//! Captures that were analysed: `tcpwhy.read`.

use crate::arrow;
use crate::errors::exception;
use crate::inputs;
use crate::interrupt::{Done, Interrupted, interruptible};
use crate::options::{Asked, Keywords};
use crate::percentiles;
use crate::table::{Origin, Table};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use tcpwhy_cli::analysis::{Answer, Wanted, analyse};
use tcpwhy_cli::asked_for;
use tcpwhy_cli::error::Error;
use tcpwhy_core::filter::Pick;
use tcpwhy_core::report::{Look, json, render_case, text};
use tcpwhy_core::state::weigh;
use tcpwhy_core::{model, tables};

/// A report, and what is needed to read its captures again.
#[pyclass(frozen, module = "tcpwhy._native")]
pub struct Analysis {
    asked: Arc<Asked>,
    answer: Arc<Answer>,
}

/// Reads and analyses captures. After `KeyboardInterrupt` the report is that of the part that was read.
///
/// # Errors
/// See [`exception`]; `KeyboardInterrupt` before anything was read.
#[pyfunction]
pub fn read(
    py: Python<'_>,
    captures: Vec<(PathBuf, Option<Bound<'_, PyAny>>)>,
    options: Keywords,
) -> PyResult<Analysis> {
    let asked = Arc::new(Asked::new(py, captures, options)?);
    let answer = answered(py, &asked, asked.wanted())?;
    Ok(Analysis { asked, answer: Arc::new(answer) })
}

/// Reads captures as the command does, and weighs the state of sockets.
fn answered(py: Python<'_>, asked: &Arc<Asked>, wanted: Wanted) -> PyResult<Answer> {
    let interrupted = Interrupted::default();
    let work = {
        let (asked, interrupted) = (Arc::clone(asked), Arc::clone(&interrupted));
        move || -> Result<Answer, Error> {
            let open = || inputs::open(&asked.inputs, &interrupted);
            let mut answer = analyse(open()?, &open, wanted, |_| (), &interrupted)?;
            answer.report.interrupted = !answer.complete;
            answer.report.asked = asked_for(&asked.names(), &asked.analysing);
            if let Some(state) = &asked.state {
                weigh(&mut answer.report, state);
            }
            Ok(answer)
        }
    };
    let Done { result, interrupt } = interruptible(py, &interrupted, work)?;
    match (result, interrupt) {
        (Ok(answer), _) => Ok(answer),
        (Err(Error::Capture(_) | Error::Interrupted), Some(interrupt)) => Err(interrupt),
        (Err(error), _) => Err(exception(py, &error)),
    }
}

fn json_error(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl Analysis {
    /// Returns the report.
    pub fn report(&self) -> &model::Report {
        &self.answer.report
    }

    /// Returns the names of the captures, as a comparison shows them.
    pub fn name(&self) -> String {
        let names = self.asked.names();
        let names: Vec<String> = names.iter().map(|it| it.display().to_string()).collect();
        names.join(" ")
    }

    fn origin(&self) -> Origin {
        let Answer { options, survey, .. } = &*self.answer;
        Origin { asked: Arc::clone(&self.asked), options: options.clone(), survey: survey.clone() }
    }

    /// Returns the command's options for a drawing or an explanation.
    fn drawing(&self, connection: Option<&str>, exchange: Option<u64>) -> PyResult<Wanted> {
        let connection = connection.map(Pick::parse).transpose();
        let connection = connection.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Wanted { connection, exchange, ..self.asked.wanted() })
    }
}

#[pymethods]
impl Analysis {
    /// Whether the captures were not read to their end.
    #[getter]
    fn interrupted(&self) -> bool {
        self.answer.report.interrupted
    }

    /// Returns the report as JSON, as `tcpwhy --json` prints it.
    fn json(&self) -> PyResult<String> {
        json::render(self.report(), env!("CARGO_PKG_VERSION")).map_err(json_error)
    }

    /// Returns the report as text, as `tcpwhy` prints it.
    fn text(&self, width: usize, all: bool) -> String {
        text::render(self.report(), &Look { width, all, ..Look::default() })
    }

    /// Returns the manual of the cause of a finding, by its index in the report, with this case.
    fn explain(&self, finding: usize, width: usize) -> PyResult<String> {
        let found = self.report().findings.get(finding);
        let found = found.ok_or_else(|| PyIndexError::new_err("there is no such finding"))?;
        Ok(render_case(self.report(), found, &Look { width, ..Look::default() }))
    }

    /// Returns the log of decisions as JSON, as `tcpwhy --why --json` prints it.
    fn why(
        &self,
        py: Python<'_>,
        frame: Option<u64>,
        connection: Option<&str>,
        exchange: Option<u64>,
    ) -> PyResult<String> {
        let wanted = Wanted { why: Some(frame), ..self.drawing(connection, exchange)? };
        let answer = answered(py, &self.asked, wanted)?;
        let why = answer.why.as_ref().map(|why| why.json(&answer.report));
        serde_json::to_string(&why).map_err(json_error)
    }

    /// Returns the drawing of a connection or an exchange as JSON, and as text of `width` columns.
    fn ladder(
        &self,
        py: Python<'_>,
        connection: Option<&str>,
        exchange: Option<u64>,
        all: bool,
        width: usize,
    ) -> PyResult<(String, String)> {
        // Without a connection it is the one that lost most time, as for --exchange alone.
        let wanted = self.drawing(connection.or(Some("1")), exchange)?;
        let answer = answered(py, &self.asked, Wanted { all: wanted.all || all, ..wanted })?;
        let ladder = answer.ladder.unwrap_or_default();
        let drawn = ladder.render(&Look { width, ..Look::default() });
        Ok((json::ladder(&ladder).to_string(), drawn))
    }

    /// Returns a table by its name.
    fn table(&self, name: &str) -> PyResult<Table> {
        match arrow::table(name)? {
            tables::Table::Findings => {
                let report = self.report();
                let mut columns = arrow::Columns::new(tables::Table::Findings.columns());
                for finding in &report.findings {
                    columns.push(tables::finding_row(finding, report.totals.wall_ns));
                }
                Ok(Table::kept(name, columns))
            }
            table => Ok(Table::read_again(table, self.origin())),
        }
    }

    /// Returns percentiles of exchanges by the columns `by`, and by `cause`, as a table.
    fn percentiles(&self, py: Python<'_>, by: Vec<String>) -> PyResult<Table> {
        percentiles::table(py, &self.origin(), &by)
    }
}
