"""The shape of a B-tree: who is whose parent, and the order of the nodes of a level.

TN1150, "B-Trees", Index Nodes and Node Descriptor. Input: descriptors and pointer records of all nodes that are in
use. The tree is walked level by level over arrays; the leaf chain is compared with it, and followed where an index
node is damaged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.columns import I64, Columns, Mask, concatenate
from layoutscope.arrays.lookup import distinct
from layoutscope.arrays.ragged import heads, ranges, starts_of
from layoutscope.filesystems.hfsplus.tree.btree import TreeFile, pieces_of
from layoutscope.filesystems.hfsplus.tree.nodes import DESCRIPTOR, HEADER, INDEX, LEAF, MAP, UNKNOWN_KIND, NodeRows
from layoutscope.frozen import frozen
from layoutscope.ondisk.records import HEADER_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.findings import FindingLog


@frozen
class Reach:
    """How far the pointers of a tree lead."""

    leaves: I64  # node numbers of the leaves, in key order
    missing: I64  # nodes that an index node points to but that were not decoded
    # index nodes with pointers that lead out of the file, to a node of another height, or to one with a parent
    misled: I64
    # lost, lost_from: nodes in the file that are not what a pointer to them needs, and the index node with that pointer
    lost: I64
    lost_from: I64
    astray: I64  # numbers of the nodes that mislead, and where each of these pointers leads


def find_reach(file: TreeFile, nodes: NodeRows, pointers: Sequence[Columns]) -> Reach:
    """Walk a tree from its root, level by level, and note each node's parent and rank in its row.

    A child counts where its height is one less than its parent's and no other node pointed to it before; so the walk
    ends after as many levels as the root is high, whatever the pointers say.

    Without leaves where the root is none, or where no pointer leads down to one.
    """
    found = concatenate(pointers, {"node": np.empty(0, np.int64), "child": np.empty(0, np.int64)})
    order = np.argsort(found["node"], kind="stable")
    children = found["child"][order]
    counts = np.bincount(found["node"], minlength=file.num_nodes)
    starts = starts_of(counts)
    parent, rank = nodes.parent, nodes.key_rank
    parent[:], rank[:] = -1, -1
    level = _root(file, nodes)
    rank[level] = 0
    none: I64 = np.empty(0, np.int64)
    missing, lost, lost_from, astray = [none], [none], [none], [np.empty((0, 2), np.int64)]
    while len(level) and int(nodes.kind[level[0]]) == INDEX:
        child = children[ranges(starts[level], counts[level])]
        owner = np.repeat(level, counts[level])
        inside = (child > 0) & (child < file.num_nodes)
        place = np.where(inside, child, 0)
        unknown = inside & (nodes.kind[place] == UNKNOWN_KIND)
        fits = _first_only(place, inside & ~unknown & _is_child(nodes, owner, place) & (rank[place] < 0))
        missing.append(child[unknown])
        astray.append(np.column_stack([owner, child])[~unknown & ~fits])
        lost.append(child[inside & ~fits])
        lost_from.append(owner[inside & ~fits])
        level = child[fits]
        parent[level], rank[level] = owner[fits], np.arange(len(level))
    leaves = level if len(level) and int(nodes.kind[level[0]]) == LEAF else none
    pairs = np.concatenate(astray)
    child, owner = np.concatenate(lost), np.concatenate(lost_from)
    # A second pointer to a node says nothing about the node.
    first = np.unique(child, return_index=True)[1]
    first = first[rank[child[first]] < 0]
    misled = distinct(pairs[:, 0])
    return Reach(leaves, distinct(np.concatenate(missing)), misled, child[first], owner[first], pairs)


def _is_child(nodes: NodeRows, owner: I64, child: I64) -> Mask:
    """Say which nodes are one level below, and of the kind of that level."""
    kind = np.where(nodes.height[child] > 1, INDEX, LEAF)
    is_child: Mask = (nodes.height[child] == nodes.height[owner] - 1) & (nodes.kind[child] == kind)
    return is_child


def _first_only(child: I64, fits: Mask) -> Mask:
    """Leave out later pointers to a node that was pointed to before."""
    rows = np.flatnonzero(fits)
    order = np.argsort(child[rows], kind="stable")
    first = np.zeros(len(fits), np.bool_)
    first[rows[order[heads(child[rows][order])]]] = True
    return first


def _root(file: TreeFile, nodes: NodeRows) -> I64:
    # Node 0 is the header node: a root of 0 is that of an empty tree.
    root = int(file.header.root_node)
    if not 0 < root < file.num_nodes or nodes.kind[root] not in (INDEX, LEAF):
        return np.empty(0, np.int64)
    return np.array([root], np.int64)


def check_reach(volume: Volume, file: TreeFile, nodes: NodeRows, reach: Reach) -> None:
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
    damaged = unusable_nodes(file, nodes, reach)
    listed = damaged.tolist()[:MAX_REPORTED]
    for number in listed:
        more = f"; {len(damaged) - MAX_REPORTED:,} further nodes" if number == listed[-1] else ""
        message = "it is in use, but neither a leaf nor an index node with records"
        node_log(volume, file, number).add("node-invalid", "error", message + more * (len(damaged) > MAX_REPORTED))
    # Where the node is damaged that a pointer leads to, the pointer is right.
    for number in distinct(reach.astray[~np.isin(reach.astray[:, 1], damaged), 0]).tolist()[:MAX_REPORTED]:
        node_log(volume, file, number).add(
            "pointer-invalid", "error", "pointers lead to nodes that are no children of this one"
        )
    for number in np.flatnonzero(nodes.damaged & (nodes.key_rank >= 0)).tolist()[:MAX_REPORTED]:
        node_log(volume, file, number).add("records-invalid", "error", "record offsets or keys contradict the format")


def unusable_nodes(file: TreeFile, nodes: NodeRows, reach: Reach) -> I64:
    """List nodes in use that are none of those that the tree has there, by kind, height and count of records.

    Where index nodes are lost, nobody knows what they led to: then the map speaks for nodes that are none. Elsewhere a
    node that the tree does not reach is free, whatever its map says.
    """
    is_node = may_be_node(nodes) & ~nodes.damaged
    found = np.zeros(file.num_nodes, np.bool_)
    found[reach.lost] = nodes.key_rank[reach.lost] < 0
    root = int(file.header.root_node)
    has_root = 0 < root < file.num_nodes and (bool(is_node[root]) or not file.header.leaf_records)
    if 0 < root < file.num_nodes:
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
"""No tree is higher: with two records in each node, 16 levels have more nodes than a volume has bytes."""


def may_be_node(nodes: NodeRows) -> Mask:
    """Tell by kind, height and count which nodes may be leaves or index nodes."""
    is_leaf = (nodes.kind == LEAF) & (nodes.height == 1)
    is_index = (nodes.kind == INDEX) & (nodes.height > 1) & (nodes.height <= MAX_HEIGHT)
    found: Mask = (is_leaf | is_index) & (nodes.num_records > 0)
    return found


def nodes_apart(file: TreeFile, nodes: NodeRows, reach: Reach) -> Mask:
    """Nodes that nothing leads to, in a tree that is known to have lost something; in a sound one there are none.

    A node in use that is not reached says nothing by itself: drivers leave some behind.
    """
    found = int(nodes.num_records[reach.leaves].sum())
    is_broken = len(reach.misled) + len(reach.missing) > 0 or found < int(file.header.leaf_records)
    apart: Mask = (nodes.key_rank < 0) & (nodes.kind != HEADER) & (nodes.kind != MAP)
    return apart & (is_broken or not len(reach.leaves))


def _check_links(volume: Volume, file: TreeFile, nodes: NodeRows, chain: I64, field: str) -> None:
    """Compare links of leaves, forward or backward, with their neighbours in key order; both ends link to node 0."""
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
"""Findings of one kind in one tree; more tell nothing new."""


def follow_chain(file: TreeFile, nodes: NodeRows, reach: Reach) -> Reach:
    """Add leaves that only the leaf chain still reaches, behind the leaf that links to them.

    Loops over the leaves that were lost to the index, which is none in a sound tree.
    """
    links = np.append(reach.leaves[1:], 0)
    breaks = np.flatnonzero(nodes.f_link[reach.leaves] != links)
    starts = [(int(place) + 1, int(nodes.f_link[reach.leaves[place]])) for place in breaks]
    first = int(file.header.first_leaf_node)
    if not len(reach.leaves) or first != reach.leaves[0]:
        starts.insert(0, (0, first))
    seen = set(reach.leaves.tolist())
    pieces: list[int] = []
    places: list[int] = []
    for place, number in starts:
        found = _lost_leaves(file, nodes, number, seen)
        pieces += found
        places += [place] * len(found)
    if not pieces:
        return reach
    leaves = np.insert(reach.leaves, places, pieces)
    nodes.key_rank[leaves] = np.arange(len(leaves))
    return replace(reach, leaves=leaves)


def _lost_leaves(file: TreeFile, nodes: NodeRows, number: int, seen: set[int]) -> list[int]:
    found = []
    while 0 < number < file.num_nodes and number not in seen and nodes.kind[number] == LEAF:
        found.append(number)
        seen.add(number)
        number = int(nodes.f_link[number])
    return found


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
    # The header node is node 0, so its record lies at the start of the file.
    at = int(file.fork.start_blocks[0]) * volume.block_size_bytes
    plus = HEADER_NODE.offset_of(f"header.{field}")
    return volume.log.at(f"{file.tree} B-tree header node", at, plus=plus)


def node_offset(volume: Volume, file: TreeFile, number: int) -> int | None:
    """Where a node starts on the volume.

    In bytes from the start of the volume; None where its file ends before it.
    """
    if not 0 <= number < file.num_nodes:
        return None
    pieces = pieces_of(volume, file.fork, file.node_size_bytes, np.array([number]))
    return int(pieces.volume_offset[0]) if len(pieces.part) else None
