"""Options that say what is done on a volume."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from layoutscope import inputs
from layoutscope.cli.options import byte_count
from layoutscope.cli.running import Group
from layoutscope.errors import UsageError
from layoutscope.options import Workload


class WorkOptions(Group):
    """What is done on a volume."""

    order: Annotated[
        str,
        typer.Option(metavar="NAME", help="fts, readdir-stat, bulk, names, catalog, searchfs, paths, copy or read."),
    ] = "fts"
    host: Annotated[str, typer.Option(metavar="linux|macos", help="Whose drivers and libraries do it.")] = "linux"
    host_property: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Where the host differs, such as read_ahead_bytes=256KiB; repeatable."),
    ] = None
    start: Annotated[str | None, typer.Option("--from", metavar="PATH", help="Directory to start at.")] = None
    no_stat: Annotated[bool, typer.Option("--no-stat", help="fts with FTS_NOSTAT: only directories are stat'ed.")] = (
        False
    )
    paths: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="For paths: a list of paths, one a line.")
    ] = None
    file: Annotated[str | None, typer.Option(metavar="PATH", help="For read: the file.")] = None
    records: Annotated[int | None, typer.Option(metavar="N", min=1, help="For read: so many random records.")] = None
    record_size: Annotated[str, typer.Option(metavar="BYTES", help="For read: length of a record.")] = "4096"
    seed: Annotated[int, typer.Option(metavar="S", help="For read: draws the records.")] = 1
    offsets: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For read: offsets of records, the last number a line.")
    ] = None
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads that share the host's work.")] = 1
    warm: Annotated[bool, typer.Option("--warm", help="With the metadata of a first pass in the cache.")] = False
    passes: Annotated[int, typer.Option(metavar="N", min=1, help="How often it is done.")] = 1

    def asked(self) -> Workload:
        """Return what was asked for, in the library's words."""
        return {
            "order": self.order,
            "host": self.host,
            "host_properties": named_values(self.host_property),
            "start": self.start,
            "stat": not self.no_stat,
            "paths": None if self.paths is None else read_lines(self.paths),
            "file": self.file,
            "records": self.records,
            "record_bytes": byte_count(self.record_size) or 0,
            "seed": self.seed,
            "offsets": None if self.offsets is None else read_offsets(self.offsets),
            "threads": self.threads,
            "warm": self.warm,
            "passes": self.passes,
        }


class WorkInMemory(WorkOptions):
    """What is done on a volume by a host with so much memory; ``replay`` has a ``--cache`` that is the drive's."""

    cache: Annotated[str | None, typer.Option(metavar="SIZE", help="Host's memory for metadata; unlimited else.")] = (
        None
    )

    def asked(self) -> Workload:
        """Return what was asked for, in the library's words."""
        return {**super().asked(), "cache_bytes": byte_count(self.cache)}


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
