"""Options that say what is done on a volume."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from layoutscope.api.workloads import Workload

Order = Annotated[
    str, typer.Option(metavar="NAME", help="fts, readdir-stat, bulk, names, catalog, searchfs, paths, copy or read.")
]
Start = Annotated[str | None, typer.Option("--from", metavar="PATH", help="Directory to start at.")]
NoStat = Annotated[bool, typer.Option("--no-stat", help="fts with FTS_NOSTAT: only directories are stat'ed.")]
Paths = Annotated[Path | None, typer.Option(metavar="FILE", help="For paths: a list of paths, one a line.")]
File = Annotated[str | None, typer.Option("--file", metavar="PATH", help="For read: the file.")]
Cache = Annotated[str | None, typer.Option(metavar="SIZE", help="Host's memory for metadata; unlimited by default.")]
Threads = Annotated[int, typer.Option(metavar="N", min=1, help="Threads that share the host's work.")]
Warm = Annotated[bool, typer.Option("--warm", help="With the metadata of a first pass in the cache.")]
Passes = Annotated[int, typer.Option(metavar="N", min=1, help="How often it is done.")]


def workload(given: dict[str, Any]) -> Workload:
    """Put together a workload from the options of a command."""
    from layoutscope.cli.options import byte_count

    paths = given.pop("paths")
    cache = byte_count(given.pop("cache"))
    lines = None if paths is None else read_lines(paths)
    chosen: Workload = {**given, "stat": not given["no_stat"], "paths": lines, "cache_bytes": cache}  # type: ignore[typeddict-item]
    return chosen


def read_lines(path: Path) -> list[str]:
    """Read a list of paths, one a line.

    Raises
    ------
    UsageError
        If the file cannot be read.
    """
    try:
        return [line for line in path.read_text("utf-8", "surrogateescape").splitlines() if line]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a list of paths") from error
