"""What captures are read from, and what is said where they cannot be read."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
import warnings
from pathlib import Path

import fsspec
import pytest
import tcpwhy
from conftest import ROOT, capture
from test_tables import Once


def exchanges(report: tcpwhy.Report) -> int:
    count: int = report.to_dict()["totals"]["exchanges"]
    return count


def test_a_capture_may_come_from_anywhere(
    nodelay_off: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = Path(nodelay_off).read_bytes()
    remote = fsspec.filesystem("memory")
    remote.pipe_file("/day/slow.pcap", content)
    with open(nodelay_off, "rb") as file:
        seekable = [
            Path(nodelay_off),
            content,
            bytearray(content),
            memoryview(content),
            file,
            io.BytesIO(content),
            [content],
            "memory://day/slow.pcap",
            "memory://day/*.pcap",
            str(ROOT / "testdata/captures/nginx_nodelay_of?.pcap"),
        ]
        for source in seekable:
            report = tcpwhy.read(source)
            assert exchanges(report) == 40, source
            assert report.exchanges.to_arrow().num_rows == 40, source
            assert [it.cause for it in report.findings] == ["nagle_delayed_ack"], source
        assert tcpwhy.read(file).to_dict()["inputs"][0]["path"] == nodelay_off
    once = tcpwhy.read(Once(content))
    assert exchanges(once) == 40
    with pytest.raises(tcpwhy.CaptureError, match="only once"):
        once.exchanges.to_arrow()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(content,))
    writer.start()
    assert exchanges(tcpwhy.read(fifo)) == 40
    writer.join()


def test_findings_have_the_facts_of_the_report(nodelay_off: str) -> None:
    [finding] = tcpwhy.read(nodelay_off).findings
    assert (finding.cause, finding.class_) == ("nagle_delayed_ack", "fault")
    assert (finding.role, finding.endpoint) == ("server", "10.55.172.131:8080")
    assert (finding.exchanges, finding.confidence) == (39, 0.98)
    assert 0.99 < finding.share < 1 and finding.lost_ns > 1_700_000_000
    assert [it["frame"] for it in finding.evidence] == [123, 124, 125]
    assert finding.fixes[0]["where"] == "nginx"
    assert finding.latency["p50_ns"] > 40_000_000 > finding.counterfactual["p50_ns"]
    explained = finding.explain()
    for words in ("What happens", "In this capture", "#124", "43.8 ms", "Reproduce"):
        assert words in explained, words
    assert repr(finding).startswith("<tcpwhy.Finding fault nagle_delayed_ack: server")


def test_notebooks_show_reports_and_nothing_of_a_capture_is_markup(nodelay_off: str) -> None:
    report = tcpwhy.read(nodelay_off)
    page = report._repr_html_()
    for words in ("nagle_delayed_ack", "tcp_nodelay on;", "#124", "39 of 40", "p99"):
        assert words in page, words
    assert "1 connections: nagle_delayed_ack" in repr(report)
    hostile = json.loads(report.json().replace("10.55.172.131:8080", "<script>&"))
    assert "<script>" not in tcpwhy._html.report(hostile)  # type: ignore[attr-defined]
    ladder = report.plot_ladder(exchange=24)
    svg = ladder._repr_svg_()
    assert svg.startswith("<svg") and svg.count("<path") == 5 and "nagle_delayed_ack" in svg
    assert tcpwhy._svg.draw(  # type: ignore[attr-defined]
        {"client": "<a", "server": "b", "steps": []}, frozenset()
    ).count("<a") == 0


def test_ladders_draw_what_was_asked_for(nodelay_off: str, tmp_path: Path) -> None:
    report = tcpwhy.read(nodelay_off)
    connection = report.plot_ladder(1).to_dict()
    whole = report.plot_ladder("10.55.172.115:60306", all=True).to_dict()
    assert len(connection["steps"]) < len(whole["steps"])
    report.plot_ladder(1, 2).save(tmp_path / "ladder.svg")
    assert (tmp_path / "ladder.svg").read_text().startswith("<svg")
    for connection_asked, exchange in ((2, None), (1, 99), ("10.0.0.1:1", None)):
        with pytest.raises(LookupError):
            report.plot_ladder(connection_asked, exchange)
    with pytest.raises(LookupError, match="frame 100000"):
        report.why(frame=100_000)


def test_what_cannot_be_read_has_path_and_place(nodelay_off: str, tmp_path: Path) -> None:
    content = Path(nodelay_off).read_bytes()
    text = tmp_path / "text.pcap"
    text.write_text("no capture")
    folder = str(tmp_path)
    cases = [("/none/x.pcap", "no such file"), (str(text), "capture"), (folder, "directory")]
    cases += [(f"{folder}/*.none", "no file"), ("memory://none.pcap", "none")]
    for path, words in cases:
        with pytest.raises(tcpwhy.CaptureError, match=words) as raised:
            tcpwhy.read(path)
        assert path.removeprefix("memory://") in raised.value.path
        assert raised.value.problem and not raised.value.problem.startswith(path)
    # The header is cut.
    with pytest.raises(tcpwhy.CaptureError) as raised:
        tcpwhy.read(content[:10])
    assert (raised.value.path, raised.value.offset) == ("<bytes>", 0)
    # What was read of a capture that is cut is reported, with the problem.
    cut = tcpwhy.read(content[:-10])
    assert cut.to_dict()["inputs"][0]["problems"][0]["kind"] == "cut"
    assert exchanges(cut) == 40


def test_wrong_options_are_named(nodelay_off: str) -> None:
    for options, words in (
        ({"filter": "prot 80"}, "filter"),
        ({"min_share": 101}, "min_share.*0 to 100"),
        ({"min_lost": "20"}, "min_lost.*unit"),
        ({"cause": "nagle"}, "nagle"),
        ({"vantages": 3}, "vantages"),
        ({"threads": 0}, "threads"),
        ({"sockets": "/none.json"}, "none.json"),
    ):
        with pytest.raises((ValueError, tcpwhy.CaptureError), match=words):
            tcpwhy.read(nodelay_off, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 or 2 places|several|places"):
        tcpwhy.read(nodelay_off, vantages=2)
    with pytest.raises(TypeError):
        tcpwhy.read(42)  # type: ignore[arg-type]
    healthy = tcpwhy.read(nodelay_off, filter="port 1")
    assert healthy.findings == []
    with pytest.raises(ValueError, match="exchange"):
        tcpwhy.compare(healthy, nodelay_off)


def test_every_cause_has_a_manual() -> None:
    causes = tcpwhy.causes()
    assert {it.class_ for it in causes} == {"fault", "cost"}
    assert all(it.title in it.manual() for it in causes)


class Failing(io.BytesIO):
    """A file whose device fails behind the first bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 4_000:
            raise OSError("the device is gone")
        return super().read(min(size or 0, 2_000))


def test_an_exception_of_a_file_is_the_problem_of_the_capture(nodelay_off: str) -> None:
    report = tcpwhy.read(Failing(Path(nodelay_off).read_bytes()))
    [problem] = report.to_dict()["inputs"][0]["problems"]
    assert problem["kind"] == "read" and "the device is gone" in problem["what"]
    assert exchanges(report) > 0


class Interrupting(Once):
    """A file that comes slowly, and during which Ctrl-C is pressed."""

    def __init__(self, content: bytes, after: int, times: int, size: int) -> None:
        super().__init__(content)
        self.after, self.times, self.size = after, times, size

    def read(self, size: int) -> bytes:
        self.after -= self.size
        while self.after < 0 and self.times > 0:
            self.times -= 1
            os.kill(os.getpid(), signal.SIGINT)
            # The handler runs in the main thread.
            time.sleep(0.5)
        time.sleep(0.001)
        return super().read(min(size, self.size))


def test_ctrl_c_gives_the_report_so_far(nodelay_off: str) -> None:
    content = Path(nodelay_off).read_bytes()
    with pytest.warns(UserWarning, match="interrupted"):
        report = tcpwhy.read(Interrupting(content, 30_000, 1, 100))
    assert report.interrupted and report.to_dict()["interrupted"]
    assert 0 < exchanges(report) < 40 and "interrupted" in repr(report)
    with pytest.raises(ValueError, match="not read to its end"):
        tcpwhy.compare(report, nodelay_off)
    # Before anything was read there is no report.
    with pytest.raises(KeyboardInterrupt), warnings.catch_warnings():
        tcpwhy.read(Interrupting(content, 0, 1, 10))
    # The second Ctrl-C does not wait for the file.
    with pytest.raises(KeyboardInterrupt):
        tcpwhy.read(Interrupting(content, 30_000, 2, 100))


def test_ctrl_c_ends_a_pipe_that_is_silent(nodelay_off: str, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = threading.Event()

    def write() -> None:
        with open(fifo, "wb", buffering=0) as pipe:
            pipe.write(Path(nodelay_off).read_bytes()[:30_000])
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)
            done.wait(20)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.warns(UserWarning, match="interrupted"):
            report = tcpwhy.read(fifo)
    finally:
        done.set()
        writer.join()
    assert report.interrupted and exchanges(report) > 0


def test_other_threads_run_meanwhile(nodelay_off: str) -> None:
    """Without the lock of the interpreter; a file of Python takes it for each piece that it gives."""
    ticks = 0
    reading = True

    def tick() -> None:
        nonlocal ticks
        while reading:
            ticks += 1
            time.sleep(0.001)

    ticking = threading.Thread(target=tick)
    ticking.start()
    content = [Path(capture("healthy_redis.pcap.zst")).read_bytes()] * 4
    tcpwhy.read(content, vantages=1, threads=1)
    reading = False
    ticking.join()
    assert ticks > 5
