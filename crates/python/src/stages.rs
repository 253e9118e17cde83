//! The stages of a run on many machines ([`tcpwhy_core::stages`]): bytes in, bytes out.

use crate::arrow;
use crate::inputs::{self, Input};
use crate::interrupt::Interrupted;
use crate::options::{Asked, Keywords};
use crate::table::{Batch, Gathered};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tcpwhy_cli::asked_for;
use tcpwhy_core::capture::{self, Peeked, Plan, Source};
use tcpwhy_core::dns::Lookup;
use tcpwhy_core::model::ConnectionReport;
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::report::json;
use tcpwhy_core::stages::{self, Controlled, For, Order, Piece};
use tcpwhy_core::state::weigh;
use tcpwhy_core::tables::{Rows, Stall, Table, TableExchange, finding_row};

create_exception!(
    tcpwhy.stages,
    StageError,
    PyValueError,
    "A stage refuses its input: a blob is damaged, missing, or of another version or other options."
);

/// A capture as [`capture::peek`] sees it: path, size in bytes, time of its first frame in ns, problem.
type Seen = (String, Option<u64>, Option<u64>, Option<String>);

/// A piece of a capture: stage (`bucket`, `control` or `totals`), bucket, order, blob.
type PieceOf<'py> = (&'static str, Option<u32>, (u64, u32, u64), Bound<'py, PyBytes>);

fn refused(error: stages::StageError) -> PyErr {
    StageError::new_err(error.to_string())
}

/// Opens a capture for a stage. One that cannot be opened is one that cannot be read: its totals say so.
fn source(name: PathBuf, content: Option<Bound<'_, PyAny>>) -> PyResult<Source> {
    match Input::of(name, content)? {
        Input::Path(path) => {
            let bytes = fs::metadata(&path).ok().map(|it| it.len());
            Ok(Source::file(path.display().to_string(), bytes, move || File::open(&path)))
        }
        given => {
            let opened = inputs::open(&[given], &Interrupted::default());
            let opened = opened.map_err(|error| PyValueError::new_err(error.to_string()))?;
            opened.into_iter().next().ok_or_else(|| PyValueError::new_err("no capture"))
        }
    }
}

/// Reads the beginning of a capture.
#[pyfunction]
pub fn peek(py: Python<'_>, name: PathBuf, content: Option<Bound<'_, PyAny>>) -> PyResult<Seen> {
    let source = source(name, content)?;
    let Peeked { path, stored_bytes, first_ns, problem } = py.detach(|| capture::peek(source));
    Ok((path, stored_bytes, first_ns, problem))
}

/// Numbers captures: returns their indices in the order of their numbers, and the time of the first
/// frame of all, ns.
///
/// # Errors
/// `ValueError` for more captures than a run can have.
#[pyfunction]
pub fn plan(files: Vec<Seen>) -> PyResult<(Vec<usize>, u64)> {
    // Two captures may have one path: each gets one of its indices.
    let mut indices: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, (path, ..)) in files.iter().enumerate().rev() {
        indices.entry(path.clone()).or_default().push(index);
    }
    let peeked = |(path, stored_bytes, first_ns, problem): Seen| Peeked {
        path,
        stored_bytes,
        first_ns,
        problem,
    };
    let plan = Plan::new(files.into_iter().map(peeked).collect());
    let Plan { files, first_ns } = plan.map_err(|it| PyValueError::new_err(it.to_string()))?;
    let index = |file: &Peeked| indices.get_mut(&file.path).and_then(Vec::pop);
    Ok((files.iter().filter_map(index).collect(), first_ns))
}

/// What the stages of a run agree on.
#[pyclass(frozen, module = "tcpwhy._native")]
pub struct Run {
    run: stages::Run,
    asked: Asked,
}

#[pymethods]
impl Run {
    /// Describes a run; `seed` is that of the flow hash, and the result does not depend on it.
    #[new]
    fn new(
        py: Python<'_>,
        first_ns: u64,
        seed: u64,
        buckets: usize,
        options: Keywords,
    ) -> PyResult<Self> {
        let asked = Asked::new(py, Vec::new(), options)?;
        let options = Options { first_ns, seed, ..asked.wanted().options };
        Ok(Self { run: stages::Run::new(options, buckets).map_err(refused)?, asked })
    }

    /// Reads file `number`: an iterator over its pieces.
    fn scatter(
        &self,
        number: u32,
        name: PathBuf,
        content: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Scatter> {
        let source = source(name, content)?;
        Ok(Scatter(Mutex::new(self.run.scatter(number, source))))
    }

    /// Begins the control.
    fn control(&self) -> Control {
        Control(Mutex::new(Some(self.run.begin_control())))
    }

    /// Returns the look-ups as batches of their table.
    fn lookup_rows(&self, py: Python<'_>, lookups: &[u8]) -> PyResult<Vec<Batch>> {
        let mut rows = Gathered::new(&[Table::Lookups]);
        py.detach(|| self.run.lookup_rows(lookups, &mut rows)).map_err(refused)?;
        rows.take_all()
    }

    /// Begins a bucket, which makes rows of `tables`.
    fn bucket(&self, bucket: u32, told: &[u8], tables: Vec<String>) -> PyResult<Bucket> {
        let tables = tables.iter().map(|name| arrow::table(name));
        let tables = tables.collect::<PyResult<Vec<_>>>()?;
        let rows = Shared(Arc::new(Mutex::new(Gathered::new(&tables))));
        let wanted = (!tables.is_empty()).then(|| rows.clone());
        let stage = self.run.begin_bucket(bucket, told, wanted).map_err(refused)?;
        Ok(Bucket { stage: Mutex::new(Some(stage)), rows })
    }

    /// Merges partials of different buckets.
    fn merge<'py>(&self, py: Python<'py>, partials: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
        let merged = py.detach(|| self.run.merge(&partials)).map_err(refused)?;
        Ok(PyBytes::new(py, &merged))
    }

    /// Returns the report as JSON, and its findings as a batch of their table. `names` are the captures
    /// in the order in which they were given.
    fn settle(
        &self,
        py: Python<'_>,
        partials: Vec<Vec<u8>>,
        lookups: &[u8],
        totals: Vec<Vec<u8>>,
        names: Vec<PathBuf>,
    ) -> PyResult<(String, Vec<Batch>)> {
        let settled = py.detach(|| self.run.settle(&partials, lookups, &totals));
        let mut report = settled.map_err(refused)?;
        report.asked = asked_for(&names, &self.asked.analysing);
        if let Some(state) = &self.asked.state {
            weigh(&mut report, state);
        }
        let mut rows = Gathered::new(&[Table::Findings]);
        for finding in &report.findings {
            rows.push(Table::Findings, finding_row(finding, report.totals.wall_ns));
        }
        let json = json::render(&report, env!("CARGO_PKG_VERSION"))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((json, rows.take_all()?))
    }
}

/// Iterates over the pieces of a capture.
#[pyclass(frozen, module = "tcpwhy._native")]
pub struct Scatter(Mutex<stages::Scatter>);

#[pymethods]
impl Scatter {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<PieceOf<'py>> {
        let piece = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next());
        let Piece { to, order, bytes } = piece?;
        let (stage, bucket) = match to {
            For::Bucket(bucket) => ("bucket", Some(bucket)),
            For::Control => ("control", None),
            For::Totals => ("totals", None),
        };
        let Order { time_ns, file, number } = order;
        Some((stage, bucket, (time_ns, file, number), PyBytes::new(py, &bytes)))
    }
}

/// The stage `control` in progress; `None` after its end.
#[pyclass(frozen, module = "tcpwhy._native")]
pub struct Control(Mutex<Option<stages::Control>>);

#[pymethods]
impl Control {
    /// Takes the next chunk, by order.
    fn take(&self, py: Python<'_>, chunk: Vec<u8>) -> PyResult<()> {
        let done = py.detach(|| {
            let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            stage.as_mut().map(|stage| stage.take(chunk))
        });
        done.ok_or_else(|| PyValueError::new_err(CONTROL_OVER))?.map_err(refused)
    }

    /// Returns what buckets are told, and look-ups.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let done = py.detach(|| {
            let stage = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            stage.map(stages::Control::finish)
        });
        let done = done.ok_or_else(|| PyValueError::new_err(CONTROL_OVER))?.map_err(refused)?;
        let Controlled { told, lookups } = done;
        Ok((PyBytes::new(py, &told), PyBytes::new(py, &lookups)))
    }
}

/// Rows of a bucket, which are taken away while it goes on.
#[derive(Clone)]
struct Shared(Arc<Mutex<Gathered>>);

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Gathered) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Rows for Shared {
    fn connection(&mut self, connection: &ConnectionReport) {
        self.with(|rows| rows.connection(connection));
    }

    fn exchange(&mut self, exchange: &TableExchange, stalls: &[Stall]) {
        self.with(|rows| rows.exchange(exchange, stalls));
    }

    fn lookup(&mut self, lookup: &Lookup) {
        self.with(|rows| rows.lookup(lookup));
    }
}

/// The stage `bucket` in progress.
#[pyclass(frozen, module = "tcpwhy._native")]
pub struct Bucket {
    /// `None` after its end.
    stage: Mutex<Option<stages::Bucket<Shared>>>,
    rows: Shared,
}

const OVER: &str = "the bucket is finished";
const CONTROL_OVER: &str = "the control is finished";

#[pymethods]
impl Bucket {
    /// Takes the next chunk, by order. Returns batches of rows that have become full.
    fn take(&self, py: Python<'_>, chunk: Vec<u8>) -> PyResult<Vec<Batch>> {
        let done = py.detach(|| {
            let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
            stage.as_mut().map(|stage| stage.take(chunk))
        });
        done.ok_or_else(|| PyValueError::new_err(OVER))?.map_err(refused)?;
        self.rows.with(Gathered::take_ready)
    }

    /// Ends all connections. Returns the partial, and the last batches of rows.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Vec<Batch>)> {
        let done = py.detach(|| {
            let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).take();
            stage.map(stages::Bucket::finish)
        });
        let (partial, _) = done.ok_or_else(|| PyValueError::new_err(OVER))?.map_err(refused)?;
        Ok((PyBytes::new(py, &partial), self.rows.with(Gathered::take_all)?))
    }
}
