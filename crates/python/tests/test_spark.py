"""`tcpwhy.spark` on a cluster of two executors: the answers of one process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tcpwhy
from conftest import capture

missing = [
    what
    for what, is_there in (
        ("no Java (apt-get install default-jre-headless)", shutil.which("java")),
        ("no pyspark (scripts/test-python.sh --packages)", find_spec("pyspark")),
    )
    if not is_there
]
if missing and os.environ.get("CI"):
    pytest.fail(f"Spark: {missing[0]}", pytrace=False)
if missing:
    pytest.skip(f"Spark: {missing[0]}", allow_module_level=True)

from pyspark.sql import SparkSession
from tcpwhy import spark as on_spark

ROWS = ["connections", "exchanges", "stalls", "lookups", "findings"]
# A short run takes longer to be optimised than it saves.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Two places of a network: the second has copies with other names, and a pool whose file is cut in two.
FIRST = ["nginx_nodelay_off.pcap", "slow_backend.pcap.zst", "dns_timeout.pcap", "loss_tail.pcap"]
SECOND = ["loss_tail-healthy.pcap", "think_looks_nagle.pcap", "ipv6_python.pcap"]


def halves(path: Path, into: Path) -> None:
    """Cuts a classic pcap of little-endian numbers into two files, as a rotating capture does."""
    content = path.read_bytes()
    ends, at = [24], 24
    while at < len(content):
        at += 16 + int.from_bytes(content[at + 8 : at + 12], "little")
        ends.append(at)
    middle = ends[len(ends) // 2]
    (into / f"{path.stem}-0.pcap").write_bytes(content[:middle])
    (into / f"{path.stem}-1.pcap").write_bytes(content[:24] + content[middle:])


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captures of two points, one of which is no capture."""
    folder = tmp_path_factory.mktemp("captures")
    for point, names in (("web1", FIRST), ("web2", SECOND)):
        (folder / point / "2026-11-28").mkdir(parents=True)
        for name in names:
            shutil.copy(capture(name), folder / point / "2026-11-28")
    halves(Path(capture("nginx_nodelay_off-healthy.pcap")), folder / "web2" / "2026-11-28")
    (folder / "web2" / "notes.pcap").write_bytes(b"these are no packets, only words about them")
    return folder


def files_of(captures: Path) -> list[str]:
    return sorted(str(path) for path in captures.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    paths = os.pathsep.join(path for path in sys.path if path)
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    builder: Any = SparkSession.builder
    made = (
        builder.master("local-cluster[2,1,1600]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "1g")
        .config("spark.driver.extraJavaOptions", JAVA)
        .config("spark.executor.extraJavaOptions", JAVA)
        .config("spark.executorEnv.PYTHONPATH", paths)
        .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        .config("spark.sql.session.timeZone", "UTC")
        # Spark's Snappy takes a host that has musl beside glibc for one that has musl alone.
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def values(rows: Any, names: list[str]) -> list[tuple[object, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def assert_tables_equal(
    diagnosis: on_spark.Diagnosis, groups: dict[tuple[str, str], list[str]]
) -> None:
    """Compares each table with that of one process for each point and day, cell by cell; times by their
    nanoseconds."""
    reports = {place: tcpwhy.read(files, vantages=1) for place, files in groups.items()}
    for name in ROWS:
        got: dict[tuple[str, str], list[Any]] = {place: [] for place in groups}
        for row in diagnosis.table(name).collect():
            assert row["run"] == diagnosis.run
            got[row["point"], str(row["day"])].append(row)
        assert name == "findings" or any(got.values()), name
        for place, report in reports.items():
            expected = report.table(name).to_arrow()
            times = [it.name for it in expected.schema if str(it.type).startswith("timestamp")]
            for column in times:
                at = expected.schema.get_field_index(column)
                expected = expected.set_column(at, f"{column}_ns", expected[column].cast("int64"))
            names = expected.schema.names
            assert values(got[place], names) == values(expected.to_pylist(), names), (name, place)
            for row in got[place][:1]:
                for column in times:
                    ns = row[f"{column}_ns"]
                    assert row[column].microsecond == ns // 1000 % 1_000_000


def test_by_connection_is_one_process(spark: SparkSession, captures: Path) -> None:
    """Also with a file that is no capture, and again after an executor was killed."""
    files = files_of(captures)
    one = tcpwhy.read(files, vantages=1).json()
    found = on_spark.diagnose(spark, str(captures), by="connection", k=5)
    assert found.report() == one
    day = str(found.table("reports").collect()[0]["day"])
    assert_tables_equal(found, {("all", day): files})
    problems = found.table("problems").collect()
    assert [Path(row["path"]).name for row in problems] == ["notes.pcap"]
    assert found.skew is not None and 1 / 5 <= found.skew.share <= 1
    kill_an_executor(spark)
    # Its part of the rows is lost, and made again.
    assert_tables_equal(found, {("all", day): files})
    again = on_spark.diagnose(spark, [captures.as_uri()], by="connection", k=5)
    assert (again.run, again.report(), again.skew) == (found.run, one, found.skew)
    again.close()
    found.close()


def kill_an_executor(spark: SparkSession) -> None:
    """Kills an executor that this session has started, by its process id."""
    cores = "CoarseGrainedExecutorBackend"
    driver = f"--driver-url spark://CoarseGrainedScheduler@127.0.0.1:{spark.conf.get('spark.driver.port')}"
    executors = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if cores in command and driver in command:
            executors.append(int(folder.name))
    assert executors, "no executor of this session was found"
    os.kill(executors[0], signal.SIGKILL)


def test_by_point_is_one_process_for_each(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    """Written twice, and read again as Parquet."""
    found = on_spark.diagnose(spark, captures, out=str(tmp_path))
    reports = found.table("reports").collect()
    groups = {(row["point"], str(row["day"])): row["report"] for row in reports}
    assert {point for point, _ in groups} == {"web1", "web2"}
    files: dict[tuple[str, str], list[str]] = {}
    for (point, day), report in groups.items():
        # A group is the files of a point whose first frame is of the day.
        named = [it["path"] for it in json.loads(report)["inputs"]]
        assert all(f"/{point}/" in name for name in named)
        assert report == tcpwhy.read(named, vantages=1).json()
        assert found.report(point, day) == report
        files[point, day] = named
    seen = sorted(name for named in files.values() for name in named)
    assert seen == [name for name in files_of(captures) if "notes" not in name]
    assert_tables_equal(found, files)
    problems = found.table("problems").collect()
    assert [(Path(it["path"]).name, it["point"]) for it in problems] == [("notes.pcap", "web2")]
    first = {name: written(spark, tmp_path, name) for name in found.tables}
    assert first["exchanges"] and list((tmp_path / "exchanges").glob("day=*/point=web1"))
    again = on_spark.diagnose(spark, captures, out=str(tmp_path))
    assert again.run == found.run
    assert {name: written(spark, tmp_path, name) for name in found.tables} == first


def written(spark: SparkSession, out: Path, name: str) -> list[tuple[object, ...]]:
    rows = spark.read.parquet(str(out / name))
    return values(rows.collect(), sorted(rows.columns))


def test_the_data_source_gives_the_same_rows(spark: SparkSession, captures: Path) -> None:
    """From a file system of fsspec, as from an object store."""
    on_spark.register(spark)
    source = spark.read.format("tcpwhy").option("table", "exchanges")
    read = source.load(f"local://{captures}/web1")
    expected = tcpwhy.read(files_of(captures / "web1"), vantages=1).exchanges.to_arrow()
    names = [name for name in expected.schema.names if name != "start"]
    assert values(read.collect(), names) == values(expected.to_pylist(), names) != []
    problems = spark.read.format("tcpwhy").option("table", "problems").load(str(captures))
    assert [Path(row["path"]).name for row in problems.collect()] == ["notes.pcap"]


def test_mistakes_are_named(spark: SparkSession, captures: Path) -> None:
    with pytest.raises(tcpwhy.CaptureError, match="no file"):
        on_spark.diagnose(spark, captures / "none")
    with pytest.raises(ValueError, match="neither"):
        on_spark.diagnose(spark, captures, by="file")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tables: packets"):
        on_spark.diagnose(spark, captures, tables=["packets"])


def test_points_are_named_after_folders() -> None:
    names = ["/c/web1/eth0/2026-11-28/03/a.pcap", "/c/web2/eth0/day=28/b.pcap", "/c/c.pcap"]
    point = on_spark.point_of_directory(names)
    assert [point(name) for name in names] == ["web1/eth0", "web2/eth0", "all"]
