"""The catalog file: files, folders and threads.

TN1150, "Catalog File". Two kinds of leaf records are decoded batch by batch: entries (files and folders, with their
names and extents) and threads (which map an ID to a parent). In key order, which is the order of the leaves, the
entries of a folder are contiguous and sorted by name.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY, names
from layoutscope.filesystems.hfsplus.forks import Fork
from layoutscope.filesystems.hfsplus.keys import misplaced
from layoutscope.filesystems.hfsplus.tree import node_log
from layoutscope.structs import grammar
from layoutscope.structs.arrays import find, is_ascending, starts_of
from layoutscope.structs.leaves import NO_LEAF, Leaf, LeafPlan, LeafTables, Repeated, Text
from layoutscope.structs.records import CATALOG_FILE, CATALOG_FOLDER, CATALOG_KEY, CATALOG_RECORD_TYPE, CATALOG_THREAD
from layoutscope.tables import NULL_ROW, TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.btree import LeafDecoder, TreeFile
    from layoutscope.filesystems.hfsplus.nodes import RecordBatch
    from layoutscope.filesystems.hfsplus.tree import Tree
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.findings import Level
    from layoutscope.structs.arrays import I64, Columns, Mask
    from layoutscope.structs.leaves import Coding, Texts
    from layoutscope.structs.recordtypes import Field, RecordColumn, RecordType


KEY: Final = CATALOG_KEY
TYPE: Final = CATALOG_RECORD_TYPE
FOLDER: Final = CATALOG_FOLDER
FILE: Final = CATALOG_FILE
THREAD: Final = CATALOG_THREAD

_TYPES = grammar.HfsplusCatalog.RecordType

DATA_FORK: Final = int(grammar.HfsplusExtents.ForkType.data)
RESOURCE_FORK: Final = int(grammar.HfsplusExtents.ForkType.resource)

_FOLDER_FIELDS: Final[dict[str, RecordColumn]] = {
    "create_date": FOLDER.create_date,
    "modify_date": FOLDER.content_mod_date,
    "mode_type": FOLDER.permissions.file_type,
    "special": FOLDER.permissions.special,
    "has_link_chain": FOLDER.has_link_chain,
    "has_expanded_times": FOLDER.has_expanded_times,
    "file_id": FOLDER.folder_id,
    "valence": FOLDER.valence,
}
_FILE_FIELDS: Final[dict[str, RecordColumn]] = {
    "create_date": FILE.create_date,
    "modify_date": FILE.content_mod_date,
    "mode_type": FILE.permissions.file_type,
    "special": FILE.permissions.special,
    "is_compressed": FILE.permissions.is_compressed,
    "has_link_chain": FILE.has_link_chain,
    "has_expanded_times": FILE.has_expanded_times,
    "file_id": FILE.file_id,
    "finder_type": FILE.user_info.file_type,
    "finder_creator": FILE.user_info.file_creator,
    "data_size": FILE.data_fork.len_logical,
    "data_blocks": FILE.data_fork.num_blocks,
    "resource_size": FILE.resource_fork.len_logical,
    "resource_blocks": FILE.resource_fork.num_blocks,
}
EPOCH_SECONDS: Final = 2_082_844_800
"""Seconds from 1904-01-01 to 1970-01-01."""


def unix_seconds(dates: NDArray[Any], is_expanded: Mask) -> I64:
    """Convert dates into seconds since 1970-01-01; newer systems store dates in that form, to reach beyond 2040."""
    seconds: I64 = dates.astype(np.int64) - np.where(is_expanded, 0, EPOCH_SECONDS)
    return seconds


def format_date(date: int, *, is_expanded: bool = False) -> str:
    """Format one date for display."""
    if not date:
        return "never"
    return datetime.fromtimestamp(date - (0 if is_expanded else EPOCH_SECONDS), UTC).strftime("%Y-%m-%d %H:%M:%S")


ENTRY_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "is_folder": np.bool_,
    "parent_id": np.int64,
    "create_date": np.uint32,
    "modify_date": np.uint32,
    "mode_type": np.uint16,
    "special": np.uint32,
    "is_compressed": np.bool_,
    "has_link_chain": np.bool_,
    "has_expanded_times": np.bool_,
    "file_id": np.int64,
    "valence": np.uint32,
    "finder_type": np.uint32,
    "finder_creator": np.uint32,
    "data_size": np.int64,
    "data_blocks": np.uint32,
    "resource_size": np.int64,
    "resource_blocks": np.uint32,
}
"""Columns of entries and their types, as narrow as possible, since there are millions of entries."""

_FOR_CHECKS: Final = ("data_blocks", "resource_blocks")
"""Columns of entries that no table needs."""

THREAD_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "file_id": np.uint32,
    "parent_id": np.uint32,
    "is_folder": np.bool_,
}
FORK_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "owner": np.uint32,
    "fork_type": np.uint8,
    "start_block": np.uint32,
    "block_count": np.uint32,
}

_NAME: Final = Text("key", KEY.num_name_units, names.UNIT_BYTES)


def _extents(fork_type: int, start_block: Field, block_count: Field) -> Repeated:
    """Make rows of the used extents among the eight in a file's record."""
    # A fork uses its extents from the first one on. An extent without blocks ends the list (TN1150, Fork Data
    # Structure).
    return Repeated(
        "forks", block_count, {"fork_type": fork_type, "start_block": start_block, "block_count": block_count}
    )


def _entry(
    kind: int, record_type: RecordType, fields: dict[str, RecordColumn], *lists: Repeated, is_folder: bool
) -> Leaf:
    return Leaf(
        kind,
        "entries",
        KEY,
        record_type,
        {"is_folder": int(is_folder), **fields},
        {"parent_id": KEY.parent_id},
        {"name": _NAME, "name_others": _NAME},
        lists=lists,
    )


def _thread(kind: int, *, is_folder: bool) -> Leaf:
    # A thread's key holds the file's or folder's own ID, where an entry's key holds the parent's.
    own_id = {"file_id": KEY.parent_id}
    columns: dict[str, RecordColumn | int] = {"parent_id": THREAD.parent_id, "is_folder": int(is_folder)}
    name = Text("val", THREAD.num_name_units, names.UNIT_BYTES)
    texts = {"name": name, "name_others": name}
    return Leaf(kind, "threads", KEY, THREAD, columns, own_id, texts, checked=(_NAME,))


_NAMES: Final[dict[str, Coding]] = {"name": "utf-16", "name_others": "utf-16-others"}


PLAN: Final = LeafPlan(
    {
        "entries": {**ENTRY_COLUMNS, **_NAMES},
        "threads": {**THREAD_COLUMNS, **_NAMES},
        "forks": FORK_COLUMNS,
    },
    (
        _entry(_TYPES.folder, FOLDER, _FOLDER_FIELDS, is_folder=True),
        _entry(
            _TYPES.file,
            FILE,
            _FILE_FIELDS,
            _extents(DATA_FORK, FILE.data_fork.extents.start_block, FILE.data_fork.extents.num_blocks),
            _extents(RESOURCE_FORK, FILE.resource_fork.extents.start_block, FILE.resource_fork.extents.num_blocks),
            is_folder=False,
        ),
        _thread(_TYPES.folder_thread, is_folder=True),
        _thread(_TYPES.file_thread, is_folder=False),
    ),
    ("val", TYPE, TYPE.record_type),
)
"""Tables built from the records of the catalog's leaves; in forks, ``owner`` is a row of the entries."""

_FIRST_THREAD: Final = 2
"""Index of the first thread type among the leaves of the plan."""


def start_catalog() -> tuple[LeafTables, LeafDecoder]:
    """Return empty tables of the catalog, and the decoder that fills them."""
    tables = LeafTables(PLAN)
    return tables, partial(_decode_records, tables)


def _decode_records(tables: LeafTables, records: RecordBatch, leaf: Mask) -> tuple[Columns, I64]:
    """Decode the records of leaves into tables, which keep entries, threads and extents in decoding order.

    The rows of a node are contiguous, so a start and a count per node are returned.
    """
    batch, numbers = records.in_leaves(leaf), records.nodes.number
    leaf_of_record, *_ = tables.add(batch, records.nodes.to_come)
    is_thread, is_sound = leaf_of_record >= _FIRST_THREAD, leaf_of_record != NO_LEAF
    columns: Columns = {"node": numbers}
    # Records are in the order of their nodes.
    stops = np.searchsorted(batch.node, np.arange(len(numbers)), side="right")
    for table, chosen in (("entries", ~is_thread), ("threads", is_thread & is_sound)):
        counts = np.diff(np.append(0, np.cumsum(chosen))[stops], prepend=0)
        first = tables.count(table) - int(counts.sum())
        columns |= {table: first + starts_of(counts), f"num_{table}": counts}
    return columns, numbers[batch.node[~is_sound]]


class Catalog(Struct, frozen=True):
    """The content of the catalog, in key order."""

    entries: Columns  # one row per file or folder: `ENTRY_COLUMNS` and `node`, the number of its leaf
    name: TextColumn  # names in display form
    other_names: Texts  # stored names of entries whose display form is ambiguous, or no rows (:func:`names.show_names`)
    threads: Columns  # one row per thread record: `THREAD_COLUMNS` and `node`
    # one row per extent in the catalog, in fork order: `entry` is a row of `entries`, `fork_type`, and `start_block,
    # block_count` in allocation blocks
    forks: Columns
    thread_of: NDArray[np.int32]  # row of each entry's thread, -1 if it has none
    is_renamed: Mask  # entries whose names differ from those in their threads
    orphans: I64  # rows of threads whose file or folder is missing
    orphan_names: list[bytes]  # names in these threads, as stored

    def misplaced(self, *, is_folded: bool) -> Mask:
        """Mark the entries whose keys do not follow the previous key, with or without regard to case."""
        return misplaced(self.entries["parent_id"], self.name, self.other_names, is_folded=is_folded)

    def checked(self) -> Catalog:
        """Return only the columns that tables need, without those used by checks only."""
        return replace(self, entries={name: each for name, each in self.entries.items() if name not in _FOR_CHECKS})


def collect_catalog(tree: Tree | None, tables: LeafTables) -> Catalog:
    """Bring the content of the leaves into key order; records in unreached leaves are dropped."""
    chosen, threads = (_Chosen(tables, table, tree) for table in ("entries", "threads"))
    # The extents of the reached entries, in fork order.
    forks = tables.table("forks")
    forks["entry"] = forks.pop("owner")
    if chosen.order is not None:
        row = np.full(tables.count("entries"), NULL_ROW)
        row[chosen.order] = np.arange(len(chosen.order), dtype=np.uint32)
        forks["entry"] = row[forks["entry"]]
        if not chosen.has_all:
            reached = forks["entry"] != NULL_ROW
            forks = {name: values[reached] for name, values in forks.items()}
    decoded, own = _names_in(tables, "entries"), _names_in(tables, "threads")
    # On sound volumes, entries and threads have the same names in different orders. Equal sums save a comparison of
    # the names.
    is_same = chosen.has_all and threads.has_all and names.sum_of_units(*own) == names.sum_of_units(*decoded)
    entries, known = chosen.numbers(), threads.numbers()
    thread_ids = known["file_id"].astype(np.int64)
    thread_of = find(thread_ids, entries["file_id"]).astype(np.int32)
    is_renamed = np.zeros(len(thread_of), np.bool_)
    if not is_same:
        rows = np.flatnonzero(thread_of >= 0)
        is_renamed[rows] = names.differ(
            TextColumn(*names.widen_names(*decoded), chosen.places(rows)),
            TextColumn(*names.widen_names(*own), threads.places(thread_of[rows])),
        )
    orphans = find_orphaned_threads(thread_ids, entries["file_id"], thread_of)
    lost = TextColumn(*names.widen_names(*own), threads.places(orphans)).raw() if len(orphans) else []
    name, other_names = names.show_names(*decoded, chosen.order)
    return Catalog(entries, name, other_names, known, forks, thread_of, is_renamed, orphans, lost)


def _names_in(tables: LeafTables, table: str) -> tuple[Texts, Texts]:
    found = tables.table(table)
    return found["name"], found["name_others"]


def find_orphaned_threads(
    thread_ids: I64,
    entry_ids: I64,
    thread_of: NDArray[np.integer[Any]],  # row of each entry's thread, -1 if it has none
) -> I64:
    """List the rows of threads whose file or folder is missing."""
    is_known = np.zeros(len(thread_ids) + 1, np.bool_)
    is_known[thread_of] = True
    # If two threads have the same number, files are matched with only the first of them.
    rows = np.flatnonzero(~is_known[:-1])
    return rows[find(entry_ids, thread_ids[rows]) < 0] if len(rows) else rows


class _Chosen:
    """Rows of a table in the order of the leaves; a complete table that is already in order is not copied."""

    def __init__(self, tables: LeafTables, table: str, tree: Tree | None) -> None:
        none = np.empty(0, np.int64)
        self._leaves = tree.records if tree is not None else dict.fromkeys(("node", table, f"num_{table}"), none)
        self.tables, self.table = tables, table
        first, counts = self._leaves[table], self._leaves[f"num_{table}"]
        total = int(counts.sum())
        self.has_all = total == tables.count(table)
        self.order: NDArray[np.uint32] | None = None
        if not self.has_all or not is_ascending(first):
            self.order = np.arange(total, dtype=np.uint32)
            # An unsigned difference below zero wraps around, and wraps back in the addition.
            self.order += np.repeat((first - starts_of(counts)).astype(np.uint32), counts)

    def places(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """Return the positions of some rows in the table."""
        return rows if self.order is None else self.order[rows]

    def numbers(self) -> Columns:
        """Return the numeric columns; columns that must be copied are removed from the table."""
        if self.order is None:
            found = self.tables.table(self.table)
        else:
            found = self.tables.give_up(self.table, self._leaves[self.table], self._leaves[f"num_{self.table}"])
        numbers: Columns = {name: values for name, values in found.items() if isinstance(values, np.ndarray)}
        nodes = self._leaves["node"].astype(np.uint32)
        return {**numbers, "node": np.repeat(nodes, self._leaves[f"num_{self.table}"])}


ROOT_FOLDER: Final = int(grammar.HfsplusVolume.Cnid.root_folder)


def find_root_file(catalog: Catalog, name: str) -> int:
    """Return the row of a file's entry in the root folder, by its name; -1 if it is missing."""
    entries = catalog.entries
    rows = np.flatnonzero((entries["parent_id"] == ROOT_FOLDER) & (entries["is_folder"] == 0))
    matches = rows[catalog.name.take(rows).equal_to(name.encode())]
    return int(matches[0]) if len(matches) else -1


def data_fork_of(catalog: Catalog, row: int) -> Fork:
    """Return the data fork of an entry, with only the extents in its own record."""
    forks = catalog.forks
    mine = (forks["entry"] == row) & (forks["fork_type"] == DATA_FORK)
    size = int(catalog.entries["data_size"][row])
    starts, counts = (forks[name][mine].astype(np.int64) for name in ("start_block", "block_count"))
    return Fork(size, starts, counts, np.full(len(starts), -1, np.int64))


_TYPE = grammar.HfsplusCatalog.FinderType
_CREATOR = grammar.HfsplusCatalog.FinderCreator

_IN_WORDS: Final[dict[str, tuple[Level, str]]] = {
    "hard-link-plain": ("info", "files have the type of a link, but not its date, and are files; the first is"),
    "hard-link-broken": ("error", "links lead to no indirect node; the first is file"),
    # A link with another type or date counts as a file.
    "link-count-differs": ("error", "indirect nodes count links that are missing; the first has CNID"),
}


class Links(Struct, frozen=True):
    """Hard links and their targets."""

    # row of the entry with the inode: the indirect node of a link that has one, otherwise the entry's own row
    target: NDArray[np.uint32]
    # is_link, is_directory_link: hard links of files, and of directories
    is_link: Mask
    is_directory_link: Mask
    is_private: Mask  # the private directories and their direct content
    is_inode: Mask  # indirect nodes: files and folders whose `special` field counts their links

    def follow(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a column of entries with each link's value taken from its target."""
        is_followed = bool((self.is_link | self.is_directory_link).any())
        return values[self.target] if is_followed else values


def resolve_links(
    volume: Volume,
    catalog: Catalog,
    file: TreeFile | None,  # the catalog's file, for the addresses of findings; None if there is no catalog
) -> Links:
    """Find the indirect node of every link; a link without one is reported and keeps its own values."""
    entries = catalog.entries
    is_file = ~entries["is_folder"]
    typed = bear_a_links_type(entries["finder_type"], entries["finder_creator"], entries["has_link_chain"])
    is_link, is_directory_link = (is_file & mask for mask in typed)
    if (is_link | is_directory_link).any():
        # Drivers give links the creation date of the root folder or of the private one.
        created = unix_seconds(entries["create_date"], entries["has_expanded_times"])
        root = np.flatnonzero(entries["is_folder"] & (entries["file_id"] == ROOT_FOLDER))
        home, _ = _private_directory(catalog, FILE_LINKS_DIRECTORY)
        is_dated = np.isin(created, created[np.concatenate([root, home])])
        _report(volume, catalog, file, np.flatnonzero((is_link | is_directory_link) & ~is_dated), "hard-link-plain")
        is_link, is_directory_link = is_link & is_dated, is_directory_link & is_dated
    target = np.arange(len(is_file), dtype=np.uint32)
    is_private, is_inode = np.zeros(len(is_file), np.bool_), np.zeros(len(is_file), np.bool_)
    for directory, prefix, links in (
        (FILE_LINKS_DIRECTORY, "iNode", is_link),
        (DIRECTORY_LINKS_DIRECTORY, "dir_", is_directory_link),
    ):
        home, inodes = _private_directory(catalog, directory)
        is_private[home] = True
        is_private[inodes] = True
        numbers = _numbers(catalog, inodes, prefix)
        is_inode[inodes[numbers >= 0]] = True
        rows = np.flatnonzero(links)
        found = find(numbers, entries["special"][rows].astype(np.int64))
        target[rows[found >= 0]] = inodes[found[found >= 0]]
        _report(volume, catalog, file, rows[found < 0], "hard-link-broken")
        counted = np.bincount(found[found >= 0], minlength=len(inodes))
        is_short = (numbers >= 0) & (counted < entries["special"][inodes])
        _report(volume, catalog, file, inodes[is_short], "link-count-differs")
    return Links(target, is_link, is_directory_link, is_private, is_inode)


def bear_a_links_type(
    finder_type: NDArray[Any], finder_creator: NDArray[Any], has_link_chain: NDArray[Any]
) -> tuple[Mask, Mask]:
    """Mark the files whose type and creator are those of hard links: to files, and to folders."""
    is_of_file: Mask = (finder_type == _TYPE.hard_link) & (finder_creator == _CREATOR.hfs_plus)
    # The Finder's own aliases have the same type and creator, so only the flag identifies a directory link.
    is_of_folder: Mask = (finder_type == _TYPE.directory_alias) & (finder_creator == _CREATOR.macs) & has_link_chain
    return is_of_file, is_of_folder


def _private_directory(catalog: Catalog, name: str) -> tuple[I64, I64]:
    """Return the rows of a private directory (at most one) and of its content."""
    entries = catalog.entries
    rows = np.flatnonzero((entries["parent_id"] == ROOT_FOLDER) & entries["is_folder"])
    home = rows[catalog.name.take(rows).equal_to(name.encode())][:1]
    inside = entries["parent_id"] == entries["file_id"][home] if len(home) else np.zeros(len(catalog.name), np.bool_)
    return home, np.flatnonzero(inside)


def _numbers(catalog: Catalog, rows: I64, prefix: str) -> I64:
    """Return the numbers in the names of indirect nodes; -1 for names of another form."""
    form = re.compile(f"{prefix}([0-9]{{1,10}})".encode())
    found = map(form.fullmatch, catalog.name.take(rows).raw())
    return np.array([int(match[1]) if match else -1 for match in found], np.int64)


def _report(volume: Volume, catalog: Catalog, file: TreeFile | None, rows: I64, code: str) -> None:
    """Report entries in a single finding, at the leaf of the first one, whose number ends the message."""
    if len(rows) and file is not None:
        node, cnid = (int(catalog.entries[name][rows[0]]) for name in ("node", "file_id"))
        level, words = _IN_WORDS[code]
        node_log(volume, file, node).add(code, level, f"{len(rows):,} {words} {cnid}")
