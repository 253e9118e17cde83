"""Which captures there are, who took them, and how they are divided into tasks."""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from .._errors import CaptureError
from ..stages import Peeked, peek

Storage = Mapping[str, Any]
"""Options of fsspec's file system, such as credentials."""

TASK_BYTES = 256 << 20
"""Bytes from which a task has enough to do: a task costs about as much as 10 MB of captures."""
RANGE_BYTES = 8 << 20
"""Bytes that one request reads from an object store."""


class File(NamedTuple):
    """A capture, as the driver finds it."""

    name: str
    """Absolute path or URL."""
    bytes: int
    """Size as stored."""
    version: str
    """Changes when the file is written again: its ETag, or the time of its last change."""


class Group(NamedTuple):
    """The captures that a capture point took in a day (UTC), by their first frames."""

    point: str
    day: str
    names: list[str]
    """In the order of time."""
    bytes: int


def listed(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], storage: Storage) -> list[File]:
    """Finds captures: files, all files beneath folders, and those that match patterns, sorted by name.

    Raises CaptureError where there is none.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: dict[str, File] = {}
    for path in given:
        name = os.fspath(path)
        found = list(_remote(name, storage) if _is_remote(name) else _local(_local_path(name)))
        if not found:
            raise CaptureError(name, "there is no such file, and no file matches it")
        files.update((file.name, file) for file in found)
    return [files[name] for name in sorted(files)]


def _is_remote(name: str) -> bool:
    return "://" in name and not name.startswith("file:")


def _local_path(name: str) -> str:
    return os.path.abspath(unquote(urlsplit(name).path) if name.startswith("file:") else name)


def _local(path: str) -> Iterator[File]:
    if os.path.isdir(path):
        names = [os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files]
    else:
        names = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
    for name in names:
        if os.path.isfile(name):
            stat = os.stat(name)
            yield File(name, stat.st_size, str(stat.st_mtime_ns))


def _file_system(url: str, storage: Storage) -> tuple[Any, str]:
    """Returns the file system of an URL, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"{url}: URLs need fsspec: pip install fsspec") from None
    # Hadoop's names of S3 are those of its clients; there is one protocol.
    url = re.sub("^s3[an]://", "s3://", url)
    system, path = fsspec.core.url_to_fs(url, **storage)
    return system, path


def _remote(url: str, storage: Storage) -> Iterator[File]:
    system, path = _file_system(url, storage)
    found = system.glob(path, detail=True) if glob.has_magic(path) else system.find(path, detail=True)
    for name, about in found.items():
        if about.get("type") == "file":
            version = next((about[key] for key in ("ETag", "etag", "mtime", "LastModified", "updated") if about.get(key)), "")
            yield File(system.unstrip_protocol(name), int(about.get("size") or 0), str(version))


class Unreadable:
    """A file that cannot be opened; whoever reads it gets the reason."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1, /) -> bytes:
        raise self._error


def content(name: str, storage: Storage) -> Any:
    """Opens a capture in a task: None for a path that can be read, a file that reads ranges for an URL."""
    try:
        if _is_remote(name):
            system, path = _file_system(name, storage)
            return system.open(path, "rb", block_size=RANGE_BYTES)
        with open(name, "rb"):
            return None
    except Exception as error:  # Every file system has its own errors; the capture's report has them.
        return Unreadable(error)


def look(file: File, storage: Storage) -> Peeked:
    """Reads the beginning of a capture; its size is that of the list."""
    seen = peek(file.name, content(file.name, storage))
    return seen._replace(bytes=file.bytes)


_DATED = re.compile(r"((year|month|day|date|dt|hour)=.*|[0-9TZ:_.-]+)", re.IGNORECASE)


def point_of_directory(names: Iterable[str]) -> Callable[[str], str]:
    """Returns the rule that names a capture point after the folders of its files.

    They count from the folder that all `names` have in common on, without those that are a date or an
    hour, joined by `/`: `web1/eth0` for `/captures/web1/eth0/2026-11-28/03.pcap`. Files without such
    folders are of the point `all`.
    """
    folders = [posixpath.dirname(name) for name in names]
    common = posixpath.commonpath(folders) if folders and all(folders) else ""

    def point(name: str) -> str:
        parts = posixpath.dirname(name)[len(common) :].strip("/").split("/")
        return "/".join(part for part in parts if part and not _DATED.fullmatch(part)) or "all"

    return point


def day_of(ns: int) -> str:
    """Returns the day of a time (UTC), as `2026-11-28`."""
    return datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc).date().isoformat()


def grouped(files: Iterable[Peeked], point: Callable[[str], str]) -> list[Group]:
    """Groups captures by point and day; those without frames are left out."""
    groups: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    for file in files:
        if file.first_ns is not None:
            entry = (file.first_ns, file.path, file.bytes or 0)
            groups.setdefault((point(file.path), day_of(file.first_ns)), []).append(entry)
    return [
        Group(point, day, [name for _, name, _ in sorted(entries)], sum(size for *_, size in entries))
        for (point, day), entries in sorted(groups.items())
    ]


T = TypeVar("T")


def packed(items: Iterable[T], size: Callable[[T], int], parallelism: int) -> list[list[T]]:
    """Divides items into tasks, in their order: few enough that starting them costs little, and where
    there is little to do as many as run at a time."""
    all = list(items)
    share = -(-sum(map(size, all)) // max(parallelism, 1))
    wanted = min(share, TASK_BYTES)
    tasks: list[list[T]] = []
    room = 0
    for item in all:
        if room <= 0:
            tasks.append([])
            room = wanted
        tasks[-1].append(item)
        room -= max(size(item), 1)
    return tasks
