"""Remedies that copy: everything off the volume and back, on another file system, or block by block.

The order of the copy is the remedy: files get their numbers, and their records their places, as they are made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.registry import filesystem_of, filesystems
from layoutscope.remedies.case import Case, Changed, NotHere, lying_so, read_by
from layoutscope.remedies.effort import copying_s, data_bytes, metadata_bytes, stream_rate
from layoutscope.remedies.filling import (
    EMPTIER,
    as_dense,
    as_split,
    by_name,
    in_walk_order,
    level_by_level,
    numbered,
)
from layoutscope.remedies.words import said, said_of_other

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout

UNKNOWN_NAMES: Final = "names were left out, on which the order in the new tree depends"
WITH_CONTENTS: Final = "where a copy puts the contents of files is not modelled"
DAMAGED: Final = "a part of the volume could not be read, so that a copy of it cannot be modelled"


def _filled(case: Case, order: Callable[[Case], NDArray[np.int64]]) -> Changed | NotHere:
    """Fill a volume of the same file system in an order."""
    if case.reads_data:
        return NotHere(WITH_CONTENTS)
    if case.layout.coverage != 1:
        return NotHere(DAMAGED)
    made = filesystem_of(case.layout).remade(numbered(case, order(case)))
    return NotHere(UNKNOWN_NAMES) if made is None else _new(case, made)


def _new(case: Case, made: VolumeLayout) -> Changed:
    """Say that the work is done on a new volume; of a tree whose nodes lie anywhere, it is not known how well."""
    made = as_dense(case, made)
    changed = lying_so(case, made, copying_s(case))
    if not filesystem_of(made).traits.maps_every_node:
        return changed
    (part,) = lying_so(case, as_split(made), None).parts
    return replace(changed, less_well=(replace(part, times=EMPTIER),))


class CopiedInWalkOrder:
    """Off and back, as a walk comes to the files."""

    words = said("copied-in-walk-order")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a volume in the order of the walk."""
        return _filled(case, in_walk_order)


class CopiedByName:
    """Off and back, sorted by name."""

    words = said("copied-by-name")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a volume in alphabetical order."""
        return _filled(case, by_name)


class CopiedByLevel:
    """Off and back, level by level."""

    words = said("copied-by-level")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a volume from the root down, a level at a time."""
        return _filled(case, level_by_level)


class BlockCopy:
    """Block by block: no remedy."""

    words = said("block-copy")

    def model(self, case: Case) -> Changed | NotHere:
        """Leave every read where it is."""
        copied = (data_bytes(case) + metadata_bytes(case)) / stream_rate(case.drive)
        return read_by(case, case.reads, copied)


class OnOtherFileSystem:
    """Off, and back to another file system.

    Parameters
    ----------
    name : str
        The file system, as the registry knows it.
    label : str
        As people say.
    """

    def __init__(self, name: str, label: str) -> None:
        self._name = name
        self.words = said_of_other(name, label)

    def model(self, case: Case) -> Changed | NotHere:
        """Let the other file system lay the entries out, in the order of the walk."""
        if filesystem_of(case.layout).name == self._name:
            return NotHere("the volume has that file system already")
        other = next((item for item in filesystems() if item.name == self._name), None)
        if case.reads_data:
            return NotHere(WITH_CONTENTS)
        if case.layout.coverage != 1:
            return NotHere(DAMAGED)
        made = other.remade(numbered(case, in_walk_order(case))) if other is not None else None
        return NotHere(UNKNOWN_NAMES) if made is None else _new(case, made)
