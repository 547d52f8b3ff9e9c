"""Reading one whole B-tree: nodes, shape and leaf records in key order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.ragged import heads, lengths_of
from layoutscope.filesystems.hfsplus.tree.btree import Decoded, LeafDecoder, TreeFile, TreePlace, decode_tree, open_tree
from layoutscope.filesystems.hfsplus.tree.nodes import HEADER, LEAF, MAP, NodeRows, ReadNodes, RecordBatch
from layoutscope.filesystems.hfsplus.tree.shape import (
    Reach,
    check_reach,
    find_reach,
    follow_chain,
    may_be_node,
    node_log,
    node_offset,
    unusable_nodes,
)
from layoutscope.filesystems.hfsplus.volume.fork import locate
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Columns, Mask
    from layoutscope.filesystems.hfsplus.volume.volume import Volume


_COMPARE = grammar.HfsplusBtree.KeyCompareType


@frozen
class Tree:
    """A B-tree that was read."""

    file: TreeFile  # its file, header and map
    nodes: NodeRows
    reach: Reach  # its leaves, and where pointers lead nowhere
    records: Columns  # the records of its leaves, in key order; `node` is the leaf's number


def is_case_sensitive(volume: Volume, catalog: Tree | None) -> bool:
    """Whether names compare by their 16-bit numbers, which only HFSX can."""
    return volume.is_hfsx and catalog is not None and catalog.file.header.key_compare_type == _COMPARE.binary


def first_rows(trees: list[Tree]) -> dict[str, int]:
    """Row of node 0 of each tree."""
    rows, row = {}, 0
    for tree in trees:
        rows[tree.file.tree] = row
        row += tree.file.num_nodes
    return rows


def is_whole(tree: Tree) -> bool:
    """Whether pointers, the chain of leaves and the header's counts agree that every leaf was reached."""
    reach, nodes, header = tree.reach, tree.nodes, tree.file.header
    if len(reach.missing) or len(reach.misled):
        return False
    if not len(reach.leaves):
        return not header.leaf_records and not (nodes.kind == LEAF).any()
    is_linked = bool((nodes.f_link[reach.leaves] == np.append(reach.leaves[1:], 0)).all())
    return is_linked and int(nodes.num_records[reach.leaves].sum()) >= int(header.leaf_records)


def damaged_nodes(tree: Tree) -> Mask:
    """Nodes in use that the tree leads to and that are not what it needs, in whole or in part."""
    file, table, reach = tree.file, tree.nodes, tree.reach
    # A leaf that an index node leads to and that has no rank was dropped: it has the keys of others, or none.
    is_dropped = (table.parent >= 0) & (table.key_rank < 0)
    damaged: Mask = (table.damaged & (table.key_rank >= 0)) | is_dropped
    damaged[unusable_nodes(file, table, reach)] = True
    # A pointer to a node that may well be one is wrong itself, unless others beside it are right.
    is_lost = (table.key_rank[reach.lost] < 0) & np.isin(reach.lost_from, table.parent)
    damaged[reach.lost[is_lost]] = True
    damaged[[0, *file.map_nodes.tolist()]] = False
    damaged[file.lost_map_nodes] = True
    # Where the header was made up, those who did so know whether node 0 is the lost one.
    damaged[0] = table.damaged[0] or (table.kind[0] != HEADER and not table.is_inferred[0])
    return damaged & file.used & file.readable


def is_unusable(tree: Tree, damaged: Mask) -> Mask:
    """Tell of which damaged nodes no record is used: neither kind nor counts of such a node are believed."""
    table = tree.nodes
    is_header = (table.kind == HEADER) & (np.arange(len(table.kind)) == 0)
    found: Mask = damaged & ~is_header & ((table.key_rank < 0) | ~may_be_node(table))
    return found


def read_tree(volume: Volume, place: TreePlace, leaves: LeafDecoder) -> Tree | None:
    """Read a B-tree; None where there is none or its header is damaged."""
    file = open_tree(volume, place)
    if file is None:
        return None
    nodes = NodeRows.blank(file.num_nodes)
    decoded = Decoded(nodes)
    decode_tree(volume, file, np.flatnonzero(file.used & file.readable), leaves, decoded)
    reach = find_reach(file, nodes, decoded.pointers)
    while True:
        # Nodes that the map calls free, or has no bits for, though the tree points to them are read after all.
        late = reach.missing[file.readable[reach.missing] & ~file.used[reach.missing]]
        if not len(late):
            break
        _report_map(volume, file, late[late < file.num_mapped])
        file.used[late] = True
        decode_tree(volume, file, late, leaves, decoded)
        reach = find_reach(file, nodes, decoded.pointers)
    for numbers in leaves.bad:
        nodes.damaged[numbers] = True
    _report_short_map(volume, file, nodes)
    check_reach(volume, file, nodes, reach)
    _report_unreadable(volume, file)
    damaged = unusable_nodes(file, nodes, reach)
    reach = follow_chain(file, nodes, reach)
    _report_unreached(volume, file, nodes, damaged)
    return Tree(file, nodes, reach, in_key_order(file, decoded, reach.leaves, leaves, volume))


def in_key_order(file: TreeFile, decoded: Decoded, order: I64, leaves: LeafDecoder, volume: Volume) -> Columns:
    """Join leaf records and bring them into the order of the leaves; leaves that were not reached drop out."""
    decoded.leaves.add(leaves.decode(volume, _no_records(file), np.empty(0, np.bool_)))  # for a tree without nodes
    node = decoded.leaves.values["node"]
    # Records of one leaf stand together, in its order: whole leaves are moved.
    first = heads(node)
    counts = np.zeros(file.num_nodes, np.int64)
    starts = np.zeros(file.num_nodes, np.int64)
    counts[node[first]] = lengths_of(first, len(node))
    starts[node[first]] = first
    return decoded.leaves.give_up(starts[order], counts[order])


def _no_records(file: TreeFile) -> RecordBatch:
    none: I64 = np.empty(0, np.int64)
    nodes = ReadNodes(
        np.zeros(file.node_size_bytes, np.uint8), file.node_size_bytes, none, none, none, none, none, none
    )
    return RecordBatch(nodes, none, none, none, none, none, none, np.empty(0, np.bool_))


def _report_map(volume: Volume, file: TreeFile, numbers: I64) -> None:
    if not len(numbers):
        return
    first = int(numbers[0])
    volume.log.at(f"{file.tree} B-tree map", map_offset(volume, file, first)).add(
        "node-map-differs",
        "warning",
        f"the map calls {len(numbers):,} nodes free that the tree uses; the first is node {first}",
        expected="used",
        found="free",
    )


def _report_short_map(volume: Volume, file: TreeFile, nodes: NodeRows) -> None:
    """Report a map that ends before the file; Linux grows a file first, and adds a map node when it needs one."""
    if file.num_mapped == file.num_nodes:
        return
    beyond = int(file.used[file.num_mapped :].sum())
    stray = np.setdiff1d(np.flatnonzero(nodes.kind == MAP), file.map_nodes)
    is_harmless = not beyond and not len(stray)
    volume.log.at(
        f"{file.tree} B-tree map", node_offset(volume, file, int(file.map_nodes[-1]) if len(file.map_nodes) else 0)
    ).add(
        "node-map-short",
        "info" if is_harmless else "warning",
        f"the map of used nodes ends early; the tree uses {beyond:,} nodes behind its end",
        expected=file.num_nodes,
        found=file.num_mapped,
    )


def map_offset(volume: Volume, file: TreeFile, number: int) -> int | None:
    """Where the byte with a node's bit lies on the volume.

    In bytes from the start of the volume; None where the map ends before it.
    """
    byte = number // 8
    for start, length in file.map_parts:
        if byte < length:
            return int(locate(volume, file.fork, np.array([start + byte]), np.array([1])).volume_offset[0])
        byte -= length
    return None


def _report_unreadable(volume: Volume, file: TreeFile) -> None:
    lost = np.flatnonzero(file.used & ~file.readable)
    if len(lost):
        first = int(lost[0])
        node_log(volume, file, first).add(
            "node-unreadable",
            "error",
            f"{len(lost):,} nodes in use lie outside the image or in areas that could not be read",
        )


def _report_unreached(volume: Volume, file: TreeFile, nodes: NodeRows, damaged: I64) -> None:
    special = np.zeros(file.num_nodes, np.bool_)
    special[[0, *file.map_nodes.tolist(), *damaged.tolist()]] = True
    lost = np.flatnonzero(file.used & file.readable & ~special & (nodes.key_rank < 0))
    # A node without records was never part of the tree: its bit alone is wrong.
    empty = lost[nodes.num_records[lost] <= 0]
    if len(empty):
        volume.log.at(f"{file.tree} B-tree map", map_offset(volume, file, int(empty[0]))).add(
            "node-map-differs",
            "warning",
            f"the map calls {len(empty):,} nodes used that are empty; the first is node {empty[0]}",
            expected="free",
            found="used",
        )
    lost = lost[nodes.num_records[lost] > 0]
    if len(lost):
        first = int(lost[0])
        node_log(volume, file, first).add(
            "node-unreached",
            "warning",
            f"the map calls {len(lost):,} nodes used that the tree does not reach",
            expected="free",
            found="used",
        )
