"""Reports and tables are those of the command, for every stored capture."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tcpwhy
from conftest import CAPTURES, capture, command

TABLES = ["connections", "exchanges", "stalls", "lookups", "findings"]
SETS = [
    pytest.param([str(path)], id=path.name) for path in CAPTURES
] + [
    pytest.param([capture("both_ends-client.pcap"), capture("both_ends-server.pcap")], id="two places"),
    pytest.param([capture("loss_tail.pcap"), capture("slow_backend.pcap.zst")], id="two files"),
]


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    """Returns the rows in an order that does not depend on the run."""
    columns = [column.to_pylist() for column in table.columns]
    return sorted(zip(*columns), key=repr)


@pytest.mark.parametrize("files", SETS)
def test_report_and_tables_equal_those_of_the_command(files: list[str], tmp_path: Path) -> None:
    written = command(*files, "--json", "--parquet", str(tmp_path)).stdout
    report = tcpwhy.read(files)
    assert report.json() == written
    assert report.to_dict() == json.loads(written)
    assert [it.to_dict() for it in report.findings] == json.loads(written)["findings"]
    for name in TABLES:
        parquet = pq.read_table(tmp_path / f"{name}.parquet")
        table = report.table(name).to_arrow()
        assert table.schema.equals(parquet.schema), name
        assert table.schema.names == report.table(name).columns
        assert rows(table) == rows(parquet), name


def test_tables_without_rows_are_seen() -> None:
    """The comparison above says nothing where no capture has rows."""
    seen = {name: 0 for name in TABLES}
    for path in ("dns_timeout.pcap", "nginx_nodelay_off.pcap"):
        report = tcpwhy.read(capture(path))
        for name in TABLES:
            seen[name] += report.table(name).to_arrow().num_rows
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"filter": "port 8080 and +200ms..+900ms"}, ["--filter", "port 8080 and +200ms..+900ms"]),
        ({"min_share": 0, "min_lost": "1us"}, ["--min-share", "0", "--min-lost", "1us"]),
        ({"cause": "server_think"}, ["--cause", "server_think"]),
        ({"all": True, "show_values": True, "threads": 2}, ["--all", "--show-values", "--threads", "2"]),
        ({"vantages": 1}, ["--vantages", "1"]),
    ],
)
def test_options_are_those_of_the_command(
    nodelay_off: str, options: dict[str, object], words: list[str]
) -> None:
    report = tcpwhy.read(nodelay_off, **options)  # type: ignore[arg-type]
    assert report.json() == command(nodelay_off, "--json", *words).stdout


def test_other_evidence_is_weighed(nodelay_off: str, tmp_path: Path) -> None:
    sockets = tmp_path / "sockets.json"
    listed = command("sockets", "--json")
    sockets.write_text(listed.stdout)
    report = tcpwhy.read(nodelay_off, sockets=sockets)
    assert report.json() == command(nodelay_off, "--json", "--sockets", str(sockets)).stdout


def test_texts_are_those_of_the_command(nodelay_off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    report = tcpwhy.read(nodelay_off)
    assert str(report) == command(nodelay_off, "--width", "100").stdout
    drawn = command(nodelay_off, "--connection", "1", "--exchange", "24", "--width", "100").stdout
    assert str(report.plot_ladder(1, 24)) == drawn
    why = json.loads(command(nodelay_off, "--why", "125", "--json").stdout)
    assert report.why(frame=125) == why
    of_exchange = json.loads(command(nodelay_off, "--exchange", "24", "--why", "--json").stdout)
    assert report.why(exchange=24) == of_exchange
    manual = next(it for it in tcpwhy.causes() if it.id == "nagle_delayed_ack").manual()
    assert manual == command("explain", "nagle_delayed_ack", "--width", "100").stdout


def test_comparisons_are_those_of_the_command(nodelay_off: str, tmp_path: Path) -> None:
    after = capture("nginx_nodelay_off-healthy.pcap")
    expected = json.loads(command("compare", nodelay_off, after, "--json").stdout)
    stored = tmp_path / "before.json"
    stored.write_text(tcpwhy.read(nodelay_off).json())
    compared = tcpwhy.compare(tcpwhy.read(nodelay_off), after)
    assert compared.to_dict() == json.loads(compared.json()) == expected
    assert (compared.verdict, compared.worse) == ("faster", False)
    assert str(compared) and compared.sentence in compared._repr_html_()
    of_stored = json.loads(command("compare", str(stored), after, "--json").stdout)
    assert tcpwhy.compare(stored, tcpwhy.read(after)).to_dict() == of_stored
    assert tcpwhy.compare(after, nodelay_off).worse
