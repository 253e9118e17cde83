"""Options of an analysis as the compiled part takes them: in the words of the command line."""

from __future__ import annotations

import os
from typing import TypedDict


class Keywords(TypedDict):
    """All options; those that are None are not given."""

    filter: str | None
    min_share: str | None
    min_lost: str | None
    cause: str | None
    sockets: str | None
    vantages: int | None
    threads: int | None
    show_values: bool
    all: bool


def text(value: float | str | None) -> str | None:
    """Returns a value as on the command line."""
    return None if value is None else str(value)


def keywords(
    filter: str | None,
    min_share: float | None,
    min_lost: str | None,
    cause: str | None,
    sockets: str | os.PathLike[str] | None,
    vantages: int | None,
    threads: int | None,
    show_values: bool,
    all: bool,
) -> Keywords:
    """Returns the options as the compiled part takes them."""
    return {
        "filter": filter,
        "min_share": text(min_share),
        "min_lost": min_lost,
        "cause": cause,
        "sockets": None if sockets is None else os.fspath(sockets),
        "vantages": vantages,
        "threads": threads,
        "show_values": show_values,
        "all": all,
    }
