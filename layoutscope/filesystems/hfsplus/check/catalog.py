"""What a check must know of catalog records beyond what a scan keeps: every field that another one contradicts.

TN1150, "Catalog File".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.growing import GrowingColumn, GrowingTable
from layoutscope.arrays.ragged import starts_of
from layoutscope.filesystems.hfsplus.check.located import Batch, TreeRecords, read_records
from layoutscope.filesystems.hfsplus.records.catalog import FILE, FOLDER, RECORD_SIZES, THREAD
from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import CATALOG_RECORD_TYPE, HFSPLUS_VOLUME_EXTENT_DESCRIPTOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, Columns, Mask
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import RecordColumn, RecordType

TYPES = grammar.HfsplusCatalog.RecordType

FILE_FIELDS: Final[tuple[RecordColumn, ...]] = (
    FILE.file_id,
    FILE.flags,
    # Of an inode with links this is the CNID of the first of them (`hl_firstLinkID` in hfs_format.h), else it is zero.
    FILE.reserved1,
    FILE.create_date,
    # Of a link in a chain these are the CNIDs of its neighbours: owner and group of the file are those of the inode.
    FILE.permissions.owner_id,
    FILE.permissions.group_id,
    # A union: a link's number of its inode, an inode's count of its links, a device's number (TN1150, HFSPlusBSDInfo).
    FILE.permissions.special,
    FILE.permissions.file_mode,
    FILE.permissions.owner_flags,
    FILE.permissions.file_type,
    FILE.text_encoding,
    FILE.user_info.file_type,
    FILE.user_info.file_creator,
    FILE.user_info.is_alias,
    FILE.has_thread,
    FILE.has_attributes,
    FILE.has_security,
    FILE.has_link_chain,
    FILE.has_expanded_times,
    *(
        field
        for fork in (FILE.data_fork, FILE.resource_fork)
        for field in (fork.len_logical, fork.num_blocks, fork.extents.start_block, fork.extents.num_blocks)
    ),
)
FOLDER_FIELDS: Final[tuple[RecordColumn, ...]] = (
    FOLDER.folder_id,
    FOLDER.create_date,
    FOLDER.has_expanded_times,
    FOLDER.flags,
    FOLDER.valence,
    FOLDER.num_folders,
    FOLDER.permissions.special,
    FOLDER.permissions.file_mode,
    FOLDER.permissions.owner_flags,
    FOLDER.user_info.finder_flags,
    FOLDER.text_encoding,
    FOLDER.has_attributes,
    FOLDER.has_security,
    FOLDER.has_folder_count,
    FOLDER.has_link_chain,
)
THREAD_FIELDS: Final[tuple[RecordColumn, ...]] = (THREAD.parent_id, THREAD.num_name_units)


@frozen
class CatalogRecords:
    """Catalog records in key order."""

    located: TreeRecords  # of the whole tree
    kind: I64  # type of every leaf record; 0 where it is none that exists, or too short
    excess: Mask  # files and folders that are longer than their type says
    parent_id: I64  # from the key of every leaf record; the file's own ID in threads
    # units, start, count: names in the keys of leaf records, as stored
    units: NDArray[np.uint16]
    start: I64
    count: I64
    # files, folders, threads: their fields, and `row`, the place among the leaf records
    files: Columns
    folders: Columns
    threads: Columns
    # thread_units, thread_start: names in threads; their lengths are `threads["num_name_units"]`, -1 where a name
    # leaves its record
    thread_units: NDArray[np.uint16]
    thread_start: I64

    def field(self, row: int, name: str) -> FindingLog:
        """Bind the log to a field of a record's data; ``#`` and a number behind the name choose an item of an array."""
        kind = int(self.kind[row])
        record_type = {int(TYPES.folder): FOLDER, int(TYPES.file): FILE}.get(kind, THREAD)
        log = self.located.at(int(self.located.rows["data"][row]) + field_offset(record_type, name))
        return log.within(self.located.path(row, name))

    def entries(self) -> tuple[I64, I64, Mask]:
        """Rows, own IDs and whether it is a folder, of files and folders in key order."""
        rows = np.concatenate([self.files["row"], self.folders["row"]])
        ids = np.concatenate([self.files["file_id"], self.folders["folder_id"]]).astype(np.int64)
        is_folder = np.concatenate(
            [np.zeros(len(self.files["row"]), np.bool_), np.ones(len(self.folders["row"]), np.bool_)]
        )
        order = np.argsort(rows, kind="stable")
        return rows[order], ids[order], is_folder[order]

    def name(self, row: int) -> str:
        """Name in the key of a record, for messages."""
        return names.shown(self.units[self.start[row] : self.start[row] + self.count[row]])


def field_offset(record_type: RecordType, path: str) -> int:
    """Where a field starts in its record; ``extents.start_block#3`` is in the fourth extent."""
    name, _, number = path.partition("#")
    start = record_type.offset_of(name)
    return start + int(number or 0) * HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width


_PARTS: Final = {
    "files": (FILE, FILE_FIELDS, (TYPES.file,)),
    "folders": (FOLDER, FOLDER_FIELDS, (TYPES.folder,)),
    "threads": (THREAD, THREAD_FIELDS, (TYPES.folder_thread, TYPES.file_thread)),
}


@dataclass(slots=True)
class _Collector:
    """Collects what the leaves of the catalog hold."""

    volume: Volume
    num_rows: int = 0
    rows: GrowingTable = field(default_factory=lambda: GrowingTable({"kind": np.int64, "excess": np.bool_}))
    thread_names: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint16))
    parts: dict[str, GrowingTable] = field(default_factory=lambda: {name: GrowingTable() for name in _PARTS})

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves."""
        decoder, everything = self.volume.decoder, np.ones(len(batch.shift), np.bool_)
        data, stop = (batch.at(name, everything) for name in ("data", "stop"))
        kind, excess = self._kinds(batch, data, stop)
        self.rows.add({"kind": kind, "excess": excess}, batch.to_come)
        for part, (record_type, fields, types) in _PARTS.items():
            chosen = np.flatnonzero(np.isin(kind, [int(item) for item in types]))
            found = decoder.columns(record_type, batch.buffer, data[chosen], fields)
            found = {"row": self.num_rows + chosen, **found}
            if part == "threads":
                found["num_name_units"] = self._thread_names(batch, data[chosen], stop[chosen], found["num_name_units"])
            self.parts[part].add(found, batch.to_come)
        self.num_rows += len(kind)

    def _kinds(self, batch: Batch, data: I64, stop: I64) -> tuple[I64, Mask]:
        type_bytes = CATALOG_RECORD_TYPE.width
        place = np.where(data + type_bytes <= stop, data, 0)
        found = self.volume.decoder.column(
            CATALOG_RECORD_TYPE, batch.buffer, place, CATALOG_RECORD_TYPE.record_type
        ).astype(np.int64)
        kind, excess = np.zeros(len(data), np.int64), np.zeros(len(data), np.bool_)
        for number, size in RECORD_SIZES.items():
            fits = (found == number) & (data + size <= stop) & (place == data)
            kind[fits] = number
            # Threads end with a name of any length, and so have nothing that could be in excess.
            if number in (TYPES.folder, TYPES.file):
                excess |= fits & (data + size < stop)
        return kind, excess

    def _thread_names(self, batch: Batch, data: I64, stop: I64, lengths: NDArray[np.uint16]) -> I64:
        start = data + THREAD.width
        wide = lengths.astype(np.int64)
        fits = start + names.UNIT_BYTES * wide <= stop
        self.thread_names.add(names.gather(batch.buffer, start, np.where(fits, wide, 0)), batch.to_come)
        return np.where(fits, wide, -1)


def read_catalog(volume: Volume, tree: Tree) -> CatalogRecords:
    """Read all catalog records again, with all fields that a check compares."""
    collector = _Collector(volume)
    located = read_records(volume, tree, collector.read)
    rows, stored = collector.rows.values, located.stored
    parts = {
        part: collector.parts[part].values or _nothing(record_type, fields, volume)
        for part, (record_type, fields, _) in _PARTS.items()
    }
    threads = parts["threads"]
    threads["num_name_units"] = threads["num_name_units"].astype(np.int64)
    # Leaves come first, so that names of index records stand behind those of theirs.
    leaves = slice(len(rows["kind"]))
    return CatalogRecords(
        located,
        rows["kind"],
        rows["excess"],
        stored.ident[leaves],
        stored.units,
        stored.start[leaves],
        stored.count[leaves],
        parts["files"],
        parts["folders"],
        threads,
        collector.thread_names.values,
        starts_of(np.maximum(threads["num_name_units"], 0)),
    )


def _nothing(record_type: RecordType, fields: tuple[RecordColumn, ...], volume: Volume) -> Columns:
    """Return the columns of no record at all."""
    blank = np.zeros(record_type.width, np.uint8)
    none = np.empty(0, np.int64)
    return {"row": none, **volume.decoder.columns(record_type, blank, none, fields)}
