"""The comparisons of a scan: checks of the contents of a volume that need no second reading.

A scan must not load the other checks or the field rules. Rules about files and folders report only their first case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.hfsplus.catalog import DATA_FORK, RESOURCE_FORK, ROOT_FOLDER
from layoutscope.filesystems.hfsplus.contents import count_entries_by_parent
from layoutscope.filesystems.hfsplus.tree import Tree, header_log, is_case_sensitive, node_log
from layoutscope.structs.arrays import LARGEST, find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.hfsplus.catalog import Catalog
    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.structs.arrays import I64, U32, Mask


def compare_contents(volume: Volume, contents: Contents) -> None:
    """Compare the contents of a volume; findings are added to its log."""
    for tree in contents.trees.values():
        check_leaf_count(volume, tree)
        leaves = tree.reach.leaves
        first, last = tree.nodes.first_key_id[leaves], tree.nodes.last_key_id[leaves]
        early = leaves[1:][(first[1:] >= 0) & (first[1:] < last[:-1])]
        if len(early):
            message = f"{len(early):,} leaves start before the end of the leaf before"
            node_log(volume, tree.file, int(early[0])).add("keys-unordered", "warning", message)
        check_tree_header(volume, tree)
    catalog = contents.trees.get("catalog")
    if catalog is None:
        return
    check_counts(volume, contents.catalog)
    entries, threads = contents.catalog.entries, contents.catalog.threads
    if not (entries["is_folder"] & (entries["file_id"] == ROOT_FOLDER)).any():
        # Even a volume without files has a root folder. If it is missing, nothing of the catalog was read.
        header_log(volume, catalog.file, "root_node").add("parent-missing", "error", "there is no root folder")
    for code, wrong, words in _mark_wrong_entries(volume, contents):
        rows = np.flatnonzero(wrong)
        if len(rows):
            node, cnid = (int(entries[name][rows[0]]) for name in ("node", "file_id"))
            message = f"{len(rows):,} files or folders {words}; the first has CNID {cnid}"
            node_log(volume, catalog.file, node).add(code, "error", message)
    # Threads of missing files and folders name the lost file or folder and its parent folder.
    rows = contents.catalog.orphans
    if len(rows):
        node, cnid, parent = (int(threads[name][rows[0]]) for name in ("node", "file_id", "parent_id"))
        message = f"{len(rows):,} files or folders that have threads are missing; the first is CNID {cnid}"
        log = node_log(volume, catalog.file, node)
        log.add("thread-orphaned", "error", f"{message}, in the folder of CNID {parent}")
        if contents.stale is not None:
            message = f"{len(rows):,} of them are listed again where their threads say, without size and dates"
            log.add("tree-rebuilt", "warning", message)


def _mark_wrong_entries(volume: Volume, contents: Contents) -> Iterator[tuple[str, Mask, str]]:
    """Yield the code of each rule about files and folders, the entries that break it, and its words."""
    catalog, overflow = contents.catalog, contents.trees.get("extents-overflow")
    entries, forks, place = catalog.entries, catalog.forks, catalog.thread_of
    is_folder = entries["is_folder"]
    # Drivers treat sizes as signed; decoding caps larger ones at the largest number.
    wrong = (entries["data_size"] == LARGEST) | (entries["resource_size"] == LARGEST)
    yield "fork-size-differs", wrong, "have a size of 2**63 bytes or more"
    # Old volumes may lack threads of files.
    elsewhere = (place >= 0) & (np.append(catalog.threads["parent_id"], 0)[place] != entries["parent_id"])
    wrong = elsewhere | catalog.is_renamed | (is_folder & (place < 0))
    yield "thread-differs", wrong, "have no thread record, or one with another parent or name"
    num_entries = count_entries_by_parent(entries["parent_id"], entries["file_id"][is_folder])
    wrong = is_folder.copy()
    wrong[wrong] = num_entries != entries["valence"][wrong]
    yield "valence-differs", wrong, "count other entries than they have"
    wrong = catalog.misplaced(is_folded=not is_case_sensitive(volume, contents.trees.get("catalog")))
    yield "keys-unordered", wrong, "have a key that does not come after the one before"
    wrong = np.zeros(len(is_folder), np.bool_)
    outside = are_outside(forks["start_block"], forks["block_count"], int(volume.header.num_blocks))
    wrong[forks["entry"][outside]] = True
    yield "extent-outside", wrong, "have extents that leave the volume"
    wrong = np.zeros(len(is_folder), np.bool_)
    for fork_type, declared in ((DATA_FORK, "data_blocks"), (RESOURCE_FORK, "resource_blocks")):
        mine = forks["fork_type"] == fork_type
        # Few files have a resource fork. If none has one, all extents belong to data forks and need no selection.
        entry, blocks = (forks[name] if mine.all() else forks[name][mine] for name in ("entry", "block_count"))
        counted = np.bincount(entry, blocks, minlength=len(wrong)) if len(entry) else np.zeros(len(wrong))
        if overflow is not None and len(overflow.records["node"]):
            mine = overflow.records["key.fork_type"] == fork_type
            owners, blocks = (overflow.records[name][mine] for name in ("key.file_id", "data.extents.num_blocks"))
            counted += overflow_blocks(entries["file_id"], owners, blocks)
        wrong |= counted != entries[declared]
    yield "fork-size-differs", wrong, "have forks that count other blocks than their extents hold"


def overflow_blocks(file_ids: I64, owner_ids: I64, block_counts: I64) -> I64:
    """Sum the blocks that overflow records of one fork type add to each file; records of other files are ignored.

    >>> counts = np.array([[4, 1, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]])
    >>> overflow_blocks(np.array([16, 17]), np.array([17, 5]), counts).tolist()
    [0, 5]
    """
    place = find(file_ids, owner_ids)
    blocks = block_counts.sum(axis=1)
    return np.bincount(place[place >= 0], blocks[place >= 0], minlength=len(file_ids)).astype(np.int64)


def are_outside(start_blocks: I64 | U32, block_counts: I64 | U32, total_blocks: int) -> Mask:
    """Mark the extents that leave the volume; unused ones never do, whatever their start."""
    # Unsigned block numbers wrap around, so their sum is not computed. The difference wraps around only if the start
    # itself is outside.
    found: Mask = (block_counts > 0) & ((start_blocks > total_blocks) | (block_counts > total_blocks - start_blocks))
    return found


def check_leaf_count(volume: Volume, tree: Tree) -> None:
    """Compare the number of leaf records in a tree's header with its leaves."""
    found, declared = tree.num_leaf_records, int(tree.file.header.leaf_records)
    lost = "leaf records are missing of those that the header counts"
    fewer = "the header counts fewer leaf records than there are"
    _compare_count(header_log(volume, tree.file, "leaf_records"), "tree-count-differs", found, declared, lost, fewer)


def _compare_count(log: FindingLog, code: str, found: int, declared: int, lost: str, fewer: str) -> None:
    """Compare a count with what was found; a higher count means that something is missing."""
    if found < declared:
        log.add(code, "error", f"{declared - found:,} {lost}", expected=found, found=declared)
    elif found > declared:
        log.add(code, "warning", fewer, expected=found, found=declared)


def check_counts(volume: Volume, catalog: Catalog) -> None:
    """Compare the file and folder counts with the catalog; the root folder is not counted, links count as files."""
    is_folder = catalog.entries["is_folder"]
    for noun, found, field in (
        ("files", int((~is_folder).sum()), "num_files"),
        ("folders", max(int(is_folder.sum()) - 1, 0), "num_folders"),
    ):
        declared = int(getattr(volume.header, field))
        lost = f"{noun} are missing of those that the volume header counts"
        fewer = f"the volume header counts fewer {noun} than the catalog holds"
        _compare_count(volume.header_field(field), "file-count-differs", found, declared, lost, fewer)
    # Once all 32-bit numbers are used, numbers are reused, and the header's next number has no meaning (TN1150,
    # kHFSCatalogNodeIDsReusedBit).
    highest, following = int(catalog.entries["file_id"].max(initial=0)), int(volume.header.next_catalog_id)
    if highest >= following and not volume.header.is_cnid_reused:
        log, message = volume.header_field("next_catalog_id"), "the next catalog node ID is in use already"
        log.add("next-cnid-used", "warning", message, expected=highest + 1, found=following)


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
            log, message = header_log(volume, tree.file, field), f"the header's {what} is not that of the nodes"
            log.add("tree-header-differs", "warning", message, expected=expected, found=found)
