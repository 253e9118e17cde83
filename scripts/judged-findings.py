#!/usr/bin/env python3
"""Counts the findings on labelled captures and writes them into crates/core/src/findings/judged.md, from which
tcpwhy states confidence.

Usage: judged-findings.py DIR...

A DIR is what `tcpwhy lab verify --seed SEED --out DIR` made, with a seed that no rule was tuned to.
"""

import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "crates/core/src/findings/judged.md"
TCPWHY = ROOT / "target/debug/tcpwhy"
HEAD = """\
# Judged findings

The findings of tcpwhy on {captures} captures of the lab whose cause is known, by cause: those that one exchange
showed, and those that several did. `scripts/judged-findings.py` writes this table.

| cause | once: right | once: all | often: right | often: all |
|---|---|---|---|---|
"""


def score(folder):
    """Returns the judged captures below a folder, as JSON."""
    command = [TCPWHY, "lab", "score", folder, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    # 1: a bar does not hold, which is no reason not to count.
    if done.returncode not in (0, 1):
        sys.exit(f"{folder} could not be scored")
    return json.loads(done.stdout)["captures"]


def main(folders):
    if not folders:
        sys.exit(__doc__)
    captures = [it for folder in folders for it in score(folder) if not it["late"]]
    counts = collections.defaultdict(lambda: [0, 0, 0, 0])
    for stated in (it for capture in captures for it in capture["stated"]):
        row, often = counts[stated["cause"]], 2 * (stated["cases"] > 1)
        row[often] += stated["right"]
        row[often + 1] += 1
    rows = [f"| {cause} | {' | '.join(map(str, row))} |\n" for cause, row in sorted(counts.items())]
    TABLE.write_text(HEAD.format(captures=len(captures)) + "".join(rows))


main(sys.argv[1:])
