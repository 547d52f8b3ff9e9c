"""The comparisons of a scan: what contradicts itself among the contents of a volume, without a second reading.

A scan must not load the other checks or the field rules. Rules about files and folders report only their first case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.hfsplus.catalog import DATA_FORK, RESOURCE_FORK, ROOT_FOLDER
from layoutscope.filesystems.hfsplus.contents import count_entries_by_parent
from layoutscope.filesystems.hfsplus.tree import Tree, header_log, is_case_sensitive, node_log
from layoutscope.structs.arrays import LARGEST, find

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.catalog import Catalog
    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.structs.arrays import I64, U32, Mask


def compare_contents(volume: Volume, contents: Contents) -> None:
    """Compare the contents of a volume; findings are added to its log."""
    for tree in contents.trees.values():
        check_leaf_count(volume, tree)
        _check_leaf_order(volume, tree)
        check_tree_header(volume, tree)
    catalog = contents.trees.get("catalog")
    if catalog is None:
        return
    check_counts(volume, contents.catalog)
    if not (contents.catalog.entries["is_folder"] & (contents.catalog.entries["file_id"] == ROOT_FOLDER)).any():
        # Even a volume without files has a root folder. If it is missing, nothing of the catalog was read.
        header_log(volume, catalog.file, "root_node").add("parent-missing", "error", "there is no root folder")
    for code, rule, message in _OF_ENTRIES:
        rows = np.flatnonzero(rule(volume, contents))
        if len(rows):
            first = {name: int(contents.catalog.entries[name][rows[0]]) for name in ("node", "file_id")}
            told = f"{len(rows):,} files or folders {message}; the first has CNID {first['file_id']}"
            node_log(volume, catalog.file, first["node"]).add(code, "error", told)
    _check_orphans(volume, contents)


def overflow_blocks(
    file_ids: I64,
    owner_ids: I64,  # file of each record; records of other files are ignored
    block_counts: I64,  # blocks of the record's extents
) -> I64:
    """Sum the blocks that overflow records of one fork type add to each file.

    >>> counts = np.array([[4, 1, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]])
    >>> overflow_blocks(np.array([16, 17]), np.array([17, 5]), counts).tolist()
    [0, 5]
    """
    place = find(file_ids, owner_ids)
    blocks = block_counts.sum(axis=1)
    return np.bincount(place[place >= 0], blocks[place >= 0], minlength=len(file_ids)).astype(np.int64)


def are_outside(
    start_blocks: I64 | U32,
    block_counts: I64 | U32,
    total_blocks: int,  # blocks of the volume
) -> Mask:
    """Mark the extents that leave the volume; unused ones never do, whatever their start."""
    # Unsigned block numbers wrap around, so their sum is not computed. The difference wraps around only if the start
    # itself is outside.
    found: Mask = (block_counts > 0) & ((start_blocks > total_blocks) | (block_counts > total_blocks - start_blocks))
    return found


def check_leaf_count(volume: Volume, tree: Tree) -> None:
    """Compare the number of leaf records in a tree's header with its leaves."""
    found, declared = int(tree.nodes.num_records[tree.reach.leaves].sum()), int(tree.file.header.leaf_records)
    log, code = header_log(volume, tree.file, "leaf_records"), "tree-count-differs"
    if found < declared:
        message = f"{declared - found:,} leaf records are missing of those that the header counts"
        log.add(code, "error", message, expected=found, found=declared)
    elif found > declared:
        log.add(code, "warning", "the header counts fewer leaf records than there are", expected=found, found=declared)


def _check_leaf_order(volume: Volume, tree: Tree) -> None:
    leaves = tree.reach.leaves
    first, last = tree.nodes.first_key_id[leaves], tree.nodes.last_key_id[leaves]
    wrong = np.flatnonzero((first[1:] >= 0) & (first[1:] < last[:-1])) + 1
    _report_nodes(volume, tree, "keys-unordered", leaves[wrong], "leaves start before the end of the leaf before")


def check_counts(volume: Volume, catalog: Catalog) -> None:
    """Compare the file and folder counts with the catalog; the root folder is not counted, links count as files."""
    is_folder = catalog.entries["is_folder"]
    for noun, found, field in (
        ("files", int((~is_folder).sum()), "num_files"),
        ("folders", max(int(is_folder.sum()) - 1, 0), "num_folders"),
    ):
        declared = int(getattr(volume.header, field))
        log, code = volume.header_field(field), "file-count-differs"
        if found < declared:
            message = f"{declared - found:,} {noun} are missing of those that the volume header counts"
            log.add(code, "error", message, expected=found, found=declared)
        elif found > declared:
            message = f"the volume header counts fewer {noun} than the catalog holds"
            log.add(code, "warning", message, expected=found, found=declared)
    # Once all 32-bit numbers are used, numbers are reused, and the header's next number has no meaning (TN1150,
    # kHFSCatalogNodeIDsReusedBit).
    highest, following = int(catalog.entries["file_id"].max(initial=0)), int(volume.header.next_catalog_id)
    if highest >= following and not volume.header.is_cnid_reused:
        message = "the next catalog node ID is in use already"
        volume.header_field("next_catalog_id").add(
            "next-cnid-used", "warning", message, expected=highest + 1, found=following
        )


def check_tree_header(volume: Volume, tree: Tree) -> None:
    """Compare the header record with the nodes, if all of them could be read."""
    if (tree.file.used & ~tree.file.readable).any():
        return
    header, leaves, table = tree.file.header, tree.reach.leaves, tree.nodes
    root = int(header.root_node)
    pairs = [("num_free_nodes", int((~tree.file.used).sum()))]
    if len(leaves) and 0 < root < tree.file.num_nodes:
        ends = ("first_leaf_node", int(leaves[0])), ("last_leaf_node", int(leaves[-1]))
        pairs += [("tree_depth", int(table.height[root])), *ends]
    for field, expected in pairs:
        found = int(getattr(header, field))
        if found != expected:
            what = field.removeprefix("num_").replace("_", " ")
            message = f"the header's {what} is not that of the nodes"
            header_log(volume, tree.file, field).add(
                "tree-header-differs", "warning", message, expected=expected, found=found
            )


def _wrong_threads(_: Volume, contents: Contents) -> Mask:
    """Mark missing threads of folders, and wrong threads; old volumes may lack threads of files."""
    entries, threads = contents.catalog.entries, contents.catalog.threads
    place = contents.catalog.thread_of
    elsewhere = (place >= 0) & (np.append(threads["parent_id"], 0)[place] != entries["parent_id"])
    wrong: Mask = elsewhere | contents.catalog.is_renamed | (entries["is_folder"] & (place < 0))
    return wrong


def _check_orphans(volume: Volume, contents: Contents) -> None:
    """Report threads of missing files and folders; they name the lost file or folder and its parent folder."""
    threads, catalog = contents.catalog.threads, contents.trees["catalog"]
    rows = contents.catalog.orphans
    if len(rows):
        first = {name: int(threads[name][rows[0]]) for name in ("node", "file_id", "parent_id")}
        place = f"the first is CNID {first['file_id']}, in the folder of CNID {first['parent_id']}"
        message = f"{len(rows):,} files or folders that have threads are missing; {place}"
        node_log(volume, catalog.file, first["node"]).add("thread-orphaned", "error", message)
        if contents.stale is not None:
            told = f"{len(rows):,} of them are listed again where their threads say, without size and dates"
            node_log(volume, catalog.file, first["node"]).add("tree-rebuilt", "warning", told)


def _wrong_valence(_: Volume, contents: Contents) -> Mask:
    entries = contents.catalog.entries
    wrong = entries["is_folder"].copy()
    wrong[wrong] = count_entries_by_parent(entries["parent_id"], entries["file_id"][wrong]) != entries["valence"][wrong]
    return wrong


def _wrong_order(volume: Volume, contents: Contents) -> Mask:
    is_folded = not is_case_sensitive(volume, contents.trees.get("catalog"))
    return contents.catalog.misplaced(is_folded=is_folded)


def _wrong_extents(volume: Volume, contents: Contents) -> Mask:
    forks = contents.catalog.forks
    outside = are_outside(forks["start_block"], forks["block_count"], int(volume.header.num_blocks))
    wrong = np.zeros(len(contents.catalog.name), np.bool_)
    wrong[forks["entry"][outside]] = True
    return wrong


def _wrong_sizes(_: Volume, contents: Contents) -> Mask:
    """Mark the files with forks whose block counts differ from their extents, including overflow extents."""
    entries, forks = contents.catalog.entries, contents.catalog.forks
    overflow = contents.trees.get("extents-overflow")
    wrong = np.zeros(len(entries["file_id"]), np.bool_)
    for fork_type, declared in ((DATA_FORK, "data_blocks"), (RESOURCE_FORK, "resource_blocks")):
        mine = forks["fork_type"] == fork_type
        # Few files have a resource fork. If none has one, all extents belong to data forks and need no selection.
        entry, blocks = (forks[name] if mine.all() else forks[name][mine] for name in ("entry", "block_count"))
        counted = np.bincount(entry, blocks, minlength=len(wrong)) if len(entry) else np.zeros(len(wrong))
        if overflow is not None and len(overflow.records["node"]):
            records = overflow.records
            mine = records["key.fork_type"] == fork_type
            owners, blocks = records["key.file_id"][mine], records["data.extents.num_blocks"][mine]
            counted += overflow_blocks(entries["file_id"], owners, blocks)
        wrong |= counted != entries[declared]
    return wrong


def _wrong_logical_sizes(_: Volume, contents: Contents) -> Mask:
    """Mark sizes of 2**63 bytes or more, which drivers treat as signed; decoding caps them at the largest number."""
    entries = contents.catalog.entries
    wrong: Mask = (entries["data_size"] == LARGEST) | (entries["resource_size"] == LARGEST)
    return wrong


_OF_ENTRIES: Final = (
    ("fork-size-differs", _wrong_logical_sizes, "have a size of 2**63 bytes or more"),
    ("thread-differs", _wrong_threads, "have no thread record, or one with another parent or name"),
    ("valence-differs", _wrong_valence, "count other entries than they have"),
    ("keys-unordered", _wrong_order, "have a key that does not come after the one before"),
    ("extent-outside", _wrong_extents, "have extents that leave the volume"),
    ("fork-size-differs", _wrong_sizes, "have forks that count other blocks than their extents hold"),
)
"""Findings of a scan about files and folders: code, function that marks the entries, and message."""


def _report_nodes(volume: Volume, tree: Tree, code: str, nodes: I64, message: str) -> None:
    """Report nodes in a single finding at the first one."""
    if len(nodes):
        node = int(nodes[0])
        node_log(volume, tree.file, node).add(code, "warning", f"{len(nodes):,} {message}")
