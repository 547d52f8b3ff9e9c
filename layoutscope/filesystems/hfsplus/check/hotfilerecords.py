"""Leaf records of the hot-file B-tree, with their places.

TN1150, "Hot Files".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.columns import Columns, Mask, concatenate
from layoutscope.filesystems.hfsplus.check.located import Batch, Survey, survey_tree
from layoutscope.filesystems.hfsplus.records.hotfiles import LEAF_RECORD

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.findings import FindingLog

FIELDS: Final = (
    LEAF_RECORD.key.file_id,
    LEAF_RECORD.key.fork_type,
    LEAF_RECORD.key.temperature,
    LEAF_RECORD.key.is_thread,
    LEAF_RECORD.data,
)
_COLUMNS: Final = (*FIELDS, "at")
_FORK_BITS: Final = 8
CODE: Final = "hot-file-differs"


@dataclass(frozen=True, slots=True)
class HotFileRecords:
    """Leaf records of the hot-file B-tree.

    Attributes
    ----------
    survey : Survey
        Of the whole tree.
    files, threads : Columns
        Records by temperature, and thread records: the fields of the grammar's record, ``at`` in bytes from the start
        of the tree's file, and ``fork``, one number for a file's fork.
    """

    survey: Survey
    files: Columns
    threads: Columns

    def field(self, record_at: int, path: str) -> FindingLog:
        """Bind the log to a field of a record."""
        return self.survey.at(record_at + LEAF_RECORD.offset_of(path))


@dataclass(slots=True)
class _Collector:
    volume: Volume
    parts: list[Columns] = field(default_factory=list)

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves; records that are too short are told while the tree is read."""
        whole = batch.rows["stop"] - batch.rows["key"] >= LEAF_RECORD.width
        found = self.volume.decoder.columns(LEAF_RECORD, batch.buffer, batch.at("key", whole), FIELDS)
        columns = {name: values.astype(np.int64) for name, values in found.items()}
        self.parts.append({**columns, "at": batch.rows["key"][whole]})


def read_hot_file_records(volume: Volume, tree: Tree) -> HotFileRecords:
    """Read all records of the tree."""
    collector = _Collector(volume)
    survey = survey_tree(volume, tree, collector.read)
    rows = concatenate(collector.parts, dict.fromkeys(_COLUMNS, np.empty(0, np.int64)))
    rows["fork"] = rows["key.file_id"] << _FORK_BITS | rows["key.fork_type"]
    is_thread = rows["key.is_thread"] != 0
    return HotFileRecords(survey, _of(rows, ~is_thread), _of(rows, is_thread))


def _of(rows: Columns, chosen: Mask) -> Columns:
    return {name: values[chosen] for name, values in rows.items()}
