"""Which file systems there are: those of this package, and those of installed ones that join.

A package joins with an entry point of the group ``layoutscope.filesystems`` that names its
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
"""In the order in which they are asked what a stretch holds.

A volume that was converted from HFS+ to APFS keeps the old copy of the volume header at its end, by which HFS+ is
recognised as a last resort: APFS must be tried first.
"""

_joined: list[FileSystem] = []


@cache
def _load_installed() -> tuple[FileSystem, ...]:
    """Load those of this package, then those of others."""
    built_in = (path.partition(":") for path in BUILT_IN)
    own = [getattr(import_module(module), name) for module, _, name in built_in]
    return (*own, *_load_of_other_packages())


def _load_of_other_packages() -> list[FileSystem]:
    """Load the file systems of installed packages.

    To ask the import system for entry points takes as long as half of ``--help``, and as a rule there are none: so the
    files in which installers list them are looked through first, if packages are in folders.
    """
    places = [place for place in map(Path, sys.path) if place.exists()]
    listed = [file for place in places for file in place.glob("*-info/entry_points.txt")]
    if all(place.is_dir() for place in places) and not any(map(_lists_one, listed)):
        return []
    from importlib.metadata import entry_points

    found = map(_load, entry_points(group=GROUP))
    return [filesystem for filesystem in found if filesystem is not None]


def _load(point: EntryPoint) -> FileSystem | None:
    """Load what a package announces; one that is broken is named and left out, and the others still read."""
    try:
        filesystem: FileSystem = point.load()
    except Exception as error:  # noqa: BLE001  # whatever a stranger's module does when it is imported
        warnings.warn(f"the file system {point.name} ({point.value}) cannot be loaded: {error}", stacklevel=2)
        return None
    return filesystem


def _lists_one(file: Path) -> bool:
    return GROUP in file.read_text("utf-8", "replace")


def filesystems() -> tuple[FileSystem, ...]:
    """Return all file systems, in the order in which they are asked what a stretch holds."""
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
    """Let a file system join for a while, for programs and tests that bring their own."""
    if newcomer.name in filesystem_names():
        raise ValueError(f"there is a file system {newcomer.name!r} already")
    _joined.append(newcomer)
    try:
        yield newcomer
    finally:
        _joined.remove(newcomer)


def labels() -> tuple[str, ...]:
    """Return what people call the file systems, the ones that are asked last first."""
    return tuple(item.traits.label for item in reversed(filesystems()))


def variants() -> tuple[str, ...]:
    """Return what people call the file systems and their variants, in the order of :func:`labels`."""
    return tuple(label for item in reversed(filesystems()) for label in item.traits.labels)


def find_promised(scheme: Scheme, type_name: str) -> FileSystem | None:
    """Return the file system that a type of partitions announces, None if it is another's."""
    return next((item for item in filesystems() if item.traits.partition_types.named(scheme, type_name)), None)


def read_options() -> dict[str, tuple[ReadOption, tuple[str, ...]]]:
    """Return the options of reading that single file systems have, by name, with the labels of those that have them."""
    found: dict[str, tuple[ReadOption, tuple[str, ...]]] = {}
    for item in filesystems():
        for option in item.traits.options:
            first, having = found.get(option.name, (option, ()))
            if option.name in options_of(SharedReadOptions) or option.kind != first.kind:
                raise ValueError(f"the option {option.name!r} of {item.traits.label} has another meaning already")
            found[option.name] = first, (*having, item.traits.label)
    return found


def finding_codes() -> dict[str, str]:
    """Return every code of findings and what it means, those of the file systems among them."""
    filesystems()
    return dict(findings.CODES)


def refusals() -> dict[str, str]:
    """Return every code of what is refused on purpose and what it means, those of the file systems among them."""
    filesystems()
    return dict(errors.REFUSALS)
