"""Reports and comparisons as HTML for notebooks. Everything that was read from a capture is escaped."""

from __future__ import annotations

from html import escape
from typing import Any

from ._svg import duration

_STYLE = """<style>
.tcpwhy{font-family:sans-serif;line-height:1.4;max-width:60em}
.tcpwhy table{border-collapse:collapse;margin:.3em 0}
.tcpwhy td,.tcpwhy th{text-align:left;padding:.1em .8em .1em 0;vertical-align:top;background:none}
.tcpwhy .n{text-align:right}
.tcpwhy .fault{border-left:4px solid #c0392b;padding-left:.8em;margin:.8em 0}
.tcpwhy .cost{border-left:4px solid #b9770e;padding-left:.8em;margin:.8em 0}
.tcpwhy .bar{display:inline-block;height:.7em;background:#34495e}
.tcpwhy .note{color:#666}
</style>"""

_FINDINGS_MAX = 5
_OWNERS_MAX = 6
_ENDPOINTS_MAX = 8


def _row(cells: list[str], tag: str = "td") -> str:
    """Cells are HTML; those after the first that are numbers stand on the right."""
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _table(head: list[str], rows: list[list[str]]) -> str:
    return f"<table>{_row(head, 'th')}{''.join(map(_row, rows))}</table>" if rows else ""


def _code(text: str) -> str:
    """Text whose parts between backticks are code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _evidence(finding: dict[str, Any]) -> str:
    rows = []
    for each in finding["evidence"]:
        if each["kind"] == "packets":
            after = f"+{duration(each['after_ns'])}" if each["after_ns"] else ""
            rows.append([f"#{each['frame']}", escape(each["from"]), after, escape(each["what"])])
        else:
            rows.append([escape(each["kind"]), "", "", escape(each["what"])])
    return _table(["frame", "from", "after", "what it shows"], rows)


def _finding(finding: dict[str, Any]) -> str:
    culprit = finding["culprit"]
    affected = finding["affected"]
    facts = f"{escape(culprit['role'])} {escape(culprit['endpoint'])}"
    if finding["lost_ns"]:
        facts += f" · cost {duration(finding['lost_ns'])} ({finding['share']:.1%})"
    if affected["exchanges"]:
        facts += f" · {affected['exchanges']:,} of {affected['of_exchanges']:,} exchanges"
    facts += f" · confidence {finding['confidence']:.2f}"
    fixes = [[_code(it["where"]), _code(it["change"]), _code(it["effect"])] for it in finding["fixes"]]
    ruled_out = "".join(
        f"<li><code>{escape(it['cause'])}</code>: {escape(it['why'])}</li>" for it in finding["ruled_out"]
    )
    return (
        f'<div class="{finding["class"]}"><b>{finding["class"].upper()} '
        f"<code>{escape(finding['cause'])}</code></b> {facts}"
        f"<p>{escape(finding['what'])}</p>{_evidence(finding)}"
        f"{_table(['fix: where', 'change', 'effect'], fixes)}"
        + (f"<details><summary>ruled out</summary><ul>{ruled_out}</ul></details>" if ruled_out else "")
        + f"<p class='note'>verify: <code>{escape(finding['verify'])}</code></p></div>"
    )


def _ledger(ledger: dict[str, int]) -> str:
    wall_ns = sum(ledger.values())
    owners = sorted(((ns, owner) for owner, ns in ledger.items() if ns), reverse=True)
    rows = [
        [
            f"<code>{escape(owner)}</code>",
            f'<span class="bar" style="width:{12 * ns / wall_ns:.2f}em"></span>',
            f"{ns / wall_ns:.1%}",
            duration(ns),
        ]
        for ns, owner in owners[:_OWNERS_MAX]
    ]
    return _table(["where the time went", "", "", ""], rows)


def report(value: dict[str, Any]) -> str:
    """Returns a report (the JSON of docs/report.schema.json) as HTML."""
    totals = value["totals"]
    names = ", ".join(escape(it["path"]) for it in value["inputs"][:3])
    if len(value["inputs"]) > 3:
        names += f" and {len(value['inputs']) - 3} more"
    packets = sum(it["packets"] for it in value["inputs"])
    head = (
        f"<b>{names}</b><br><span class='note'>{packets:,} packets · {totals['connections']:,} "
        f"connections · {totals['exchanges']:,} exchanges · {totals['lookups']:,} look-ups</span>"
    )
    problems = [
        f"<p class='note'>{escape(it['path'])} {escape(problem['what'])}</p>"
        for it in value["inputs"]
        for problem in it["problems"]
    ]
    if value["interrupted"]:
        problems.append("<p class='note'>interrupted: this is the part that was read</p>")
    answer = "".join(f"<p><b>{_code(text)}</b></p>" for text in value["answer"])
    findings = value["findings"]
    more = len(findings) - _FINDINGS_MAX
    latency = [
        [
            escape(it["endpoint"]),
            f"{it['exchanges']:,}",
            *(duration(it["latency"][name]) for name in ("p50_ns", "p90_ns", "p99_ns", "max_ns")),
        ]
        for it in value["endpoints"][:_ENDPOINTS_MAX]
    ]
    return (
        f'{_STYLE}<div class="tcpwhy">{head}{"".join(problems)}{answer}'
        f"{''.join(map(_finding, findings[:_FINDINGS_MAX]))}"
        + (f"<p class='note'>{more} more findings: <code>report.findings</code></p>" if more > 0 else "")
        + _ledger(value["ledger"])
        + _table(["latency", "exchanges", "p50", "p90", "p99", "max"], latency)
        + "</div>"
    )


def finding(value: dict[str, Any]) -> str:
    """Returns a finding as HTML."""
    return f'{_STYLE}<div class="tcpwhy">{_finding(value)}</div>'


def comparison(value: dict[str, Any]) -> str:
    """Returns a comparison (docs/comparison.schema.json) as HTML."""
    runs = [
        [
            escape(which),
            escape(value[which]["name"]),
            f"{value[which]['exchanges']:,}",
            *(duration(value[which]["latency"][name]) for name in ("p50_ns", "p90_ns", "p99_ns")),
        ]
        for which in ("before", "after")
    ]

    def cost(run: dict[str, Any] | None) -> str:
        return duration(run["lost_per_exchange_ns"]) if run else "–"

    causes = [
        [f"<code>{escape(it['cause'])}</code>", cost(it["before"]), cost(it["after"])]
        for it in value["causes"]
    ]
    return (
        f'{_STYLE}<div class="tcpwhy"><p><b>{escape(value["sentence"])}</b></p>'
        f"{_table(['run', 'capture', 'exchanges', 'p50', 'p90', 'p99'], runs)}"
        f"{_table(['cause: cost of an exchange', 'before', 'after'], causes)}</div>"
    )
