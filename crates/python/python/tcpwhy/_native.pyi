"""The compiled part of tcpwhy; the package beside it is what programs use."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn, final

from ._options import Keywords

__all__ = [
    "Analysis",
    "Batch",
    "Batches",
    "Bucket",
    "Control",
    "Run",
    "Scatter",
    "StageError",
    "Table",
    "__version__",
    "causes",
    "compare",
    "main",
    "manual",
    "no_rows",
    "peek",
    "plan",
    "read",
    "stream",
]

__version__: str

# The name of a capture, with its bytes or the file object; None where the name is a path.
_Captures = Sequence[tuple[str, Any]]

# Path, size in bytes, time of the first frame in ns, problem.
_Seen = tuple[str, int | None, int | None, str | None]
# Stage, bucket, order, blob.
_Piece = tuple[Literal["bucket", "control", "totals"], int | None, tuple[int, int, int], bytes]

def main(words: Sequence[str]) -> NoReturn: ...
def causes() -> list[tuple[str, str, str]]: ...
def manual(cause: str, width: int) -> str | None: ...
def read(captures: _Captures, options: Keywords) -> Analysis: ...
def no_rows(table: str) -> Table: ...
def stream(captures: _Captures, tables: Sequence[str], options: Keywords) -> Batches: ...
def peek(name: str, content: Any) -> _Seen: ...
def plan(files: Sequence[_Seen]) -> tuple[list[int], int]: ...
def compare(
    before: Analysis | tuple[str, bytes],
    after: Analysis | tuple[str, bytes],
    min_change: float,
    width: int,
) -> tuple[str, str]: ...

@final
class Analysis:
    @property
    def interrupted(self) -> bool: ...
    def json(self) -> str: ...
    def text(self, width: int, all: bool) -> str: ...
    def explain(self, finding: int, width: int) -> str: ...
    def why(self, frame: int | None, connection: str | None, exchange: int | None) -> str: ...
    def ladder(
        self, connection: str | None, exchange: int | None, all: bool, width: int
    ) -> tuple[str, str]: ...
    def table(self, name: str) -> Table: ...
    def percentiles(self, by: Sequence[str]) -> Table: ...

@final
class Table:
    """A table of a report, in the order of its `columns` (docs/parquet.md).

    It implements the Arrow PyCapsule interface: pyarrow, polars, pandas and DuckDB take it as it is,
    DuckDB by the name of the variable. Nothing is kept: each use reads the captures again, in batches
    of 32,768 rows, without a Python object for a row.
    """

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_arrow(self) -> Any:
        """Returns the whole table as a `pyarrow.Table`."""
    def to_pandas(self) -> Any:
        """Returns the whole table as a `pandas.DataFrame` (needs pyarrow)."""
    def to_polars(self) -> Any:
        """Returns the whole table as a `polars.DataFrame`."""

@final
class Batch:
    """Up to 32,768 rows of the table named `table`, with the Arrow PyCapsule interface."""

    @property
    def table(self) -> str: ...
    def __len__(self) -> int: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Batches:
    """An iterator over batches."""

    def __iter__(self) -> Batches: ...
    def __next__(self) -> Batch: ...

class StageError(ValueError):
    """A stage refuses its input: a blob is damaged, missing, or of another version or other options."""

@final
class Run:
    def __new__(cls, first_ns: int, seed: int, buckets: int, options: Keywords) -> Run: ...
    def scatter(self, number: int, name: str, content: Any) -> Scatter: ...
    def control(self) -> Control: ...
    def lookup_rows(self, lookups: bytes) -> list[Batch]: ...
    def bucket(self, bucket: int, told: bytes, tables: Sequence[str]) -> Bucket: ...
    def merge(self, partials: Sequence[bytes]) -> bytes: ...
    def settle(
        self,
        partials: Sequence[bytes],
        lookups: bytes,
        totals: Sequence[bytes],
        names: Sequence[str],
    ) -> tuple[str, list[Batch]]: ...

@final
class Scatter:
    def __iter__(self) -> Scatter: ...
    def __next__(self) -> _Piece: ...

@final
class Control:
    def take(self, chunk: bytes) -> None: ...
    def finish(self) -> tuple[bytes, bytes]: ...

@final
class Bucket:
    def take(self, chunk: bytes) -> list[Batch]: ...
    def finish(self) -> tuple[bytes, list[Batch]]: ...
