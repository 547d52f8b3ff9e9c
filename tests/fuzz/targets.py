"""Fuzz targets: sound files for each entry point, and how a case is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fuzz.base import Base


@dataclass(frozen=True, slots=True)
class Target:
    """An entry point.

    Parameters
    ----------
    name : str
        For the command line and the corpus.
    bases : callable
        Makes the sound files.
    run : callable
        Reads a case; returns the exit code of the command line, or raises.
    suffix : str
        Of the case's file name.
    share : int
        Number of its cases per thousand of a campaign.
    block : int
        Number of its cases that take about a minute.
    """

    name: str
    bases: Callable[[], tuple[Base, ...]]
    run: Callable[[Path, Base], int]
    suffix: str
    share: int
    block: int


def _late(module: str) -> tuple[Callable[[], tuple[Base, ...]], Callable[[Path, Base], int]]:
    """Import a target's module when it is used."""
    from importlib import import_module

    return (
        lambda: import_module(f"tests.fuzz.{module}").bases(),
        lambda path, base: import_module(f"tests.fuzz.{module}").run(path, base),
    )


TARGETS = {
    name: Target(name, *_late(f"of_{name}"), suffix, share, block)
    for name, suffix, share, block in (
        ("hfsplus", ".img", 40, 500),
        ("partitions", ".img", 110, 2000),
        ("containers", ".img", 110, 2000),
        ("maps", ".map", 130, 2000),
        ("traces", ".txt", 180, 4000),
        ("profiles", ".toml", 240, 5000),
        ("captures", ".tar", 80, 1000),
        ("foreign", ".img", 10, 200),
        ("lists", ".txt", 80, 1000),
        ("apfs", ".img", 20, 200),
        ("sets", ".bin", 60, 500),
        ("beside", ".bin", 60, 500),
        ("timings", ".csv", 10, 100),
        ("kits", ".bin", 10, 100),
        ("forecasts", ".img", 10, 100),
    )
}
"""Every target by its name; each has a module ``of_NAME`` with ``bases()`` and ``run(path, base)``."""
