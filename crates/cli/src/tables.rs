//! `tcpwhy FILE… --parquet DIR`: connections, exchanges, stalls and findings as Parquet tables. The
//! columns are described in `docs/parquet.md`.
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
use tcpwhy_core::capture::FrameId;
use tcpwhy_core::model::{
    ConnectionReport, DirectionReport, Finding, Ledger, Owner, Report, vantage_id,
};
use tcpwhy_core::tables::{Rows, Stall, TableExchange};

/// Number of rows in a row group. With 40 columns of 8 bytes it takes 10 MiB.
const GROUP_ROWS: usize = 32_768;

/// A value of a row.
enum Cell {
    /// A count, bytes or nanoseconds.
    Integer(u64),
    /// Time in nanoseconds since the Unix epoch.
    Instant(u64),
    Text(String),
    /// A share between 0 and 1.
    Share(f64),
    Flag(bool),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Instant,
    Text,
    Share,
    Flag,
}

impl Kind {
    /// Returns the physical and logical type in Parquet's message schema language.
    fn parquet(self) -> (&'static str, &'static str) {
        match self {
            Self::Integer => ("INT64", "(INTEGER(64,true))"),
            Self::Instant => ("INT64", "(TIMESTAMP(NANOS,true))"),
            Self::Text => ("BYTE_ARRAY", "(STRING)"),
            Self::Share => ("DOUBLE", ""),
            Self::Flag => ("BOOLEAN", ""),
        }
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
struct Table {
    writer: SerializedFileWriter<Written>,
    columns: Vec<Values>,
    rows: usize,
}

impl Table {
    fn new(name: &str, columns: &[(String, Kind)], file: Written) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(|(name, kind)| {
            let (physical, logical) = kind.parquet();
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
        if self.rows == GROUP_ROWS { self.write_group() } else { Ok(()) }
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

/// The four tables of a capture while they are written.
pub struct Tables {
    folder: PathBuf,
    connections: Table,
    exchanges: Table,
    stalls: Table,
    findings: Table,
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
        let begin = |name: &str, columns: &[(String, Kind)]| {
            let file = Written::unconfined(&folder.join(format!("{name}.parquet")), inputs)?;
            Table::new(name, columns, file).map_err(|error| output_error(folder, error))
        };
        let tables = Self {
            connections: begin("connections", &connection_columns())?,
            exchanges: begin("exchanges", &exchange_columns())?,
            stalls: begin("stalls", &columns(&STALL))?,
            findings: begin("findings", &columns(&FINDING))?,
            folder: folder.to_owned(),
            failed: None,
        };
        let all = [&tables.connections, &tables.exchanges, &tables.stalls, &tables.findings];
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
        let tables = [self.connections, self.exchanges, self.stalls, self.findings];
        let mut files: Vec<Written> =
            tables.into_iter().map(Table::finish).collect::<Result<_, _>>().map_err(failed)?;
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

type Column = (&'static str, Kind);

fn columns(columns: &[Column]) -> Vec<(String, Kind)> {
    columns.iter().map(|&(name, kind)| (name.to_owned(), kind)).collect()
}

/// The columns that identify the connection of a row: the number of its file among those read, from
/// 0, and the number of its first frame there.
const IDENTITY: [Column; 2] = [("file", Kind::Integer), ("connection", Kind::Integer)];

fn identity(first_frame: FrameId) -> [Cell; 2] {
    [Cell::Integer(first_frame.file().into()), Cell::Integer(first_frame.number())]
}

fn ledger_columns() -> impl Iterator<Item = (String, Kind)> {
    Owner::ALL.iter().map(|owner| (format!("{}_ns", owner.id()), Kind::Integer))
}

fn ledger(ledger: &Ledger) -> impl Iterator<Item = Cell> {
    Owner::ALL.iter().map(|owner| Cell::Integer(ledger.of(*owner)))
}

const CONNECTION: [Column; 9] = [
    ("client", Kind::Text),
    ("server", Kind::Text),
    ("protocol", Kind::Text),
    ("start", Kind::Instant),
    ("end", Kind::Instant),
    ("vantage", Kind::Text),
    ("rtt_min_ns", Kind::Integer),
    ("exchanges", Kind::Integer),
    ("lost_ns", Kind::Integer),
];

/// The columns of each direction, with the prefix `client_` or `server_` for the sender.
const DIRECTION: [&str; 7] = [
    "packets",
    "actual_data_bytes",
    "unique_bytes",
    "rexmt_data_packets",
    "rto_count",
    "out_of_order_packets",
    "zero_window_advertisements",
];

fn connection_columns() -> Vec<(String, Kind)> {
    let direction = |sender: &'static str| {
        DIRECTION.iter().map(move |name| (format!("{sender}_{name}"), Kind::Integer))
    };
    let own = columns(&[&IDENTITY[..], &CONNECTION[..]].concat()).into_iter();
    own.chain(direction("client")).chain(direction("server")).chain(ledger_columns()).collect()
}

fn direction(direction: &DirectionReport) -> [Cell; 7] {
    [
        direction.packets,
        direction.actual_data_bytes,
        direction.unique_bytes,
        direction.rexmt_data_packets,
        direction.rto_count,
        direction.out_of_order_packets,
        direction.zero_window_advertisements,
    ]
    .map(Cell::Integer)
}

fn connection_row(it: &ConnectionReport) -> impl Iterator<Item = Cell> {
    let own = [
        Cell::Text(it.client.to_string()),
        Cell::Text(it.server.to_string()),
        Cell::Text(it.protocol.id().into()),
        Cell::Instant(it.first_ns),
        Cell::Instant(it.last_ns),
        Cell::Text(vantage_id(it.vantage).into()),
        Cell::Integer(it.rtt_min_ns),
        Cell::Integer(it.exchanges),
        Cell::Integer(it.lost_ns),
    ];
    let directions =
        direction(&it.client_to_server).into_iter().chain(direction(&it.server_to_client));
    identity(it.first_frame).into_iter().chain(own).chain(directions).chain(ledger(&it.ledger))
}

const EXCHANGE: [Column; 13] = [
    ("exchange", Kind::Integer),
    ("client", Kind::Text),
    ("server", Kind::Text),
    ("protocol", Kind::Text),
    ("kind", Kind::Text),
    ("outcome", Kind::Text),
    ("ended_by", Kind::Text),
    ("error_code", Kind::Text),
    ("start", Kind::Instant),
    ("first_frame", Kind::Integer),
    ("last_frame", Kind::Integer),
    ("connects", Kind::Flag),
    ("wall_ns", Kind::Integer),
];

fn exchange_columns() -> Vec<(String, Kind)> {
    let own = columns(&[&IDENTITY[..], &EXCHANGE[..]].concat()).into_iter();
    own.chain(ledger_columns()).collect()
}

fn exchange_row(exchange: &TableExchange) -> impl Iterator<Item = Cell> {
    let it = &exchange.row;
    let own = [
        Cell::Integer(it.number),
        Cell::Text(it.client.to_string()),
        Cell::Text(it.server.to_string()),
        Cell::Text(it.protocol.id().into()),
        Cell::Text(it.kind.clone()),
        Cell::Text(it.outcome.kind().id().into()),
        Cell::Text(it.outcome.by().map_or("", |side| side.name()).into()),
        Cell::Text(it.outcome.error().map_or_else(String::new, |code| code.to_string())),
        Cell::Instant(it.start_ns),
        Cell::Integer(it.first.number()),
        Cell::Integer(it.last.number()),
        Cell::Flag(exchange.connects),
        Cell::Integer(it.wall_ns),
    ];
    identity(exchange.connection_frame).into_iter().chain(own).chain(ledger(&it.ledger))
}

const STALL: [Column; 12] = [
    IDENTITY[0],
    IDENTITY[1],
    ("exchange", Kind::Integer),
    ("cause", Kind::Text),
    ("sender", Kind::Text),
    ("culprit_role", Kind::Text),
    ("culprit_endpoint", Kind::Text),
    ("owned_ns", Kind::Integer),
    ("silences", Kind::Integer),
    ("longest_ns", Kind::Integer),
    ("longest_from_frame", Kind::Integer),
    ("longest_to_frame", Kind::Integer),
];

fn stall_row(exchange: &TableExchange, it: &Stall) -> impl Iterator<Item = Cell> {
    let own = [
        Cell::Integer(exchange.row.number),
        Cell::Text(it.cause.id().into()),
        Cell::Text(it.sender.name().into()),
        Cell::Text(it.culprit.role.id().into()),
        Cell::Text(it.culprit.endpoint.to_string()),
        Cell::Integer(it.ns),
        Cell::Integer(it.count.into()),
        Cell::Integer(it.longest_ns),
        Cell::Integer(it.before.number()),
        Cell::Integer(it.after.number()),
    ];
    identity(exchange.connection_frame).into_iter().chain(own)
}

const FINDING: [Column; 17] = [
    ("cause", Kind::Text),
    ("class", Kind::Text),
    ("culprit_role", Kind::Text),
    ("culprit_endpoint", Kind::Text),
    ("lost_ns", Kind::Integer),
    ("wall_ns", Kind::Integer),
    ("share", Kind::Share),
    ("confidence", Kind::Share),
    ("exchanges", Kind::Integer),
    ("p50_ns", Kind::Integer),
    ("p99_ns", Kind::Integer),
    ("p50_without_ns", Kind::Integer),
    ("p99_without_ns", Kind::Integer),
    ("p50_without_least_ns", Kind::Integer),
    ("p50_without_most_ns", Kind::Integer),
    ("p99_without_least_ns", Kind::Integer),
    ("p99_without_most_ns", Kind::Integer),
];

fn finding_row(it: &Finding, wall_ns: u64) -> [Cell; 17] {
    [
        Cell::Text(it.cause.id().into()),
        Cell::Text(it.cause.class().id().into()),
        Cell::Text(it.culprit.role.id().into()),
        Cell::Text(it.culprit.endpoint.to_string()),
        Cell::Integer(it.lost_ns),
        Cell::Integer(wall_ns),
        Cell::Share(it.share),
        Cell::Share(it.confidence),
        Cell::Integer(it.affected.exchanges),
        Cell::Integer(it.latency.p50_ns),
        Cell::Integer(it.latency.p99_ns),
        Cell::Integer(it.counterfactual.likely.p50_ns),
        Cell::Integer(it.counterfactual.likely.p99_ns),
        Cell::Integer(it.counterfactual.least.p50_ns),
        Cell::Integer(it.counterfactual.most.p50_ns),
        Cell::Integer(it.counterfactual.least.p99_ns),
        Cell::Integer(it.counterfactual.most.p99_ns),
    ]
}
