//! `tcpwhy FILE… --parquet DIR`: connections, exchanges, stalls, look-ups and findings as Parquet
//! tables. The columns are described in `docs/parquet.md`.
//!
//! Rows are gathered by column until a row group is full, so memory does not grow with the capture.

use crate::error::Error;
use crate::sandbox;
use crate::written::Written;
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tcpwhy_core::dns::Lookup;
use tcpwhy_core::model::{ConnectionReport, Report};
use tcpwhy_core::tables::{
    BATCH_ROWS, Cell, Kind, Rows, Stall, Table, TableExchange, connection_row, exchange_row,
    finding_row, lookup_row, stall_row,
};

/// Returns the physical and logical type of a column in Parquet's message schema language.
fn parquet(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Integer => ("INT64", "(INTEGER(64,true))"),
        Kind::Instant => ("INT64", "(TIMESTAMP(NANOS,true))"),
        Kind::Text => ("BYTE_ARRAY", "(STRING)"),
        Kind::Share => ("DOUBLE", ""),
        Kind::Flag => ("BOOLEAN", ""),
    }
}

/// The values of a column in the current row group.
enum Values {
    Integers(Vec<i64>),
    Texts(Vec<ByteArray>),
    Shares(Vec<f64>),
    Flags(Vec<bool>),
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Integer | Kind::Instant => Self::Integers(Vec::new()),
            Kind::Text => Self::Texts(Vec::new()),
            Kind::Share => Self::Shares(Vec::new()),
            Kind::Flag => Self::Flags(Vec::new()),
        }
    }

    fn push(&mut self, cell: Cell) {
        match (self, cell) {
            (Self::Integers(values), Cell::Integer(value) | Cell::Instant(value)) => {
                values.push(i64::try_from(value).unwrap_or(i64::MAX));
            }
            (Self::Texts(values), Cell::Text(value)) => values.push(value.into_bytes().into()),
            (Self::Shares(values), Cell::Share(value)) => values.push(value),
            (Self::Flags(values), Cell::Flag(value)) => values.push(value),
            _ => unreachable!("a table's rows have the kinds of its columns"),
        }
    }

    fn write(&mut self, to: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        use parquet::column::writer::get_typed_column_writer_mut as typed;
        use parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int64Type};
        match self {
            Self::Integers(values) => {
                typed::<Int64Type>(to).write_batch(values, None, None)?;
                values.clear();
            }
            Self::Texts(values) => {
                typed::<ByteArrayType>(to).write_batch(values, None, None)?;
                values.clear();
            }
            Self::Shares(values) => {
                typed::<DoubleType>(to).write_batch(values, None, None)?;
                values.clear();
            }
            Self::Flags(values) => {
                typed::<BoolType>(to).write_batch(values, None, None)?;
                values.clear();
            }
        }
        Ok(())
    }
}

/// A table while it is written.
struct TableFile {
    writer: SerializedFileWriter<Written>,
    columns: Vec<Values>,
    rows: usize,
}

impl TableFile {
    fn new(table: Table, file: Written) -> Result<Self, ParquetError> {
        let (name, columns) = (table.name(), table.columns());
        let fields = columns.iter().map(|(name, kind)| {
            let (physical, logical) = parquet(*kind);
            format!("  REQUIRED {physical} {name} {logical};\n")
        });
        let message = format!("message {name} {{\n{}}}", fields.collect::<String>());
        let schema = Arc::new(parse_message_type(&message)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        Ok(Self {
            writer: SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?,
            columns: columns.iter().map(|(_, kind)| Values::of(*kind)).collect(),
            rows: 0,
        })
    }

    fn push(&mut self, row: impl IntoIterator<Item = Cell>) -> Result<(), ParquetError> {
        self.columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for values in &mut self.columns {
            if let Some(mut column) = group.next_column()? {
                values.write(column.untyped())?;
                column.close()?;
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the last row group. The file still has its temporary name.
    fn finish(mut self) -> Result<Written, ParquetError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.into_inner()
    }
}

/// The tables of a capture while they are written.
pub struct Tables {
    folder: PathBuf,
    connections: TableFile,
    exchanges: TableFile,
    stalls: TableFile,
    lookups: TableFile,
    findings: TableFile,
    /// The first error; no rows are taken after it.
    failed: Option<ParquetError>,
}

impl Tables {
    /// Begins the tables in `folder`, which is created if it does not exist, and confines this
    /// process to reading `inputs` and finishing the tables.
    ///
    /// # Errors [`Error::Output`] if no file can be created there.
    pub fn begin(folder: &Path, inputs: &[PathBuf]) -> Result<Self, Error> {
        let failed = |source| Error::Output { path: folder.display().to_string(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let begin = |table: Table| {
            let path = folder.join(format!("{}.parquet", table.name()));
            let file = Written::unconfined(&path, inputs)?;
            TableFile::new(table, file).map_err(|error| output_error(folder, error))
        };
        let tables = Self {
            connections: begin(Table::Connections)?,
            exchanges: begin(Table::Exchanges)?,
            stalls: begin(Table::Stalls)?,
            lookups: begin(Table::Lookups)?,
            findings: begin(Table::Findings)?,
            folder: folder.to_owned(),
            failed: None,
        };
        let Self { connections, exchanges, stalls, lookups, findings, .. } = &tables;
        let all = [connections, exchanges, stalls, lookups, findings];
        sandbox::confine_but_finishing(inputs, &all.map(|it| it.writer.inner().folder()));
        Ok(tables)
    }

    /// Adds the findings of `report`, and gives the files their final names.
    ///
    /// # Errors [`Error::Output`] if something could not be written.
    pub fn finish(mut self, report: &Report) -> Result<(), Error> {
        for finding in &report.findings {
            let row = finding_row(finding, report.totals.wall_ns);
            self.note(|tables| tables.findings.push(row));
        }
        let folder = self.folder;
        let failed = |error| output_error(&folder, error);
        if let Some(error) = self.failed {
            return Err(failed(error));
        }
        let tables = [self.connections, self.exchanges, self.stalls, self.lookups, self.findings];
        let mut files: Vec<Written> =
            tables.into_iter().map(TableFile::finish).collect::<Result<_, _>>().map_err(failed)?;
        // No table gets its name on a disk that has no room for all of them.
        let flushed = files.iter_mut().try_for_each(Written::flush);
        flushed.map_err(|error| failed(ParquetError::External(error.into())))?;
        files.into_iter().try_for_each(Written::finish)
    }

    fn note(&mut self, write: impl FnOnce(&mut Self) -> Result<(), ParquetError>) {
        if self.failed.is_none() {
            self.failed = write(self).err();
        }
    }
}

impl Rows for Tables {
    fn connection(&mut self, connection: &ConnectionReport) {
        self.note(|tables| tables.connections.push(connection_row(connection)));
    }

    fn exchange(&mut self, exchange: &TableExchange, stalls: &[Stall]) {
        self.note(|tables| {
            tables.exchanges.push(exchange_row(exchange))?;
            stalls.iter().try_for_each(|stall| tables.stalls.push(stall_row(exchange, stall)))
        });
    }

    fn lookup(&mut self, lookup: &Lookup) {
        self.note(|tables| tables.lookups.push(lookup_row(lookup)));
    }
}

fn output_error(folder: &Path, error: ParquetError) -> Error {
    let source = match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => *source,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    Error::Output { path: folder.display().to_string(), source }
}
