"""The registry of file systems: those of this package, and those of other installed packages.

A package adds a file system with an entry point of the group ``layoutscope.filesystems`` that names its
:class:`~layoutscope.filesystems.contract.FileSystem`::

    [project.entry-points."layoutscope.filesystems"]
    exfat = "layoutscope_exfat:EXFAT"
"""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layoutscope import errors, findings
from layoutscope.options import SharedReadOptions, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

    from layoutscope.filesystems.contract import FileSystem
    from layoutscope.filesystems.traits import ReadOption, Scheme
    from layoutscope.tables import VolumeLayout

GROUP: Final = "layoutscope.filesystems"

BUILT_IN: Final = ("layoutscope.plugins.apfs:APFS", "layoutscope.plugins.hfsplus:HFSPLUS")
"""In the order in which they probe a stretch.

A volume that was converted from HFS+ to APFS keeps the old copy of the volume header at its end. HFS+ is recognised by
this copy as a last resort, so APFS must be tried first.
"""

_joined: list[FileSystem] = []


@cache
def _load_installed() -> tuple[FileSystem, ...]:
    """Load this package's file systems, then those of other packages."""
    built_in = (path.partition(":") for path in BUILT_IN)
    own = [getattr(import_module(module), name) for module, _, name in built_in]
    return (*own, *_load_of_other_packages())


def _load_of_other_packages() -> list[FileSystem]:
    """Load the file systems of installed packages.

    Querying the import system for entry points takes half as long as ``--help``, and usually there are none. So the
    files in which installers list them are searched first, if packages are in folders.
    """
    places = [place for place in map(Path, sys.path) if place.exists()]
    listed = [file for place in places for file in place.glob("*-info/entry_points.txt")]
    if all(place.is_dir() for place in places) and not any(map(_lists_one, listed)):
        return []
    from importlib.metadata import entry_points

    found = map(_load, entry_points(group=GROUP))
    return [filesystem for filesystem in found if filesystem is not None]


def _load(point: EntryPoint) -> FileSystem | None:
    """Load a package's file system; warn about a broken one and skip it, so the others still work."""
    try:
        filesystem: FileSystem = point.load()
    except Exception as error:  # noqa: BLE001  # whatever a stranger's module does when it is imported
        warnings.warn(f"the file system {point.name} ({point.value}) cannot be loaded: {error}", stacklevel=2)
        return None
    return filesystem


def _lists_one(file: Path) -> bool:
    return GROUP in file.read_text("utf-8", "replace")


def filesystems() -> tuple[FileSystem, ...]:
    """Return all file systems, in the order in which they probe a stretch."""
    return (*_load_installed(), *_joined)


def filesystem_names() -> tuple[str, ...]:
    """Return the names of all file systems."""
    return tuple(item.name for item in filesystems())


def filesystem(name: str) -> FileSystem:
    """Return a file system by its name."""
    found = {item.name: item for item in filesystems()}
    return found[name]


def filesystem_of(layout: VolumeLayout) -> FileSystem:
    """Return the file system of a layout."""
    return filesystem(layout.facts.filesystem)


@contextmanager
def joined(newcomer: FileSystem) -> Iterator[FileSystem]:
    """Add a file system temporarily, for programs and tests that provide their own."""
    if newcomer.name in filesystem_names():
        raise ValueError(f"there is a file system {newcomer.name!r} already")
    _joined.append(newcomer)
    try:
        yield newcomer
    finally:
        _joined.remove(newcomer)


def labels() -> tuple[str, ...]:
    """Return the names of the file systems for users, in the reverse order of probing."""
    return tuple(item.traits.label for item in reversed(filesystems()))


def variants() -> tuple[str, ...]:
    """Return the names of the file systems and their variants for users, in the order of :func:`labels`."""
    return tuple(label for item in reversed(filesystems()) for label in item.traits.labels)


def find_promised(scheme: Scheme, type_name: str) -> FileSystem | None:
    """Return the file system that a partition type identifies, None if there is none here."""
    return next((item for item in filesystems() if type_name in getattr(item.traits, f"{scheme}_types")), None)


def read_options() -> dict[str, tuple[ReadOption, tuple[str, ...]]]:
    """Return the options for reading that only some file systems have, by name, with the labels of these."""
    found: dict[str, tuple[ReadOption, tuple[str, ...]]] = {}
    for item in filesystems():
        for option in item.traits.options:
            first, having = found.get(option.name, (option, ()))
            if option.name in options_of(SharedReadOptions) or option.kind != first.kind:
                raise ValueError(f"the option {option.name!r} of {item.traits.label} has another meaning already")
            found[option.name] = first, (*having, item.traits.label)
    return found


def finding_codes() -> dict[str, str]:
    """Return every finding code and its meaning, including those of the file systems."""
    filesystems()
    return dict(findings.CODES)


def refusals() -> dict[str, str]:
    """Return every code of a deliberate refusal and its meaning, including those of the file systems."""
    filesystems()
    return dict(errors.REFUSALS)
