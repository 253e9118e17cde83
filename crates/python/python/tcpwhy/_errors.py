"""Exceptions of the package."""

from __future__ import annotations


class CaptureError(Exception):
    """A capture cannot be read.

    path: the capture, as it was named.
    problem: what is wrong with it and what to do, in one sentence.
    offset: the place in the capture, bytes from its start after decompression, if there is one.
    """

    path: str
    problem: str
    offset: int | None

    def __init__(self, path: str, problem: str, offset: int | None = None) -> None:
        super().__init__(path, problem, offset)
        self.path, self.problem, self.offset = path, problem, offset

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"
