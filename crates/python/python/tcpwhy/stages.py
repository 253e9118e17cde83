"""A run in stages, for an engine that distributes work: bytes in, bytes out.

    plan      files -> Plan                    the beginning of each file is read
    scatter   a file -> pieces                 for buckets of connections, for the control, and totals
    control   its pieces of all files -> what buckets are told; look-ups
    bucket    its pieces of all files -> partial; rows of tables
    settle    partials, look-ups, totals -> the report of one process

Pieces and results are opaque bytes of this version of the package and of these options; others are
refused (`StageError`). `tcpwhy.spark` runs the stages on Spark; docs/scale.md describes the costs, and has
examples for Ray and Dask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from . import _native
from ._native import Batch, StageError
from ._options import Keywords, keywords

__all__ = ["Bucket", "Control", "Controlled", "Peeked", "Piece", "Plan", "Run", "StageError", "peek"]


class Peeked(NamedTuple):
    """A capture of which only the beginning was read."""

    path: str
    """The name that reports give it."""
    bytes: int | None
    """Its size as stored, if that is known."""
    first_ns: int | None
    """Time of its first frame, ns since the Unix epoch; None if there is none."""
    problem: str | None
    """The reason why nothing of it can be read."""


def peek(name: str, content: Any = None) -> Peeked:
    """Reads the beginning of a capture, 16 KiB or one frame.

    content: its bytes or a binary file; None where `name` is the path of a file.
    """
    return Peeked(*_native.peek(name, content))


class Plan:
    """Captures in the order of their numbers: by the time of their first frames, then by name."""

    files: list[Peeked]
    """The captures; the index of each is its number."""
    first_ns: int
    """Time of the first frame of all; 0 if there is none."""

    def __init__(self, files: Iterable[Peeked]) -> None:
        """Raises ValueError for more captures than a run can have."""
        given = list(files)
        order, self.first_ns = _native.plan(given)
        self.files = [given[index] for index in order]


class Piece(NamedTuple):
    """A piece of a capture."""

    to: Literal["bucket", "control", "totals"]
    """The stage that takes it; `totals` are for `Run.settle`."""
    bucket: int | None
    """The bucket, from 0, if it is for one."""
    order: tuple[int, int, int]
    """Its place among the pieces of its bucket: time in ns, file, frame."""
    blob: bytes


class Controlled(NamedTuple):
    """Results of the control."""

    told: bytes
    """What every bucket is told."""
    lookups: bytes
    """Look-ups, for `Run.settle` and `Run.lookup_rows`."""


@dataclass(frozen=True)
class Run:
    """What all stages agree on. It can be pickled.

    buckets: number of buckets, 1 to 4,096.
    options: as for `tcpwhy.read`; see `Run.of`.
    Raises StageError for another number of buckets.
    """

    first_ns: int
    seed: int
    buckets: int
    options: Keywords
    _run: _native.Run = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        run = _native.Run(self.first_ns, self.seed, self.buckets, self.options)
        object.__setattr__(self, "_run", run)

    def __reduce__(self) -> tuple[type[Run], tuple[int, int, int, Keywords]]:
        return Run, (self.first_ns, self.seed, self.buckets, self.options)

    @classmethod
    def of(
        cls,
        plan: Plan,
        buckets: int,
        *,
        seed: int = 0,
        filter: str | None = None,
        min_share: float | None = None,
        min_lost: str | None = None,
        cause: str | None = None,
        show_values: bool = False,
        all: bool = False,
    ) -> Run:
        """Describes a run over the captures of a plan, which were taken at one place.

        seed: of the hash by which connections get their buckets; the result does not depend on it.
        The other options are those of `tcpwhy.read`. Raises ValueError for one that is not understood.
        """
        options = keywords(filter, min_share, min_lost, cause, None, 1, None, show_values, all)
        return cls(plan.first_ns, seed, buckets, options)

    def scatter(self, number: int, name: str, content: Any = None) -> Iterator[Piece]:
        """Reads capture `number` of the plan, and yields its pieces of up to 4 MiB.

        One that cannot be read to its end gives what can be read, and totals with the problem.
        """
        for piece in self._run.scatter(number, name, content):
            yield Piece(*piece)

    def control(self) -> Control:
        """Begins the control, which takes its pieces of all files."""
        return Control(self._run.control())

    def lookup_rows(self, lookups: bytes) -> list[Batch]:
        """Returns rows of the table `lookups`; of more than 16,384 there may be only the first."""
        return self._run.lookup_rows(lookups)

    def bucket(self, bucket: int, told: bytes, tables: Sequence[str] = ()) -> Bucket:
        """Begins a bucket, which makes rows of `tables`: `connections`, `exchanges`, `stalls`."""
        return Bucket(self._run.bucket(bucket, told, tables))

    def merge(self, partials: Sequence[bytes]) -> bytes:
        """Merges partials of different buckets into one. Raises StageError."""
        return self._run.merge(partials)

    def settle(
        self,
        partials: Sequence[bytes],
        lookups: bytes,
        totals: Sequence[bytes],
        names: Sequence[str] = (),
    ) -> tuple[str, list[Batch]]:
        """Returns the report as JSON, and its findings as rows of the table `findings`.

        names: the captures in the order in which they were given; the report repeats them.
        Raises StageError, also if a piece was lost or given twice.
        """
        return self._run.settle(partials, lookups, totals, names)


class Control:
    """The control in progress. It has those pieces in memory that overlap in time."""

    def __init__(self, control: _native.Control) -> None:
        self._control = control

    def take(self, blob: bytes) -> None:
        """Takes the next piece by order.

        Raises StageError if it is not one for the control, or comes out of order.
        """
        self._control.take(blob)

    def finish(self) -> Controlled:
        """Returns the results. Raises StageError if a piece is damaged."""
        return Controlled(*self._control.finish())


class Bucket:
    """A bucket in progress. It has those pieces in memory that overlap in time."""

    def __init__(self, bucket: _native.Bucket) -> None:
        self._bucket = bucket

    def take(self, blob: bytes) -> list[Batch]:
        """Takes the next piece by order; returns rows of which 32,768 are complete.

        Raises StageError if it is not one of this bucket, or comes out of order.
        """
        return self._bucket.take(blob)

    def finish(self) -> tuple[bytes, list[Batch]]:
        """Ends all connections; returns the partial and the last rows."""
        return self._bucket.finish()
