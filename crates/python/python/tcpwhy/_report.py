"""Reports, their findings, and comparisons of reports."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from typing import TYPE_CHECKING, Any

from . import _html, _native, _svg
from ._inputs import resolve
from ._options import keywords, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._inputs import Captures

_WIDTH_MAX = 140


def columns() -> int:
    """Width of texts: that of the terminal, or 80."""
    return max(40, min(shutil.get_terminal_size().columns, _WIDTH_MAX))


class Finding:
    """What made exchanges slow or fail: one cause at one culprit.

    Attributes have the names of docs/report.schema.json. Times are nanoseconds.
    """

    cause: str
    """Id of the cause, as in `tcpwhy.causes()`."""
    class_: str
    """`fault` (something is wrong, and someone can change it) or `cost` (nothing is wrong)."""
    headline: str
    what: str
    """What happened, in a few sentences."""
    role: str
    """Who has to change something: `client`, `server`, `network`, `resolver` or `host` …"""
    endpoint: str
    """… and its address, with the port where that is known."""
    lost_ns: int
    """Time that the cause costs."""
    share: float
    """`lost_ns` of the time of all exchanges, 0 to 1."""
    confidence: float
    """0 to 1."""
    exchanges: int
    """Number of exchanges that it affects."""
    latency: dict[str, int]
    """`p50_ns`, `p90_ns`, `p99_ns` and `max_ns` of its exchanges as they are …"""
    counterfactual: dict[str, Any]
    """… and as predicted without the cause, with `least` and `most`."""
    evidence: list[dict[str, Any]]
    """The proof. Where `kind` is `packets`: `frame`, as Wireshark counts, `file`, and `what` it shows."""
    ruled_out: list[dict[str, str]]
    """Look-alikes: `cause`, and `why` it is none of them."""
    fixes: list[dict[str, str]]
    """`where` to change something, the `change` and its `effect`; the most specific first."""
    verify: str
    """The command that shows whether a fix helped."""

    def __init__(self, analysis: _native.Analysis, index: int, value: dict[str, Any]) -> None:
        self._analysis, self._index, self._value = analysis, index, value
        self.cause, self.class_ = value["cause"], value["class"]
        self.headline, self.what = value["headline"], value["what"]
        self.role, self.endpoint = value["culprit"]["role"], value["culprit"]["endpoint"]
        self.lost_ns, self.share = value["lost_ns"], value["share"]
        self.confidence, self.exchanges = value["confidence"], value["affected"]["exchanges"]
        self.latency, self.counterfactual = value["latency"], value["counterfactual"]
        self.evidence, self.ruled_out = value["evidence"], value["ruled_out"]
        self.fixes, self.verify = value["fixes"], value["verify"]

    def explain(self) -> str:
        """Returns the manual of the cause with the numbers and frames of this case."""
        return self._analysis.explain(self._index, columns())

    def to_dict(self) -> dict[str, Any]:
        """Returns the finding as in docs/report.schema.json."""
        return self._value

    def __repr__(self) -> str:
        return (
            f"<tcpwhy.Finding {self.class_} {self.cause}: {self.role} {self.endpoint}, "
            f"{_svg.duration(self.lost_ns)}>"
        )

    def _repr_html_(self) -> str:
        return _html.finding(self._value)


class Ladder:
    """A connection or an exchange as a ladder: client left, server right, time downwards.

    `str` gives it as text, a notebook shows `svg`.
    """

    def __init__(self, value: dict[str, Any], text: str) -> None:
        self._value, self._text = value, text

    @property
    def svg(self) -> str:
        """The drawing."""
        faults = frozenset(id for id, class_, _ in _native.causes() if class_ == "fault")
        return _svg.draw(self._value, faults)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the drawing into a file (SVG)."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def to_dict(self) -> dict[str, Any]:
        """Returns `client`, `server` and `steps`, as `tcpwhy --connection --json` prints them."""
        return self._value

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<tcpwhy.Ladder {self._value['client']} → {self._value['server']}>"

    def _repr_svg_(self) -> str:
        return self.svg


class Report:
    """A report on captures. `print` shows it as the command does, a notebook as HTML.

    `findings` are what was slow and why. The tables `exchanges`, `connections`, `stalls` and `lookups`
    read the captures again whenever they are used; so do `p99`, `why` and `plot_ladder`.
    """

    def __init__(self, analysis: _native.Analysis) -> None:
        self._analysis = analysis
        self._value: dict[str, Any] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the captures were not read to their end (Ctrl-C)."""
        return self._analysis.interrupted

    @property
    def findings(self) -> list[Finding]:
        """The findings: faults first, and of a class those that cost more."""
        values = enumerate(self.to_dict()["findings"])
        return [Finding(self._analysis, index, value) for index, value in values]

    def json(self) -> str:
        """Returns the report as `tcpwhy --json` prints it (docs/report.schema.json)."""
        return self._analysis.json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the same as a dictionary."""
        if self._value is None:
            self._value = json.loads(self.json())
        return self._value

    def table(self, name: str) -> _native.Table:
        """Returns a table by its name; beside those below there is `findings`."""
        return self._analysis.table(name)

    @property
    def exchanges(self) -> _native.Table:
        """A row is a request with its response, with its ledger (docs/parquet.md)."""
        return self.table("exchanges")

    @property
    def connections(self) -> _native.Table:
        """A row is a TCP connection."""
        return self.table("connections")

    @property
    def stalls(self) -> _native.Table:
        """A row is the silences of an exchange that one cause explains, for one sender."""
        return self.table("stalls")

    @property
    def lookups(self) -> _native.Table:
        """A row is a look-up of a name."""
        return self.table("lookups")

    def p99(self, by: Sequence[str] = ("server", "cause")) -> _native.Table:
        """Returns percentiles of the latency of exchanges, exact and interpolated, as a table.

        by: columns of `exchanges` that are text or yes/no, `file`, `connection`, and `cause`. With
            `cause` a row is a cause at these exchanges: `exchanges`, `affected`, `p50_ns`, `p99_ns`,
            `p50_without_ns` and `p99_without_ns` (the time that the cause owns taken away), `owned_ns`;
            most `owned_ns` first. Else `exchanges`, `p50_ns`, `p90_ns`, `p99_ns`, `max_ns`, `wall_ns`;
            largest `p99_ns` first.
        Raises ValueError for another column. Takes 8 bytes of memory for each exchange.
        """
        return self._analysis.percentiles(list(by))

    def why(
        self,
        frame: int | None = None,
        *,
        connection: int | str | None = None,
        exchange: int | None = None,
    ) -> dict[str, Any]:
        """Returns how a silence was judged, as `tcpwhy --why --json` prints it.

        frame: the frame that ended the silence, or that lies in it; without it, the silences of the
            exchange with this number, of the connection with this number or end.
        Raises LookupError if there is no such frame, exchange or silence.
        """
        return dict(json.loads(self._analysis.why(frame, text(connection), exchange)))

    def plot_ladder(
        self,
        connection: int | str | None = None,
        exchange: int | None = None,
        *,
        all: bool = False,
    ) -> Ladder:
        """Draws a connection, or one exchange of it.

        connection: its number in the report from 1, or one end as `ADDRESS:PORT`; without it, the one
            that lost most time.
        all: whether every frame is drawn, and not only those around the silences.
        Raises LookupError if it is not in the captures.
        """
        value, drawn = self._analysis.ladder(text(connection), exchange, all, columns())
        return Ladder(json.loads(value), drawn)

    def __str__(self) -> str:
        return self._analysis.text(columns(), False)

    def __repr__(self) -> str:
        value = self.to_dict()
        totals = value["totals"]
        names = [it["path"] for it in value["inputs"]]
        name = names[0] if len(names) == 1 else f"{len(names)} captures"
        causes = ", ".join(finding["cause"] for finding in value["findings"]) or "no finding"
        part = ", interrupted" if self.interrupted else ""
        return (
            f"<tcpwhy.Report {name}: {totals['exchanges']} exchanges on {totals['connections']} "
            f"connections: {causes}{part}>"
        )

    def _repr_html_(self) -> str:
        return _html.report(self.to_dict())


def read(
    captures: Captures,
    *,
    filter: str | None = None,
    min_share: float | None = None,
    min_lost: str | None = None,
    cause: str | None = None,
    sockets: str | os.PathLike[str] | None = None,
    vantages: int | None = None,
    threads: int | None = None,
    show_values: bool = False,
    all: bool = False,
) -> Report:
    """Reads captures and says why they were slow; the options are those of the command.

    captures: a path, a pattern (`day/*.pcap.zst`), bytes, a binary file, an URL for fsspec, or several
        of these. Captures of two places are joined.
    filter: analyses a part only, as in `"host 10.0.0.7 and port 5432 and +2s..+30s"`.
    min_share: a cost is a finding from this share of the time on, per cent.
    min_lost: a cost is a finding from this time per exchange on, as in `"20ms"`.
    cause: reports this cause only.
    sockets: a file of `tcpwhy sockets --json`, or `"live"`, as further evidence.
    vantages: number of places at which the captures were taken; without it, the packets show it.
    threads: number of threads, which does not change the result; without it, one for each core.
    show_values: shows HTTP targets as they are, not grouped by kind.
    all: reports all connections and endpoints, not only the worst.

    Ctrl-C ends the reading; the report is then that of the part that was read, and `interrupted`.
    Raises CaptureError if nothing can be read, ValueError for an option that is not understood.
    """
    options = keywords(
        filter, min_share, min_lost, cause, sockets, vantages, threads, show_values, all
    )
    report = Report(_native.read(resolve(captures), options))
    if report.interrupted:
        warnings.warn("interrupted; this is what is known so far", stacklevel=2)
    return report


def stream(
    captures: Captures,
    tables: str | Sequence[str] = "exchanges",
    *,
    filter: str | None = None,
    vantages: int | None = None,
    show_values: bool = False,
) -> _native.Batches:
    """Iterates over batches of tables in bounded memory, however large the captures are.

    The captures are read once, without a report, so they may be a pipe.

    captures: as for `read`.
    tables: a name, or several: `exchanges`, `connections`, `stalls`, `lookups`. The attribute `table`
        of a batch says of which it is. A batch has up to 32,768 rows, which pyarrow (`record_batch`)
        and polars (`from_arrow`) take as they are.
    filter, vantages, show_values: as for `read`.
    Raises CaptureError if nothing can be read, ValueError for another table.
    """
    names = [tables] if isinstance(tables, str) else list(tables)
    options = keywords(filter, None, None, None, None, vantages, None, show_values, False)
    return _native.stream(resolve(captures), names, options)


class Comparison:
    """Two runs of the same load, compared: did the change help?"""

    verdict: str
    """`faster`, `slower`, `equal`, `mixed`, `no_difference_shown` or `other_load`."""
    sentence: str
    """The verdict in words."""
    worse: bool
    """Whether the second run is slower, or has a new fault."""

    def __init__(self, value: dict[str, Any], text: str) -> None:
        self._value, self._text = value, text
        self.verdict, self.sentence = value["verdict"], value["sentence"]
        self.worse = value["worse"]

    def json(self) -> str:
        """Returns the comparison as `tcpwhy compare --json` prints it (docs/comparison.schema.json)."""
        return json.dumps(self._value, indent=2, ensure_ascii=False) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Returns the same as a dictionary."""
        return self._value

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<tcpwhy.Comparison {self.verdict}: {self.sentence}>"

    def _repr_html_(self) -> str:
        return _html.comparison(self._value)


def compare(
    before: Report | Captures, after: Report | Captures, *, min_change: float = 5
) -> Comparison:
    """Compares two runs, before and after a change.

    before, after: reports, or captures as for `read`; a path that ends in `.json` is a stored report.
    min_change: changes below this share of the latency before are ignored, per cent.
    Raises ValueError if a run has no exchange or was interrupted.
    """
    runs = (_run(before), _run(after))
    value, page = _native.compare(*runs, min_change / 100, columns())
    return Comparison(json.loads(value), page)


def _run(run: Report | Captures) -> _native.Analysis | tuple[str, bytes]:
    if isinstance(run, (str, os.PathLike)) and os.fspath(run).endswith(".json"):
        with open(run, "rb") as file:
            return os.fspath(run), file.read()
    return (run if isinstance(run, Report) else read(run))._analysis


class Cause:
    """A cause of latency that findings name."""

    def __init__(self, id: str, class_: str, title: str) -> None:
        self.id, self.class_, self.title = id, class_, title

    def manual(self) -> str:
        """Returns the manual: mechanism, look-alikes, how to confirm it, fixes."""
        return _native.manual(self.id, columns()) or ""

    def __repr__(self) -> str:
        return f"<tcpwhy.Cause {self.class_} {self.id}: {self.title}>"


def causes() -> list[Cause]:
    """Returns all causes."""
    return [Cause(*cause) for cause in _native.causes()]
