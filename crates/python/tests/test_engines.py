"""The examples of docs/scale.md for other engines than Spark, as they stand there."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tcpwhy
from conftest import ROOT, capture

POINTS = [
    ["nginx_nodelay_off.pcap", "slow_backend.pcap.zst"],
    ["dns_timeout.pcap", "loss_tail.pcap", "ipv6_python.pcap"],
]


def example(engine: str) -> str:
    """Returns the code of an example, which a line `ENGINE, by …:` precedes."""
    text = (ROOT / "docs" / "scale.md").read_text()
    found = re.search(rf"^{engine}, by \w+:\n\n```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found, engine
    return found[1]


def run(code: str, **given: Any) -> dict[str, Any]:
    # The engines send functions of a module that cannot be imported as code.
    names: dict[str, Any] = {"__name__": "an_example", **given}
    exec(compile(code, "docs/scale.md", "exec"), names)
    return names


def test_ray_gives_the_reports_of_one_process() -> None:
    ray = pytest.importorskip("ray", reason="no Ray (pip install ray)")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        points = [[capture(name) for name in names] for names in POINTS]
        done = run(example("Ray"), files_of_each_point=points)
    finally:
        ray.shutdown()
    assert done["reports"] == [tcpwhy.read(files, vantages=1).json() for files in points]


def test_dask_gives_the_report_of_one_process() -> None:
    pytest.importorskip("dask.bag", reason="no Dask (pip install 'dask[bag]')")
    names = [capture(name) for names in POINTS for name in names]
    done = run(example("Dask"), names=names)
    one = tcpwhy.read(names, vantages=1)
    assert done["report"] == one.json()
    rows = sum(len(batch) for batch in done["findings"])
    assert rows == len(one.findings) > 0
