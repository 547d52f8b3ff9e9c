"""What a check looks at: everything that was read of a volume, and every record of its trees with its place.

TN1150, "Extents Overflow File" and "Hot Files"; records of the catalog and of attributes have modules of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.columns import I64, Columns, Mask, concatenate
from layoutscope.filesystems.hfsplus.check.attributes import AttributeRecords, read_attributes
from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords, read_catalog
from layoutscope.filesystems.hfsplus.check.located import Batch, TreeRecords, read_records
from layoutscope.filesystems.hfsplus.records import hotfiles, overflow
from layoutscope.frozen import frozen
from layoutscope.ondisk.records import HFSPLUS_VOLUME_EXTENT_DESCRIPTOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import RecordColumn, RecordType

EXTENT_RECORD: Final = overflow.LEAF_RECORD
HOT_FILE_RECORD: Final = hotfiles.LEAF_RECORD
EXTENT_FIELDS: Final = overflow.OVERFLOW_FIELDS


@frozen
class OverflowRecords:
    """Extents-overflow records in key order."""

    located: TreeRecords  # of the whole tree
    at: I64  # where each record's key starts, in the tree's file
    is_whole: Mask  # leaf records with all their extents; the others are left out of the columns
    # fork_type, file_id, start_block: the keys
    fork_type: I64
    file_id: I64
    start_block: I64
    # starts, counts: the extents
    starts: I64
    counts: I64

    def field(self, row: int, path: str) -> FindingLog:
        """Bind the log to a field of a record; ``#`` and a number behind the name choose an extent."""
        name, _, number = path.partition("#")
        step = HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width * int(number or 0)
        at = int(self.at[row]) + EXTENT_RECORD.offset_of(name) + step
        # Leaf records come first, each with its key's place; short ones are left out of the columns.
        place = int(np.flatnonzero(self.located.rows["key"] == self.at[row])[0])
        return self.located.at(at).within(self.located.path(place, path))


@dataclass(slots=True)
class _Reader:
    """Reads leaf records of one type and length; those that are too short are told while the tree is read."""

    volume: Volume
    record_type: RecordType
    fields: tuple[RecordColumn, ...]
    wholes: list[Mask] = field(default_factory=list)
    parts: list[Columns] = field(default_factory=list)

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves."""
        is_whole = batch.rows["stop"] - batch.rows["key"] >= self.record_type.width
        key = batch.at("key", is_whole)
        found = self.volume.decoder.columns(self.record_type, batch.buffer, key, self.fields)
        wide = {name: values.astype(np.int64) for name, values in found.items()}
        self.wholes.append(is_whole)
        self.parts.append({"at": batch.rows["key"][is_whole], **wide})


def read_overflow(volume: Volume, tree: Tree) -> OverflowRecords:
    """Read all extents-overflow records."""
    collector = _Reader(volume, EXTENT_RECORD, EXTENT_FIELDS)
    located = read_records(volume, tree, collector.read)
    none, eight = np.empty(0, np.int64), np.empty((0, 8), np.int64)
    rows = concatenate(
        collector.parts,
        {"at": none, **dict.fromkeys(EXTENT_FIELDS[:3], none), **dict.fromkeys(EXTENT_FIELDS[3:], eight)},
    )
    is_whole = np.concatenate([np.empty(0, np.bool_), *collector.wholes])
    return OverflowRecords(located, rows["at"], is_whole, *(rows[name] for name in EXTENT_FIELDS))


HOT_FILE_FIELDS: Final = (
    HOT_FILE_RECORD.key.file_id,
    HOT_FILE_RECORD.key.fork_type,
    HOT_FILE_RECORD.key.temperature,
    HOT_FILE_RECORD.key.is_thread,
    HOT_FILE_RECORD.data,
)
_HOT_FILE_COLUMNS: Final = (*HOT_FILE_FIELDS, "at")
_FORK_BITS: Final = 8


@frozen
class HotFileRecords:
    """Leaf records of the hot-file B-tree."""

    located: TreeRecords  # of the whole tree
    # files, threads: records by temperature, and thread records: the fields of the grammar's record, `at` in bytes from
    # the start of the tree's file, and `fork`, one number for a file's fork
    files: Columns
    threads: Columns

    def field(self, record_at: int, path: str) -> FindingLog:
        """Bind the log to a field of a record."""
        place = int(np.flatnonzero(self.located.rows["key"] == record_at)[0])
        return self.located.at(record_at + HOT_FILE_RECORD.offset_of(path)).within(self.located.path(place, path))


def read_hot_file_records(volume: Volume, tree: Tree) -> HotFileRecords:
    """Read all records of the tree."""
    collector = _Reader(volume, HOT_FILE_RECORD, HOT_FILE_FIELDS)
    located = read_records(volume, tree, collector.read)
    rows = concatenate(collector.parts, dict.fromkeys(_HOT_FILE_COLUMNS, np.empty(0, np.int64)))
    # The fork is one byte on disk: none of its bits for data, all of them for resources.
    rows["fork"] = rows["key.file_id"] << _FORK_BITS | rows["key.fork_type"]
    is_thread = rows["key.is_thread"] != 0
    return HotFileRecords(located, _rows_of(rows, ~is_thread), _rows_of(rows, is_thread))


def _rows_of(rows: Columns, chosen: Mask) -> Columns:
    return {name: values[chosen] for name, values in rows.items()}


MOST_CASES: Final = 100
"""So many cases of one kind are listed, each with its address; the others are counted."""


@frozen
class Subject:
    """A volume under check."""

    volume: Volume  # the volume, which collects findings
    contents: Contents  # what a scan reads of it
    trees: dict[str, TreeRecords]  # every tree by its name
    # catalog, attributes, overflow, hot_files: the records of these trees; None where the tree is absent or lost
    catalog: CatalogRecords | None
    attributes: AttributeRecords | None
    overflow: OverflowRecords | None
    hot_files: HotFileRecords | None = None
    known: dict[str, Any] = field(default_factory=dict)  # what one check worked out for others

    def cases(self, code: str, rows: I64, noun: str) -> Iterator[int]:
        """Yield the first cases of a kind, and report how many more there are."""
        yield from rows[:MOST_CASES].tolist()
        if len(rows) > MOST_CASES:
            message = f"{len(rows) - MOST_CASES:,} further cases of the same kind"
            self.volume.log.at(noun).add(code, "warning", message)


def read_subject(volume: Volume, contents: Contents) -> Subject:
    """Read all trees of a volume record by record."""
    files = contents.trees
    catalog = read_catalog(volume, files["catalog"]) if "catalog" in files else None
    attributes = read_attributes(volume, files["attributes"]) if "attributes" in files else None
    overflow = read_overflow(volume, files["extents-overflow"]) if "extents-overflow" in files else None
    hot_files = read_hot_file_records(volume, files["hot-files"]) if "hot-files" in files else None
    read = (catalog, attributes, overflow, hot_files)
    trees = {part.located.name: part.located for part in read if part is not None}
    return Subject(volume, contents, trees, catalog, attributes, overflow, hot_files)
