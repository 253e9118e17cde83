//! Tables that a second pass over the captures makes, batch by batch.

use crate::arrow::{self, Columns};
use crate::errors::exception;
use crate::inputs;
use crate::interrupt::{Done, Interrupted, LOOKS_EVERY, interruptible};
use crate::options::{Asked, Keywords};
use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tcpwhy_cli::error::Error;
use tcpwhy_core::capture::{Block, CaptureSet};
use tcpwhy_core::dns::Lookup;
use tcpwhy_core::model::ConnectionReport;
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::survey::{Begun, Survey, begin};
use tcpwhy_core::tables::{
    self, BATCH_ROWS, Rows, Stall, TableExchange, connection_row, exchange_row, lookup_row,
    stall_row,
};

// Names of the Arrow PyCapsule interface.
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// What a second pass needs.
#[derive(Clone)]
pub struct Origin {
    /// The captures.
    pub asked: Arc<Asked>,
    /// The options of the first pass.
    pub options: Options,
    /// The places of the captures.
    pub survey: Survey,
}

impl Origin {
    /// Opens the captures from their start.
    ///
    /// # Errors
    /// A capture cannot be opened, or can be read only once.
    pub fn open(&self) -> Result<CaptureSet, Error> {
        let sources = inputs::open(&self.asked.inputs, &Interrupted::default())?;
        if let Some(once) = sources.iter().find(|it| !it.can_be_read_again()) {
            return Err(Error::Once { path: once.name.clone() });
        }
        Ok(CaptureSet::new(self.survey.assign_sites(sources))?)
    }
}

/// Gathers the rows of the tables that are wanted.
pub struct Gathered {
    wanted: Vec<(tables::Table, Columns)>,
    ready: VecDeque<(tables::Table, RecordBatch)>,
    failed: Option<ArrowError>,
}

impl Gathered {
    /// Begins with no row.
    pub fn new(wanted: &[tables::Table]) -> Self {
        let wanted = wanted.iter().map(|it| (*it, Columns::new(it.columns()))).collect();
        Self { wanted, ready: VecDeque::new(), failed: None }
    }

    /// Adds a row, if its table is wanted.
    pub fn push(&mut self, table: tables::Table, row: impl Iterator<Item = tables::Cell>) {
        let Some((_, columns)) = self.wanted.iter_mut().find(|(it, _)| *it == table) else {
            return;
        };
        columns.push(row);
        if columns.rows == BATCH_ROWS {
            self.hand_over(table);
        }
    }

    /// Moves the rows of a table into a batch that is ready.
    fn hand_over(&mut self, table: tables::Table) {
        let Some((_, columns)) = self.wanted.iter_mut().find(|(it, _)| *it == table) else {
            return;
        };
        match columns.take() {
            Ok(batch) => self.ready.push_back((table, batch)),
            Err(error) => self.failed = Some(error),
        }
    }
}

impl Gathered {
    /// Moves all rows into batches that are ready.
    fn hand_over_all(&mut self) {
        let begun = self.wanted.iter().filter(|(_, columns)| columns.rows > 0);
        for table in begun.map(|(table, _)| *table).collect::<Vec<_>>() {
            self.hand_over(table);
        }
    }

    /// Removes and returns the batches that are ready.
    ///
    /// # Errors
    /// Rows could not be made a batch.
    pub fn take_ready(&mut self) -> PyResult<Vec<Batch>> {
        match self.failed.take() {
            Some(error) => Err(arrow_error(error)),
            None => Ok(self.ready.drain(..).map(Batch::of).collect()),
        }
    }

    /// Removes and returns all rows.
    ///
    /// # Errors
    /// As for [`take_ready`](Self::take_ready).
    pub fn take_all(&mut self) -> PyResult<Vec<Batch>> {
        self.hand_over_all();
        self.take_ready()
    }
}

impl Rows for Gathered {
    fn connection(&mut self, connection: &ConnectionReport) {
        self.push(tables::Table::Connections, connection_row(connection));
    }

    fn exchange(&mut self, exchange: &TableExchange, stalls: &[Stall]) {
        self.push(tables::Table::Exchanges, exchange_row(exchange));
        for stall in stalls {
            self.push(tables::Table::Stalls, stall_row(exchange, stall));
        }
    }

    fn lookup(&mut self, lookup: &Lookup) {
        self.push(tables::Table::Lookups, lookup_row(lookup));
    }
}

/// A second pass that is taken on block by block.
pub struct Passing<R: Rows> {
    capture: CaptureSet,
    /// `None` after the end of the captures.
    pass: Option<tables::Pass<R>>,
    block: Block,
}

impl<R: Rows> Passing<R> {
    /// Begins a pass.
    pub fn new(capture: CaptureSet, options: &Options, rows: R) -> Self {
        let pass = Some(tables::Pass::new(options, rows));
        Self { capture, pass, block: Block::default() }
    }

    /// Reads one block. Returns the receiver after the last one.
    ///
    /// # Errors
    /// As for [`CaptureSet::next_block`].
    pub fn step(&mut self) -> Result<Option<R>, Error> {
        let Some(pass) = &mut self.pass else { return Ok(None) };
        if self.capture.next_block(&mut self.block)? {
            pass.take(&self.block);
            return Ok(None);
        }
        Ok(self.pass.take().map(tables::Pass::finish))
    }
}

/// Batches in the order in which they become full.
struct Stream {
    passing: Passing<Gathered>,
    /// Batches after the end of the captures.
    last: VecDeque<(tables::Table, RecordBatch)>,
}

/// The reason why a stream ends early.
enum Broken {
    Capture(Error),
    Arrow(ArrowError),
}

impl Stream {
    fn new(capture: CaptureSet, options: &Options, wanted: &[tables::Table]) -> Self {
        let rows = Gathered::new(wanted);
        Self { passing: Passing::new(capture, options, rows), last: VecDeque::new() }
    }

    /// Returns the next batch, after some more blocks. `Some(None)` at the end, and `None` if `until`
    /// came first.
    fn next_until(
        &mut self,
        until: Option<Instant>,
    ) -> Result<Option<Option<(tables::Table, RecordBatch)>>, Broken> {
        loop {
            if let Some(pass) = &mut self.passing.pass {
                let rows = pass.rows_mut();
                if let Some(error) = rows.failed.take() {
                    return Err(Broken::Arrow(error));
                }
                if let Some(batch) = rows.ready.pop_front() {
                    return Ok(Some(Some(batch)));
                }
            } else {
                return Ok(Some(self.last.pop_front()));
            }
            if let Some(mut rows) = self.passing.step().map_err(Broken::Capture)? {
                rows.hand_over_all();
                if let Some(error) = rows.failed {
                    return Err(Broken::Arrow(error));
                }
                self.last = rows.ready;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
        }
    }
}

/// The batches of one table for consumers of the C data interface.
struct Reader {
    stream: Stream,
    schema: SchemaRef,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.stream.next_until(None) {
            Ok(batch) => batch.flatten().map(|(_, batch)| Ok(batch)),
            Err(Broken::Arrow(error)) => Some(Err(error)),
            Err(Broken::Capture(error)) => Some(Err(ArrowError::ExternalError(error.into()))),
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A table of the report. Each use reads the captures again.
#[pyclass(frozen, module = "tcpwhy")]
pub struct Table {
    name: String,
    schema: SchemaRef,
    content: Content,
}

/// The rows of a table.
enum Content {
    /// A second pass makes them.
    ReadAgain(tables::Table, Box<Origin>),
    /// They are few.
    Kept(RecordBatch),
}

impl Table {
    /// Returns a table that a second pass makes.
    pub fn read_again(table: tables::Table, origin: Origin) -> Self {
        Self {
            name: table.name().to_owned(),
            schema: arrow::schema(&table.columns()),
            content: Content::ReadAgain(table, Box::new(origin)),
        }
    }

    /// Returns a table that has `columns`.
    pub fn kept(name: &str, mut columns: Columns) -> Self {
        let schema = columns.schema();
        let rows = columns.take().unwrap_or_else(|_| RecordBatch::new_empty(Arc::clone(&schema)));
        Self { name: name.to_owned(), schema, content: Content::Kept(rows) }
    }

    fn reader(&self, py: Python<'_>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
        Ok(match &self.content {
            Content::Kept(rows) => {
                let rows = [Ok(rows.clone())];
                Box::new(RecordBatchIterator::new(rows, Arc::clone(&self.schema)))
            }
            Content::ReadAgain(table, origin) => {
                let capture = py.detach(|| origin.open());
                let capture = capture.map_err(|error| exception(py, &error))?;
                let stream = Stream::new(capture, &origin.options, &[*table]);
                Box::new(Reader { stream, schema: Arc::clone(&self.schema) })
            }
        })
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(&**schema).map_err(arrow_error)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Table {
    /// The name of the table.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The names of its columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<tcpwhy.Table {}: {}>", self.name, self.columns().join(", "))
    }

    /// Gives all batches as an Arrow stream. Another schema than the table's own is not supported.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(self.reader(py)?), STREAM)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Iterates over its batches of up to 32,768 rows.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(match &self.content {
            Content::Kept(rows) => Batches::of_one(&self.name, rows.clone()),
            Content::ReadAgain(table, origin) => {
                let capture = py.detach(|| origin.open());
                let capture = capture.map_err(|error| exception(py, &error))?;
                Batches::of(Stream::new(capture, &origin.options, &[*table]))
            }
        })
    }

    /// Returns the whole table as a `pyarrow.Table`.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let pyarrow = needed(py, "pyarrow", "to_arrow")?;
        let batches = PyList::empty(py);
        for batch in slf.try_iter()? {
            batches.append(pyarrow.call_method1("record_batch", (batch?,))?)?;
        }
        let keywords = PyDict::new(py);
        keywords.set_item("schema", pyarrow.call_method1("schema", (slf,))?)?;
        pyarrow.getattr("Table")?.call_method("from_batches", (batches,), Some(&keywords))
    }

    /// Returns the whole table as a `pandas.DataFrame`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "pandas", "to_pandas")?;
        Self::to_arrow(slf)?.call_method0("to_pandas")
    }

    /// Returns the whole table as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "polars", "to_polars")?.call_method1("DataFrame", (slf,))
    }
}

/// Imports an optional package.
fn needed<'py>(py: Python<'py>, package: &str, method: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(package).map_err(|_| {
        let words = format!("{method} needs {package}: pip install {package}");
        pyo3::exceptions::PyImportError::new_err(words)
    })
}

/// Up to 32,768 rows of a table.
#[pyclass(frozen, module = "tcpwhy")]
pub struct Batch {
    table: String,
    rows: RecordBatch,
}

impl Batch {
    fn of((table, rows): (tables::Table, RecordBatch)) -> Self {
        Self { table: table.name().to_owned(), rows }
    }
}

#[pymethods]
impl Batch {
    /// The name of the table.
    #[getter]
    fn table(&self) -> &str {
        &self.table
    }

    fn __len__(&self) -> usize {
        self.rows.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<tcpwhy.Batch of {}: {} rows>", self.table, self.rows.num_rows())
    }

    /// Gives the rows as an Arrow array of structs. Another schema than its own is not supported.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let rows = StructArray::from(self.rows.clone());
        let (array, _) = to_ffi(&rows.to_data()).map_err(arrow_error)?;
        let schema = schema_capsule(py, self.rows.schema_ref())?;
        Ok((schema, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.rows.schema_ref())
    }
}

/// Iterates over batches of tables, in bounded memory.
#[pyclass(frozen, module = "tcpwhy")]
pub struct Batches(Mutex<Remaining>);

/// The batches that are still to come.
enum Remaining {
    Read(Box<Stream>),
    Kept(Option<Batch>),
}

impl Batches {
    fn of(stream: Stream) -> Self {
        Self(Mutex::new(Remaining::Read(Box::new(stream))))
    }

    fn of_one(table: &str, rows: RecordBatch) -> Self {
        Self(Mutex::new(Remaining::Kept(Some(Batch { table: table.to_owned(), rows }))))
    }
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            let next =
                py.detach(|| match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
                    Remaining::Kept(batch) => Ok(Some(batch.take())),
                    Remaining::Read(stream) => {
                        let next = stream.next_until(Some(Instant::now() + LOOKS_EVERY))?;
                        Ok(next.map(|batch_or_end| batch_or_end.map(Batch::of)))
                    }
                });
            match next {
                Ok(Some(next)) => return Ok(next),
                Ok(None) => py.check_signals()?,
                Err(Broken::Capture(error)) => return Err(exception(py, &error)),
                Err(Broken::Arrow(error)) => return Err(arrow_error(error)),
            }
        }
    }
}

/// Returns a table without rows, for its columns.
///
/// # Errors
/// `ValueError` for a table that does not exist.
#[pyfunction]
pub fn no_rows(table: &str) -> PyResult<Table> {
    let table = arrow::table(table)?;
    Ok(Table::kept(table.name(), Columns::new(table.columns())))
}

/// Iterates over batches of the tables that are named, without a report: the captures are read once.
///
/// # Errors
/// `ValueError` for a table that does not exist or needs the report; otherwise see [`exception`].
#[pyfunction]
pub fn stream(
    py: Python<'_>,
    captures: Vec<(PathBuf, Option<Bound<'_, PyAny>>)>,
    tables: Vec<String>,
    options: Keywords,
) -> PyResult<Batches> {
    let wanted = tables.iter().map(|name| arrow::table(name)).collect::<PyResult<Vec<_>>>()?;
    if wanted.contains(&tables::Table::Findings) {
        let why = "findings: they are known at the end of a report, see tcpwhy.read";
        return Err(pyo3::exceptions::PyValueError::new_err(why));
    }
    let asked = Asked::new(py, captures, options)?;
    let interrupted = Interrupted::default();
    let work = {
        let interrupted = Arc::clone(&interrupted);
        move || {
            let open = || inputs::open(&asked.inputs, &interrupted);
            let options = asked.wanted().options;
            let go_on = || !interrupted.load(Ordering::Relaxed);
            begin(open()?, &open, options, asked.analysing.vantages, &go_on)
        }
    };
    match interruptible(py, &interrupted, work)? {
        Done { interrupt: Some(interrupt), .. } => Err(interrupt),
        Done { result: Err(error), .. } => Err(exception(py, &error)),
        Done { result: Ok(Begun { options, capture, .. }), .. } => {
            Ok(Batches::of(Stream::new(capture, &options, &wanted)))
        }
    }
}
