"""The catalog file: files, folders and threads.

TN1150, "Catalog File". Leaf records of two shapes are decoded batch by batch: entries (files and folders, with their
names and extents) and threads (which lead from an ID to a parent). In key order, which is the order of the leaves, the
entries of a folder stand together, sorted by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.columns import I64, U8, Columns, Mask, signed
from layoutscope.arrays.growing import GrowingColumn, GrowingTable
from layoutscope.arrays.ragged import starts_of
from layoutscope.filesystems.hfsplus.records.overflow import flatten
from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.filesystems.hfsplus.tree.keys import Keys, without_case
from layoutscope.filesystems.hfsplus.tree.nodes import record_types
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import CATALOG_FILE, CATALOG_FOLDER, CATALOG_KEY, CATALOG_RECORD_TYPE, CATALOG_THREAD

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.tree.names import Units
    from layoutscope.filesystems.hfsplus.tree.nodes import RecordBatch
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.recordtypes import Column, RecordType

KEY: Final = CATALOG_KEY
TYPE: Final = CATALOG_RECORD_TYPE
FOLDER: Final = CATALOG_FOLDER
FILE: Final = CATALOG_FILE
THREAD: Final = CATALOG_THREAD

_TYPES = grammar.HfsplusCatalog.RecordType
RECORD_SIZES: Final = {
    int(_TYPES.folder): FOLDER.width,
    int(_TYPES.file): FILE.width,
    int(_TYPES.folder_thread): THREAD.width,
    int(_TYPES.file_thread): THREAD.width,
}
"""Fixed parts of leaf records by their types, in bytes."""

DATA_FORK: Final = int(grammar.HfsplusExtents.ForkType.data)
RESOURCE_FORK: Final = int(grammar.HfsplusExtents.ForkType.resource)

_FOLDER_FIELDS: Final[dict[str, Column]] = {
    "create_date": FOLDER.create_date,
    "modify_date": FOLDER.content_mod_date,
    "mode_type": FOLDER.permissions.file_type,
    "special": FOLDER.permissions.special,
    "has_link_chain": FOLDER.has_link_chain,
    "file_id": FOLDER.folder_id,
    "valence": FOLDER.valence,
}
_FILE_FIELDS: Final[dict[str, Column]] = {
    "create_date": FILE.create_date,
    "modify_date": FILE.content_mod_date,
    "mode_type": FILE.permissions.file_type,
    "special": FILE.permissions.special,
    "is_compressed": FILE.permissions.is_compressed,
    "has_link_chain": FILE.has_link_chain,
    "file_id": FILE.file_id,
    "finder_type": FILE.user_info.file_type,
    "finder_creator": FILE.user_info.file_creator,
    "data_size": FILE.data_fork.logical_size,
    "data_blocks": FILE.data_fork.total_blocks,
    "resource_size": FILE.resource_fork.logical_size,
    "resource_blocks": FILE.resource_fork.total_blocks,
}
_DATA_EXTENTS: Final = (FILE.data_fork.extents.start_block, FILE.data_fork.extents.block_count)
_RESOURCE_EXTENTS: Final = (FILE.resource_fork.extents.start_block, FILE.resource_fork.extents.block_count)

ENTRY_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "is_folder": np.bool_,
    "parent_id": np.int64,
    "create_date": np.uint32,
    "modify_date": np.uint32,
    "mode_type": np.uint16,
    "special": np.uint32,
    "is_compressed": np.bool_,
    "has_link_chain": np.bool_,
    "file_id": np.int64,
    "valence": np.uint32,
    "finder_type": np.uint32,
    "finder_creator": np.uint32,
    "data_size": np.int64,
    "data_blocks": np.uint32,
    "resource_size": np.int64,
    "resource_blocks": np.uint32,
}
"""Columns of entries and their types: as narrow as they may be, as there are millions of them."""

THREAD_COLUMNS: Final[dict[str, type[np.generic]]] = {"file_id": np.int64, "parent_id": np.int64, "is_folder": np.bool_}
FORK_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "entry": np.int64,
    "fork_type": np.uint8,
    "fork_block": np.int64,
    "start_block": np.int64,
    "block_count": np.int64,
}


@dataclass(slots=True)
class CatalogLeaves:
    """Leaf records of the catalog file; entries, threads and extents are kept in the order of decoding.

    The columns that :meth:`decode` returns say of each record whether it is a thread, and its place among its kind.
    """

    key_type: RecordType = KEY
    id_field: Column = KEY.parent_id
    bad: list[I64] = field(default_factory=list)
    entries: GrowingTable = field(default_factory=lambda: GrowingTable(ENTRY_COLUMNS))
    threads: GrowingTable = field(default_factory=lambda: GrowingTable(THREAD_COLUMNS))
    forks: GrowingTable = field(default_factory=lambda: GrowingTable(FORK_COLUMNS))
    names: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint16))
    name_lengths: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.int64))

    def decode(self, volume: Volume, records: RecordBatch, leaf: Mask) -> Columns:
        """Decode the leaf records of a batch; entries, threads, names and extents are kept.

        Parameters
        ----------
        volume : Volume
            Gives the decoder.
        records : RecordBatch
            Records of the catalog file.
        leaf : (n_records,) bool array
            Which of them stand in leaves.

        Returns
        -------
        dict of str to (n,) array
            ``node, is_thread, index`` of sound records; `index` is a row of `threads` or of `entries`. Leaves with
            others are added to `bad`.
        """
        node, key, data, stop = records.of(leaf)
        buffer = records.nodes.buffer
        kind, is_sound = record_types(volume.decoder, buffer, data, stop, TYPE, RECORD_SIZES)
        keys = volume.decoder.columns(KEY, buffer, key, (KEY.parent_id, KEY.name_length))
        name_units = keys["name_length"].astype(np.int64)
        name_start = key + KEY.width
        is_sound &= name_start + name_units * names.UNIT_BYTES <= data
        self.bad.append(node[~is_sound])
        is_entry = (kind == _TYPES.folder) | (kind == _TYPES.file)
        is_thread = is_sound & ~is_entry
        entry, thread = np.flatnonzero(is_sound & is_entry), np.flatnonzero(is_thread)
        index = np.zeros(len(node), np.int64)
        index[entry] = len(self.entries) + np.arange(len(entry))
        index[thread] = len(self.threads) + np.arange(len(thread))
        parent, to_come = keys["parent_id"].astype(np.int64), records.nodes.to_come
        self.names.add(names.gather(buffer, name_start[entry], name_units[entry]), to_come)
        self.name_lengths.add(name_units[entry], to_come)
        found = self._entries(volume, buffer, data[entry], kind[entry] == _TYPES.folder, to_come)
        self.entries.add({**found, "parent_id": parent[entry]}, to_come)
        # A thread's key has the file's or folder's own ID where that of an entry has its parent's.
        found = volume.decoder.columns(THREAD, buffer, data[thread], (THREAD.parent_id,))
        is_folder = kind[thread] == _TYPES.folder_thread
        self.threads.add({"file_id": parent[thread], **found, "is_folder": is_folder}, to_come)
        columns: Columns = {"node": node, "is_thread": is_thread, "index": index}
        return columns if is_sound.all() else {name: values[is_sound] for name, values in columns.items()}

    def _entries(self, volume: Volume, buffer: U8, data: I64, is_folder: Mask, to_come: float) -> Columns:
        """Decode files and folders; extents are kept."""
        columns: Columns = {name: np.zeros(len(data), dtype) for name, dtype in ENTRY_COLUMNS.items()}
        columns["is_folder"] = is_folder
        folder, file = np.flatnonzero(is_folder), np.flatnonzero(~is_folder)
        decode = volume.decoder.columns
        _fill(columns, folder, _FOLDER_FIELDS, decode(FOLDER, buffer, data[folder], tuple(_FOLDER_FIELDS.values())))
        # The extents of data forks come along; most files have no resource fork.
        found = decode(FILE, buffer, data[file], (*_FILE_FIELDS.values(), *_DATA_EXTENTS))
        _fill(columns, file, _FILE_FIELDS, found)
        self._keep_forks(DATA_FORK, file, found[_DATA_EXTENTS[0]], found[_DATA_EXTENTS[1]], to_come)
        rich = np.flatnonzero(columns["resource_blocks"])
        found = decode(FILE, buffer, data[rich], _RESOURCE_EXTENTS)
        self._keep_forks(RESOURCE_FORK, rich, found[_RESOURCE_EXTENTS[0]], found[_RESOURCE_EXTENTS[1]])
        return columns

    def _keep_forks(
        self, fork_type: int, chosen: I64, starts: NDArray[Any], counts: NDArray[Any], to_come: float = 0.0
    ) -> None:
        """Keep the extents of forks of chosen entries."""
        rows = flatten(starts, counts, np.zeros(len(chosen), np.int64))
        rows["entry"] = len(self.entries) + chosen[rows.pop("record")]
        rows["fork_type"] = np.full(len(rows["entry"]), fork_type, np.uint8)
        self.forks.add(rows, to_come)


def _fill(columns: Columns, rows: I64, fields: dict[str, Column], found: Columns) -> None:
    """Put decoded fields into rows of columns."""
    for name, path in fields.items():
        values = found[path]
        columns[name][rows] = signed(values) if values.dtype == np.uint64 else values


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the catalog holds, in key order.

    Attributes
    ----------
    entries : Columns
        One row a file or folder: ``ENTRY_COLUMNS`` and ``node``, the number of its leaf.
    name, name_raw : polars.Series
        Names as shown and as stored.
    threads : Columns
        One row a thread record: ``THREAD_COLUMNS`` and ``node``.
    forks : Columns
        One row an extent of the catalog's own: ``entry`` is a row of `entries`, ``fork_type``, and ``fork_block,
        start_block, block_count`` in allocation blocks.
    units : (n_units,) uint16 array
        Names as stored, in the order of decoding.
    unit_start, unit_count : (n_entries,) int64 arrays
        Where each entry's name lies among them.
    """

    entries: Columns
    name: pl.Series
    name_raw: pl.Series
    threads: Columns
    forks: Columns
    units: Units
    unit_start: I64
    unit_count: I64

    def keys(self, *, is_folded: bool) -> Keys:
        """Keys of the entries, in their order, as they compare with regard to case or without."""
        keys = Keys(self.entries["parent_id"], self.units, self.unit_start, self.unit_count)
        return without_case(keys) if is_folded else keys


def collect(tree: Tree | None, leaves: CatalogLeaves) -> Catalog:
    """Bring what the leaves held into key order; what stood in leaves that were not reached drops out."""
    none = np.empty(0, np.int64)
    records = tree.records if tree is not None else dict.fromkeys(("node", "is_thread", "index"), none)
    is_thread = records["is_thread"].astype(np.bool_)
    chosen = records["index"][~is_thread]
    renumbered = _renumbered(leaves, chosen)
    entries = leaves.entries.give_up(chosen)
    entries["node"] = records["node"][~is_thread]
    threads = leaves.threads.give_up(records["index"][is_thread])
    threads["node"] = records["node"][is_thread]
    units, counts = leaves.names.values, leaves.name_lengths.values
    starts = starts_of(counts)[chosen]
    return Catalog(
        entries,
        names.text_series("name", units, counts, chosen),
        names.raw_series("name_raw", units, counts, chosen),
        threads,
        renumbered,
        units,
        starts,
        counts[chosen],
    )


def _renumbered(leaves: CatalogLeaves, chosen: I64) -> Columns:
    """Extents of the entries that were reached; those of a fork stand in its order."""
    forks = leaves.forks.values
    row = np.full(len(leaves.entries), -1, np.int64)
    row[chosen] = np.arange(len(chosen))
    entry = row[forks["entry"]]
    reached = entry >= 0
    if reached.all():
        return {**forks, "entry": entry}
    return {**{name: values[reached] for name, values in forks.items()}, "entry": entry[reached]}
