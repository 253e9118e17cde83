"""`diagnose`: the captures of a run, by capture point or by connection."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from .. import _native
from .._errors import CaptureError
from .._options import Keywords, keywords
from .._report import Report
from ..stages import Control, Controlled, Peeked, Plan, Run
from . import _inputs, _rows
from ._inputs import File, Group, Storage
from ._rows import PARTIAL, PIECE, ROWS, TABLES, TAKEN, Piece

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

BUCKETS_MAX = 4096
BUCKET_BYTES = 128 << 20
"""Bytes that a bucket takes where `k` is not given."""

_CHUNK = _rows.columns(
    part=pa.int32(),
    bucket=pa.int32(),
    time_ns=pa.int64(),
    file=pa.int64(),
    number=pa.int64(),
    blob=pa.binary(),
)
_TOLD = _rows.columns(kind=pa.string(), blob=pa.binary())


class Skew(NamedTuple):
    """The largest part of a run, which the other tasks wait for."""

    largest: str
    """Point and day, or the number of the bucket."""
    share: float
    """Its share of all bytes, 0 to 1."""


class Diagnosis:
    """The result of a run: reports and tables.

    `connections`, `exchanges`, `stalls`, `lookups` and `findings` are the tables of docs/parquet.md, after
    the columns `run`, `point` and `day`; times have microseconds, and a column `…_ns` with all digits.
    `reports` has a report (docs/report.schema.json) in a row, `problems` what is wrong with a file.
    """

    run: str
    """Identifies the input (paths, sizes, versions of files), the options and the version of tcpwhy."""
    skew: Skew | None
    """The largest part of the run; None if there was nothing to read."""
    tables: tuple[str, ...]
    """The tables that there are."""

    def __init__(
        self,
        run: str,
        pieces: DataFrame,
        held: Sequence[DataFrame],
        skew: Skew | None,
        tables: Iterable[str],
    ) -> None:
        self.run, self.skew, self.tables = run, skew, tuple(tables)
        self._pieces, self._held = pieces, held

    def table(self, name: str) -> DataFrame:
        """Returns a table; its rows are on the disks of the executors, and are made again if one is lost.

        Raises ValueError if there is no such table.
        """
        if name not in self.tables:
            raise ValueError(f"{name}: the tables are {', '.join(self.tables)}")
        return _rows.unpacked(self._pieces, name, self.run)

    def report(self, point: str | None = None, day: str | None = None) -> str:
        """Returns the report as JSON: of the run, or of the point and day (`2026-11-28`) that are named.

        Raises LookupError if there is none, or there are several.
        """
        reports = self.table("reports")
        for column, value in (("point", point), ("day", day)):
            if value is not None:
                reports = reports.where(reports[column] == value)
        found = [row["report"] for row in reports.limit(2).collect()]
        if len(found) != 1:
            raise LookupError(
                f"{len(found) or 'no'} reports of point {point}, day {day}: name both"
            )
        return str(found[0])

    def write(self, out: str, format: str = "parquet", **options: str) -> None:
        """Writes each table into a folder of its name in `out`, partitioned by day and point.

        format, options: those of Spark's writer, such as `delta`. The partitions of this run replace
        those of an earlier one; others stay. Rows are valid whose `run` is in `reports`.
        """
        for name in self.tables:
            writer = self.table(name).write.format(format).mode("overwrite").options(**options)
            writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy("day", "point")
            writer.save(f"{out.rstrip('/')}/{name}")

    def close(self) -> None:
        """Frees the disks of the executors. Tables cannot be used any more."""
        for frame in self._held:
            frame.unpersist()


def diagnose(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    by: Literal["point", "connection"] = "point",
    k: int | None = None,
    out: str | None = None,
    *,
    point: str | Callable[[str], str] | None = None,
    tables: Sequence[str] = ROWS,
    format: str = "parquet",
    storage: Storage | None = None,
    filter: str | None = None,
    min_share: float | None = None,
    min_lost: str | None = None,
    cause: str | None = None,
    show_values: bool = False,
    all: bool = False,
) -> Diagnosis:
    """Diagnoses captures on a cluster.

    paths: files, folders and patterns, as absolute paths that all executors have, or as URLs for fsspec.
    by: `point`: a report for each capture point and day, without a shuffle. `connection`: one report of
        all files, which were taken at one place: connections are followed across the files, and their
        frames cross the shuffle.
    k: number of buckets of connections, 1 to 4,096; without it, four for each core, and more if they
        would take more than 128 MiB each. A task takes several.
    out: where the tables are written (`Diagnosis.write`), in the `format`.
    point: names the point of a path: a function, or a regular expression whose first group is the name;
        without it, `point_of_directory`. By connection, a text that is the name of all.
    tables: tables of connections that are made; without any, a file is read once and not twice.
    storage: options of fsspec's file system.
    The other options are those of `tcpwhy.read`.

    Raises CaptureError if a path has no file, ValueError for an option that is not understood, StageError
    if the executors have another version of tcpwhy. A file that cannot be read is a row in `problems`.
    """
    if by not in ("point", "connection"):
        raise ValueError(f"by: {by!r} is neither 'point' nor 'connection'")
    if unknown := set(tables) - set(ROWS):
        raise ValueError(f"tables: {', '.join(sorted(unknown))}: there are {', '.join(ROWS)}")
    asked = keywords(filter, min_share, min_lost, cause, None, 1, 1, show_values, all)
    storage = storage or {}
    parallelism = spark.sparkContext.defaultParallelism
    files = _inputs.listed(paths, storage)
    if by == "connection":
        k = k or buckets_for(sum(file.bytes for file in files), parallelism)
    run = run_id(files, [asked, by, k, sorted(tables)])
    seen = _looked_at(spark, files, storage, parallelism)
    if by == "point":
        found = _by_point(
            spark, seen, rule_of(point, files), run, tables, asked, storage, parallelism
        )
    else:
        name = "all" if point is None else point
        if not isinstance(name, str) or k is None:
            raise ValueError("point: by connection it is the name of all captures")
        found = _by_connection(spark, seen, name, k, run, tables, asked, storage, parallelism)
    if out is not None:
        found.write(out, format)
    return found


def buckets_for(bytes: int, parallelism: int) -> int:
    """Returns the number of buckets for captures of so many bytes."""
    return min(max(4 * parallelism, -(-bytes // BUCKET_BYTES)), BUCKETS_MAX)


def rule_of(
    point: str | Callable[[str], str] | None, files: Sequence[File]
) -> Callable[[str], str]:
    if point is None:
        return _inputs.point_of_directory(file.name for file in files)
    if callable(point):
        return point
    pattern = re.compile(point)
    if pattern.groups < 1:
        raise ValueError(f"point: {point!r} has no group")

    def rule(name: str) -> str:
        found = pattern.search(name)
        return (found and found[1]) or "all"

    return rule


def run_id(files: Sequence[File], options: object) -> str:
    text = json.dumps([_native.__version__, files, options], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _looked_at(
    spark: Any, files: Sequence[File], storage: Storage, parallelism: int
) -> list[Peeked]:
    """Reads the beginnings of all captures."""
    schema = _rows.columns(index=pa.int64(), first_ns=pa.int64(), problem=pa.string())
    count = min(len(files), 4 * parallelism)

    def task(index: int) -> Iterator[Any]:
        of_task = range(index, len(files), count)
        seen = [(at, _inputs.look(files[at], storage)) for at in of_task]
        yield _rows.batch_of(schema, [(at, it.first_ns, it.problem) for at, it in seen])

    rows = _rows.in_tasks(count, spark, task, schema).collect()
    looked = {row["index"]: (row["first_ns"], row["problem"]) for row in rows}
    return [Peeked(file.name, file.bytes, *looked[at]) for at, file in enumerate(files)]


def _held(frame: DataFrame) -> DataFrame:
    """Keeps the rows of `frame` on the disks of the executors."""
    from pyspark import StorageLevel

    return frame.persist(StorageLevel.DISK_ONLY)


def _problems_of(report: str) -> list[dict[str, Any]]:
    inputs = json.loads(report)["inputs"]
    return [{"path": it["path"], **problem} for it in inputs for problem in it["problems"]]


def unreadable(files: Iterable[tuple[str, str | None]]) -> list[dict[str, Any]]:
    return [
        {"path": path, "kind": "unreadable", "what": problem, "loses_frames": True}
        for path, problem in files
        if problem is not None
    ]


def problems_of_unread(seen: Iterable[Peeked], rule: Callable[[str], str]) -> list[Piece]:
    """Returns the problems of files of which nothing can be read; they are in no group."""
    return [
        piece
        for file in seen
        for piece in _rows.piece_of(
            "problems", rule(file.path), None, unreadable([(file.path, file.problem)])
        )
    ]


def _with(pieces: DataFrame, more: Iterable[Piece]) -> DataFrame:
    """Adds pieces that the driver has made."""
    given = list(more)
    if not given:
        return pieces
    schema = _rows.spark_schema(PIECE)
    return pieces.unionAll(pieces.sparkSession.createDataFrame(given, schema))


# By point: each task is one process.


def _by_point(
    spark: SparkSession,
    seen: Sequence[Peeked],
    rule: Callable[[str], str],
    run: str,
    tables: Sequence[str],
    asked: Keywords,
    storage: Storage,
    parallelism: int,
) -> Diagnosis:
    groups = _inputs.grouped(seen, rule)
    tasks = _inputs.packed(groups, lambda group: group.bytes, parallelism)

    def task(index: int) -> Iterator[Any]:
        for group in tasks[index]:
            for piece in of_group(group, tables, asked, storage):
                yield _rows.batch_of(PIECE, [piece])

    pieces = _held(_rows.in_tasks(len(tasks), spark, task, PIECE))
    pieces.count()
    problems = problems_of_unread(seen, rule)
    skew = None
    if groups:
        largest = max(groups, key=lambda group: group.bytes)
        share = largest.bytes / max(sum(group.bytes for group in groups), 1)
        skew = Skew(f"{largest.point} {largest.day}", share)
    made = [table for table in TABLES if table in tables or table not in ROWS]
    return Diagnosis(run, _with(pieces, problems), [pieces], skew, made)


def _captures(group: Group, storage: Storage) -> list[tuple[str, Any]]:
    return [(name, _inputs.content(name, storage)) for name in group.names]


def of_group(
    group: Group, tables: Sequence[str], asked: Keywords, storage: Storage
) -> Iterator[Piece]:
    """Diagnoses the captures of a group in this process."""
    place = (group.point, group.day)
    try:
        report = Report(_native.read(_captures(group, storage), asked))
    except CaptureError as error:
        yield from _rows.piece_of("problems", *place, unreadable([(error.path, error.problem)]))
        return
    text = report.json()
    yield from _rows.piece_of("reports", *place, [{"report": text}])
    yield from _rows.piece_of("problems", *place, _problems_of(text))
    yield from _rows.pieces_of(*place, report.table("findings"))
    if tables:
        yield from rows_of_group(group, tables, asked, storage)


def rows_of_group(
    group: Group, tables: Sequence[str], asked: Keywords, storage: Storage
) -> Iterator[Piece]:
    """Returns rows of the captures of a group, without a report."""
    try:
        batches = _native.stream(_captures(group, storage), tables, asked)
    except CaptureError:
        return
    yield from _rows.pieces_of(group.point, group.day, batches)


# By connection: the stages.


def _by_connection(
    spark: SparkSession,
    seen: Sequence[Peeked],
    point: str,
    k: int,
    id: str,
    tables: Sequence[str],
    asked: Keywords,
    storage: Storage,
    parallelism: int,
) -> Diagnosis:
    plan = Plan(seen)
    run = Run(plan.first_ns, int(id, 16), k, asked)
    place = (point, _inputs.day_of(plan.first_ns))
    whole = sum(file.bytes or 0 for file in plan.files)
    parts = min(k, max(parallelism, -(-whole // _inputs.TASK_BYTES)))
    chunks = _held(_scattered(spark, plan, run, parts, storage, parallelism))
    control, totals = _controlled(chunks, run, parts)
    of_buckets = [table for table in tables if table != "lookups"]
    pieces = _held(_bucketed(chunks, run, parts, control.told, of_buckets, place))
    pieces.count()
    chunks.unpersist()
    results = pieces.where(pieces["kind"].isin(PARTIAL, TAKEN)).select("bucket", "bytes", "blob")
    taken: dict[int, int] = {}
    blobs: list[bytes] = []
    for bucket, size, blob in results.toLocalIterator():
        if bucket is None:
            blobs.append(bytes(blob))
        else:
            taken[bucket] = size
    more: list[Piece] = []
    # Buckets that have no frames can be told something.
    for bucket in set(range(k)) - set(taken):
        stage = run.bucket(bucket, control.told, of_buckets)
        partial, rows = stage.finish()
        blobs.append(partial)
        more += _rows.pieces_of(*place, rows)
    names = [file.path for file in seen]
    report, findings = run.settle(blobs, control.lookups, totals, names)
    more += _rows.piece_of("reports", *place, [{"report": report}])
    more += _rows.piece_of("problems", *place, _problems_of(report))
    more += _rows.pieces_of(*place, findings)
    if "lookups" in tables:
        more += _rows.pieces_of(*place, run.lookup_rows(control.lookups))
    skew = None
    if sum(taken.values()):
        largest = max(taken, key=lambda bucket: taken[bucket])
        skew = Skew(f"bucket {largest}", taken[largest] / sum(taken.values()))
    made = [table for table in TABLES if table in tables or table not in ROWS]
    return Diagnosis(id, _with(pieces, more), [pieces], skew, made)


def _scattered(
    spark: SparkSession, plan: Plan, run: Run, parts: int, storage: Storage, parallelism: int
) -> DataFrame:
    """Returns the pieces of all captures: `parts` partitions of buckets, each bucket in one of them and in
    order. The control and the totals are the partition behind these."""
    behind = {"control": run.buckets, "totals": run.buckets + 1}
    tasks = _inputs.packed(enumerate(plan.files), lambda file: file[1].bytes or 0, 2 * parallelism)

    def pieces(index: int) -> Iterator[tuple[Any, ...]]:
        for number, file in tasks[index]:
            for piece in run.scatter(number, file.path, _inputs.content(file.path, storage)):
                if piece.bucket is None:
                    yield (parts, behind[piece.to], *piece.order, piece.blob)
                else:
                    yield (piece.bucket % parts, piece.bucket, *piece.order, piece.blob)

    def task(index: int) -> Iterator[Any]:
        return _rows.batches_of(_CHUNK, pieces(index))

    chunks = _rows.in_tasks(len(tasks), spark, task, _CHUNK)
    chunks = chunks.repartitionById(parts + 1, "part")
    return chunks.sortWithinPartitions("bucket", "time_ns", "file", "number")


def _controlled(chunks: DataFrame, run: Run, parts: int) -> tuple[Controlled, list[bytes]]:
    """Runs the control in one task. Returns its results, and the totals."""

    def control(batches: Iterator[Any]) -> Iterator[Any]:
        stage: Control | None = None
        for batch in batches:
            for bucket, blob in _blobs(batch):
                if bucket == run.buckets:
                    stage = stage or run.control()
                    stage.take(blob)
                else:
                    yield _rows.batch_of(_TOLD, [("totals", blob)])
        if stage:
            done = stage.finish()
            yield _rows.batch_of(_TOLD, [("told", done.told), ("lookups", done.lookups)])

    chosen = chunks.where(chunks["part"] == parts).select("bucket", "blob")
    rows = chosen.mapInArrow(control, _rows.spark_schema(_TOLD)).collect()
    of: dict[str, list[bytes]] = {"told": [], "lookups": [], "totals": []}
    for row in rows:
        of[row["kind"]].append(bytes(row["blob"]))
    done = Controlled(of["told"][0], of["lookups"][0]) if of["told"] else run.control().finish()
    return done, of["totals"]


def _bucketed(
    chunks: DataFrame,
    run: Run,
    parts: int,
    told: bytes,
    tables: Sequence[str],
    place: tuple[str, str],
) -> DataFrame:
    """Follows the connections of each bucket. Returns rows of tables, partials, and what was taken."""

    def pieces(batches: Iterator[Any]) -> Iterator[Piece]:
        partials: list[bytes] = []
        chunks = (chunk for batch in batches for chunk in _blobs(batch))
        # Chunks are sorted by bucket.
        for bucket, of_bucket in groupby(chunks, key=lambda chunk: chunk[0]):
            stage, taken = run.bucket(bucket, told, tables), 0
            for _, blob in of_bucket:
                taken += len(blob)
                yield from _rows.pieces_of(*place, stage.take(blob))
            partial, rows = stage.finish()
            partials.append(partial)
            yield from _rows.pieces_of(*place, rows)
            yield TAKEN, *place, bucket, taken, b""
        if partials:
            yield PARTIAL, *place, None, None, run.merge(partials)

    def follow(batches: Iterator[Any]) -> Iterator[Any]:
        return _rows.batches_of(PIECE, pieces(batches))

    chosen = chunks.where(chunks["part"] < parts).select("bucket", "blob")
    return chosen.mapInArrow(follow, _rows.spark_schema(PIECE))


def _blobs(batch: Any) -> Iterator[tuple[int, bytes]]:
    """Returns bucket and blob of each row."""
    for bucket, blob in zip(batch.column(0), batch.column(1)):
        yield bucket.as_py(), blob.as_py()
