//! Rows gathered into Arrow record batches.

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::mem::take;
use std::sync::Arc;
use tcpwhy_core::tables::{Cell, Kind, Table};

/// Time zone of all timestamps.
const ZONE: &str = "UTC";

/// Returns the table of a name.
///
/// # Errors
/// `ValueError` with all names.
pub fn table(name: &str) -> PyResult<Table> {
    Table::ALL.into_iter().find(|table| table.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
        PyValueError::new_err(format!("{name}: the tables are {}", names.join(", ")))
    })
}

/// Returns the Arrow schema of columns. It is that of the Parquet files.
pub fn schema(columns: &[(String, Kind)]) -> SchemaRef {
    let field = |(name, kind): &(String, Kind)| {
        let of_kind = match kind {
            Kind::Integer => DataType::Int64,
            Kind::Instant => DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into())),
            Kind::Text => DataType::Utf8,
            Kind::Share => DataType::Float64,
            Kind::Flag => DataType::Boolean,
        };
        Field::new(name, of_kind, false)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Rows by column.
pub struct Columns {
    schema: SchemaRef,
    columns: Vec<Values>,
    /// Number of rows.
    pub rows: usize,
}

/// The values of a column.
enum Values {
    Integers(Vec<i64>),
    Instants(Vec<i64>),
    Texts(StringBuilder),
    Shares(Vec<f64>),
    Flags(Vec<bool>),
}

impl Columns {
    /// Begins with no row.
    pub fn new(columns: impl AsRef<[(String, Kind)]>) -> Self {
        let columns = columns.as_ref();
        let values = columns.iter().map(|(_, kind)| match kind {
            Kind::Integer => Values::Integers(Vec::new()),
            Kind::Instant => Values::Instants(Vec::new()),
            Kind::Text => Values::Texts(StringBuilder::new()),
            Kind::Share => Values::Shares(Vec::new()),
            Kind::Flag => Values::Flags(Vec::new()),
        });
        Self { schema: schema(columns), columns: values.collect(), rows: 0 }
    }

    /// Returns the schema.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        let integer = |value| i64::try_from(value).unwrap_or(i64::MAX);
        for (column, cell) in self.columns.iter_mut().zip(row) {
            match (column, cell) {
                (Values::Integers(values), Cell::Integer(value))
                | (Values::Instants(values), Cell::Instant(value)) => values.push(integer(value)),
                (Values::Texts(values), Cell::Text(value)) => values.append_value(value),
                (Values::Shares(values), Cell::Share(value)) => values.push(value),
                (Values::Flags(values), Cell::Flag(value)) => values.push(value),
                _ => unreachable!("a table's rows have the kinds of its columns"),
            }
        }
        self.rows += 1;
    }

    /// Removes and returns all rows.
    ///
    /// # Errors
    /// None is expected: all columns have one value for each row.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let array = |values: &mut Values| -> ArrayRef {
            match values {
                Values::Integers(values) => Arc::new(Int64Array::from(take(values))),
                Values::Instants(values) => {
                    Arc::new(TimestampNanosecondArray::from(take(values)).with_timezone(ZONE))
                }
                Values::Texts(values) => Arc::new(values.finish()),
                Values::Shares(values) => Arc::new(Float64Array::from(take(values))),
                Values::Flags(values) => Arc::new(BooleanArray::from(take(values))),
            }
        };
        RecordBatch::try_new(self.schema(), self.columns.iter_mut().map(array).collect())
    }
}
