"""Says why requests were slow: reads packet captures, names the causes, and gives every exchange as a row.

>>> import tcpwhy
>>> report = tcpwhy.read("slow.pcap")
>>> report.findings[0].explain()
>>> report.exchanges.to_polars()

docs/python.md is the guide, docs/parquet.md describes the tables.
"""

from ._errors import CaptureError
from ._inputs import BinaryFile
from ._native import Batch, Batches, Table, __version__
from ._report import (
    Cause,
    Comparison,
    Finding,
    Ladder,
    Report,
    causes,
    compare,
    read,
    stream,
)

__all__ = [
    "Batch",
    "Batches",
    "BinaryFile",
    "CaptureError",
    "Cause",
    "Comparison",
    "Finding",
    "Ladder",
    "Report",
    "Table",
    "__version__",
    "causes",
    "compare",
    "read",
    "stream",
]
