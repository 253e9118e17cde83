"""Rows of tables on their way through Spark: Arrow streams as bytes, and the schemas of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .._native import Batch, no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ROWS = ("connections", "exchanges", "stalls", "lookups")
"""Tables that a pass over the captures makes."""
TABLES = (*ROWS, "findings", "reports", "problems")


def columns(nullable: bool = True, **types: Any) -> Any:
    """Returns a schema of columns."""
    return pa.schema([pa.field(name, kind, nullable) for name, kind in types.items()])


PIECE = columns(
    kind=pa.string(),
    point=pa.string(),
    day=pa.string(),
    bucket=pa.int32(),
    bytes=pa.int64(),
    blob=pa.binary(),
)
"""A piece: rows of the table `kind` as an Arrow stream; or the partial of the buckets of a task; or the
`bytes` that a `bucket` took."""

PARTIAL = "partial"
TAKEN = "taken"

BATCH_BYTES = 4 << 20
"""Bytes of blobs from which rows are sent as a batch."""

_OWN = {
    "reports": columns(False, report=pa.string()),
    "problems": columns(
        False, path=pa.string(), kind=pa.string(), what=pa.string(), loses_frames=pa.bool_()
    ),
}

PLACE = columns(run=pa.string(), point=pa.string(), day=pa.date32())
"""The columns before those of each table."""


def _spread(field: Any) -> list[Any]:
    """Spark's times have microseconds: beside each stands a column with the nanoseconds since 1970."""
    if not pa.types.is_timestamp(field.type):
        return [field]
    micros = pa.field(field.name, pa.timestamp("us", "UTC"), nullable=False)
    return [micros, pa.field(f"{field.name}_ns", pa.int64(), nullable=False)]


def schema_of(table: str) -> Any:
    """Returns the Arrow schema of a table, as its pieces have it; ValueError for another name."""
    exported: Any = None if table in _OWN else no_rows(table)
    schema = _OWN[table] if exported is None else pa.schema(exported)
    return pa.schema([each for field in schema for each in _spread(field)])


def _arranged(batch: Batch) -> Any:
    rows = pa.record_batch(batch)
    arrays: list[Any] = []
    for field, array in zip(rows.schema, rows.columns):
        if pa.types.is_timestamp(field.type):
            ns = array.cast(pa.int64())
            arrays += [array.cast(pa.timestamp("us", "UTC"), safe=False), ns]
        else:
            arrays.append(array)
    return pa.record_batch(arrays, schema=schema_of(batch.table))


def stream_of(rows: Any) -> bytes:
    """Returns a batch of rows as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


Piece = tuple[str, "str | None", "str | None", "int | None", "int | None", bytes]


def pieces_of(point: str | None, day: str | None, batches: Iterable[Batch]) -> Iterator[Piece]:
    """Returns batches as pieces."""
    for batch in batches:
        yield batch.table, point, day, None, None, stream_of(_arranged(batch))


def piece_of(
    table: str, point: str | None, day: str | None, rows: list[dict[str, Any]]
) -> list[Piece]:
    """Returns rows of the table `reports` or `problems` as a piece; nothing if there are none."""
    if not rows:
        return []
    blob = stream_of(pa.RecordBatch.from_pylist(rows, schema=schema_of(table)))
    return [(table, point, day, None, None, blob)]


def batch_of(schema: Any, rows: Iterable[tuple[Any, ...]]) -> Any:
    """Returns rows of Python values as a batch."""
    columns = list(zip(*rows)) or [()] * len(schema)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema
    )


def batches_of(schema: Any, rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Returns rows, whose last value is a blob, as batches of about `BATCH_BYTES`."""
    waiting: list[tuple[Any, ...]] = []
    bytes = 0
    for row in rows:
        waiting.append(row)
        bytes += len(row[-1])
        if bytes >= BATCH_BYTES:
            yield batch_of(schema, waiting)
            waiting, bytes = [], 0
    if waiting:
        yield batch_of(schema, waiting)


def in_tasks(
    count: int, spark: Any, task: Callable[[int], Iterator[Any]], schema: Any
) -> DataFrame:
    """Runs `task(index)` in `count` tasks of Spark; it yields Arrow batches of `schema`."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from task(index)

    made: DataFrame = spark.range(0, count, 1, count).mapInArrow(run, spark_schema(schema))
    return made


def spark_schema(schema: Any) -> StructType:
    """Returns an Arrow schema as one of Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def placed(rows: Any, schema: Any, run: str, point: str | None, day: str | None) -> Any:
    """Returns a batch with the columns of `PLACE` before its own."""
    count = rows.num_rows
    when = None if day is None else date.fromisoformat(day)
    place = [
        pa.array([value] * count, field.type) for value, field in zip((run, point, when), PLACE)
    ]
    return pa.record_batch([*place, *rows.columns], schema=schema)


def placed_schema(table: str) -> Any:
    """Returns the Arrow schema of a table with the columns of `PLACE`."""
    return pa.schema([*PLACE, *schema_of(table)])


def unpacked(pieces: DataFrame, table: str, run: str) -> DataFrame:
    """Returns the rows of a table from pieces."""
    schema = placed_schema(table)

    def unpack(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for piece in batch.to_pylist():
                with pa.ipc.open_stream(piece["blob"]) as stream:
                    for rows in stream:
                        yield placed(rows, schema, run, piece["point"], piece["day"])

    chosen = pieces.where(pieces["kind"] == table).select("point", "day", "blob")
    return chosen.mapInArrow(unpack, spark_schema(schema))
