"""Putting broken file-system trees together again from the nodes that a sweep found.

Apple File System Reference, B-Trees. Where an index node is lost, leaves whose keys fit the gap take its place. All of
that is inferred: a younger copy may be lost, and an old leaf may hold records that were deleted since.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from layoutscope.filesystems.apfs.container.container import MIN_BLOCK_BYTES, NoMap
from layoutscope.filesystems.apfs.recovery.reopening import mended
from layoutscope.filesystems.apfs.store import toc
from layoutscope.filesystems.apfs.store.btree import BATCH_NODES, OpenTree, TreeShape, as_rows, read_batch
from layoutscope.filesystems.apfs.store.fsrecords import RecordReader, RecordTree, records_plan
from layoutscope.filesystems.apfs.store.losses import MOST_NAMED, NO_LIMIT, find_losses
from layoutscope.filesystems.apfs.store.nodes import join, lost_of
from layoutscope.filesystems.apfs.store.source import Places, joined_places
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.filesystems.apfs.volume.states import LIVE
from layoutscope.filesystems.apfs.volume.trees import fs_source
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.recovery.search import Evidence
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.filesystems.apfs.volume.volume import Volume
    from layoutscope.findings import FindingLog


class Leaves(NamedTuple):
    """Leaves with the range of their keys; arrays of one length."""

    places: Places
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


def rebuilt(parts: VolumeParts, evidence: Evidence, volumes: list[VolumeParts]) -> VolumeParts:
    """Rebuild the tree of a volume where part of it is missing."""
    state = parts.state
    if not parts.log.has_errors or parts.is_locked or state.superblock.is_sealed:
        return parts
    if fs_source(state.store, state, parts.cipher).view is None:
        return parts
    is_mended = bool((state.omap.leaf < 0).any())
    if not (evidence.is_complete or is_mended or _is_index_lost(parts)):
        return parts
    named, own = state.view.oid, _named(state)
    others = [_named(item.state) for item in volumes if item is not parts]
    foreign = np.setdiff1d(np.concatenate([np.empty(0, np.uint64), *others]), own)
    if evidence.is_complete or not _is_map_whole(parts):
        state = mended(state, evidence.copies())
    return _rebuild_tree(replace(parts, state=state), named, foreign)


def _named(state: Volume) -> NDArray[np.uint64]:
    """Objects that a leaf of a volume's own object map names."""
    return state.omap.oid[state.omap.leaf >= 0]


def _is_index_lost(parts: VolumeParts) -> bool:
    """Tell whether leaves are cut off, of which nothing else is known to be wrong.

    That is so where an index node or a part of the object map is lost, or where no index node names an object that the
    map has; what a lost leaf held is lost with it.
    """
    losses, has_root = find_losses(fs_source(parts.state.store.apart(), parts.state, parts.cipher))
    if not has_root or any(loss.level for loss in losses) or (losses and not _is_map_whole(parts)):
        return True
    if not any(item.level == "error" and item.structure.startswith("fs tree") for item in parts.log.findings):
        # Whatever else the map has is no part of a tree that is whole.
        return False
    known = np.concatenate([parts.fs.nodes.node_id, np.array([loss.node_id for loss in losses], np.uint64)])
    return not np.isin(parts.state.view.oid, known).all()


def _rebuild_tree(parts: VolumeParts, named: NDArray[np.uint64], foreign: NDArray[np.uint64]) -> VolumeParts:
    """Fill the gaps of a volume's file-system tree with leaves that its object map names or a sweep found."""
    source = fs_source(parts.state.store.apart(), parts.state, parts.cipher)
    losses, has_root = find_losses(source)
    batches = list(read_levels(source))
    index = [batch for batch in batches if batch.level]
    trusted, doubtful, replaced = _trusted(batches)
    own = _walked([batch for batch in batches if not batch.level], trusted)
    gaps = [(loss.low, loss.high) for loss in losses] + doubtful if has_root else [(0, NO_LIMIT)]
    left = _mapped_places(parts.state)
    opened = batches[0].tree if batches else OpenTree(source, _plain_shape(left.size_bytes))
    known = [own.places.node_id, *(batch.places.node_id[batch.check.is_sound] for batch in index), foreign]
    left = left.take(~np.isin(left.node_id, np.concatenate(known)) & (left.size_bytes == opened.shape.sizes.node))
    if _is_map_whole(parts):
        # A node that neither the map nor an index node names is gone, however well it would fit.
        missing = np.array([loss.node_id for loss in losses], np.uint64)
        left = left.take(np.isin(left.node_id, np.concatenate([named, missing, replaced])))
    adopted = _fitting(_read_leaves(opened, left), gaps, own)
    leaves = _in_order(own, adopted)
    hashed = bool(parts.state.superblock.has_hashed_names)
    tree = _tree_of(opened, index, leaves, hashed_names=hashed)
    is_inferred = tree.nodes.omap_leaf < 0
    if not len(adopted.first) and not is_inferred.any():
        return parts
    _report(parts.log, tree.nodes, is_inferred, adopted)
    views = parts.views | {parts.view: tree.nodes}
    name = "lost" if parts.view == LIVE else "lost_of_snapshots"
    rows = join(source.tree, [as_rows(batch) for batch in batches if not batch.level])
    # Where trees led to a node, they tell its level.
    lost: dict[str, Any] = {name: [*lost_of(rows), *lost_of(parts.fs.nodes), *getattr(parts, name)]}
    return replace(parts, fs=tree, views=views, inferred=tree.nodes.paddr[is_inferred], **lost)


def _mapped_places(state: Volume) -> Places:
    """Return all objects of a state as leaves may be found among them: where an object map says, or a sweep.

    A virtual object that is no node of the file-system tree, such as a seal, fails when it is read as one.
    """
    view, omap = state.view, state.omap
    places = _places_of(view.oid, omap.xid[view.row], omap.paddr[view.row], omap.size_bytes[view.row])
    return replace(places, is_encrypted=omap.is_encrypted[view.row], omap_leaf=omap.leaf[view.row])


def _plain_shape(sizes_bytes: NDArray[np.int64]) -> TreeShape:
    """A tree of which nothing is known has nodes of the size of most objects, and records of any size."""
    sizes, counts = np.unique(sizes_bytes, return_counts=True)
    return TreeShape(
        sizes=toc.Sizes(int(sizes[np.argmax(counts)]) if len(sizes) else MIN_BLOCK_BYTES),
        level=0,
        is_hashed=False,
        hash_type=0,
        is_noheader=False,
        num_keys=0,
        num_nodes=0,
        longest_key=0,
        paddr=0,
    )


def _ends(batch: ReadNodes) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Nodes of a batch that have records, with their first and last keys."""
    keys, node = batch.keys, batch.slots.node
    first = np.flatnonzero(np.diff(node, prepend=-1) != 0)
    last = np.flatnonzero(np.diff(node, append=-1) != 0)
    return node[first], keys[first], keys[last]


def _trusted(batches: list[ReadNodes]) -> tuple[NDArray[np.bool_], list[tuple[int, int]], NDArray[np.uint64]]:
    """Tell which nodes of a tree are those that the object map names, and all nodes above them too.

    Another copy of a node than the named one is older. It may order the nodes below it, but says nothing of what was
    written since: leaves there count by their own transactions, like all others that a sweep found.
    """
    trusted = np.zeros(sum(len(batch.places) for batch in batches), np.bool_)
    levels: dict[int, list[tuple[NDArray[np.uint64], NDArray[np.bool_]]]] = {}
    replaced = [np.empty(0, np.uint64)]
    for batch in batches:
        places = batch.places
        above = (places.parent < 0) | trusted[np.maximum(places.parent, 0)]
        mine = places.omap_leaf >= 0
        trusted[batch.first : batch.first + len(places)] = above & mine
        levels.setdefault(batch.level, []).append((places.low_key, above & ~mine))
        replaced.append(places.node_id[above & ~mine])
    doubtful = []
    for parts in levels.values():
        low, wrong = (np.concatenate(column) for column in zip(*parts, strict=True))
        high = np.append(low[1:], np.uint64(NO_LIMIT))
        doubtful += list(zip(low[wrong].tolist(), high[wrong].tolist(), strict=True))
    return trusted, doubtful, np.concatenate(replaced)


def _is_map_whole(parts: VolumeParts) -> bool:
    """Whether nothing is known to be missing of a volume's object map."""
    state = parts.state
    errors = [item for item in state.log.findings if item.level == "error"]
    is_broken = any(item.structure.startswith(("omap tree", "volume object map")) for item in errors)
    # An index node that names what no map knows is damaged itself, or the map is.
    is_short = any(item.code == "node-missing" and item.structure.startswith("fs tree") for item in errors)
    has_mappings = bool((state.omap.leaf >= 0).any())
    return has_mappings and not isinstance(state.omap_header, NoMap) and not is_broken and not is_short


def _walked(batches: list[ReadNodes], trusted: NDArray[np.bool_]) -> Leaves:
    """Leaves that the index still leads to, by nodes that are trusted."""
    parts = []
    for batch in batches:
        node, first, last = _ends(batch)
        kept = trusted[batch.first + node]
        node, first, last = node[kept], first[kept], last[kept]
        parts.append(Leaves(batch.places.take(node), first, last))
    return _joined(parts)


def _joined(parts: list[Leaves]) -> Leaves:
    nothing = np.empty(0, np.uint64)
    parts = [*parts, Leaves(_places_of(nothing, nothing, nothing, np.empty(0, np.int64)), nothing, nothing)]
    parts = [part for part in parts if len(part.first)] or parts[:1]
    return Leaves(
        joined_places([part.places for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.last for part in parts]),
    )


def _places_of(
    oid: NDArray[np.uint64], xid: NDArray[np.uint64], paddr: NDArray[np.uint64], size_bytes: NDArray[np.int64]
) -> Places:
    unknown, low = np.full(len(oid), -1, np.int64), np.zeros(len(oid), np.uint64)
    hashes = np.empty((len(oid), 0), np.uint8)
    none = np.zeros(len(oid), bool)
    return Places(oid, xid, paddr, size_bytes, none, unknown, unknown, low, hashes, none)


def _read_leaves(tree: OpenTree, places: Places) -> Leaves:
    """Read what may be leaves; what holds no sound records of leaves is left out."""
    parts = []
    places = places.take(tree.source.blocks.readable(places.paddr, tree.shape.sizes.node))
    for start in range(0, len(places), BATCH_NODES):
        some = places.take(slice(start, start + BATCH_NODES))
        node, first, last = _ends(read_batch(tree, some, 0, 0))
        parts.append(Leaves(replace(some.take(node), low_key=first), first, last))
    return _joined(parts)


def _fitting(leaves: Leaves, gaps: list[tuple[int, int]], own: Leaves) -> Leaves:
    """Choose leaves in a gap, or that the object map calls live: the youngest first, none across another."""
    fits = (leaves.places.omap_leaf >= 0) & (leaves.first <= leaves.last)
    if gaps:
        low, high = (np.array(side, np.uint64) for side in zip(*sorted(gaps), strict=True))
        spot = np.searchsorted(low, leaves.first, side="right") - 1
        inside = (spot >= 0) & (leaves.last <= high[np.maximum(spot, 0)])
        fits |= inside & (leaves.first <= leaves.last)
    order = np.lexsort((own.last, own.first))
    taken = _Ranges(list(zip(own.first[order].tolist(), own.last[order].tolist(), strict=True)))
    youngest = np.argsort(leaves.places.xid, kind="stable")[::-1].tolist()
    chosen = [row for row in youngest if fits[row] and taken.add(int(leaves.first[row]), int(leaves.last[row]))]
    rows = np.array(sorted(chosen), np.int64)
    return Leaves(leaves.places.take(rows), leaves.first[rows], leaves.last[rows])


@frozen
class _Ranges:
    """Ranges of keys in order that do not cross; they may touch, as one object's records go on in the next leaf."""

    ranges: list[tuple[int, int]]

    def add(self, first: int, last: int) -> bool:
        """Take a range in, unless it crosses another."""
        from bisect import bisect_left

        spot = bisect_left(self.ranges, (first, last))
        if spot < len(self.ranges) and self.ranges[spot][0] < last:
            return False
        if spot and self.ranges[spot - 1][1] > first:
            return False
        self.ranges.insert(spot, (first, last))
        return True


def _in_order(own: Leaves, adopted: Leaves) -> Leaves:
    every = _joined([own, adopted])
    order = np.lexsort((every.last, every.first))
    return Leaves(every.places.take(order), every.first[order], every.last[order])


def _tree_of(tree: OpenTree, index: list[ReadNodes], leaves: Leaves, *, hashed_names: bool) -> RecordTree:
    """Make a tree of index nodes and leaves."""
    columns = [as_rows(batch) for batch in index]
    first = sum(len(batch.places) for batch in index)
    records = RecordReader(records_plan(hashed_names=hashed_names))
    for start in range(0, len(leaves.places), BATCH_NODES):
        places = leaves.places.take(slice(start, start + BATCH_NODES))
        batch = read_batch(tree, places, 0, first)
        first += len(places)
        columns.append(as_rows(batch))
        records.add(batch)
    return RecordTree(join(tree.source.tree, columns), records.finish())


def _report(log: FindingLog, nodes: NodeRows, is_inferred: NDArray[np.bool_], adopted: Leaves) -> None:
    """Say what was put where it belongs, and what of it is inferred."""
    named = adopted.places.paddr[adopted.places.omap_leaf >= 0]
    if len(named):
        message = f"{len(named)} leaves to which no index node leads any more were found through the object map"
        log.at(f"{nodes.tree} tree", int(named[0])).add("tree-rebuilt", "warning", message)
    if not is_inferred.any():
        return
    leaves = np.flatnonzero(is_inferred & (nodes.level == 0) & (nodes.num_records > 0))
    ends = nodes.first_key_id[leaves].tolist(), nodes.last_key_id[leaves].tolist()
    ranges = ", ".join(f"{first} to {last}" for first, last in list(zip(*ends, strict=True))[:MOST_NAMED])
    more = ", ..." if len(leaves) > MOST_NAMED else ""
    what = f"; inferred are the records of objects {ranges}{more}" if ranges else "; they are index nodes"
    message = f"{is_inferred.sum()} of {len(nodes)} nodes were found by a sweep and put where they belong{what}"
    log.at(f"{nodes.tree} tree", int(nodes.paddr[is_inferred][0])).add("tree-rebuilt", "warning", message)
