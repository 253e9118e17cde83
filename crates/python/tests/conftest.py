"""What the tests share: the stored captures, and the command that the package has to agree with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CAPTURES = sorted((ROOT / "testdata" / "captures").iterdir())
# The program of the same build; scripts/test-python.sh says where it is.
COMMAND = os.environ.get("TCPWHY", str(ROOT / "target" / "debug" / "tcpwhy"))


def capture(name: str) -> str:
    """Returns the path of a stored capture."""
    return str(ROOT / "testdata" / "captures" / name)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command; status 2 means that it could not do the work."""
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode != 2, done.stderr
    return done


@pytest.fixture
def nodelay_off() -> str:
    """nginx with `tcp_nodelay off`: 40 exchanges, of which 39 wait for a delayed ACK."""
    return capture("nginx_nodelay_off.pcap")
