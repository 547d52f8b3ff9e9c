"""Putting broken file-system trees together again from the nodes that a sweep found.

Apple File System Reference, Object Maps and B-Trees. Where a map or a superblock is lost, each object's youngest copy
takes its place; where an index node is lost, leaves whose keys fit the gap do. All of that is inferred: a younger copy
may be lost, and an old leaf may hold records that were deleted since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import NoMap
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.store import toc
from layoutscope.filesystems.apfs.store.btree import BATCH_NODES, OpenTree, TreeShape, as_rows, read_batch
from layoutscope.filesystems.apfs.store.fsrecords import RecordReader, Tree, records_plan
from layoutscope.filesystems.apfs.store.losses import MOST_NAMED, NO_LIMIT, find_losses
from layoutscope.filesystems.apfs.store.nodes import join
from layoutscope.filesystems.apfs.store.omap import ObjectMap
from layoutscope.filesystems.apfs.store.source import Places, joined_places
from layoutscope.filesystems.apfs.store.sweep import KINDS
from layoutscope.filesystems.apfs.store.verify import read_object
from layoutscope.filesystems.apfs.store.walk import read_levels, read_omap
from layoutscope.filesystems.apfs.volume.trees import fs_source
from layoutscope.filesystems.apfs.volume.volume import Volume
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.filesystems.apfs.store.sweep import Swept
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.grammar import ApfsContainer


def reopen_volume(container: Container, store: Store, oid: int, number: int, swept: Swept) -> Volume:
    """Open a volume whose superblock or object map is lost, from the youngest copies of its objects.

    Parameters
    ----------
    container : Container
        The container; copies younger than its checkpoint are left aside.
    store : Store
        Where the volume is read; its log is told what is inferred.
    oid : int
        Virtual object of the volume's superblock.
    number : int
        The volume's number on the image.
    swept : Swept
        All that a sweep of the container found.

    Returns
    -------
    Volume
        Its live state, with an object map in which every file-system node that was found has an address.

    Raises
    ------
    FormatError
        If no copy of its superblock is left, or the youngest cannot be used.
    """
    blocks = container.blocks
    copies = swept.take((swept.kind == int(KINDS.fs)) & (swept.oid == np.uint64(oid))).newest(container.xid)
    if not len(copies):
        raise FormatError("no copy of it is left", structure=f"volume superblock {oid}", image_offset=blocks.at(0))
    paddr = int(copies.paddr[0])
    superblock = read_object(blocks, grammar.ApfsVolume.ApfsSuperblock, paddr, "volume superblock", oid=oid)
    message = f"this copy, of transaction {superblock.hdr.xid}, is the youngest that a sweep found; it is inferred"
    store.log.at("volume superblock", paddr).add("tree-rebuilt", "warning", message)
    header: ApfsContainer.OmapPhys | NoMap = NoMap()
    try:
        header = read_object(blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "volume object map")
        known = read_omap(store, "omap", header.tree_oid, container.xid)
    except FormatError as error:
        known = empty_map()
        log = store.log.at_byte("volume object map", error.image_offset)
        log.add("tree-rebuilt", "error", f"the volume is read without its object map: {error.reason}")
    view = omaps.view_at(known, container.xid)
    nothing = join("omap-snapshots", [])
    volume = Volume(store, number, superblock, paddr, container.xid, header, known, view, nothing)
    return mended(volume, swept)


def empty_map() -> ObjectMap:
    """Return an object map that knows nothing."""
    numbers, flags, places = np.empty(0, np.uint64), np.empty(0, bool), np.empty(0, np.int64)
    return ObjectMap(join("omap", []), numbers, numbers, numbers, places, flags, flags, flags, places)


def mended(volume: Volume, swept: Swept) -> Volume:
    """Give a volume an object map in which every object that was found has an address.

    Mappings that lead to what they should are kept; the youngest copy takes the place of others.
    """
    row, known = volume.view.row, volume.omap
    pairs = swept.paddr ^ (swept.oid << np.uint64(32))
    sound = np.isin(known.paddr[row] ^ (known.oid[row] << np.uint64(32)), pairs)
    kept = row[sound | known.is_encrypted[row] | known.is_noheader[row]]
    copies = swept.nodes("fs").newest(volume.xid)
    copies = copies.take(~np.isin(copies.oid, known.oid[kept]))
    none, unknown = np.zeros(len(copies), bool), np.full(len(copies), -1, np.int64)
    columns = {
        "oid": copies.oid,
        "xid": copies.xid,
        "paddr": copies.paddr,
        "size_bytes": copies.size_bytes,
        "is_deleted": none,
        "is_encrypted": none,
        "is_noheader": none,
        "leaf": unknown,
    }
    joint = {name: np.concatenate([getattr(known, name)[kept], values]) for name, values in columns.items()}
    order = np.lexsort((joint["xid"], joint["oid"]))
    omap = ObjectMap(known.nodes, **{name: values[order] for name, values in joint.items()})
    return replace(volume, omap=omap, view=omaps.view_at(omap, volume.xid))


class Leaves(NamedTuple):
    """Leaves with the range of their keys; arrays of one length."""

    places: Places
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


def rebuild_tree(
    parts: VolumeParts, swept: Swept, named: NDArray[np.uint64], foreign: NDArray[np.uint64]
) -> VolumeParts:
    """Fill the gaps of a volume's file-system tree with leaves that a sweep found.

    Parameters
    ----------
    parts : VolumeParts
        The volume as far as it could be read.
    swept : Swept
        All that was found.
    named : (n,) uint64 array
        Objects that the volume's own map names.
    foreign : (n,) uint64 array
        Objects that belong to other volumes.
    """
    source = fs_source(parts.state.store.apart(), parts.state, parts.cipher)
    losses, has_root = find_losses(source)
    batches = list(read_levels(source))
    index = [batch for batch in batches if batch.level]
    trusted, doubtful, replaced = _trusted(batches)
    own = _walked([batch for batch in batches if not batch.level], trusted)
    gaps = [(loss.low, loss.high) for loss in losses] + doubtful if has_root else [(0, NO_LIMIT)]
    opened = batches[0].tree if batches else OpenTree(source, _plain_shape(source.blocks))
    copies = swept.nodes("fs").newest(parts.state.xid)
    copies = copies.take((copies.level == 0) & ~np.isin(copies.oid, own.places.node_id))
    copies = copies.take(~np.isin(copies.oid, foreign) & (copies.size_bytes == opened.shape.sizes.node))
    live = parts.state.omap.oid[parts.state.omap.leaf >= 0]
    if _is_map_whole(parts):
        # A node that neither the map nor an index node names is gone, however well it would fit.
        missing = np.array([loss.node_id for loss in losses], np.uint64)
        copies = copies.take(np.isin(copies.oid, np.concatenate([named, missing, replaced])))
    adopted = _fitting(_read_leaves(opened, copies), gaps, own, live)
    leaves = _in_order(own, adopted)
    hashed = bool(parts.state.superblock.has_hashed_names)
    tree = _tree_of(opened, index, leaves, hashed_names=hashed)
    is_inferred = tree.nodes.omap_leaf < 0
    if not is_inferred.any():
        return parts
    _report(parts.log, tree.nodes, is_inferred)
    views = parts.views | {parts.view: tree.nodes}
    return replace(parts, fs=tree, views=views)


def _plain_shape(blocks: Blocks) -> TreeShape:
    """A tree of which nothing is known has nodes of one block and records of any size."""
    return TreeShape(
        sizes=toc.Sizes(blocks.block_size),
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

    Parameters
    ----------
    batches : list of ReadNodes
        Level by level from the root, each in key order.

    Returns
    -------
    trusted : (n_nodes,) bool array
        By the place of the node in the tree.
    doubtful : list of (int, int)
        Ranges of keys below the topmost nodes that are not.
    replaced : (n,) uint64 array
        Numbers of those.
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
    wrong = ("omap tree", "volume object map")
    has_errors = any(item.level == "error" and item.structure.startswith(wrong) for item in state.log.findings)
    return not isinstance(state.omap_header, NoMap) and not has_errors and bool((state.omap.leaf >= 0).any())


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
    parts = [*parts, Leaves(_places_of(nothing, nothing, nothing, np.empty(0, np.int64), nothing), nothing, nothing)]
    parts = [part for part in parts if len(part.first)] or parts[:1]
    return Leaves(
        joined_places([part.places for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.last for part in parts]),
    )


def _places_of(
    oid: NDArray[np.uint64],
    xid: NDArray[np.uint64],
    paddr: NDArray[np.uint64],
    size_bytes: NDArray[np.int64],
    low: NDArray[np.uint64],
) -> Places:
    unknown = np.full(len(oid), -1, np.int64)
    hashes = np.empty((len(oid), 0), np.uint8)
    return Places(oid, xid, paddr, size_bytes, np.zeros(len(oid), bool), unknown, unknown, low, hashes)


def _read_leaves(tree: OpenTree, copies: Swept) -> Leaves:
    """Read leaves that a sweep found; those that hold no sound records are left out."""
    parts = []
    for start in range(0, len(copies), BATCH_NODES):
        some = copies.take(np.arange(start, min(start + BATCH_NODES, len(copies))))
        places = _places_of(some.oid, some.xid, some.paddr, some.size_bytes, np.zeros(len(some), np.uint64))
        batch = read_batch(tree, places, 0, 0)
        node, first, last = _ends(batch)
        found = places.take(node)
        parts.append(Leaves(replace(found, low_key=first), first, last))
    return _joined(parts)


def _fitting(leaves: Leaves, gaps: list[tuple[int, int]], own: Leaves, live: NDArray[np.uint64]) -> Leaves:
    """Choose leaves in a gap, or that the object map calls live: the youngest first, none across another."""
    fits = np.isin(leaves.places.node_id, live) & (leaves.first <= leaves.last)
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


@dataclass(frozen=True, slots=True)
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


def _tree_of(tree: OpenTree, index: list[ReadNodes], leaves: Leaves, *, hashed_names: bool) -> Tree:
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
    return Tree(join(tree.source.tree, columns), records.finish())


def _report(log: FindingLog, nodes: NodeRows, is_inferred: NDArray[np.bool_]) -> None:
    """Say what is inferred."""
    leaves = np.flatnonzero(is_inferred & (nodes.level == 0) & (nodes.num_records > 0))
    ranges = ", ".join(
        f"{first} to {last}"
        for first, last in zip(
            nodes.first_key_id[leaves[:MOST_NAMED]].tolist(),
            nodes.last_key_id[leaves[:MOST_NAMED]].tolist(),
            strict=True,
        )
    )
    more = ", ..." if len(leaves) > MOST_NAMED else ""
    what = f"; inferred are the records of objects {ranges}{more}" if ranges else "; they are index nodes"
    message = f"{is_inferred.sum()} of {len(nodes)} nodes were found by a sweep and put where they belong{what}"
    log.at(f"{nodes.tree} tree", int(nodes.paddr[is_inferred][0])).add("tree-rebuilt", "warning", message)
