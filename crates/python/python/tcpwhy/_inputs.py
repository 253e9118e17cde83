"""What `tcpwhy.read` takes for a capture, as the compiled part takes it."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any, Protocol

from ._errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias


class BinaryFile(Protocol):
    """An open file of bytes. Tables, drawings and `why` need one that can seek."""

    def read(self, size: int, /) -> bytes | None: ...


if TYPE_CHECKING:
    One: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryFile
    Captures: TypeAlias = One | Iterable[One]


def resolve(captures: Captures) -> list[tuple[str, Any]]:
    """Returns name and content of each capture; the content of a path is None.

    A text with `://` is opened by fsspec, one with `*`, `?` or `[` that is no file is a pattern.
    """
    if isinstance(captures, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(
        captures, "read"
    ):
        return _one(captures)
    return [each for capture in captures for each in _one(capture)]


def _one(capture: Any) -> list[tuple[str, Any]]:
    if isinstance(capture, (bytes, bytearray, memoryview)):
        return [("<bytes>", bytes(capture))]
    if hasattr(capture, "read"):
        name = getattr(capture, "name", None)
        return [(name if isinstance(name, str) else f"<{type(capture).__name__}>", capture)]
    path = os.fspath(capture)
    if not isinstance(path, str):
        raise TypeError(f"a capture is a path, bytes or a binary file, not {type(capture).__name__}")
    if "://" in path:
        return _remote(path)
    if not os.path.exists(path) and glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise CaptureError(path, "no file has a name like that")
        return [(each, None) for each in found]
    return [(path, None)]


def _remote(url: str) -> list[tuple[str, Any]]:
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"{url}: URLs need fsspec: pip install fsspec") from None
    try:
        opened = fsspec.open_files(url, "rb", expand=True)
        return [(file.full_name, file.open()) for file in opened]
    except (OSError, ValueError) as error:
        raise CaptureError(url, str(error)) from error
