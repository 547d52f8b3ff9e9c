"""Putting broken file-system trees together again from the nodes that a sweep found.

Apple File System Reference, Object Maps and B-Trees. Where a map or a superblock is lost, each object's youngest copy
takes its place; where an index node is lost, leaves whose keys fit the gap do. All of that is inferred: a younger copy
may be lost, and an old leaf may hold records that were deleted since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.arrays.lookup import match
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import MIN_BLOCK_BYTES, NoMap
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
from layoutscope.filesystems.apfs.volume.volume import Volume, read_seal
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.filesystems.apfs.store.sweep import Swept
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.grammar import ApfsContainer, ApfsVolume


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
    # What a transaction wrote that was never committed is younger than the checkpoint, and no part of any state.
    copies = swept.take((swept.kind == int(KINDS.fs)) & (swept.oid == np.uint64(oid))).newest(container.xid)
    if not len(copies):
        raise FormatError("no copy of it is left", structure=f"volume superblock {oid}", image_offset=blocks.at(0))
    paddr = int(copies.paddr[0])
    superblock = read_object(blocks, grammar.ApfsVolume.ApfsSuperblock, paddr, "volume superblock", oid=oid)
    message = f"this copy, of transaction {superblock.hdr.xid}, is the youngest that a sweep found; it is inferred"
    store.log.at("volume superblock", paddr).add("tree-rebuilt", "warning", message)
    header, known = _map_left(store, swept, superblock, container.xid)
    view = omaps.view_at(known, container.xid)
    seal = read_seal(store, view, superblock)
    nothing = join("omap-snapshots", [])
    volume = Volume(store, number, superblock, paddr, container.xid, header, known, view, nothing, seal)
    # A map that was found by its root is the youngest one, unless there is none.
    return volume if len(known) and isinstance(header, NoMap) else mended(volume, swept)


def _map_left(
    store: Store, swept: Swept, superblock: ApfsVolume.ApfsSuperblock, max_xid: int
) -> tuple[ApfsContainer.OmapPhys | NoMap, ObjectMap]:
    """Read what is left of a volume's object map: the youngest one by its root, or that of an older superblock."""
    found = _map_by_root(store, swept, superblock.root_tree_oid, max_xid)
    if len(found):
        message = "the youngest object map that knows the volume's tree was taken for the volume's; it is inferred"
        store.log.at("volume object map", int(found.nodes.paddr[0])).add("tree-rebuilt", "warning", message)
        return NoMap(), found
    try:
        header = read_object(store.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "volume object map")
        return header, read_omap(store, "omap", header.tree_oid, max_xid)
    except FormatError as error:
        log = store.log.at_byte("volume object map", error.image_offset)
        log.add("tree-rebuilt", "error", f"the volume is read without its object map: {error.reason}")
    return NoMap(), found


def _map_by_root(store: Store, swept: Swept, root_tree_oid: int, max_xid: int) -> ObjectMap:
    """Read the youngest object map that knows the root of a volume's tree; an empty one if none is left."""
    # Only the head of a map says whose it is. Its nodes are physical, each named by its own address, so that a map is
    # whole without its head; and no two volumes of a container share the number of a virtual object.
    nodes, wanted = swept.nodes("omap"), np.array([root_tree_oid], np.uint64)
    roots = nodes.take((nodes.kind == int(KINDS.btree)) & (nodes.xid <= np.uint64(max_xid)))
    for row in np.argsort(roots.xid, kind="stable")[::-1].tolist():
        apart = store.apart()
        found = read_omap(apart, "omap", int(roots.oid[row]), max_xid)
        if not apart.log.has_errors and not omaps.view_at(found, max_xid).find(wanted).is_missing[0]:
            return found
    return map_of(swept.take(np.empty(0, np.int64)))


def map_of(copies: Swept) -> ObjectMap:
    """Return an object map that knows some objects, one copy of each, and of no leaf that would name them."""
    none, unknown = np.zeros(len(copies), bool), np.full(len(copies), -1, np.int64)
    return ObjectMap(
        join("omap", []), copies.oid, copies.xid, copies.paddr, copies.size_bytes, none, none, none, unknown
    )


def mended(volume: Volume, swept: Swept) -> Volume:
    """Give a volume an object map in which every object that was found has an address.

    Mappings that lead to what they should are kept; the youngest copy takes the place of others. That of a map which is
    not the last one may be younger than the mapping.
    """
    row, known = volume.view.row, volume.omap
    copies = swept.nodes("fs").newest(volume.xid)
    pairs = swept.paddr ^ (swept.oid << np.uint64(32))
    sound = np.isin(known.paddr[row] ^ (known.oid[row] << np.uint64(32)), pairs)
    spot, has_copy = match(copies.oid, known.oid[row])
    sound[has_copy] &= known.xid[row][has_copy] >= copies.xid[spot[has_copy]]
    kept = row[sound | known.is_encrypted[row] | known.is_noheader[row]]
    copies = copies.take(~np.isin(copies.oid, known.oid[kept]))
    parts = (known, kept), (map_of(copies), np.arange(len(copies)))
    columns = [name for name in ObjectMap.__slots__ if name != "nodes"]
    joint = {name: np.concatenate([getattr(omap, name)[rows] for omap, rows in parts]) for name in columns}
    order = np.lexsort((joint["xid"], joint["oid"]))
    omap = ObjectMap(known.nodes, **{name: values[order] for name, values in joint.items()})
    return replace(volume, omap=omap, view=omaps.view_at(omap, volume.xid))


class Leaves(NamedTuple):
    """Leaves with the range of their keys; arrays of one length."""

    places: Places
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


def is_index_lost(parts: VolumeParts) -> bool:
    """Tell whether leaves are cut off, of which nothing else is known to be wrong.

    That is so where an index node or a part of the object map is lost, or where no index node names an object that the
    map has; what a lost leaf held is lost with it.
    """
    losses, has_root = find_losses(fs_source(parts.state.store.apart(), parts.state, parts.cipher))
    if not has_root or any(loss.level for loss in losses) or (losses and not is_map_whole(parts)):
        return True
    if not any(item.level == "error" and item.structure.startswith("fs tree") for item in parts.log.findings):
        # Whatever else the map has is no part of a tree that is whole.
        return False
    known = np.concatenate([parts.fs.nodes.node_id, np.array([loss.node_id for loss in losses], np.uint64)])
    return not np.isin(parts.state.view.oid, known).all()


def rebuild_tree(parts: VolumeParts, named: NDArray[np.uint64], foreign: NDArray[np.uint64]) -> VolumeParts:
    """Fill the gaps of a volume's file-system tree with leaves that its object map names or a sweep found.

    Parameters
    ----------
    parts : VolumeParts
        The volume as far as it could be read; its object map has been mended where a sweep found something.
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
    left = _mapped_places(parts.state)
    opened = batches[0].tree if batches else OpenTree(source, _plain_shape(left.size_bytes))
    known = [own.places.node_id, *(batch.places.node_id[batch.check.is_sound] for batch in index), foreign]
    left = left.take(~np.isin(left.node_id, np.concatenate(known)) & (left.size_bytes == opened.shape.sizes.node))
    if is_map_whole(parts):
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
    return replace(parts, fs=tree, views=views, inferred=tree.nodes.paddr[is_inferred])


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


def is_map_whole(parts: VolumeParts) -> bool:
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
    return Places(oid, xid, paddr, size_bytes, np.zeros(len(oid), bool), unknown, unknown, low, hashes)


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
