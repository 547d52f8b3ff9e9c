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

    from layoutscope.filesystems.contract import FileSystem
    from layoutscope.tables import VolumeLayout

UNKNOWN_NAMES: Final = "names were left out, on which the order in the new tree depends"
WITH_CONTENTS: Final = "where a copy puts the contents of files is not modelled"
FILLED_ERROR: Final = 0.13
"""By which share of the time that was said a volume filled by a driver's rule took another one, at most: of 10,000
files, of another seed than those of docs/remedies-proven.md (`tests.validation.remedies --files 10000 --seed 7`)."""
DAMAGED: Final = "a part of the volume could not be read, so that a copy of it cannot be modelled"


def _new(case: Case, target: FileSystem, order: Callable[[Case], NDArray[np.int64]]) -> Changed | NotHere:
    """Say that the work is done on a new volume that was filled in an order: by the driver's rule, if that is known."""
    if case.reads_data:
        return NotHere(WITH_CONTENTS)
    if case.layout.coverage != 1:
        return NotHere(DAMAGED)
    source = numbered(case, order(case))
    found = target.copied(source, case.host)
    if not found:
        return _as_dense_as_now(case, target.remade(source))
    changed = lying_so(case, found[0], copying_s(case))
    otherwise = tuple(lying_so(case, other, None).parts for other in found[1:])
    return replace(changed, otherwise=otherwise, error_share=FILLED_ERROR)


def _as_dense_as_now(case: Case, made: VolumeLayout | None) -> Changed | NotHere:
    """Say that the nodes come to lie as dense as they do now; whether they are as full and in order is not known."""
    if made is None:
        return NotHere(UNKNOWN_NAMES)
    made = as_dense(case, made)
    (part,) = lying_so(case, as_split(made), None).parts
    return replace(lying_so(case, made, copying_s(case)), otherwise=((replace(part, times=EMPTIER),),))


class CopiedInWalkOrder:
    """Off and back, as a walk comes to the files."""

    words = said("copied-in-walk-order")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a volume in the order of the walk."""
        return _new(case, filesystem_of(case.layout), in_walk_order)


class CopiedByName:
    """Off and back, sorted by name."""

    words = said("copied-by-name")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a volume in alphabetical order."""
        return _new(case, filesystem_of(case.layout), by_name)


class CopiedByLevel:
    """Off and back, level by level."""

    words = said("copied-by-level")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a volume from the root down, a level at a time."""
        return _new(case, filesystem_of(case.layout), level_by_level)


class BlockCopy:
    """Block by block: no remedy."""

    words = said("block-copy")

    def model(self, case: Case) -> Changed | NotHere:
        """Leave every read where it is."""
        copied = (data_bytes(case) + metadata_bytes(case)) / stream_rate(case.drive)
        return read_by(case, case.reads, copied)


class OnOtherFileSystem:
    """Off, and back to another file system."""

    def __init__(self, name: str, label: str) -> None:
        self._name = name
        self.words = said_of_other(name, label)

    def model(self, case: Case) -> Changed | NotHere:
        """Let the other file system lay the entries out, in the order of the walk."""
        if filesystem_of(case.layout).name == self._name:
            return NotHere("the volume has that file system already")
        other = next((item for item in filesystems() if item.name == self._name), None)
        return NotHere(UNKNOWN_NAMES) if other is None else _new(case, other, in_walk_order)
