"""Putting a broken B-tree together again from its leaves.

TN1150, "B-Trees". Everything that a tree holds stands in its leaves, and their keys tell their order; index nodes and
links only help to find them. Leaves are taken from the tree's own file where that is known, else from wherever a
sweep found them. Where the header is lost, the size of nodes is that of those in the file, and the root is the highest
that leads to most leaves. Of leaves with overlapping keys only one can belong to the tree: those that the tree still
reaches come first, then those that their neighbours link to.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from layoutscope.arrays.intervals import runs_of
from layoutscope.arrays.lookup import distinct
from layoutscope.filesystems.hfsplus.contents.journalcopies import written_ages
from layoutscope.filesystems.hfsplus.contents.leaforder import leaf_keys, links_of, order_leaves, renumbered_links
from layoutscope.filesystems.hfsplus.contents.sweep import CHUNK_BYTES, TREES, Swept, nodes_in
from layoutscope.filesystems.hfsplus.tree.btree import (
    Decoded,
    TreeFile,
    TreePlace,
    decode_tree,
    pieces_of,
)
from layoutscope.filesystems.hfsplus.tree.keys import FORMS
from layoutscope.filesystems.hfsplus.tree.nodes import (
    INDEX,
    LEAF,
    MAP,
    UNKNOWN_KIND,
    NodeRows,
)
from layoutscope.filesystems.hfsplus.tree.shape import Reach, find_reach
from layoutscope.filesystems.hfsplus.tree.tree import Tree, in_key_order
from layoutscope.filesystems.hfsplus.volume.fork import Fork, ForkPieces, locate, read_parts
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Columns, Mask
    from layoutscope.filesystems.hfsplus.contents.leaforder import Ages
    from layoutscope.filesystems.hfsplus.tree.btree import LeafDecoder
    from layoutscope.filesystems.hfsplus.volume.journal import Journal
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.ondisk.grammar import HfsplusBtree

_COMPARE = grammar.HfsplusBtree.KeyCompareType

MOST_ROOTS: Final = 16
"""So many nodes are tried as a root whose number is lost; there are more where links are damaged by the dozen."""


@frozen
class InferredHeader:
    """What a header record would say, as far as it is needed; nothing of it stood on the volume."""

    len_node: int
    num_nodes: int
    key_compare_type: int
    len_key_max: int
    leaf_records: int = 0
    root_node: int = 0
    tree_depth: int = 0
    num_free_nodes: int = 0
    first_leaf_node: int = 0
    last_leaf_node: int = 0
    has_variable_index_keys: bool = True


class Beside(NamedTuple):
    """What is known of a volume besides a tree's own nodes."""

    found: Swept | None = None  # nodes of the volume; without them nodes are looked for in the tree's own file alone
    # tells which of two leaves with the same keys it wrote later, where neither the index nor their neighbours do
    journal: Journal | None = None


def rebuild(
    volume: Volume,
    place: TreePlace,
    tree: Tree | None,
    leaves: LeafDecoder,
    beside: Beside,
) -> Tree | None:
    """Rebuild a tree from its leaves; None where there are none, or where that changes nothing."""
    if tree is not None and not _is_usable(volume, tree):
        tree = None
    file = tree.file if tree is not None else _inferred_file(volume, place, beside.found)
    if file is None:
        return None
    decoded = _decoded(volume, file, leaves)
    nodes = decoded.nodes
    links = links_of(nodes)
    written = partial(written_ages, volume, beside.journal, file)
    if tree is not None:
        reach = tree.reach
        nodes.parent[:], nodes.key_rank[:] = tree.nodes.parent, tree.nodes.key_rank
    elif file.fork is place.fork:
        file, reach = _with_root(file, nodes, decoded.pointers, written)
    else:
        none = np.empty(0, np.int64)
        reach = Reach(none, none, none, none, none, np.empty((0, 2), np.int64))
    reached = np.zeros(file.num_nodes, np.bool_)
    reached[reach.leaves] = True
    is_leaf = (nodes.kind == LEAF) & (nodes.height == 1) & (nodes.num_records > 0) & (nodes.first_key_id >= 0)
    keys = leaf_keys(volume, file, np.flatnonzero(is_leaf & (reached | ~nodes.damaged)))
    if tree is None and file.fork is not place.fork:
        links = renumbered_links(volume, file, links, keys)
    order = order_leaves(nodes, links, keys, reached, written)
    num_left = len(keys.numbers) - len(order)
    dropped = np.setdiff1d(reach.leaves[is_leaf[reach.leaves]], order)
    if tree is not None and reached[order].all() and not len(dropped):
        return None
    _report(volume, file, order, reached, num_left)
    reach = _ranked(nodes, reach, order, dropped)
    if isinstance(file.header, InferredHeader):
        file = _counted(file, nodes, order, has_header=file.fork is place.fork)
        file.used[reach.lost] = True
    else:
        nodes.is_inferred[order[~reached[order]]] = True
        file.used[order] = True
    return Tree(file, nodes, reach, in_key_order(file, decoded, order, leaves, volume))


def _decoded(volume: Volume, file: TreeFile, leaves: LeafDecoder) -> Decoded:
    """Decode every node that may be in use, whether or not anything leads to it; bad leaves are marked."""
    nodes = NodeRows.blank(file.num_nodes)
    decoded = Decoded(nodes)
    used = file.used.copy()
    # Of nodes behind the map's end nobody knows whether they are in use.
    used[file.num_mapped :] = True
    decode_tree(volume, file, np.flatnonzero(used & file.readable), leaves, decoded)
    if _leads_to_free_nodes(nodes):
        # Then the map is damaged, too, and says nothing of the others either.
        decode_tree(volume, file, np.flatnonzero(~used & file.readable), leaves, decoded)
    for numbers in leaves.bad:
        nodes.damaged[numbers] = True
    return decoded


def _is_usable(volume: Volume, tree: Tree) -> bool:
    """Whether a tree's header can be believed: nodes have the size that it says, and its map knows of leaves."""
    table = tree.nodes
    is_leaf = (table.kind == LEAF) & (table.height == 1) & (table.num_records > 0) & ~table.damaged
    usual = _usual_size(_in_fork(volume, tree.file.tree, tree.file.fork))
    return bool(is_leaf.any()) and usual in (0, tree.file.node_size_bytes)


def _leads_to_free_nodes(nodes: NodeRows) -> bool:
    """Whether leaves link to nodes that the map calls free."""
    links = np.concatenate([nodes.f_link[nodes.kind == LEAF], nodes.b_link[nodes.kind == LEAF]])
    links = links[(links > 0) & (links < len(nodes.kind))]
    return bool((nodes.kind[links] == UNKNOWN_KIND).any())


def _ranked(nodes: NodeRows, reach: Reach, order: I64, dropped: I64) -> Reach:
    """Rank the leaves anew; index nodes keep their ranks, and all nodes their parents.

    Pointers to leaves that are dropped lead to nodes of others, as they do where a node was overwritten by a copy.
    """
    nodes.key_rank[reach.leaves] = -1
    nodes.key_rank[order] = np.arange(len(order))
    parents = nodes.parent[dropped]
    return replace(reach, leaves=order, misled=distinct(np.concatenate([reach.misled, parents[parents >= 0]])))


def _with_root(file: TreeFile, nodes: NodeRows, pointers: list[Columns], written: Ages) -> tuple[TreeFile, Reach]:
    """Find the root of a tree whose header is lost: of the highest nodes, the one that leads to most leaves.

    A root has no neighbours, so that its links are 0. That of a tree that has shrunk may still be there; of two alike,
    the one is taken that the journal wrote later.
    """
    may_be_root = (nodes.f_link == 0) & (nodes.b_link == 0) & (nodes.num_records > 0) & (nodes.height > 0)
    may_be_root &= (nodes.height == 1) == (nodes.kind == LEAF)
    numbers = np.flatnonzero(may_be_root & ((nodes.kind == LEAF) | (nodes.kind == INDEX)))
    highest = numbers[np.argsort(-nodes.height[numbers], kind="stable")][:MOST_ROOTS]

    def rooted(number: int) -> TreeFile:
        header = replace(cast("InferredHeader", file.header), root_node=number)
        return replace(file, header=cast("HfsplusBtree.HeaderRecord", header))

    leads_to = np.array([len(find_reach(rooted(number), nodes, pointers).leaves) for number in highest.tolist()])
    alike = highest[leads_to == leads_to.max(initial=0)]
    best = rooted(int(alike[np.argmax(written(alike))]) if len(alike) else 0)
    return best, find_reach(best, nodes, pointers)


def _counted(file: TreeFile, nodes: NodeRows, order: I64, *, has_header: bool) -> TreeFile:
    """Let a header that was made up say what was found, and the map that the tree uses that and no more.

    Whatever hangs on a header that was made up is inferred. Node 0 is the lost header, unless the file is made of nodes
    that were found.
    """
    nodes.is_inferred[:] = True
    nodes.damaged[0] |= has_header
    used = (nodes.key_rank >= 0) | (nodes.kind == MAP)
    used[0] = True
    root = int(file.header.root_node)
    counted = replace(
        cast("InferredHeader", file.header),
        leaf_records=int(nodes.num_records[order].sum()),
        tree_depth=int(nodes.height[root]) if root else 0,
        num_free_nodes=int((~used).sum()),
        first_leaf_node=int(order[0]) if len(order) else 0,
        last_leaf_node=int(order[-1]) if len(order) else 0,
    )
    return replace(file, header=cast("HfsplusBtree.HeaderRecord", counted), used=used)


def _inferred_file(volume: Volume, place: TreePlace, found: Swept | None) -> TreeFile | None:
    """Make up the file of a tree whose header is lost: over its own extents, else over the nodes that were found."""
    name, _, fork = place
    if _is_intact(volume, fork) or found is None:
        size = _usual_size(_in_fork(volume, name, fork))
    else:
        mine = found.of((found.tree == TREES.index(name)) & (found.height == 1))
        size = _usual_size(mine)
        fork = _fork_over(volume, mine.of(mine.node_size == size)) if size else fork
    # A damaged header may claim any number of blocks; there are no more nodes than the volume has room for.
    num_nodes = min(fork.num_blocks * volume.block_size_bytes, volume.size_bytes) // size if size else 0
    if not num_nodes:
        return None
    pieces = pieces_of(volume, fork, size, np.arange(num_nodes, dtype=np.int64))
    readable = np.zeros(num_nodes, np.bool_)
    readable[pieces.part] = True
    readable[pieces.part[~volume.is_readable(pieces.volume_offset, pieces.length_bytes)]] = False
    # HFSX names compare either way, as the lost header said; those who format it that way want cases told apart.
    compare = _COMPARE.binary if volume.is_hfsx else _COMPARE.case_folding
    header = cast(
        "HfsplusBtree.HeaderRecord", InferredHeader(size, num_nodes, int(compare), FORMS[name].max_length or 0)
    )
    return TreeFile(
        *place[:2],
        fork,
        header,
        b"",
        num_nodes,
        np.ones(num_nodes, np.bool_),
        np.empty(0, np.int64),
        (),
        readable,
    )


def _is_intact(volume: Volume, fork: Fork) -> bool:
    """Whether a fork has extents on the volume for all of its bytes."""
    blocks = int(volume.header.num_blocks)
    on_volume = bool((fork.start_blocks + fork.block_counts <= blocks).all())
    return on_volume and 0 < fork.logical_size_bytes <= fork.num_blocks * volume.block_size_bytes


def _in_fork(volume: Volume, name: str, fork: Fork) -> Swept:
    """Find leaves in the first bytes of a fork, where nodes that straddle two extents are whole."""
    length = min(fork.num_blocks * volume.block_size_bytes, CHUNK_BYTES)
    pieces = locate(volume, fork, np.zeros(1, np.int64), np.array([length], np.int64))
    readable = volume.is_readable(pieces.volume_offset, pieces.length_bytes)
    if not readable.all():
        end = int(np.argmin(readable))
        pieces = ForkPieces(pieces.part[:end], pieces.volume_offset[:end], pieces.length_bytes[:end])
    data = read_parts(volume, pieces)
    found = nodes_in(volume.decoder, data, len(data))
    return found.of((found.tree == TREES.index(name)) & (found.height == 1))


def _usual_size(nodes: Swept) -> int:
    """Most frequent size of nodes, 0 where there are none."""
    sizes, counts = np.unique(nodes.node_size, return_counts=True)
    return int(sizes[np.argmax(counts)]) if len(sizes) else 0


def _fork_over(volume: Volume, nodes: Swept) -> Fork:
    """Make a fork of the blocks that nodes lie in, in address order."""
    block = volume.block_size_bytes
    first = nodes.volume_offset // block
    last = (nodes.volume_offset + nodes.node_size - 1) // block
    per_node = int((last - first).max()) + 1
    blocks = np.unique((first[:, None] + np.arange(per_node))[np.arange(per_node) <= (last - first)[:, None]])
    runs = runs_of(blocks, np.ones_like(blocks))
    return Fork(len(blocks) * block, runs[:, 0], runs[:, 1], np.full(len(runs), -1, np.int64))


def _report(volume: Volume, file: TreeFile, order: I64, reached: Mask, num_left: int) -> None:
    added = order[~reached[order]]
    words = (
        f"{len(added):,} of {len(order):,} leaves were found without the index; their order is inferred from their keys"
    )
    if num_left:
        words += f"; {num_left:,} with keys of others were left out"
    if isinstance(file.header, InferredHeader):
        words += "; size of nodes, root and map are inferred too, as the header is lost"
    at = pieces_of(volume, file.fork, file.node_size_bytes, added[:1]).volume_offset.tolist()
    volume.log.at(f"{file.tree} B-tree", at[0] if at else None).add("tree-rebuilt", "warning", words)


def report_stale(volume: Volume, trees: dict[str, Tree], found: Swept) -> dict[str, int]:
    """Count nodes that belong to no tree: old copies, those in the journal, and those of volumes within files."""
    live: list[I64] = []
    for tree in trees.values():
        numbers = np.flatnonzero(tree.nodes.key_rank >= 0)
        live.append(pieces_of(volume, tree.file.fork, tree.file.node_size_bytes, numbers).volume_offset)
    stale = found.of(~np.isin(found.volume_offset, np.concatenate([np.empty(0, np.int64), *live])))
    counts = {name: int((stale.tree == place).sum()) for place, name in enumerate(TREES)}
    if len(stale.tree):
        listed = ", ".join(f"{count:,} of the {name} tree" for name, count in counts.items() if count)
        volume.log.at("volume", int(stale.volume_offset[0])).add(
            "stale-nodes", "info", f"{len(stale.tree):,} nodes lie outside of the trees, as old copies do: {listed}"
        )
    return counts
