"""Flow ladders as SVG: client on the left, server on the right, time downwards."""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH, LEFT, RIGHT, ROW = 760, 130, 640, 24
BOLD = 'text-anchor="middle" font-weight="bold"'
_FAULT, _COST, _LINE, _TEXT = "#c0392b", "#b9770e", "#34495e", "#222"


def duration(ns: int) -> str:
    """Returns a duration in the unit that suits it."""
    for unit, unit_ns in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if ns >= unit_ns:
            return f"{ns / unit_ns:,.{0 if ns >= 100 * unit_ns else 1}f} {unit}"
    return f"{ns} ns"


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(words)}</text>'


def _segment(y: float, step: dict[str, Any]) -> list[str]:
    start, end = (LEFT, RIGHT) if step["from"] == "client" else (RIGHT, LEFT)
    tip = end - 8 if end > start else end + 8
    return [
        f'<line x1="{start}" y1="{y:.0f}" x2="{tip}" y2="{y:.0f}" stroke="{_LINE}"/>',
        f'<path d="M{end} {y:.0f}L{tip} {y - 4:.0f}L{tip} {y + 4:.0f}Z" fill="{_LINE}"/>',
        _text((LEFT + RIGHT) / 2, y - 5, step["label"], 'text-anchor="middle"'),
        _text(LEFT - 10, y + 4, f"{step['time_ns'] / 1e6:.3f} ms", 'text-anchor="end"'),
        _text(RIGHT + 10, y + 4, f"#{step['frame']}"),
    ]


def _gap(y: float, step: dict[str, Any], faults: frozenset[str]) -> list[str]:
    cause = step["cause"]
    colour = _FAULT if cause in faults else _COST if cause else _LINE
    words = f"{duration(step['duration_ns'])}  {cause or step['owner']}"
    if step["until_frame"] is not None:
        words += f", until #{step['until_frame']}"
    return [
        f'<rect x="{LEFT}" y="{y - 14:.0f}" width="{RIGHT - LEFT}" height="20" fill="{colour}" '
        'fill-opacity="0.12"/>',
        _text((LEFT + RIGHT) / 2, y, words, f'text-anchor="middle" fill="{colour}"'),
    ]


def draw(ladder: dict[str, Any], faults: frozenset[str]) -> str:
    """Returns the SVG of a ladder; `faults` are the causes that are drawn as faults."""
    lines: list[str] = []
    y = 40.0
    for step in ladder["steps"]:
        y += ROW
        if step["step"] == "segment":
            lines += _segment(y, step)
        elif step["step"] == "gap":
            lines += _gap(y, step, faults)
        else:
            lines.append(_text((LEFT + RIGHT) / 2, y, step["label"], BOLD))
    bottom = y + ROW / 2

    posts = "".join(
        f'<line x1="{x}" y1="36" x2="{x}" y2="{bottom:.0f}" stroke="{_LINE}" stroke-width="2"/>'
        for x in (LEFT, RIGHT)
    )
    names = _text(LEFT, 24, ladder["client"], BOLD)
    names += _text(RIGHT, 24, ladder["server"], BOLD)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 10:.0f}" '
        f'viewBox="0 0 {WIDTH} {bottom + 10:.0f}" font-family="sans-serif" font-size="12" '
        f'fill="{_TEXT}"><rect width="100%" height="100%" fill="#fff"/>{names}{posts}'
        f"{''.join(lines)}</svg>"
    )
