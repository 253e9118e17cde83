"""The package as a whole: the command in it, types, stubs, examples and notebooks."""

from __future__ import annotations

import os
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


def run(
    *words: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=env, timeout=300)


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


def commands(*command: str) -> set[str]:
    """Returns the commands that a help lists."""
    text = run(*command, "--help").stdout
    listed = text.partition("Commands:\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE))


def test_commands_that_only_the_program_has_are_named(tmp_path: Path) -> None:
    module = (sys.executable, "-m", "tcpwhy")
    lacking = commands(COMMAND) - commands(*module)
    assert {"doctor", "lab", "watch"} <= lacking
    # A program in the folder of Python's own is found as well.
    alone = {**os.environ, "PATH": str(tmp_path)}
    installed = {**os.environ, "PATH": str(Path(COMMAND).parent)}
    for name in lacking:
        done = run(*module, name, "--help", env=alone)
        said = re.fullmatch(
            rf"tcpwhy: {name} is not in the Python package, which reads captures: (.*) need the program "
            rf"tcpwhy; (install the Debian package tcpwhy, or .*|run /.*/tcpwhy {name})\n",
            done.stderr,
        )
        assert said, done.stderr
        assert (done.returncode, done.stdout) == (2, "")
        assert set(said[1].split(", ")) == lacking
        assert run(*module, "help", name, env=alone).stderr == done.stderr
        assert re.search(rf"; run /.*/tcpwhy {name}\n$", run(*module, name, env=installed).stderr)
    done = run(*module, "http://127.0.0.1:1/", env=alone)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tcpwhy: doctor is not in the Python package")


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
