#!/usr/bin/env python3
"""Runs of `tcpwhy.spark` beside one process: user CPU, memory of the driver, and two executors beside one.

Usage: spark.py FOLDER [GB]     Makes captures in FOLDER, and removes them at the end: four files of 0.5 GB,
and links to them under other names, so that Spark reads so many GB (20). By connection, the four are read.
MULTIPLY names the built program that makes them, REPEATS says how often each run is made (3; the median
counts), and WAYS chooses `point` or `connection`. Python has pyspark, and tcpwhy of an optimised build.

CPU time is that of this machine's clock of each process: other work disturbs it little. Times by the clock
are right on an idle machine only, and for two executors only where the driver has a core of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import tcpwhy

STORED = Path(__file__).resolve().parents[1] / "testdata" / "captures"
MIXES = ["think_looks_nagle", "loss_tail", "nginx_nodelay_off-healthy", "redis_client_nagle"]
FILE_BYTES = 1 << 29
TABLES = ("connections", "exchanges", "stalls", "lookups")
BUCKETS = 256
"""A number of buckets that is much larger than the default."""
REPEATS = int(os.environ.get("REPEATS", "3"))
WAYS = os.environ.get("WAYS", "point connection").split()
# The targets.
POINT_CPU_MAX, CONNECTION_CPU_MAX = 1.1, 2.0
DRIVER_MB_MAX = 500
LINEAR_MIN_PERCENT = 80


class Usage(NamedTuple):
    """User CPU time of a process and of the children that it has waited for, and its largest memory."""

    program: str
    parent: int
    user_s: float
    waited_s: float
    peak_mb: float


def usage_of(pid: int) -> Usage:
    """Reads proc_pid_stat(5), whose ticks are 10 ms, and VmHWM."""
    name, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    parts = fields.split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next((line.split()[1] for line in status.splitlines() if line[:5] == "VmHWM"), "0")
    program = name.partition("(")[2]
    return Usage(program, int(parts[1]), int(parts[11]) / 100, int(parts[13]) / 100, int(peak) / 1e3)


def family(root: int) -> dict[int, Usage]:
    """Returns the usage of a process and its descendants."""
    all: dict[int, Usage] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            all[int(folder.name)] = usage_of(int(folder.name))
        except (OSError, IndexError):
            continue  # It has ended meanwhile.
    found = {root}
    while more := {pid for pid, it in all.items() if it.parent in found} - found:
        found |= more
    return {pid: all[pid] for pid in found if pid in all}


class Cpu(NamedTuple):
    """User CPU time of Spark's processes, s."""

    workers: float
    """Python's, which run the tasks."""
    executors: float
    """Java's, which run the executors."""

    @classmethod
    def of(cls, root: int) -> Cpu:
        all = family(root)
        drivers = {root} | {pid for pid, it in all.items() if it.parent == root}
        rest = [it for pid, it in all.items() if pid not in drivers]
        java = [it for it in rest if it.program == "java"]
        python = [it for it in rest if it.program != "java"]
        ended = sum(it.waited_s for it in java)
        workers = sum(it.user_s + it.waited_s for it in python) + ended
        return cls(workers, sum(it.user_s for it in java))


# The captures.


def packets_and_bytes(capture: Path) -> tuple[int, int]:
    """Counts the frames of a classic pcap of little-endian numbers."""
    content = capture.read_bytes()
    at = count = 0
    while 24 + at < len(content):
        at += 16 + int.from_bytes(content[32 + at : 36 + at], "little")
        count += 1
    return count, at


def make(folder: Path, gigabytes: float) -> list[Path]:
    """Makes the captures, and links to them. Returns the files that are no links."""
    made = []
    for mix in MIXES:
        packets, size = packets_and_bytes(STORED / f"{mix}.pcap")
        wanted = str(packets * FILE_BYTES // size)
        path = folder / f"{mix}.pcap"
        with path.open("wb") as out:
            command = [os.environ["MULTIPLY"], "repeat", str(STORED / path.name), wanted]
            subprocess.run(command, stdout=out, check=True)
        made.append(path)
    count = max(len(made), math.ceil(gigabytes * 1e9 / FILE_BYTES))
    for index in range(count):
        point = folder / "points" / f"web{index:03}"
        point.mkdir(parents=True)
        os.link(made[index % len(made)], point / "day.pcap")
    return made


# What is measured; each in a process of its own.


def one_process(files: list[str], together: bool, tables: tuple[str, ...]) -> dict[str, Any]:
    """Diagnoses files in this process: all together, or one after the other."""
    before, begun = os.times().user, time.monotonic()
    for part in [files] if together else [[name] for name in files]:
        tcpwhy.read(part, vantages=1, threads=1).json()
        if tables:
            for _ in tcpwhy.stream(part, tables, vantages=1):
                pass
    return {"user_s": os.times().user - before, "elapsed_s": time.monotonic() - begun}


def session(work: str, executors: int) -> Any:
    """Starts Spark."""
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    builder: Any = SparkSession.builder
    spark = (
        builder.master(f"local-cluster[{executors},1,1600]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "1g")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        .config("spark.local.dir", work)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def driver_mb() -> dict[str, float]:
    """Returns the largest memory of this process, which is Spark's driver, with its Java and alone."""
    root = os.getpid()
    java = [it for it in family(root).values() if it.parent == root and it.program == "java"]
    python_mb = usage_of(root).peak_mb
    return {"driver_mb": python_mb + sum(it.peak_mb for it in java), "python_mb": python_mb}


def idle(work: str, executors: int, tasks: int) -> dict[str, Any]:
    """Runs as many jobs and tasks as a diagnosis by connection, which do nothing."""
    spark = session(work, executors)
    for count in (1, tasks, tasks, tasks):
        spark.range(0, count, 1, count).mapInArrow(lambda batches: batches, "id long").count()
    used = driver_mb()
    spark.stop()
    return used


def on_spark(
    folder: str, work: str, executors: int, by: Any, tables: tuple[str, ...], k: int | None
) -> dict[str, Any]:
    """Diagnoses a folder on Spark."""
    from tcpwhy import spark as on_spark

    spark = session(work, executors)
    # Starts the executors and their Python, and loads the package.
    small = str(STORED / "dns_slow.pcap")
    on_spark.diagnose(spark, [small] * 8, by=by, k=2).close()
    root = os.getpid()
    before, begun = Cpu.of(root), time.monotonic()
    found = on_spark.diagnose(spark, folder, by=by, k=k, tables=tables)
    elapsed_s, after = time.monotonic() - begun, Cpu.of(root)
    used = driver_mb()
    reports = found.table("reports").count()
    spark.stop()
    return {
        **used,
        "workers_s": after.workers - before.workers,
        "executors_s": after.executors - before.executors,
        "elapsed_s": elapsed_s,
        "reports": reports,
    }


def measure(name: str, *arguments: object) -> dict[str, Any]:
    """Runs a function of this program in a process of its own."""
    command = [sys.executable, __file__, "--run", name, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def middle(runs: list[dict[str, Any]], *names: str) -> float:
    """Returns the median of the sum of these figures."""
    return float(statistics.median(sum(run[name] for name in names) for run in runs))


def compare(
    by: str,
    files: list[str],
    folder: Path,
    work: Path,
    tables: tuple[str, ...],
    k: int | None = None,
) -> None:
    """Prints a run on one executor and on two beside one process, and the driver's memory beside that of a
    session that does nothing; each REPEATS times, in turn."""
    one: list[dict[str, Any]] = []
    spark: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(REPEATS):
        one.append(measure("one_process", files, by == "connection", tables))
        for executors, runs in spark.items():
            runs.append(measure("on_spark", str(folder), str(work), executors, by, tables, k))
    nothing = [measure("idle", str(work), 2, len(files) * 4) for _ in range(REPEATS)]
    size = sum(os.stat(name).st_size for name in files) / 1e9
    alone = middle(one, "user_s")
    target = POINT_CPU_MAX if by == "point" else CONNECTION_CPU_MAX
    what = "reports and tables" if tables else "reports"
    print(f"by {by}, {what}: {len(files)} files, {size:.1f} GB, k = {k or 'default'}; medians of {REPEATS}")
    print(f"  one process       {alone:7.1f} s user CPU, {middle(one, 'elapsed_s'):7.1f} s by the clock")
    for executors, runs in spark.items():
        workers = middle(runs, "workers_s")
        print(
            f"  {executors} executor(s)     {workers:7.1f} s user CPU in tasks, "
            f"{workers / alone:.2f} x one process (target {target}); {middle(runs, 'executors_s'):.1f} s in "
            f"Java; {middle(runs, 'elapsed_s'):.1f} s by the clock; driver "
            f"{middle(runs, 'driver_mb'):.0f} MB (target {DRIVER_MB_MAX}), of it Python "
            f"{middle(runs, 'python_mb'):.0f} MB; {runs[0]['reports']} reports"
        )
    print(
        f"  idle session      driver {middle(nothing, 'driver_mb'):.0f} MB, of it Python "
        f"{middle(nothing, 'python_mb'):.0f} MB"
    )
    of_one, of_two = (middle(runs, "workers_s", "executors_s") for runs in spark.values())
    by_clock = middle(spark[1], "elapsed_s") / 2 / middle(spark[2], "elapsed_s")
    print(
        f"  two executors: {100 * of_one / of_two:.0f} % of linear by CPU time (target "
        f"{LINEAR_MIN_PERCENT} %), {100 * by_clock:.0f} % by the clock",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gigabytes", type=float, nargs="?", default=20)
    asked = parser.parse_args()
    if "MULTIPLY" not in os.environ:
        parser.error("MULTIPLY: the program that makes large captures")
    with tempfile.TemporaryDirectory(dir=asked.folder) as made:
        work, captures = Path(made) / "work", Path(made) / "captures"
        work.mkdir()
        captures.mkdir()
        files = make(captures, asked.gigabytes)
        points = captures / "points"
        links = sorted(str(path) for path in points.rglob("*.pcap"))
        for tables in ((), TABLES) if "point" in WAYS else ():
            compare("point", links, points, work, tables)
        together = captures / "together"
        together.mkdir()
        for path in files:
            shutil.move(path, together)
        names = [str(together / path.name) for path in files]
        if "connection" in WAYS:
            compare("connection", names, together, work, ())
            compare("connection", names, together, work, (), BUCKETS)
            compare("connection", names, together, work, TABLES)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        work: Any = {"one_process": one_process, "on_spark": on_spark, "idle": idle}[sys.argv[2]]
        print(json.dumps(work(*json.loads(sys.argv[3]))))
    else:
        main()
