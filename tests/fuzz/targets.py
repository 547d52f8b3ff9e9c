"""What is fuzzed: for each entry point sound files, and how a case is read."""

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
        Reads a case; returns the exit code that the command line would, or raises.
    suffix : str
        Of the case's file name.
    """

    name: str
    bases: Callable[[], tuple[Base, ...]]
    run: Callable[[Path, Base], int]
    suffix: str = ".img"


def _late(module: str) -> tuple[Callable[[], tuple[Base, ...]], Callable[[Path, Base], int]]:
    """Import a target's module when it is used."""
    from importlib import import_module

    return (
        lambda: import_module(f"tests.fuzz.{module}").bases(),
        lambda path, base: import_module(f"tests.fuzz.{module}").run(path, base),
    )


TARGETS = {
    name: Target(name, *_late(f"of_{name}"), suffix)
    for name, suffix in (
        ("hfsplus", ".img"),
        ("partitions", ".img"),
        ("containers", ".img"),
        ("maps", ".map"),
        ("traces", ".txt"),
        ("profiles", ".toml"),
        ("captures", ".tar"),
        ("apfs", ".img"),
    )
}
"""Every target by its name; each has a module ``of_NAME`` with ``bases()`` and ``run(path, base)``."""
