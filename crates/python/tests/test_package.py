"""The package as a whole: the command in it, types, stubs, examples and notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import tcpwhy
from conftest import COMMAND, ROOT, capture
from nbclient import NotebookClient

PACKAGE = ROOT / "crates" / "python"
INSTALLED = Path(tcpwhy.__file__).parent
EXAMPLES = sorted((PACKAGE / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, timeout=300)


def passes(*words: str, cwd: Path | None = None) -> str:
    done = run(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "words",
    [
        [capture("nginx_nodelay_off.pcap")],
        [capture("nginx_nodelay_off-healthy.pcap"), "--json"],
        ["compare", capture("nginx_nodelay_off.pcap"), capture("nginx_nodelay_off-healthy.pcap")],
        ["explain", "nagle_delayed_ack"],
        ["/none.pcap"],
        ["--help"],
        ["--no-such-option"],
    ],
    ids=lambda words: Path(words[0]).name,
)
def test_the_module_is_the_command(words: list[str]) -> None:
    expected = run(COMMAND, *words)
    done = run(sys.executable, "-m", "tcpwhy", *words)
    assert (done.returncode, done.stdout, done.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )


def test_no_package_is_needed() -> None:
    program = (
        "import sys, tcpwhy; r = tcpwhy.read(sys.argv[1]); r._repr_html_(); list(r.exchanges)\n"
        "assert not {'numpy', 'pandas', 'polars', 'pyarrow', 'duckdb', 'fsspec'} & set(sys.modules)\n"
    )
    passes(sys.executable, "-c", program, capture("nginx_nodelay_off.pcap"))


def test_types_of_package_and_examples_are_strict(tmp_path: Path) -> None:
    assert EXAMPLES
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
    assert len(blocks) > 5
    guide = tmp_path / "guide.py"
    guide.write_text("import tcpwhy\n" + "\n".join(blocks))
    config = ["--config-file", str(PACKAGE / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    files = [INSTALLED, *EXAMPLES, guide]
    passes(sys.executable, "-m", "mypy", *config, *map(str, files))


def test_stubs_are_those_of_the_compiled_part(tmp_path: Path) -> None:
    passes(sys.executable, "-m", "mypy.stubtest", "tcpwhy._native", cwd=tmp_path)


def test_the_guide_runs(tmp_path: Path) -> None:
    """Its examples, one after the other, with captures of these names."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
    content = Path(capture("nginx_nodelay_off.pcap")).read_bytes()
    for name in ("slow.pcap", "before.pcap", "client.pcap"):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "after.pcap").write_bytes(Path(capture("nginx_nodelay_off-healthy.pcap")).read_bytes())
    for which in ("client", "server"):
        both = Path(capture(f"both_ends-{which}.pcap")).read_bytes()
        (tmp_path / f"{which}.pcap").write_bytes(both)
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "00.pcap").write_bytes(content)
    guide = tmp_path / "guide.py"
    guide.write_text("import tcpwhy\n" + "\n".join(blocks))
    passes(sys.executable, str(guide), cwd=tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda it: it.name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    captures = [capture("nginx_nodelay_off.pcap"), capture("slow_backend.pcap.zst")]
    assert passes(sys.executable, str(example), *captures, cwd=tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda it: it.stem)
def test_notebooks_run(notebook: Path, tmp_path: Path) -> None:
    book = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "notebooks are stored without outputs"
    captures = ROOT / "testdata" / "captures"
    (tmp_path / "captures").symlink_to(captures)
    client = NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = str([cell.get("outputs") for cell in book.cells])
    assert "nagle_delayed_ack" in shown
