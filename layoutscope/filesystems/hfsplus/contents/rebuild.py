"""Putting a broken B-tree together again from its leaves.

TN1150, "B-Trees". Everything that a tree holds stands in its leaves, and their keys tell their order; index nodes and
links only help to find them. Leaves are taken from the tree's own file where that is known, else from wherever a
sweep found them. Of leaves with overlapping keys only one can belong to the tree: those that the tree still reaches
come first, then those that their neighbours link to.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from layoutscope.arrays.intervals import runs_of
from layoutscope.arrays.ragged import heads, lengths_of
from layoutscope.filesystems.hfsplus.contents.sweep import CHUNK_BYTES, TREES, Swept, nodes_in
from layoutscope.filesystems.hfsplus.tree.btree import (
    BATCH_BYTES,
    Decoded,
    TreeFile,
    TreePlace,
    decode_tree,
    node_pieces,
)
from layoutscope.filesystems.hfsplus.tree.keys import FORMS, KeyForm, Keys, joined, read_keys, without_case
from layoutscope.filesystems.hfsplus.tree.names import UNIT_BYTES
from layoutscope.filesystems.hfsplus.tree.nodes import (
    LEAF,
    LENGTH_BYTES,
    NodeRows,
    RecordBatch,
    decode_nodes,
    locate_records,
)
from layoutscope.filesystems.hfsplus.tree.shape import Reach
from layoutscope.filesystems.hfsplus.tree.tree import Tree, in_key_order
from layoutscope.filesystems.hfsplus.volume.fork import Fork, Pieces, locate, read_parts
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.filesystems.hfsplus.tree.btree import LeafDecoder
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.ondisk.grammar import HfsplusBtree

_COMPARE = grammar.HfsplusBtree.KeyCompareType

Key = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
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


def is_broken(place: TreePlace, tree: Tree | None, found: Swept, *, anywhere: bool = False) -> bool:
    """Whether part of a tree cannot be reached, or all of it though nodes of it exist.

    Every volume has a catalog; the other trees may have come and gone, unless nothing tells that there are none.

    Parameters
    ----------
    place : TreePlace
        Which tree.
    tree : Tree or None
        What could be read of it; None where its header is damaged or it has no blocks.
    found : Swept
        Nodes of the volume.
    anywhere : bool
        Whether nothing tells which trees there are, so that any node of it counts.

    Returns
    -------
    bool
        True also where the tree's file has blocks and its header is damaged.
    """
    if tree is None:
        exists = bool((found.tree == TREES.index(place.tree)).any())
        return bool(place.fork.num_blocks) or (exists and (anywhere or place.tree == "catalog"))
    if len(tree.reach.missing) or len(tree.reach.misled):
        return True
    return not len(tree.reach.leaves) and int(tree.file.header.leaf_records) > 0


def rebuild(volume: Volume, place: TreePlace, tree: Tree | None, leaves: LeafDecoder, found: Swept) -> Tree | None:
    """Rebuild a tree from its leaves; None where there are none.

    Parameters
    ----------
    volume : Volume
        Receives a finding that says what is inferred.
    place : TreePlace
        Which tree, with its file's extents as far as they are known.
    tree : Tree or None
        What could be read of it.
    leaves : LeafDecoder
        A fresh one.
    found : Swept
        Nodes of the volume.
    """
    file = tree.file if tree is not None else _inferred_file(volume, place, found)
    if file is None:
        return None
    nodes = NodeRows.blank(file.num_nodes)
    decoded = Decoded(nodes)
    used = file.used.copy()
    used[file.num_mapped :] = True
    decode_tree(volume, file, np.flatnonzero(used & file.readable), leaves, decoded)
    for numbers in leaves.bad:
        nodes.damaged[numbers] = True
    is_leaf = (nodes.kind == LEAF) & (nodes.height == 1) & (nodes.num_records > 0) & (nodes.first_key_id >= 0)
    reached = _reached(file, tree)
    order, num_left = _chosen(volume, file, nodes, is_leaf & (reached | ~nodes.damaged), reached)
    _report(volume, file, order, reached, num_left)
    reach = _rank(nodes, tree, order)
    if isinstance(file.header, InferredHeader):
        counted = replace(file.header, leaf_records=int(nodes.num_records[order].sum()))
        file = replace(file, header=cast("HfsplusBtree.HeaderRecord", counted))
    return Tree(file, nodes, reach, in_key_order(file, decoded, order, leaves, volume))


def _rank(nodes: NodeRows, tree: Tree | None, order: I64) -> Reach:
    """Rank the leaves anew; index nodes keep their ranks, and all nodes their parents, from what could be read."""
    rank = np.full(len(nodes.kind), -1, np.int64)
    rank[order] = np.arange(len(order))
    if tree is None:
        nodes.key_rank[:] = rank
        return Reach(order, np.empty(0, np.int64), np.empty(0, np.int64))
    nodes.parent[:] = tree.nodes.parent
    nodes.key_rank[:] = np.where(tree.nodes.kind == LEAF, rank, tree.nodes.key_rank)
    return replace(tree.reach, leaves=order)


def _reached(file: TreeFile, tree: Tree | None) -> Mask:
    reached = np.zeros(file.num_nodes, np.bool_)
    if tree is not None:
        reached[tree.reach.leaves] = True
    return reached


def _inferred_file(volume: Volume, place: TreePlace, found: Swept) -> TreeFile | None:
    """Make up the file of a tree whose header is lost: over its own extents, else over the nodes that were found."""
    name, _, fork = place
    mine = found.of((found.tree == TREES.index(name)) & (found.height == 1))
    if _is_intact(volume, fork):
        size = _usual_size(_in_fork(volume, name, fork))
    else:
        size = _usual_size(mine)
        fork = _fork_over(volume, mine.of(mine.node_size == size)) if size else fork
    if not size:
        return None
    num_nodes = fork.num_blocks * volume.block_size_bytes // size
    if not num_nodes:
        return None
    pieces = node_pieces(volume, fork, size, np.arange(num_nodes, dtype=np.int64))
    readable = np.zeros(num_nodes, np.bool_)
    readable[pieces.part] = True
    readable[pieces.part[~volume.is_readable(pieces.volume_offset, pieces.length_bytes)]] = False
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
    length = min(fork.logical_size_bytes, CHUNK_BYTES)
    pieces = locate(volume, fork, np.zeros(1, np.int64), np.array([length], np.int64))
    readable = volume.is_readable(pieces.volume_offset, pieces.length_bytes)
    if not readable.all():
        end = int(np.argmin(readable))
        pieces = Pieces(pieces.part[:end], pieces.volume_offset[:end], pieces.length_bytes[:end])
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


def _chosen(volume: Volume, file: TreeFile, nodes: NodeRows, candidate: Mask, reached: Mask) -> tuple[I64, int]:
    """Choose leaves whose keys do not overlap, in key order; also how many were left out."""
    numbers, first, last = _bounds(volume, file, np.flatnonzero(candidate))
    linked = _linked(nodes, numbers, file.num_nodes)
    rank = sorted(
        range(len(numbers)),
        key=lambda place: (not reached[numbers[place]], not linked[place], -int(nodes.num_records[numbers[place]])),
    )
    starts: list[Key] = []
    kept: list[int] = []
    for place in rank:
        at = bisect.bisect_left(starts, first[place])
        after_one = at == 0 or last[kept[at - 1]] < first[place]
        before_one = at == len(starts) or last[place] < starts[at]
        if first[place] <= last[place] and after_one and before_one:
            starts.insert(at, first[place])
            kept.insert(at, place)
    return numbers[np.array(kept, np.int64)], len(numbers) - len(kept)


def _linked(nodes: NodeRows, numbers: I64, num_nodes: int) -> Mask:
    """Say which leaves have a neighbour that links back to them."""
    linked = np.zeros(len(numbers), np.bool_)
    for own, other in ((nodes.f_link, nodes.b_link), (nodes.b_link, nodes.f_link)):
        link = own[numbers]
        inside = (link > 0) & (link < num_nodes)
        linked |= inside & (other[np.where(inside, link, 0)] == numbers)
    return linked


def _bounds(volume: Volume, file: TreeFile, numbers: I64) -> tuple[I64, list[Key], list[Key]]:
    """First and last key of leaves, in a form that compares as keys do; leaves without a whole key drop out."""
    form, size = FORMS[file.tree], file.node_size_bytes
    step = max(1, BATCH_BYTES // size)
    owners: list[I64] = [np.empty(0, np.int64)]
    firsts: list[Keys] = []
    lasts: list[Keys] = []
    for start in range(0, len(numbers), step):
        chosen = numbers[start : start + step]
        buffer = read_parts(volume, node_pieces(volume, file.fork, size, chosen))
        records = locate_records(volume.decoder, decode_nodes(volume.decoder, buffer, size, chosen), None)
        whole = _has_whole_key(volume, form, records)
        node, key = records.node[whole], records.key[whole]
        head = heads(node)
        ends = head + lengths_of(head, len(node)) - 1
        owners.append(chosen[node[head]])
        firsts.append(read_keys(volume.decoder, form, buffer, key[head]))
        lasts.append(read_keys(volume.decoder, form, buffer, key[ends]))
    fold = form.has_name and not form.tail and not _tells_cases(volume, file)
    return np.concatenate(owners), _comparable(joined(firsts), fold=fold), _comparable(joined(lasts), fold=fold)


def _has_whole_key(volume: Volume, form: KeyForm, records: RecordBatch) -> Mask:
    """Say which records have a key with all of its name."""
    length = records.data - records.key - LENGTH_BYTES
    whole: Mask = length >= form.fixed_length
    if form.has_name:
        rows = np.flatnonzero(whole)
        key, units = records.key[rows], form.key_type.column("num_name_units")
        names = volume.decoder.column(form.key_type, records.nodes.buffer, key, units)
        whole[rows] = form.fixed_length + UNIT_BYTES * names.astype(np.int64) <= length[rows]
    return whole


def _tells_cases(volume: Volume, file: TreeFile) -> bool:
    return volume.is_hfsx and int(file.header.key_compare_type) == int(_COMPARE.binary)


def _comparable(keys: Keys, *, fold: bool) -> list[Key]:
    """Turn keys into pairs that Python compares as the tree does."""
    if fold:
        keys = without_case(keys)
    data = keys.units.byteswap().tobytes() if _IS_LITTLE else keys.units.tobytes()
    starts, stops = 2 * keys.start, 2 * (keys.start + keys.count)
    return [
        (ident, data[start:stop])
        for ident, start, stop in zip(keys.ident.tolist(), starts.tolist(), stops.tolist(), strict=True)
    ]


_IS_LITTLE: Final = bool(np.array([1], np.uint16).view(np.uint8)[0])


def _report(volume: Volume, file: TreeFile, order: I64, reached: Mask, num_left: int) -> None:
    added = int((~reached[order]).sum()) if len(order) else 0
    own = "" if not isinstance(file.header, InferredHeader) else "; node numbers, header and index are inferred too"
    left = f"; {num_left:,} with keys of others were left out" if num_left else ""
    pieces = node_pieces(volume, file.fork, file.node_size_bytes, order[~reached[order]][:1])
    at = int(pieces.volume_offset[0]) if len(pieces.part) else None
    volume.log.at(f"{file.tree} B-tree", at).add(
        "tree-rebuilt",
        "warning",
        f"{added:,} of {len(order):,} leaves were found without the index; their order is inferred from their keys"
        f"{left}{own}",
    )


def report_stale(volume: Volume, trees: dict[str, Tree], found: Swept) -> dict[str, int]:
    """Count nodes that belong to no tree: old copies, those in the journal, and those of volumes within files.

    Parameters
    ----------
    volume : Volume
        Receives a finding.
    trees : dict of str to Tree
        The volume's trees by their names, rebuilt or not.
    found : Swept
        Nodes of the volume.

    Returns
    -------
    dict of str to int
        By tree, for each name in ``TREES``.
    """
    live: list[I64] = []
    for tree in trees.values():
        numbers = np.flatnonzero(tree.nodes.key_rank >= 0)
        live.append(node_pieces(volume, tree.file.fork, tree.file.node_size_bytes, numbers).volume_offset)
    stale = found.of(~np.isin(found.volume_offset, np.concatenate([np.empty(0, np.int64), *live])))
    counts = {name: int((stale.tree == place).sum()) for place, name in enumerate(TREES)}
    if len(stale.tree):
        listed = ", ".join(f"{count:,} of the {name} tree" for name, count in counts.items() if count)
        volume.log.at("volume", int(stale.volume_offset[0])).add(
            "stale-nodes", "info", f"{len(stale.tree):,} nodes lie outside of the trees, as old copies do: {listed}"
        )
    return counts
