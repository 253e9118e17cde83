"""Tables in the libraries that read them, and what is computed from them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tcpwhy
from conftest import ROOT, capture, command


def test_every_library_reads_the_same_rows(nodelay_off: str) -> None:
    exchanges = tcpwhy.read(nodelay_off).exchanges
    arrow = exchanges.to_arrow()
    assert arrow.num_rows == 40
    assert pa.table(exchanges).equals(arrow)
    assert pa.schema(exchanges).equals(arrow.schema)
    frame = exchanges.to_polars()
    assert frame.to_arrow().cast(arrow.schema).equals(arrow)
    assert pl.DataFrame(exchanges).equals(frame)
    pandas = exchanges.to_pandas()
    assert pa.Table.from_pandas(pandas, schema=arrow.schema, preserve_index=False).equals(arrow)
    assert str(pandas["start"].dtype) == "datetime64[ns, UTC]"
    assert isinstance(pandas, pd.DataFrame)
    by_name = duckdb.sql("SELECT count(*), sum(wall_ns), max(start) FROM exchanges").fetchall()[0]
    assert by_name[:2] == (40, sum(arrow["wall_ns"].to_pylist()))
    # A table can be used again.
    assert duckdb.sql("SELECT * FROM exchanges").to_arrow_table().num_rows == 40


def test_batches_are_the_table(nodelay_off: str) -> None:
    report = tcpwhy.read(nodelay_off)
    for table in (report.exchanges, report.table("findings")):
        batches = [pa.record_batch(batch) for batch in table]
        assert pa.Table.from_batches(batches).equals(table.to_arrow())
    batch = next(iter(report.exchanges))
    assert (batch.table, len(batch)) == ("exchanges", 40)
    assert pl.DataFrame(batch).height == 40
    empty = report.lookups
    assert list(empty) == [] and empty.to_arrow().num_rows == 0
    assert empty.to_polars().columns == empty.columns


def test_batches_have_a_bounded_number_of_rows(tmp_path: Path, nodelay_off: str) -> None:
    """One capture behind another, ten seconds later, until there is more than one batch."""
    content = Path(nodelay_off).read_bytes()
    longer = bytearray(content[:24])
    for number in range(850):
        at = 24
        while at < len(content):
            seconds, fraction, kept, length = struct.unpack_from("<IIII", content, at)
            longer += struct.pack("<IIII", seconds + 10 * number, fraction, kept, length)
            longer += content[at + 16 : at + 16 + kept]
            at += 16 + kept
    long = tmp_path / "long.pcap"
    long.write_bytes(longer)
    sizes = [len(batch) for batch in tcpwhy.stream(long)]
    assert sizes == [32_768, 850 * 40 - 32_768]


def test_a_stream_has_the_rows_of_a_report(nodelay_off: str) -> None:
    report = tcpwhy.read(nodelay_off)
    names = ["exchanges", "stalls", "connections"]
    streamed: dict[str, list[pa.RecordBatch]] = {name: [] for name in names}
    for batch in tcpwhy.stream(nodelay_off, names):
        streamed[batch.table].append(pa.record_batch(batch))
    for name in names:
        expected = report.table(name).to_arrow()
        assert pa.Table.from_batches(streamed[name]).equals(expected), name
    with open(nodelay_off, "rb", buffering=0) as file:
        pipe = Once(file.readall())
        assert [len(batch) for batch in tcpwhy.stream(pipe, filter="port 8080")] == [40]
    with pytest.raises(ValueError, match="the tables are"):
        tcpwhy.stream(nodelay_off, "exchange")
    with pytest.raises(ValueError, match="findings"):
        tcpwhy.stream(nodelay_off, ["findings"])


class Once:
    """A binary file that cannot seek."""

    def __init__(self, content: bytes) -> None:
        self.rest = content

    def read(self, size: int) -> bytes:
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken


@pytest.mark.parametrize(
    "name", ["nginx_nodelay_off.pcap", "slow_backend.pcap.zst", "error_responses.pcap", "tls_handshakes.pcap"]
)
def test_p99_is_the_answer_of_sql(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the query in docs/parquet.md, which reads the command's tables."""
    command(capture(name), "--parquet", str(tmp_path / "tables"))
    query = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/parquet.md").read_text(), re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    expected = {(row[0], row[1]): row[2:] for row in duckdb.sql(query).fetchall()}
    report = tcpwhy.read(capture(name))
    found = report.p99().to_arrow().to_pylist()
    assert expected.keys() == {(row["server"], row["cause"]) for row in found}
    for row in found:
        exchanges, affected, p99_ms, p99_without_ms, owned_ms = expected[row["server"], row["cause"]]
        assert (row["exchanges"], row["affected"]) == (exchanges, affected)
        for column, value in (
            ("p99_ns", p99_ms),
            ("p99_without_ns", p99_without_ms),
            ("owned_ns", owned_ms),
        ):
            # SQL rounds to microseconds.
            assert row[column] / 1e6 == pytest.approx(value, abs=0.0011), (row, column)
    owned = [row["owned_ns"] for row in found]
    assert owned == sorted(owned, reverse=True)


def test_p99_without_causes_has_a_row_for_each_group() -> None:
    report = tcpwhy.read(capture("error_responses.pcap"))
    exchanges = report.exchanges.to_polars()
    found = report.p99(["kind", "outcome"]).to_polars()
    expected = exchanges.group_by("kind", "outcome").agg(
        pl.len().cast(pl.Int64).alias("exchanges"),
        *(
            pl.col("wall_ns").quantile(share, "linear").round().cast(pl.Int64).alias(name)
            for share, name in ((0.5, "p50_ns"), (0.9, "p90_ns"), (0.99, "p99_ns"))
        ),
        pl.col("wall_ns").max().alias("max_ns"),
        pl.col("wall_ns").sum().alias("sum_ns"),
    )
    key = ["kind", "outcome"]
    assert len(found) > 1
    both = found.sort(key).join(expected.sort(key), on=key, suffix="_expected")
    assert len(both) == len(found) == len(expected)
    for name in ("exchanges", "p50_ns", "p90_ns", "p99_ns", "max_ns"):
        off = (both[name] - both[f"{name}_expected"]).abs().max()
        assert isinstance(off, int) and off <= 1, name
    assert (both["wall_ns"] == both["sum_ns"]).all()
    with pytest.raises(ValueError, match="none of .*server.*cause"):
        report.p99(["wall_ns"])
