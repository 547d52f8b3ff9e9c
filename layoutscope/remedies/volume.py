"""Remedies that change how a volume lies, in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.ragged import is_head
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.remedies.case import Case, Changed, NotHere, Part, lying_so
from layoutscope.remedies.copies import DAMAGED, UNKNOWN_NAMES, WITH_CONTENTS
from layoutscope.remedies.effort import copying_s, rewriting_s
from layoutscope.remedies.filling import as_dense
from layoutscope.remedies.words import said
from layoutscope.tables import Values
from layoutscope.units import GIB
from layoutscope.walk.whatif import LAYOUTS, what_if

if TYPE_CHECKING:
    from layoutscope.tables import Table

CLUMPED: Final = LAYOUTS[-1]
"""The layout in which nodes keep their order and lie end to end."""
ZONED_FROM: Final = 10 * GIB
"""Smaller volumes, and those without a journal, have no metadata zone on macOS."""


class RewrittenInKeyOrder:
    """The same nodes side by side, in the order of their keys."""

    words = said("rewritten-in-key-order")

    def model(self, case: Case) -> Changed | NotHere:
        """Lay the nodes out anew."""
        made = what_if("packed", case.layout, case.host, case.reads).layout
        if made is case.layout:
            return NotHere("the nodes lie one behind the other in key order already")
        return lying_so(case, made, rewriting_s(case))


class Condensed:
    """A tree of copied nodes written anew."""

    words = said("condensed")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a tree with the same numbers."""
        if not case.traits.maps_every_node:
            return NotHere("there is such a tool for trees alone whose nodes each have a place of their own")
        return _filled_anew(case)


class CatalogRebuilt:
    """A catalog file written anew."""

    words = said("catalog-rebuilt")

    def model(self, case: Case) -> Changed | NotHere:
        """Fill a catalog with the same numbers."""
        if case.traits.maps_every_node:
            return NotHere(f"{case.traits.label} has no catalog file")
        return _filled_anew(case)


def _filled_anew(case: Case) -> Changed | NotHere:
    """Fill the tree with names in the order of its keys; numbers stay."""
    if case.reads_data:
        return NotHere(WITH_CONTENTS)
    if case.layout.coverage != 1:
        return NotHere(DAMAGED)
    made = filesystem_of(case.layout).remade(case.layout)
    return NotHere(UNKNOWN_NAMES) if made is None else lying_so(case, as_dense(case, made), rewriting_s(case))


class MetadataZoneFree:
    """Metadata in a zone of its own."""

    words = said("metadata-zone-free")

    def model(self, case: Case) -> Changed | NotHere:
        """Lay the nodes end to end as they follow one another."""
        if case.traits.maps_every_node:
            return NotHere(f"{case.traits.label} has no such zone")
        if case.layout.facts.size_bytes < ZONED_FROM or "journaled" not in case.layout.facts.features:
            return NotHere("macOS keeps such a zone on journaled volumes of 10 GiB and more alone")
        made = what_if(CLUMPED, case.layout, case.host, case.reads).layout
        if made is case.layout:
            return NotHere("no data lie between the nodes")
        return lying_so(case, made, None)


class SnapshotsRemoved:
    """Snapshots deleted."""

    words = said("snapshots-removed")

    def model(self, case: Case) -> Changed | NotHere:
        """Leave out what only snapshots hold."""
        made = what_if("no-snapshots", case.layout, case.host, case.reads).layout
        if made is case.layout:
            return NotHere("no node is held by snapshots alone")
        return lying_so(case, made, None)


class FilesDefragmented:
    """Each file in one piece."""

    words = said("files-defragmented")

    def model(self, case: Case) -> Changed | NotHere:
        """Put the extents of each file behind the first."""
        if not case.reads_data:
            return NotHere("it moves the contents of files, and a listing reads none")
        extents = case.layout.columns("extents")
        made = _in_one_piece(extents)
        if np.array_equal(made.signed(), extents["image_offset"].signed()):
            return NotHere("every file lies in one piece")
        return lying_so(case, case.layout.changed(extents=extents.changed("image_offset", made)), None)


def _in_one_piece(extents: Table) -> Values:
    """Places of extents behind the first one of their fork; holes stay holes."""
    offset, logical = extents["image_offset"], extents["logical_offset"].data
    number, fork = extents["file_id"].data, extents["fork"].numbered()[0]
    order = np.lexsort((logical, fork, number))
    begins = is_head(number[order], fork[order])
    first = np.empty(len(order), np.int64)
    first[order] = order[begins][np.cumsum(begins) - 1]
    known = offset.is_known & offset.is_known[first]
    return Values(np.where(known, offset.signed()[first] + logical, 0), known)


class OuterHalf:
    """A partition at the start of the drive."""

    words = said("outer-half")

    def model(self, case: Case) -> Changed | NotHere:
        """Move the volume to the start."""
        if case.drive.geometry == "none":
            return NotHere("on flash every place is as quick as any other")
        begins = case.layout.facts.image_offset + case.start_offset_bytes
        if case.layout.facts.size_bytes > case.drive.capacity_bytes // 2:
            return NotHere("the volume is larger than half of the drive")
        if begins + case.layout.facts.size_bytes <= case.drive.capacity_bytes // 2:
            return NotHere("as far as is known the volume lies in the outer half already (--start-offset says where)")
        moved = Part(case.reads, case.drive, start_offset_bytes=-case.layout.facts.image_offset)
        return Changed((moved,), copying_s(case))
