"""Options that say what is done on a volume."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs
from layoutscope.cli.options import add_options, byte_count, option
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from layoutscope.options import Workload

ORDER_HELP: Final = "fts, readdir-stat, bulk, names, catalog, searchfs, paths, copy or read."

WORKLOAD: Final[dict[str, tuple[Any, Any]]] = {
    "order": (option(str, "--order", ORDER_HELP, "NAME"), "fts"),
    "host": (option(str, "--host", "Whose drivers and libraries do it.", "linux|macos"), "linux"),
    "host_property": (
        option(
            list[str] | None,
            "--host-property",
            "Where the host differs, such as read_ahead_bytes=256KiB; repeatable.",
            "NAME=VALUE",
        ),
        None,
    ),
    "start": (option(str | None, "--from", "Directory to start at.", "PATH"), None),
    "no_stat": (option(bool, "--no-stat", "fts with FTS_NOSTAT: only directories are stat'ed."), False),
    "paths": (option(Path | None, "--list", "For paths: a list of paths, one a line.", "FILE"), None),
    "file": (option(str | None, "--file", "For read: the file.", "PATH"), None),
    "records": (option(int | None, "--records", "For read: so many random records.", "N", min=1), None),
    "record_size": (option(str, "--record-size", "For read: length of a record.", "BYTES"), "4096"),
    "seed": (option(int, "--seed", "For read: draws the records.", "S"), 1),
    "offsets": (
        option(Path | None, "--offsets", "For read: offsets of records, the last number a line.", "FILE"),
        None,
    ),
    "threads": (option(int, "--threads", "Threads that share the host's work.", "N", min=1), 1),
    "warm": (option(bool, "--warm", "With the metadata of a first pass in the cache."), False),
    "passes": (option(int, "--passes", "How often it is done.", "N", min=1), 1),
}
"""Options of workloads: their types and defaults."""

MEMORY: Final = {"cache": (option(str | None, "--cache", "Host's memory for metadata; unlimited else.", "SIZE"), None)}
"""Left out where ``--cache`` says something of a drive."""


def does_work(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Add the options of a workload to a command, which gets it as ``work``."""
    return add_options(command, {**WORKLOAD, **MEMORY}, "work", workload)


def does_work_with_any_memory(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Add the options of a workload except ``--cache`` to a command, which gets it as ``work``."""
    return add_options(command, WORKLOAD, "work", workload)


@contextmanager
def workload(given: dict[str, Any]) -> Iterator[Workload]:
    """Put together a workload from the options of a command."""
    paths, offsets = given.pop("paths"), given.pop("offsets")
    chosen: Workload = {
        **given,  # type: ignore[typeddict-item]
        "host_properties": named_values(given.pop("host_property")),
        "stat": not given.pop("no_stat"),
        "paths": None if paths is None else read_lines(paths),
        "record_bytes": byte_count(given.pop("record_size")) or 0,
        "offsets": None if offsets is None else read_offsets(offsets),
        "cache_bytes": byte_count(given.pop("cache", None)),
    }
    yield chosen


def named_values(given: list[str] | None) -> dict[str, str]:
    """Split properties at their equals sign.

    Raises
    ------
    UsageError
        If one has none.
    """
    pairs = [item.partition("=") for item in given or ()]
    for name, sign, _ in pairs:
        if not sign:
            raise UsageError(f"{name!r} is no NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def read_lines(path: Path) -> list[str]:
    """Read a list of paths, one a line.

    Raises
    ------
    UsageError
        If the file cannot be read.
    """
    try:
        return [line for line in inputs.read_text(path, errors="surrogateescape").split("\n") if line]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a list of paths") from error


def read_offsets(path: Path) -> list[int]:
    """Read offsets of records in bytes: the last number of each line, so that a count may stand before it.

    Raises
    ------
    UsageError
        If the file cannot be read, or a line does not end with a number.
    """
    lines = [line.strip() for line in read_lines(path)]
    found = [re.search(r"(?:^|[\s,;])(\d{1,18})$", line) for line in lines]
    for number, match in enumerate(found, 1):
        if match is None:
            raise UsageError(f"{path}: line {number} does not end with an offset")
    return [int(match[1]) for match in found if match]
