"""All data read from a volume: its trees, their content, and the free space.

TN1150, "HFS Plus Basics". The volume header leads to the special files. The extents-overflow file is read first,
because it completes the others; then the catalog, the attributes and the hot files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus import attributes as attributes_file
from layoutscope.filesystems.hfsplus import catalog as catalog_file
from layoutscope.filesystems.hfsplus.btree import TreePlace
from layoutscope.filesystems.hfsplus.extents import extend_fork, overflow_leaves
from layoutscope.filesystems.hfsplus.features import report_version
from layoutscope.filesystems.hfsplus.forks import Fork, inline_fork, locate_byte, read_free_runs
from layoutscope.filesystems.hfsplus.journal import find_journal, is_applied, replay_journal, report_pending
from layoutscope.filesystems.hfsplus.nodes import INDEX
from layoutscope.filesystems.hfsplus.rootfiles import read_hot_files, report_unread_journal
from layoutscope.filesystems.hfsplus.tree import (
    Tree,
    first_rows,
    is_whole,
    read_tree,
)
from layoutscope.filesystems.hfsplus.volume import Volume, alternate_header, open_volume, report_change, reread_header
from layoutscope.structs import grammar
from layoutscope.structs.arrays import LARGEST, distinct, find, heads, is_ascending, lengths_of

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
    reader = _Trees(volume, found, special_forks(volume.header), journal)
    special = reader.special
    reader.overflow, _ = reader.read("extents-overflow", CNID.extents_file)
    for file_id, fork in special.items() if not volume.is_inferred else ():
        special[file_id] = extend_fork(fork, reader.overflow, file_id, catalog_file.DATA_FORK)
    catalog_tree, catalog_leaves = reader.read("catalog", CNID.catalog_file)
    attribute_tree, attribute_leaves = reader.read("attributes", CNID.attributes_file)
    assert isinstance(catalog_leaves, catalog_file.CatalogLeaves)  # noqa: S101  (for the type checker)
    assert isinstance(attribute_leaves, attributes_file.AttributeLeaves)  # noqa: S101  (for the type checker)
    catalog = catalog_file.collect_catalog(catalog_tree, catalog_leaves)
    every = {"extents-overflow": reader.overflow, "catalog": catalog_tree, "attributes": attribute_tree}
    every["hot-files"] = read_hot_files(volume, catalog, reader.overflow)
    trees = {name: tree for name, tree in every.items() if tree is not None}
    for tree in trees.values():
        _report_losses(volume, tree, catalog)
    if journal is not None:
        report_unread_journal(volume, journal, catalog)
    rows = first_rows(list(trees.values()))
    stale: dict[str, int] | None = None
    if found is not None:
        from layoutscope.filesystems.hfsplus.rescue import report_stale

        stale = report_stale(volume, trees, found)
    return Contents(
        journal,
        special,
        trees,
        catalog,
        attributes_file.collect_attributes(attribute_tree, attribute_leaves, rows.get("attributes", 0)),
        *read_free_runs(volume, special[CNID.allocation_file]),
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
    node = tree.pointers["node"]
    reached = np.flatnonzero((table.key_rank[node] >= 0) & (table.kind[node] == INDEX))
    order = reached[np.lexsort((table.key_rank[node[reached]], table.height[node[reached]]))]
    node, child, ident, at = (tree.pointers[name][order] for name in ("node", "child", "ident", "at"))
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


LEAVES: Final[dict[str, Callable[[], LeafDecoder]]] = {
    "extents-overflow": overflow_leaves,
    "catalog": catalog_file.CatalogLeaves,
    "attributes": attributes_file.AttributeLeaves,
}
"""Leaf decoders, by tree."""


def special_forks(header: HfsplusVolume.VolumeHeader) -> dict[int, Fork]:
    """Return the forks of the special files in a volume header."""
    return {
        int(CNID.allocation_file): inline_fork(header.allocation_file),
        int(CNID.extents_file): inline_fork(header.extents_file),
        int(CNID.catalog_file): inline_fork(header.catalog_file),
        int(CNID.attributes_file): inline_fork(header.attributes_file),
        int(CNID.startup_file): inline_fork(header.startup_file),
    }


class _Trees(Struct):
    """Reads the trees of a volume, including broken ones."""

    volume: Volume  # receives findings
    found: Swept | None  # nodes that a sweep found
    # special files by their CNID; if only the copy of the volume header leads to a tree, its fork is replaced
    special: dict[int, Fork]
    journal: Journal | None
    overflow: Tree | None = None  # the extents-overflow file, once it is read

    def read(self, name: str, file_id: int) -> tuple[Tree | None, LeafDecoder]:
        """Read a tree; if it is broken, rebuild it from its leaves, and also try the copy of the header."""
        place = TreePlace(name, file_id, self.special[file_id])
        leaves = LEAVES[name]()
        tree = read_tree(self.volume, place, leaves)
        # Every volume has a catalog. Other trees may be absent, unless their absence is uncertain.
        may_be_absent = not (place.fork.num_blocks or name == "catalog" or self.volume.is_inferred)
        if is_whole(tree) if tree is not None else may_be_absent:
            return tree, leaves
        from layoutscope.filesystems.hfsplus.rescue import rebuild

        fresh = LEAVES[name]()
        rebuilt = rebuild(self.volume, place, tree, fresh, self.found, self.journal)
        if rebuilt is not None:
            tree, leaves = rebuilt, fresh
        other = self._by_copy(place)
        if other is not None and _num_records(other[0]) >= _num_records(tree):
            return other
        return tree, leaves

    def _by_copy(self, place: TreePlace) -> tuple[Tree | None, LeafDecoder] | None:
        """Read a tree from the extents in the copy of the volume header; return None if these are the same."""
        # The copy is rewritten only when a special file grows or moves (TN1150, "Volume Header"). Its counts are old,
        # but its extents are valid.
        header = alternate_header(self.volume)
        if header is None:
            return None
        fork = special_forks(header)[place.file_id]
        fork = extend_fork(fork, self.overflow, place.file_id, catalog_file.DATA_FORK)
        if fork.is_same(place.fork):
            return None
        leaves, other = LEAVES[place.tree](), place._replace(fork=fork)
        volume = replace(self.volume, log=self.volume.log.branch())
        tree = read_tree(volume, other, leaves)
        if tree is None or not len(tree.reach.leaves):
            return None
        self.special[place.file_id] = fork
        self.volume.log.extend(volume.log.findings)
        field = f"{place.tree.split('-')[0]}_file"
        self.volume.header_field(field).add(
            "volume-header-invalid", "error", f"the {place.tree} file is where the copy of the header says"
        )
        return tree, leaves


def _num_records(tree: Tree | None) -> int:
    return 0 if tree is None else int(tree.nodes.num_records[tree.reach.leaves].sum())


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
    """Return the minimum number of missing entries according to the volume's own counts.

    Sources are the volume header, which counts files and folders; folders, which count their entries; and threads,
    which name their file or folder.
    """
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
