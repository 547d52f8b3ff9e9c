"""Reading a whole B-tree: its nodes, its shape, and its leaf records in key order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus.btree import TreeFile, decode_tree, open_tree
from layoutscope.filesystems.hfsplus.forks import locate_byte
from layoutscope.filesystems.hfsplus.nodes import (
    DESCRIPTOR,
    HEADER,
    INDEX,
    LEAF,
    MAP,
    UNKNOWN_KIND,
    NodeRows,
    decode_nodes,
    locate_records,
)
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, Columns, GrowingTable, Mask, distinct, heads, lengths_of, ranges, starts_of
from layoutscope.structs.records import HEADER_NODE

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.btree import LeafDecoder
    from layoutscope.filesystems.hfsplus.forks import Fork
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.findings import FindingLog, Level


class Reach(Struct, frozen=True):
    """The nodes that the pointers of a tree lead to."""

    leaves: I64  # node numbers of the leaves, in key order
    missing: I64  # nodes that an index node points to but that were not decoded
    # index nodes with pointers that lead outside the file, to a node of the wrong height, or to one that has a parent
    misled: I64
    # lost, lost_from: nodes in the file that do not match a pointer to them, and the index node with that pointer
    lost: I64
    lost_from: I64
    astray: I64  # misleading pointers: numbers of the index node and of the target


def find_reach(file: TreeFile, nodes: NodeRows) -> Reach:
    """Traverse a tree from its root, level by level, and record each node's parent and rank in its level.

    A child counts if its height is one less than its parent's and no other node pointed to it before. The traversal
    therefore ends after as many levels as the height of the root, whatever the pointers say.

    The result has no leaves if the root is invalid, or if no pointer leads down to a leaf.
    """
    none: I64 = np.empty(0, np.int64)
    found = nodes.pointers.values
    order = np.argsort(found["node"], kind="stable")
    children = found["child"][order]
    counts = np.bincount(found["node"], minlength=file.num_nodes)
    starts = starts_of(counts)
    parent, rank = nodes.parent, nodes.key_rank
    parent[:], rank[:] = -1, -1
    # Node 0 is the header node: a root of 0 denotes an empty tree.
    root = int(file.header.root_node)
    is_root = 0 < root < file.num_nodes and nodes.kind[root] in (INDEX, LEAF)
    level = np.array([root] if is_root else [], np.int64)
    rank[level] = 0
    missing, lost, lost_from, astray = [none], [none], [none], [np.empty((0, 2), np.int64)]
    while len(level) and int(nodes.kind[level[0]]) == INDEX:
        child = children[ranges(starts[level], counts[level])]
        owner = np.repeat(level, counts[level])
        inside = (child > 0) & (child < file.num_nodes)
        place = np.where(inside, child, 0)
        unknown = inside & (nodes.kind[place] == UNKNOWN_KIND)
        # A child is one level below its owner, and of the kind for that level.
        kind = np.where(nodes.height[place] > 1, INDEX, LEAF)
        is_child = inside & (nodes.height[place] == nodes.height[owner] - 1) & (nodes.kind[place] == kind)
        fits = _first_only(place, is_child)
        missing.append(child[unknown])
        astray.append(np.column_stack([owner, child])[~unknown & ~fits])
        lost.append(child[inside & ~fits])
        lost_from.append(owner[inside & ~fits])
        level = child[fits]
        parent[level], rank[level] = owner[fits], np.arange(len(level))
    leaves = level if len(level) and int(nodes.kind[level[0]]) == LEAF else none
    pairs = np.concatenate(astray)
    child, owner = np.concatenate(lost), np.concatenate(lost_from)
    # A second pointer to a node is not evidence about the node.
    first = np.unique(child, return_index=True)[1]
    first = first[rank[child[first]] < 0]
    misled = distinct(pairs[:, 0])
    return Reach(leaves, distinct(np.concatenate(missing)), misled, child[first], owner[first], pairs)


def _first_only(child: I64, fits: Mask) -> Mask:
    """Drop later pointers to a node that an earlier pointer leads to."""
    rows = np.flatnonzero(fits)
    order = np.argsort(child[rows], kind="stable")
    first = np.zeros(len(fits), np.bool_)
    first[rows[order[heads(child[rows][order])]]] = True
    return first


def check_reach(volume: Volume, file: TreeFile, nodes: NodeRows, reach: Reach, damaged: I64) -> None:
    """Report where pointers, heights, links and counts contradict each other."""
    root = int(file.header.root_node)
    if file.header.tree_depth and (not len(reach.leaves)) and file.header.leaf_records:
        start = node_offset(volume, file, root) if root > 0 else None
        plus = DESCRIPTOR.num_records.offset if start is not None and nodes.num_records[root] <= 0 else 0
        log = header_log(volume, file, "root_node") if start is None else volume.log.at("", start, plus=plus)
        replace(log, structure=f"{file.tree} node {root}").add(
            "tree-unreachable", "error", "no leaf can be reached from the root"
        )
    for link in ("f_link", "b_link"):
        _check_links(volume, file, nodes, reach.leaves, link)
    listed = damaged.tolist()[:MAX_REPORTED]
    for number in listed:
        more = f"; {len(damaged) - MAX_REPORTED:,} further nodes" if number == listed[-1] else ""
        message = "it is in use, but neither a leaf nor an index node with records"
        node_log(volume, file, number).add("node-invalid", "error", message + more * (len(damaged) > MAX_REPORTED))
    # If a pointer leads to a damaged node, the pointer is right.
    for number in distinct(reach.astray[~np.isin(reach.astray[:, 1], damaged), 0]).tolist()[:MAX_REPORTED]:
        node_log(volume, file, number).add(
            "pointer-invalid", "error", "pointers lead to nodes that are not children of this one"
        )
    for number in np.flatnonzero(nodes.damaged & (nodes.key_rank >= 0)).tolist()[:MAX_REPORTED]:
        node_log(volume, file, number).add("records-invalid", "error", "record offsets or keys contradict the format")


def unusable_nodes(file: TreeFile, nodes: NodeRows, reach: Reach) -> I64:
    """List nodes in use whose kind, height and record count are not those that the tree needs there.

    If index nodes are lost, it is unknown what they led to; then the map decides which nodes should be valid. Otherwise
    a node that the tree does not reach is free, whatever its map says.
    """
    is_node = may_be_node(nodes) & ~nodes.damaged
    found = np.zeros(file.num_nodes, np.bool_)
    found[reach.lost] = True
    root = int(file.header.root_node)
    has_root = root in range(1, file.num_nodes) and (bool(is_node[root]) or not file.header.leaf_records)
    if root in range(1, file.num_nodes):
        found[root] = not has_root
    is_index_damaged = bool((nodes.damaged & (nodes.kind == INDEX) & (nodes.key_rank >= 0)).any())
    is_index_lost = bool((nodes.height[reach.lost_from] > LEAF_PARENT).any())
    if not has_root or not len(reach.leaves) or is_index_damaged or is_index_lost:
        found |= nodes_apart(file, nodes, reach)
    found[[0, *file.map_nodes.tolist()]] = False
    return np.flatnonzero(found & ~is_node & file.used & file.readable)


LEAF_PARENT: Final = 2
"""Height of the nodes above the leaves."""

MAX_HEIGHT: Final = 16
"""Maximum height: with two records per node, a tree of 16 levels would have more nodes than a volume has bytes."""


def may_be_node(nodes: NodeRows) -> Mask:
    """Mark the nodes whose kind, height and record count are those of leaves or index nodes."""
    is_leaf = (nodes.kind == LEAF) & (nodes.height == 1)
    is_index = (nodes.kind == INDEX) & (nodes.height > 1) & (nodes.height <= MAX_HEIGHT)
    found: Mask = (is_leaf | is_index) & (nodes.num_records > 0)
    return found


def nodes_apart(file: TreeFile, nodes: NodeRows, reach: Reach) -> Mask:
    """Mark nodes that nothing leads to, in a tree that has lost something; in a sound tree, mark none.

    A node that is in use but not reached is not evidence by itself: drivers leave some.
    """
    found = int(nodes.num_records[reach.leaves].sum())
    is_broken = len(reach.misled) + len(reach.missing) > 0 or found < int(file.header.leaf_records)
    apart: Mask = (nodes.key_rank < 0) & (nodes.kind != HEADER) & (nodes.kind != MAP)
    return apart & (is_broken or not len(reach.leaves))


def _check_links(volume: Volume, file: TreeFile, nodes: NodeRows, chain: I64, field: str) -> None:
    """Compare the forward or backward links of leaves with their neighbours in key order; both ends link to node 0."""
    is_forward = field == "f_link"
    which = "next" if is_forward else "previous"
    links = getattr(nodes, field)[chain]
    neighbours = np.append(chain[1:], 0) if is_forward else np.append(0, chain[:-1])
    for place in np.flatnonzero(links != neighbours[: len(chain)]).tolist()[:MAX_REPORTED]:
        message = f"the {which} leaf by link is not the {which} leaf by key"
        expected, found = int(neighbours[place]), int(links[place])
        node_log(volume, file, int(chain[place]), field).add(
            "leaf-chain-broken", "error", message, expected=expected, found=found
        )


MAX_REPORTED = 100
"""Limit on findings of one kind in one tree; more would add no information."""


def follow_chain(file: TreeFile, nodes: NodeRows, reach: Reach) -> Reach:
    """Add leaves that only the leaf chain still reaches, after the leaf that links to them."""
    links = np.append(int(file.header.first_leaf_node), nodes.f_link[reach.leaves])
    breaks = np.flatnonzero(links != np.append(reach.leaves, 0))
    seen = set(reach.leaves.tolist())
    pieces: list[int] = []
    places: list[int] = []
    # A sound tree has no breaks: only leaves that the index lost are visited one by one.
    for place in breaks.tolist():
        number = int(links[place])
        while 0 < number < file.num_nodes and number not in seen and nodes.kind[number] == LEAF:
            pieces.append(number)
            places.append(place)
            seen.add(number)
            number = int(nodes.f_link[number])
    if not pieces:
        return reach
    leaves = np.insert(reach.leaves, places, pieces)
    nodes.key_rank[leaves] = np.arange(len(leaves))
    return replace(reach, leaves=leaves)


def node_log(
    volume: Volume,
    file: TreeFile,
    number: int,
    field: str = "",  # of the node descriptor; empty for the node as a whole
) -> FindingLog:
    """Bind the log to a node, or to a field of its descriptor."""
    at = node_offset(volume, file, number)
    plus = DESCRIPTOR.offset_of(field) if field else 0
    return volume.log.at(f"{file.tree} node {number}", at, plus=plus)


def header_log(volume: Volume, file: TreeFile, field: str) -> FindingLog:
    """Bind the log to a field of a tree's header record."""
    # The header node is node 0, so its record is at the start of the file.
    at = int(file.fork.start_blocks[0]) * volume.block_size_bytes
    plus = HEADER_NODE.offset_of(f"header.{field}")
    return volume.log.at(f"{file.tree} B-tree header node", at, plus=plus)


def node_offset(volume: Volume, file: TreeFile, number: int) -> int | None:
    """Return the offset of a node, in bytes from the start of the volume; None if the file ends before it."""
    return locate_byte(volume, file.fork, number * file.node_size_bytes) if 0 <= number < file.num_nodes else None


_COMPARE = grammar.HfsplusBtree.KeyCompareType


class Tree(Struct, frozen=True):
    """A B-tree that was read."""

    file: TreeFile  # its file, header and map
    nodes: NodeRows
    reach: Reach  # its leaves, and its wrong pointers
    records: Columns  # the records of its leaves, in key order; `node` is the leaf's number

    @property
    def num_leaf_records(self) -> int:
        """Number of records in its leaves, with those that were not decoded."""
        return int(self.nodes.num_records[self.reach.leaves].sum())


def is_case_sensitive(volume: Volume, catalog: Tree | None) -> bool:
    """Return whether names are compared by their 16-bit units, which is possible only on HFSX."""
    return volume.is_hfsx and catalog is not None and catalog.file.header.key_compare_type == _COMPARE.binary


def first_rows(trees: dict[str, Tree]) -> dict[str, int]:
    """Return the row of node 0 of each tree."""
    starts = starts_of(np.array([tree.file.num_nodes for tree in trees.values()], np.int64))
    return dict(zip(trees, starts.tolist(), strict=True))


def is_whole(tree: Tree) -> bool:
    """Return whether pointers, leaf chain and the header's counts agree that every leaf was reached."""
    reach, nodes, header = tree.reach, tree.nodes, tree.file.header
    if len(reach.missing) or len(reach.misled):
        return False
    if not len(reach.leaves):
        return not header.leaf_records and not (nodes.kind == LEAF).any()
    is_linked = bool((nodes.f_link[reach.leaves] == np.append(reach.leaves[1:], 0)).all())
    return is_linked and tree.num_leaf_records >= int(header.leaf_records)


def find_damaged_nodes(tree: Tree) -> Mask:
    """Mark nodes in use that the tree leads to but that are wholly or partly unusable for it."""
    file, table, reach = tree.file, tree.nodes, tree.reach
    # A leaf with a parent but no rank was dropped: its keys overlap those of other leaves, or it has none.
    is_dropped = (table.parent >= 0) & (table.key_rank < 0)
    damaged: Mask = (table.damaged & (table.key_rank >= 0)) | is_dropped
    damaged[unusable_nodes(file, table, reach)] = True
    # A pointer to a valid node is itself wrong, unless other pointers in its index node are right.
    is_lost = (table.key_rank[reach.lost] < 0) & np.isin(reach.lost_from, table.parent)
    damaged[reach.lost[is_lost]] = True
    damaged[[0, *file.map_nodes.tolist()]] = False
    damaged[file.lost_map_nodes] = True
    # If the header was inferred, the rebuild already marked whether node 0 is the lost one.
    damaged[0] = table.damaged[0] or (table.kind[0] != HEADER and not table.is_inferred[0])
    return damaged & file.used & file.readable


def is_unusable(tree: Tree, damaged: Mask) -> Mask:
    """Mark the damaged nodes whose records are not used; neither kind nor counts of such a node are trusted."""
    table = tree.nodes
    is_header = (table.kind == HEADER) & (np.arange(len(table.kind)) == 0)
    is_believed = may_be_node(table) | (table.kind == LEAF)
    found: Mask = damaged & ~is_header & ((table.key_rank < 0) | ~is_believed)
    return found


def read_tree(volume: Volume, name: str, fork: Fork, decode: LeafDecoder) -> Tree | None:
    """Read a B-tree; return None if there is none or its header is damaged."""
    file = open_tree(volume, name, fork)
    if file is None:
        return None
    nodes, records = NodeRows.blank(file.num_nodes), GrowingTable()
    numbers = np.flatnonzero(file.used & file.readable)
    while True:
        decode_tree(volume, file, numbers, decode, nodes, records)
        reach = find_reach(file, nodes)
        # Nodes that the tree points to are read even if the map marks them as free or has no bits for them.
        numbers = reach.missing[file.readable[reach.missing] & ~file.used[reach.missing]]
        if not len(numbers):
            break
        _report_map(volume, file, numbers[numbers < file.num_mapped], "free", "used", "the tree uses")
        file.used[numbers] = True
    _report_short_map(volume, file, nodes)
    damaged = unusable_nodes(file, nodes, reach)
    check_reach(volume, file, nodes, reach, damaged)
    lost = np.flatnonzero(file.used & ~file.readable)
    if len(lost):
        message = f"{len(lost):,} nodes in use are outside the image or in areas that could not be read"
        node_log(volume, file, int(lost[0])).add("node-unreadable", "error", message)
    reach = follow_chain(file, nodes, reach)
    # A leaf of the wrong height that only the chain leads to supplies its records, but still counts as damaged.
    nodes.damaged[damaged[nodes.key_rank[damaged] >= 0]] = True
    _report_unreached(volume, file, nodes, damaged)
    return make_tree(file, nodes, reach, decode, records)


def make_tree(file: TreeFile, nodes: NodeRows, reach: Reach, decode: LeafDecoder, records: GrowingTable) -> Tree:
    """Join leaf records in the order of the leaves; records of unreached leaves are dropped."""
    order = reach.leaves
    # A tree without nodes has the same columns.
    empty = decode_nodes(np.empty(0, np.uint8), file.node_size_bytes, order[:0])
    records.add(decode(locate_records(empty, None), np.empty(0, np.bool_))[0])
    node = records.values["node"]
    # The records of one leaf are contiguous and in order, so whole leaves are moved.
    first = heads(node)
    counts = np.zeros(file.num_nodes, np.int64)
    starts = np.zeros(file.num_nodes, np.int64)
    counts[node[first]] = lengths_of(first, len(node))
    starts[node[first]] = first
    return Tree(file, nodes, reach, records.give_up(starts[order], counts[order]))


def _report_map(volume: Volume, file: TreeFile, numbers: I64, found: str, expected: str, which: str) -> None:
    """Report nodes for which the map and the tree disagree."""
    if len(numbers):
        message = f"the map calls {len(numbers):,} nodes {found} that {which}; the first is node {numbers[0]}"
        log = volume.log.at(f"{file.tree} B-tree map", map_offset(volume, file, int(numbers[0])))
        log.add("node-map-differs", "warning", message, expected=expected, found=found)


def _report_short_map(volume: Volume, file: TreeFile, nodes: NodeRows) -> None:
    """Report a map that ends before the file; Linux grows a file first, and adds a map node only when needed."""
    if file.num_mapped == file.num_nodes:
        return
    beyond = int(file.used[file.num_mapped :].sum())
    stray = np.setdiff1d(np.flatnonzero(nodes.kind == MAP), file.map_nodes)
    level: Level = "warning" if beyond or len(stray) else "info"
    message = f"the map of used nodes ends early; the tree uses {beyond:,} nodes after its end"
    last = int(file.map_nodes[-1]) if len(file.map_nodes) else 0
    log = volume.log.at(f"{file.tree} B-tree map", node_offset(volume, file, last))
    log.add("node-map-short", level, message, expected=file.num_nodes, found=file.num_mapped)


def map_offset(volume: Volume, file: TreeFile, number: int) -> int | None:
    """Return the volume offset of the byte with a node's map bit; None if the map ends before it."""
    byte = number // 8
    for start, length in file.map_parts:
        if byte < length:
            return locate_byte(volume, file.fork, start + byte)
        byte -= length
    return None


def _report_unreached(volume: Volume, file: TreeFile, nodes: NodeRows, damaged: I64) -> None:
    special = np.zeros(file.num_nodes, np.bool_)
    special[[0, *file.map_nodes.tolist(), *damaged.tolist()]] = True
    lost = np.flatnonzero(file.used & file.readable & ~special & (nodes.key_rank < 0))
    # A node without records was never part of the tree, so only its map bit is wrong.
    is_empty = nodes.num_records[lost] <= 0
    _report_map(volume, file, lost[is_empty], "used", "free", "are empty")
    lost = lost[~is_empty]
    if len(lost):
        message = f"the map calls {len(lost):,} nodes used that the tree does not reach"
        node_log(volume, file, int(lost[0])).add("node-unreached", "warning", message, expected="free", found="used")
