"""Extents-overflow records: each belongs to a fork and goes on where the one before ended.

TN1150, "Extents Overflow File".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.columns import I64, Columns, Mask, concatenate
from layoutscope.filesystems.hfsplus.check.located import Batch, Survey, survey_tree
from layoutscope.filesystems.hfsplus.records.overflow import LEAF_RECORD
from layoutscope.ondisk.records import HFSPLUS_VOLUME_EXTENT_DESCRIPTOR

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.findings import FindingLog

FIELDS: Final = (
    LEAF_RECORD.key.fork_type,
    LEAF_RECORD.key.file_id,
    LEAF_RECORD.key.start_block,
    LEAF_RECORD.data.extents.start_block,
    LEAF_RECORD.data.extents.block_count,
)


@dataclass(frozen=True, slots=True)
class OverflowRecords:
    """Extents-overflow records in key order.

    Attributes
    ----------
    survey : Survey
        Of the whole tree.
    at : (n,) int64 array
        Where each record's key starts, in the tree's file.
    is_whole : (m,) bool array
        Leaf records with all their extents; the others are left out of the columns.
    fork_type, file_id, start_block : (n,) int64 arrays
        The keys.
    starts, counts : (n, 8) int64 arrays
        The extents.
    """

    survey: Survey
    at: I64
    is_whole: Mask
    fork_type: I64
    file_id: I64
    start_block: I64
    starts: I64
    counts: I64

    def field(self, row: int, path: str) -> FindingLog:
        """Bind the log to a field of a record; ``#`` and a number behind the name choose an extent."""
        name, _, number = path.partition("#")
        step = HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width * int(number or 0)
        at = int(self.at[row]) + LEAF_RECORD.offset_of(name) + step
        return self.survey.at(at)


@dataclass(slots=True)
class _Collector:
    volume: Volume
    wholes: list[Mask] = field(default_factory=list)
    parts: list[Columns] = field(default_factory=list)

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves."""
        is_whole = batch.rows["stop"] - batch.rows["key"] >= LEAF_RECORD.width
        found = self.volume.decoder.columns(LEAF_RECORD, batch.buffer, batch.at("key", is_whole), FIELDS)
        wide = {name: values.astype(np.int64) for name, values in found.items()}
        self.wholes.append(is_whole)
        self.parts.append({"at": batch.rows["key"][is_whole], **wide})


def read_overflow(volume: Volume, tree: Tree) -> OverflowRecords:
    """Read all extents-overflow records."""
    collector = _Collector(volume)
    survey = survey_tree(volume, tree, collector.read)
    none, eight = np.empty(0, np.int64), np.empty((0, 8), np.int64)
    rows = concatenate(
        collector.parts, {"at": none, **dict.fromkeys(FIELDS[:3], none), **dict.fromkeys(FIELDS[3:], eight)}
    )
    is_whole = np.concatenate([np.empty(0, np.bool_), *collector.wholes])
    return OverflowRecords(survey, rows["at"], is_whole, *(rows[name] for name in FIELDS))
