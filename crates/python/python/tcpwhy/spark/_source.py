"""The Python data source `tcpwhy`: a table of captures as a data frame of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from .._options import keywords
from . import _diagnose, _inputs, _rows
from ._inputs import Group
from ._rows import ROWS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# The driver reads the beginnings of so many files at a time.
_LOOKS = 16


class CaptureDataSource(DataSource):
    """`spark.read.format("tcpwhy").option("table", "exchanges").load("s3a://captures/")`.

    Rows are those of `diagnose(…, by="point")`. Options: `table` (exchanges); `path`, or a list of paths as
    JSON in `paths`; `point` (a regular expression), `filter`, `show_values`; `storage` (JSON).
    """

    @classmethod
    def name(cls) -> str:
        return "tcpwhy"

    def schema(self) -> StructType:
        return _rows.spark_schema(_rows.placed_schema(_table(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(dict(self.options))


def register(spark: SparkSession) -> None:
    """Makes the format `tcpwhy` known to a session."""
    spark.dataSource.register(CaptureDataSource)


def _table(options: Any) -> str:
    table = str(options.get("table", "exchanges"))
    if table not in TABLES:
        raise ValueError(f"table: {table}: there are {', '.join(TABLES)}")
    return table


@dataclass
class _Task(InputPartition):
    """Groups of one task, and problems of files that are in no group."""

    run: str
    groups: Sequence[Group]
    problems: Sequence[_rows.Piece]


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.table = _table(options)
        self.storage = json.loads(options.get("storage", "{}"))
        self.paths = json.loads(options["paths"]) if "paths" in options else [options["path"]]
        self.point = options.get("point")
        show_values = options.get("show_values", "false").lower() == "true"
        self.asked = keywords(
            options.get("filter"), None, None, None, None, 1, 1, show_values, False
        )

    def partitions(self) -> Sequence[InputPartition]:
        files = _inputs.listed(self.paths, self.storage)
        rule = _diagnose.rule_of(self.point, files)
        with ThreadPoolExecutor(_LOOKS) as pool:
            seen = list(pool.map(lambda file: _inputs.look(file, self.storage), files))
        run = _diagnose.run_id(files, self.asked)
        groups = _inputs.grouped(seen, rule)
        tasks = _inputs.packed(groups, lambda group: group.bytes, len(groups))
        problems = _diagnose.problems_of_unread(seen, rule)
        return [_Task(run, of_task, []) for of_task in tasks] + [_Task(run, [], problems)]

    def _pieces(self, task: _Task) -> Iterator[_rows.Piece]:
        yield from task.problems
        for group in task.groups:
            if self.table in ROWS:
                yield from _diagnose.rows_of_group(group, [self.table], self.asked, self.storage)
            else:
                yield from _diagnose.of_group(group, [], self.asked, self.storage)

    def read(self, partition: Any) -> Iterator[Any]:
        schema = _rows.placed_schema(self.table)
        for kind, point, day, _, _, blob in self._pieces(partition):
            if kind == self.table:
                with pa.ipc.open_stream(blob) as stream:
                    for rows in stream:
                        yield _rows.placed(rows, schema, partition.run, point, day)
