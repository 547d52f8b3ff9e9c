"""All data read from a volume: its trees, their content, and the free space.

TN1150, "HFS Plus Basics". The volume header leads to the special files. The extents-overflow file is read first,
because it completes the others; then the catalog, the attributes and the hot files.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus import attributes as attributes_file
from layoutscope.filesystems.hfsplus import catalog as catalog_file
from layoutscope.filesystems.hfsplus.btree import decode_fixed
from layoutscope.filesystems.hfsplus.catalog import DATA_FORK, data_fork_of, find_root_file
from layoutscope.filesystems.hfsplus.forks import Fork, inline_fork, locate_byte, read_free_runs
from layoutscope.filesystems.hfsplus.journal import find_journal, is_applied, is_pending, replay_journal, report_pending
from layoutscope.filesystems.hfsplus.nodes import INDEX
from layoutscope.filesystems.hfsplus.tree import Tree, first_rows, is_whole, read_tree
from layoutscope.filesystems.hfsplus.volume import (
    Volume,
    alternate_header,
    open_volume,
    report_change,
    report_version,
    reread_header,
)
from layoutscope.structs import grammar
from layoutscope.structs.arrays import LARGEST, distinct, find, heads, is_ascending, lengths_of
from layoutscope.structs.records import EXTENT_LEAF_RECORD, HOT_FILE_LEAF_RECORD

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.filesystems.hfsplus.attributes import Attributes
    from layoutscope.filesystems.hfsplus.btree import LeafDecoder
    from layoutscope.filesystems.hfsplus.catalog import Catalog
    from layoutscope.filesystems.hfsplus.journal import Journal
    from layoutscope.filesystems.hfsplus.sweep import Swept
    from layoutscope.structs.arrays import I64
    from layoutscope.structs.grammar import HfsplusVolume


CNID = grammar.HfsplusVolume.Cnid

TREE_FILES: Final = {
    "extents-overflow": int(CNID.extents_file),
    "catalog": int(CNID.catalog_file),
    "attributes": int(CNID.attributes_file),
}
"""CNIDs of the B-tree files that the volume header points to, by their names in the tables."""

SPECIAL_FILES: Final = {
    int(CNID.allocation_file): "allocation_file",
    int(CNID.extents_file): "extents_file",
    int(CNID.catalog_file): "catalog_file",
    int(CNID.attributes_file): "attributes_file",
    int(CNID.startup_file): "startup_file",
}
"""Fields of the volume header by the CNID of the file."""

OVERFLOW_FIELDS: Final = (
    EXTENT_LEAF_RECORD.key.fork_type,
    EXTENT_LEAF_RECORD.key.file_id,
    EXTENT_LEAF_RECORD.key.start_block,
    EXTENT_LEAF_RECORD.data.extents.start_block,
    EXTENT_LEAF_RECORD.data.extents.num_blocks,
)
"""Owner, position in the fork, and eight extents."""

decode_overflow = partial(decode_fixed, EXTENT_LEAF_RECORD, OVERFLOW_FIELDS)

JOURNAL_FILE: Final = ".journal"
HOT_FILES: Final = ".hotfiles.btree"

Leaves = TypeVar("Leaves")


class Contents(Struct, frozen=True):
    """All data that was read from a volume."""

    journal: Journal | None  # the journal, if there is one
    special: dict[int, Fork]  # special files by their CNID
    trees: dict[str, Tree]  # B-trees by their names
    # catalog, attributes: content of these trees
    catalog: Catalog
    attributes: Attributes
    # free_starts, free_counts: runs of free blocks
    free_starts: I64
    free_counts: I64
    stale: dict[str, int] | None = None  # number of nodes outside the trees, by tree; None without a sweep


def reopened(request: VolumeRequest) -> tuple[Volume, Contents]:
    """Return the volume that was already read, or read it: see :func:`open_contents`."""
    kept: tuple[Volume, Contents] | None = request.take_up()
    return open_contents(request) if kept is None else kept


def open_contents(request: VolumeRequest) -> tuple[Volume, Contents]:
    """Open a volume, apply its journal in memory if requested, and read all metadata.

    Without a replay, transactions that are still in the journal are reported. With a sweep, broken trees are rebuilt
    and old copies are counted.
    """
    source, start, space_bytes = request.source, request.image_offset, request.size_bytes
    found: Swept | None = None
    try:
        opened = open_volume(source, start, space_bytes)
    except FormatError as error:
        if not request.sweep:
            raise
        from layoutscope.filesystems.hfsplus.rescue import salvage_volume

        opened, found = salvage_volume(source, start, error, space_bytes, is_start_named=request.is_start_named)
    report_version(opened)
    below = opened
    journal = find_journal(opened)
    if journal is not None:
        if is_applied(request) and not opened.is_inferred:
            overlay = replay_journal(opened, journal)
            opened = opened if overlay is None else reread_header(opened, overlay)
        else:
            report_pending(opened, journal)
    if request.sweep and found is None:
        from layoutscope.filesystems.hfsplus.sweep import sweep

        found = sweep(opened)
    contents = read_contents(opened, journal, found)
    # Report the header as stored, without the journal's changes in memory.
    report_change(below)
    return opened, contents


def read_contents(volume: Volume, journal: Journal | None = None, found: Swept | None = None) -> Contents:
    """Read all metadata of a volume, each block once; rebuild broken trees if a sweep looked for nodes everywhere."""
    special = special_forks(volume.header)
    read = partial(_read_or_rebuild, volume, special, journal, found)
    overflow, _ = read("extents-overflow", None, lambda: (None, decode_overflow))
    for file_id, fork in special.items() if not volume.is_inferred else ():
        special[file_id] = extend_fork(fork, overflow, file_id, DATA_FORK)
    catalog_tree, tables = read("catalog", overflow, catalog_file.start_catalog)
    attribute_tree, leaves = read("attributes", overflow, attributes_file.start_attributes)
    catalog = catalog_file.collect_catalog(catalog_tree, tables)
    every = {"extents-overflow": overflow, "catalog": catalog_tree, "attributes": attribute_tree}
    every["hot-files"] = _read_hot_files(volume, catalog, overflow)
    trees = {name: tree for name, tree in every.items() if tree is not None}
    for tree in trees.values():
        _report_losses(volume, tree, catalog)
    if journal is not None:
        _report_unread_journal(volume, journal, catalog)
    rows = first_rows(trees)
    free_runs = read_free_runs(volume, special[CNID.allocation_file])
    stale: dict[str, int] | None = None
    if found is not None:
        from layoutscope.filesystems.hfsplus.rescue import report_stale

        stale = report_stale(volume, trees, found)
    return Contents(
        journal,
        special,
        trees,
        catalog,
        attributes_file.collect_attributes(attribute_tree, leaves, rows.get("attributes", 0)),
        *free_runs,
        stale,
    )


MAX_LOSSES: Final = 100
MAX_FOLDERS: Final = 10
_NOUNS: Final = {"catalog": "folder", "hot-files": "temperature"}


def _report_losses(volume: Volume, tree: Tree, catalog: Catalog) -> None:
    """Report every pointer whose node was not reached, with the range of missing keys."""
    table, file = tree.nodes, tree.file
    if not len(tree.reach.missing) and not len(tree.reach.misled):
        return
    # The records of all reached index nodes, each level in key order.
    pointers = table.pointers.values
    node = pointers["node"]
    reached = np.flatnonzero((table.key_rank[node] >= 0) & (table.kind[node] == INDEX))
    order = reached[np.lexsort((table.key_rank[node[reached]], table.height[node[reached]]))]
    node, child, ident, at = (pointers[name][order] for name in ("node", "child", "ident", "at"))
    inside = (child > 0) & (child < file.num_nodes)
    # A rebuilt tree has leaves without a parent: their pointers are broken, but nothing is missing.
    lost = np.flatnonzero(~inside | (table.key_rank[np.where(inside, child, 0)] < 0))
    entries, noun = catalog.entries, _NOUNS.get(file.tree, "file")
    for row in lost[:MAX_LOSSES].tolist():
        first, last, until = int(ident[row]), LARGEST, "to the end"
        if row + 1 < len(node) and table.height[node[row + 1]] == table.height[node[row]]:
            last = int(ident[row + 1])
            until = f"up to {noun} {last}"
        known = ""
        if file.tree == "catalog":
            mine = entries["is_folder"] & (entries["file_id"] >= first) & (entries["file_id"] <= last)
            ids = distinct(entries["file_id"][mine]).tolist()
            more = f" and {len(ids) - MAX_FOLDERS:,} more" if len(ids) > MAX_FOLDERS else ""
            known = f"; of known folders this concerns {', '.join(map(str, ids[:MAX_FOLDERS]))}{more}" if ids else ""
        message = f"node {child[row]} cannot be reached: records from {noun} {first} {until} are missing{known}"
        log = volume.log.at(f"{file.tree} node {child[row]}", locate_byte(volume, file.fork, int(at[row])))
        log.add("subtree-missing", "error", message)


def special_forks(header: HfsplusVolume.VolumeHeader) -> dict[int, Fork]:
    """Return the forks of the special files in a volume header."""
    return {cnid: inline_fork(getattr(header, field)) for cnid, field in SPECIAL_FILES.items()}


def extend_fork(fork: Fork, overflow: Tree | None, file_id: int, fork_type: int) -> Fork:
    """Add a file's overflow extents, in the order of the fork."""
    if overflow is None:
        return fork
    records = overflow.records
    mine = np.flatnonzero((records["key.file_id"] == file_id) & (records["key.fork_type"] == fork_type))
    if not len(mine):
        return fork
    mine = mine[np.argsort(records["key.start_block"][mine], kind="stable")]
    starts, counts = records["data.extents.start_block"][mine], records["data.extents.num_blocks"][mine]
    used = counts > 0
    nodes = np.broadcast_to(records["node"][mine][:, None], counts.shape)
    return Fork(
        fork.logical_size_bytes,
        np.concatenate([fork.start_blocks, starts[used]]),
        np.concatenate([fork.block_counts, counts[used]]),
        np.concatenate([fork.record_nodes, nodes[used]]),
    )


def _read_or_rebuild(
    volume: Volume,
    special: dict[int, Fork],  # if only the copy of the volume header leads to the tree, its fork is replaced
    journal: Journal | None,
    found: Swept | None,  # nodes that a sweep found
    name: str,
    overflow: Tree | None,
    start: Callable[[], tuple[Leaves, LeafDecoder]],  # makes an empty store for decoded leaves, and its decoder
) -> tuple[Tree | None, Leaves]:
    """Read a tree; if it is broken, rebuild it from its leaves, and also try the copy of the header."""
    file_id = TREE_FILES[name]
    fork = special[file_id]
    leaves, decode = start()
    tree = read_tree(volume, name, fork, decode)
    # Every volume has a catalog. Other trees may be absent, unless their absence is uncertain.
    may_be_absent = not (fork.num_blocks or name == "catalog" or volume.is_inferred)
    if is_whole(tree) if tree is not None else may_be_absent:
        return tree, leaves
    from layoutscope.filesystems.hfsplus.rescue import rebuild

    fresh, decode = start()
    rebuilt = rebuild(volume, name, fork, tree, decode, found, journal)
    if rebuilt is not None:
        tree, leaves = rebuilt, fresh
    # The copy is rewritten only when a special file grows or moves (TN1150, "Volume Header"). Its counts are old, but
    # its extents are valid.
    header = alternate_header(volume)
    other = fork if header is None else extend_fork(special_forks(header)[file_id], overflow, file_id, DATA_FORK)
    if other.is_same(fork):
        return tree, leaves
    fresh, decode = start()
    trial = replace(volume, log=volume.log.branch())
    by_copy = read_tree(trial, name, other, decode)
    if by_copy is None or not len(by_copy.reach.leaves):
        return tree, leaves
    special[file_id] = other
    volume.log.extend(trial.log.findings)
    volume.header_field(SPECIAL_FILES[file_id]).add(
        "volume-header-invalid", "error", f"the {name} file is where the copy of the header says"
    )
    if tree is None or by_copy.num_leaf_records >= tree.num_leaf_records:
        return by_copy, fresh
    return tree, leaves


def _report_unread_journal(volume: Volume, journal: Journal, catalog: Catalog) -> None:
    """Report transactions in the journal's file if the journal info block led to no journal header."""
    row = -1 if journal.header is not None else find_root_file(catalog, JOURNAL_FILE)
    fork = data_fork_of(catalog, row) if row >= 0 else None
    if fork is None or not len(fork.start_blocks):
        return
    at = int(fork.start_blocks[0]) * volume.block_size_bytes
    if at != journal.journal_offset and is_pending(volume, at):
        message = "the file .journal holds transactions, to which the journal info block does not lead; not applied"
        volume.log.at("journal info block", journal.info_offset).add(
            "journal-invalid", "error", message, expected=f"a journal at volume byte {at:,}"
        )


def _read_hot_files(volume: Volume, catalog: Catalog, overflow: Tree | None) -> Tree | None:
    """Read the hot-file B-tree; None if it is missing or cannot be opened, or if a file merely has its name."""
    # The volume header has no field for this tree, and its CNID is that of an ordinary file.
    row = find_root_file(catalog, HOT_FILES)
    if row < 0:
        return None
    file_id = int(catalog.entries["file_id"][row])
    fork = extend_fork(data_fork_of(catalog, row), overflow, file_id, DATA_FORK)
    # Each hot file has two records; its thread record has a temperature of 0xFFFFFFFF.
    key = HOT_FILE_LEAF_RECORD.key
    decode = partial(decode_fixed, HOT_FILE_LEAF_RECORD, (key.file_id, key.temperature))
    # Findings in a file that merely has this name are dropped.
    log = volume.log.branch()
    tree = read_tree(replace(volume, log=log), "hot-files", fork, decode)
    if tree is not None:
        # The second record of the header node, which other trees do not use (TN1150, User Data Record).
        info = grammar.parse(
            grammar.HfsplusHotfiles.HotFilesInfo, tree.file.user_data, structure="hot-file user data", image_offset=0
        )
        if int(info.magic) != grammar.HfsplusHotfiles.HotFilesMagic.hot_files:
            return None
    volume.log.extend(log.findings)
    return tree


def count_entries_by_parent(parent_ids: I64, folder_ids: I64) -> I64:
    """Count the entries that name each folder as their parent, shape (n_folders,).

    >>> count_entries_by_parent(np.array([2, 2, 16]), np.array([16, 2, 17])).tolist()
    [1, 2, 0]
    """
    # The catalog is sorted by parent, unless its keys are damaged.
    ordered = parent_ids if is_ascending(parent_ids) else np.sort(parent_ids)
    starts = heads(ordered)
    counts = lengths_of(starts, len(ordered))
    place = find(ordered[starts], folder_ids)
    return np.where(place >= 0, np.append(counts, 0)[place], 0)


def num_missing_entries(volume: Volume, catalog: Catalog) -> int:
    """Return the least number of missing entries by the counts of the volume header and the folders, and by threads."""
    entries, header = catalog.entries, volume.header
    num_folders = int(entries["is_folder"].sum())
    num_files = len(entries["is_folder"]) - num_folders
    by_header = max(int(header.num_files) - num_files, 0) + max(int(header.num_folders) - max(num_folders - 1, 0), 0)
    if not volume.log.has_errors:
        # The other sources take a pass over all entries. The checks used them already and found nothing missing.
        return by_header
    is_folder = entries["is_folder"]
    counted = count_entries_by_parent(entries["parent_id"], entries["file_id"][is_folder])
    short = entries["valence"][is_folder] - counted
    # A count beyond all CNIDs is damaged itself, so it is ignored.
    by_folders = int(short[(short > 0) & (short < int(header.next_catalog_id))].sum())
    return max(by_header, by_folders, len(catalog.orphans))
