"""Open a container without a usable checkpoint, from the objects that a sweep of the whole disk finds.

Apple File System Reference, Container (Mounting). The newest superblock that is left replaces the checkpoint. If its
object map cannot be read, or a volume is younger, volumes are opened from the youngest copies of their superblocks. If
there is no superblock, the container's properties are derived from the disk's size. All of that is inferred.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import checkpoint as checkpoints
from layoutscope.filesystems.apfs import omap as omaps
from layoutscope.filesystems.apfs.btree import (
    BATCH_NODES,
    open_omap,
    read_batch,
    read_levels,
    read_omap,
)
from layoutscope.filesystems.apfs.checkpoint import DescriptorArea, descriptor_paddrs, find_younger
from layoutscope.filesystems.apfs.container import (
    MIN_BLOCK_BYTES,
    Container,
    address_blocks,
    find_superblock,
    report_missing_half,
)
from layoutscope.filesystems.apfs.fsrecords import (
    MAX_NAMED,
    NO_LIMIT,
    RecordReader,
    RecordTree,
    find_losses,
    records_plan,
)
from layoutscope.filesystems.apfs.nodes import DAMAGED, NodeRows, find_unusable, join, rows_of
from layoutscope.filesystems.apfs.omap import ObjectMap
from layoutscope.filesystems.apfs.snapshots import LIVE, read_map_at, volumes_at
from layoutscope.filesystems.apfs.source import OpenTree, Store, mapped_nodes
from layoutscope.filesystems.apfs.spaceman import device_blocks, read_space, to_runs
from layoutscope.filesystems.apfs.sweep import KINDS, Swept, sweep
from layoutscope.filesystems.apfs.verify import read_object
from layoutscope.filesystems.apfs.volume import Volume, fs_source, read_seal
from layoutscope.findings import FindingLog
from layoutscope.structs import arrays, grammar
from layoutscope.structs.arrays import match
from layoutscope.structs.records import CHILD_VAL, NX_SUPERBLOCK, OMAP_PHYS
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.checkpoint import Checkpoint
    from layoutscope.filesystems.apfs.container import Halves
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts
    from layoutscope.filesystems.apfs.spaceman import Space
    from layoutscope.structs.grammar import ApfsContainer, ApfsVolume


SEARCHED_BYTES: Final = 1024**3
"""Limit for a search that the user did not request: a few seconds of reading."""


class Evidence:
    """Copies of lost objects, searched for at the first request."""

    def __init__(self, contents: ContainerContents) -> None:
        """Take the volumes that could be opened: they know which blocks hold data."""
        self._contents = contents
        # Every block was searched if a sweep was requested.
        self.is_complete = contents.swept is not None

    @cached_property
    def copies(self) -> Swept:
        """The objects that are left, possibly several versions of one object."""
        if self._contents.swept is not None:
            return self._contents.swept
        container, volumes = self._contents.container, self._contents.volumes
        block_size, data = container.blocks.block_size, [item.data_runs for item in volumes]
        used = find_used_blocks(container.blocks, container.device_blocks, self._contents.space, data)
        is_small = arrays.total(used) * block_size <= SEARCHED_BYTES
        places = [used] if is_small else []
        # Blocks of the volumes' own maps: a map names an object even if the bitmap of its chunk is damaged.
        places += [_runs(item.state.omap.paddr, item.state.omap.size_bytes, block_size) for item in volumes]
        one = np.array([block_size], np.int64)
        # Volume superblocks of earlier checkpoints, and their nodes if not all used blocks are searched.
        for _, superblock in checkpoints.superblocks(container.store.apart(), container.area):
            for volume, paddr in volumes_at(container, superblock) if superblock.hdr.xid < container.xid else ():
                places.append(_runs(np.array([paddr], np.uint64), one, block_size))
                omap = None if is_small else read_map_at(container, volume, superblock.hdr.xid)
                places += [] if omap is None else [_runs(omap.paddr, omap.size_bytes, block_size)]
        container.at_superblock().add("tree-rebuilt", "warning", describe_search(used, block_size))
        return sweep(container.blocks, arrays.union(places))


def describe_search(used: NDArray[np.int64], block_size: int) -> str:
    """Describe in one sentence what is searched without a request, or why that is not enough."""
    size = arrays.total(used) * block_size
    if size <= SEARCHED_BYTES:
        return f"{format_bytes(size)} that are in use, and not known to be data, were searched for lost nodes"
    return (
        f"lost nodes were looked for where earlier checkpoints had them: {format_bytes(size)} are in use, more than "
        f"the {format_bytes(SEARCHED_BYTES)} that are searched unasked; --sweep would find more"
    )


def find_used_blocks(
    blocks: Blocks,
    num_blocks: tuple[int, ...],  # blocks of each device
    space: Space | None,
    data: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """List the runs of blocks that the current state uses, except those with known file data."""
    # A damaged superblock may declare any number of blocks; only those in the image are searched.
    sizes = [source.size_bytes // blocks.block_size if source else 0 for source in blocks.sources]
    held = [min(count, size) for count, size in zip(num_blocks, sizes, strict=False)]
    runs = [[device * blocks.tier2_mark, count] for device, count in enumerate(held) if count]
    devices = np.array(runs, np.int64).reshape(-1, 2)
    # Blocks in a free queue count as used in the bitmaps, to keep earlier checkpoints intact: they hold old copies.
    unused = [] if space is None else [space.free, to_runs(space.pending)]
    return arrays.subtract(devices, arrays.union([np.empty((0, 2), np.int64), *unused, *data]))


def _runs(paddr: NDArray[np.uint64], size_bytes: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    sane = (size_bytes > 0) & (size_bytes <= SEARCHED_BYTES) & (paddr < np.uint64(2**62))
    return arrays.runs_of(paddr[sane], size_bytes[sane] // block_size)


def reopen_volume(container: Container, store: Store, oid: int, number: int, evidence: Evidence) -> Volume:
    """Open a volume whose superblock or object map is lost, from the youngest copies of its objects."""
    blocks, swept = container.blocks, evidence.copies
    # Objects of a transaction that was never committed are younger than the checkpoint and belong to no state.
    copies = swept.take((swept.kind == int(KINDS.fs)) & (swept.oid == np.uint64(oid))).newest(container.xid)
    if not len(copies):
        lost = "the volume's files and directories are missing from the tables"
        reason = f"no copy of it was found where it was looked for: {lost}; --sweep looks at every block"
        if evidence.is_complete:
            reason = f"no copy of it is left anywhere in the container: {lost}"
        # If a reference names its address, that was already reported; an object without a copy has no address.
        raise FormatError(reason, structure=f"volume superblock {oid}", image_offset=None)
    paddr = int(copies.paddr[0])
    superblock = read_object(blocks, grammar.ApfsVolume.ApfsSuperblock, paddr, "volume superblock", oid=oid)
    message = f"this copy, of transaction {superblock.hdr.xid}, is the youngest that a sweep found; it is inferred"
    store.log.at("volume superblock", paddr).add("tree-rebuilt", "warning", message)
    header, known = _map_left(store, swept, superblock, container.xid)
    view = omaps.view_at(known, container.xid)
    seal = read_seal(store, view, superblock)
    nothing = join("omap-snapshots", [])
    volume = Volume(store, number, superblock, paddr, container.xid, header, view, nothing, seal)
    # A map that was found by its root is the youngest one, unless it is empty.
    return volume if len(known) and not header.tree_oid else add_rebuilt_map(volume, swept)


def _map_left(
    store: Store, swept: Swept, superblock: ApfsVolume.ApfsSuperblock, max_xid: int
) -> tuple[ApfsContainer.OmapPhys, ObjectMap]:
    """Read the remaining object map of a volume: the youngest one by its root, or that of an older superblock."""
    found = _map_by_root(store, swept, superblock.root_tree_oid, max_xid)
    if len(found):
        message = "the youngest object map that knows the volume's tree was taken for the volume's; it is inferred"
        store.log.at("volume object map", int(found.nodes.paddr[0])).add("tree-rebuilt", "warning", message)
        return _lost_map_header(), found
    try:
        return open_omap(store, "omap", superblock.omap_oid, max_xid)
    except FormatError as error:
        log = store.log.at_byte("volume object map", error.image_offset)
        log.add("tree-rebuilt", "error", f"the volume is read without its object map: {error.reason}")
    return _lost_map_header(), found


def _map_by_root(store: Store, swept: Swept, root_tree_oid: int, max_xid: int) -> ObjectMap:
    """Read the youngest object map that knows the root of a volume's tree; return an empty one if none is left."""
    # Only the header of a map names its owner. Its nodes are physical and identified by their own addresses, so a map
    # is complete without its header. No two volumes of a container share the number of a virtual object.
    nodes = swept.nodes("omap")
    roots = nodes.take((nodes.kind == int(KINDS.btree)) & (nodes.xid <= np.uint64(max_xid)))
    for row in np.argsort(roots.xid, kind="stable")[::-1].tolist():
        apart = store.apart()
        found = read_omap(apart, "omap", int(roots.oid[row]), max_xid)
        if not apart.log.has_errors and omaps.view_at(found, max_xid).find_one(root_tree_oid) is not None:
            return found
    return map_of(swept.take(np.empty(0, np.int64)))


def _lost_map_header() -> ApfsContainer.OmapPhys:
    """Make up the header of an object map that is lost: it leads to no tree."""
    cls = grammar.ApfsContainer.OmapPhys
    return grammar.parse(cls, OMAP_PHYS.blank({}), structure="object map", image_offset=0)


def map_of(copies: Swept) -> ObjectMap:
    """Return an object map with one mapping per copy; the mappings belong to no leaf of a tree."""
    none, unknown = np.zeros(len(copies), bool), np.full(len(copies), -1, np.int64)
    return ObjectMap(
        join("omap", []), copies.oid, copies.xid, copies.paddr, copies.size_bytes, none, none, none, unknown
    )


def add_rebuilt_map(volume: Volume, swept: Swept) -> Volume:
    """Give a volume an object map in which every object that was found has an address.

    Valid mappings are kept; the youngest copy replaces the others. If the map is not the latest one, a copy may be
    younger than the mapping.
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
    columns = [name for name in ObjectMap.__struct_fields__ if name != "nodes"]
    joint = {name: np.concatenate([getattr(omap, name)[rows] for omap, rows in parts]) for name in columns}
    order = np.lexsort((joint["xid"], joint["oid"]))
    omap = ObjectMap(known.nodes, **{name: values[order] for name, values in joint.items()})
    return replace(volume, view=omaps.view_at(omap, volume.xid))


def report_unreached(parts: VolumeParts) -> None:
    """Check the objects in the object map of a damaged volume that no tree leads to any more."""
    state = parts.state
    mapped = omaps.read_mapped(state.omap, state.store.blocks, list(parts.views.values()), parts.key)
    misled = omaps.are_misled(state.omap, mapped)
    entries = omaps.report_damaged_objects(state.omap, mapped, misled, "fs tree, node", parts.log)
    # A sealed volume's integrity metadata is a virtual object too, but not a node.
    entries = entries[state.omap.oid[entries] != state.superblock.integrity_meta_oid]
    is_live = np.isin(entries, omaps.view_at(state.omap, omaps.NEWEST).row)
    for lost, rows in ((parts.lost, entries[is_live]), (parts.lost_of_snapshots, entries[~is_live])):
        if len(rows):
            # The trees that would give their levels are lost.
            lost.append(mapped_nodes("fs", state.omap, rows, DAMAGED))


def salvage_container(halves: Halves, log: FindingLog, error: FormatError) -> tuple[Container, Swept]:
    """Sweep a container and open what is left of it."""
    store = Store.over(_blocks(halves), log)
    swept = sweep(store.blocks)
    volumes = _volumes_in(swept)
    if not len(volumes):
        raise error
    shift = _find_displacement(swept)
    if shift:
        (source, start), second = halves
        return salvage_container(((source, start + shift * store.blocks.block_size), second), log, error)
    log.at_error(error).add("checkpoint-invalid", "error", error.reason)
    if shift is None:
        message = "addresses are uncertain: where the container starts is inferred, and no object is at its own number"
        store.log.at("container", 0).add("start-uncertain", "error", message)
    paddr, superblock = _newest_superblock(store.blocks, swept) or (0, _stand_in(store.blocks, volumes))
    xid, newest = int(superblock.hdr.xid), int(volumes.xid.max())
    known = _read_map(store, superblock) if xid >= newest else None
    message = f"the state of transaction {xid} is read, whose object map is left"
    if known is None:
        xid = max(xid, newest)
        known = _lost_map_header(), omaps.view_at(map_of(volumes.newest(xid)), xid)
        message = "volumes are read from the youngest copies of their superblocks"
    _report(store.log, paddr, message)
    # The part of the descriptor area that is present.
    paddrs, trees = np.empty(0, np.uint64), list[NodeRows]()
    with suppress(FormatError):
        paddrs, trees = descriptor_paddrs(store.apart(), superblock)
    area = checkpoints.read_descriptor_area(store.blocks, paddrs)
    state, _ = checkpoints.open_checkpoint(store, area, paddr, superblock)
    return _container(store, area, trees, replace(state, xid=xid), *known), swept


def reopen_container(
    halves: Halves,
    log: FindingLog,
    *,
    after_xid: int = 0,  # transaction of the state that can otherwise be opened; 0 if there is none
    xid: int | None = None,
) -> Container | None:
    """Open a state of a container that has lost only its object map, without a requested sweep.

    The youngest copies of volume superblocks in used blocks replace the map.

    Return None if no later superblock is left, or not the requested one; if the checkpoint does not show which blocks
    are used; if these exceed the limit of an unrequested search; or if a volume is not found.
    """
    apart = log.branch()
    store = Store.over(_blocks(halves), apart)
    with suppress(FormatError):
        first = find_superblock(*halves[0], FindingLog())
        paddrs, trees = descriptor_paddrs(store.apart(), first)
        area = checkpoints.read_descriptor_area(store.blocks, paddrs)
        left = checkpoints.superblocks(store.apart(), area)
        for paddr, superblock in [item for item in left if xid in (None, item[1].hdr.xid)][:1]:
            if superblock.hdr.xid <= after_xid:
                return None
            state, _ = checkpoints.open_checkpoint(store, area, paddr, superblock)
            used = find_used_blocks(store.blocks, device_blocks(store, state), read_space(store.apart(), state), [])
            if arrays.total(used) * store.blocks.block_size > SEARCHED_BYTES:
                return None
            oids = [oid for oid in superblock.fs_oid if oid]
            volumes = _volumes_in(sweep(store.blocks, used)).newest(state.xid)
            volumes = volumes.take(np.isin(volumes.oid, np.array(oids, np.uint64)))
            if not len(volumes) or len(volumes) < len(oids):
                return None
            searched = describe_search(used, store.blocks.block_size)
            # The errors that prevented opening the container as usual are still damage.
            apart.findings[:0] = [item for item in log.findings if item.level == "error"]
            _report(store.log, paddr, f"{searched}; volumes are read from the youngest copies of their superblocks")
            view = omaps.view_at(map_of(volumes), state.xid)
            opened = _container(store, area, trees, state, _lost_map_header(), view)
            if xid is not None:
                return opened
            return replace(opened, younger=find_younger(area, state.xid, int(first.hdr.xid)))
    return None


def _find_displacement(swept: Swept) -> int | None:
    """Return how many blocks after the start of the sweep the container starts; None if unknown.

    Object map headers are physical objects: their numbers are their addresses.
    """
    heads = swept.take(swept.kind == int(KINDS.omap))
    if not len(heads):
        # Other physical objects are recognised only by the same coincidence.
        return 0 if (swept.oid == swept.paddr).any() else None
    if (heads.oid == heads.paddr).any():
        return 0
    distances, counts = np.unique(heads.paddr.astype(np.int64) - heads.oid.astype(np.int64), return_counts=True)
    is_behind = (distances > 0) & (counts > 1)
    return int(distances[is_behind][counts[is_behind].argmax()]) if is_behind.any() else None


def _volumes_in(swept: Swept) -> Swept:
    """Return the superblocks of volumes."""
    # Copies for snapshots are physical objects, with their addresses as numbers. Superblocks of volumes are virtual.
    return swept.take((swept.kind == int(KINDS.fs)) & (swept.oid != swept.paddr))


def _blocks(halves: Halves) -> Blocks:
    """Address blocks of the superblock's size, or of the usual one, up to the end of each image."""
    size, claimed = MIN_BLOCK_BYTES, 0
    with suppress(FormatError):
        found = find_superblock(*halves[0], FindingLog())
        size, claimed = int(found.len_block), int(found.num_blocks)
    (source, start), _ = halves
    return address_blocks(halves, source.size_bytes - start, size, claimed)


def _newest_superblock(blocks: Blocks, swept: Swept) -> tuple[int, ApfsContainer.NxSuperblock] | None:
    """Parse the newest container superblock that is left, preferably not a copy in block 0."""
    found = swept.take(swept.kind == int(KINDS.nx_superblock))
    # The second device of a Fusion set has a copy in its own block 0, whose address carries that device's mark.
    number = found.paddr % np.uint64(blocks.tier2_mark)
    for row in np.lexsort((number, found.xid))[::-1].tolist():
        paddr = int(found.paddr[row])
        try:
            superblock = read_object(
                blocks, grammar.ApfsContainer.NxSuperblock, paddr, "container superblock", oid=int(found.oid[row])
            )
        except FormatError:
            continue
        if superblock.len_block == blocks.block_size:
            return paddr, superblock
    return None


def _read_map(
    store: Store, superblock: ApfsContainer.NxSuperblock
) -> tuple[ApfsContainer.OmapPhys, omaps.OmapView] | None:
    """Read the object map of a superblock; None if it cannot be read or contains no volume."""
    xid = int(superblock.hdr.xid)
    try:
        header, omap = open_omap(store.apart(), "container-omap", superblock.omap_oid, xid)
    except FormatError:
        return None
    view = omaps.view_at(omap, xid)
    oids = np.array([oid for oid in superblock.fs_oid if oid], np.uint64)
    return None if (view.find(oids) < 0).all() else (header, view)


def _container(
    store: Store,
    area: DescriptorArea,
    trees: list[NodeRows],  # trees that map the descriptor area
    state: Checkpoint,
    header: ApfsContainer.OmapPhys,
    view: omaps.OmapView,
) -> Container:
    """Make a container of what was found."""
    if not header.tree_oid:
        # The nodes that make the object map unusable; if its header is damaged, a finding already reports it.
        with suppress(FormatError):
            apart = store.apart()
            _, found = open_omap(apart, "container-omap", state.superblock.omap_oid, state.xid)
            store.lost.extend([*apart.lost, *find_unusable(found.nodes)])
    sizes = device_blocks(store, state)
    report_missing_half(store, state.superblock)
    return Container(store, area, state, view, header, np.empty(0, np.uint64), trees, sizes)


def _stand_in(blocks: Blocks, volumes: Swept) -> ApfsContainer.NxSuperblock:
    """Make up the superblock of a container that lost all of its own, from its size and the volumes that were found."""
    source = blocks.sources[0]
    size = source.size_bytes if source is not None else 0
    (limit,) = NX_SUPERBLOCK.fs_oid.counts
    oids = np.unique(volumes.oid)[:limit].tolist()
    flags = grammar.ApfsContainer.ContainerFlag.crypto_sw
    values = {
        "magic": int(grammar.ApfsContainer.ContainerMagic.nx_superblock),
        "len_block": blocks.block_size,
        "num_blocks": size // blocks.block_size,
        "max_file_systems": len(oids),
        "fs_oid": oids,
        # It is unknown whether keys are bound to the hardware; they are lost with the superblock either way.
        "flags": int(flags),
        "next_xid": int(volumes.xid.max()) + 1,
        "next_oid": int(volumes.oid.max()) + 1,
    }
    data = NX_SUPERBLOCK.blank(values)
    return grammar.parse(
        grammar.ApfsContainer.NxSuperblock, data, structure="container superblock", image_offset=blocks.at(0)
    )


def _report(log: FindingLog, paddr: int, message: str) -> None:
    text = f"the container is inferred from what a sweep found: {message}"
    log.at("container superblock", paddr).add("tree-rebuilt", "warning", text)


def rebuild_volume(parts: VolumeParts, evidence: Evidence, volumes: list[VolumeParts]) -> VolumeParts:
    """Rebuild the tree of a volume if part of it is missing."""
    state = parts.state
    if not parts.log.has_errors or parts.is_locked or state.superblock.is_sealed:
        return parts
    if fs_source(state.store, state, parts.key).view is None:
        return parts
    is_mended = bool((state.omap.leaf < 0).any())
    if not (evidence.is_complete or is_mended or _is_index_lost(parts)):
        return parts
    named, own = state.view.oid, _list_named_objects(state)
    others = [_list_named_objects(item.state) for item in volumes if item is not parts]
    foreign = np.setdiff1d(np.concatenate([np.empty(0, np.uint64), *others]), own)
    if evidence.is_complete or not _is_map_whole(parts):
        state = add_rebuilt_map(state, evidence.copies)
    return _rebuild_tree(replace(parts, state=state), named, foreign)


def _list_named_objects(state: Volume) -> NDArray[np.uint64]:
    """Return the objects that a leaf of the volume's own object map names."""
    return state.omap.oid[state.omap.leaf >= 0]


def _is_index_lost(parts: VolumeParts) -> bool:
    """Return whether leaves are unreachable although nothing else is known to be wrong with them.

    This is the case if an index node or a part of the object map is lost, or if no index node names an object of the
    map. The contents of a lost leaf are lost with it.
    """
    losses, has_root = find_losses(read_levels(fs_source(parts.state.store.apart(), parts.state, parts.key)))
    if not has_root or losses["level"].any() or (len(losses["level"]) and not _is_map_whole(parts)):
        return True
    if not any(item.level == "error" and item.structure.startswith("fs tree") for item in parts.log.findings):
        # The map's other objects are not part of a complete tree.
        return False
    known = np.concatenate([parts.fs.nodes.node_id, losses["node_id"]])
    return not np.isin(parts.state.view.oid, known).all()


def _rebuild_tree(parts: VolumeParts, named: NDArray[np.uint64], foreign: NDArray[np.uint64]) -> VolumeParts:
    """Fill the gaps of a volume's file-system tree with leaves from its object map or from a sweep."""
    source = fs_source(parts.state.store.apart(), parts.state, parts.key)
    batches = list(read_levels(source))
    losses, has_root = find_losses(batches)
    index = [batch for batch in batches if batch.level]
    trusted, doubtful, replaced = _choose_trusted(batches)
    # The leaves that the index still reaches through trusted nodes.
    own = _join_filled([batch.rows.take(trusted[batch.numbers]) for batch in batches if not batch.level])
    found = zip(losses["low"].tolist(), losses["high"].tolist(), strict=True)
    gaps = [*found, *doubtful] if has_root else [(0, NO_LIMIT)]
    # All objects of the state: one that is not a node of the tree, such as a seal, fails verification as one.
    left = mapped_nodes("fs", parts.state.omap, parts.state.view.row)
    if batches:
        opened = batches[0].tree
    else:
        # The tree is unknown: nodes have the most common object size, and records any size.
        sizes, counts = np.unique(left.size_bytes, return_counts=True)
        size = int(sizes[np.argmax(counts)]) if len(sizes) else MIN_BLOCK_BYTES
        opened = OpenTree(source, size, (0, 0, CHILD_VAL.width), level=0)
    known = [own.node_id, *(batch.rows.node_id[batch.is_sound] for batch in index), foreign]
    left = left.take(~np.isin(left.node_id, np.concatenate(known)) & (left.size_bytes == opened.node_bytes))
    if _is_map_whole(parts):
        # A node that neither the map nor an index node names is discarded, even if it would fit.
        left = left.take(np.isin(left.node_id, np.concatenate([named, losses["node_id"], replaced])))
    adopted = _fitting(_read_leaves(opened, left), gaps, own)
    leaves = NodeRows.join([own, adopted])
    leaves = leaves.take(np.lexsort((leaves.last_key, leaves.first_key)))
    hashed = bool(parts.state.superblock.has_hashed_names)
    tree = _tree_of(opened, index, leaves, hashed_names=hashed)
    is_inferred = tree.nodes.omap_leaf < 0
    if not len(adopted) and not is_inferred.any():
        return parts
    _report_rebuilt(parts.log, tree.nodes, is_inferred, adopted)
    views = parts.views | {parts.view: tree.nodes}
    name = "lost" if parts.view == LIVE else "lost_of_snapshots"
    rows = join(source.tree, [batch.rows for batch in batches if not batch.level])
    # The trees that led to a node give its level.
    lost: dict[str, Any] = {name: [*find_unusable(rows), *find_unusable(parts.fs.nodes), *getattr(parts, name)]}
    return replace(parts, fs=tree, views=views, inferred=tree.nodes.paddr[is_inferred], **lost)


def _choose_trusted(batches: list[ReadNodes]) -> tuple[NDArray[np.bool_], list[tuple[int, int]], NDArray[np.uint64]]:
    """Return which nodes match the object map, together with all nodes above them.

    A copy that the map does not name is older. It may order the nodes below it, but has no information about later
    changes: leaves below it are ranked by their own transactions, like all others from a sweep.
    """
    trusted = np.zeros(sum(len(batch.rows) for batch in batches), np.bool_)
    levels: dict[int, list[tuple[NDArray[np.uint64], NDArray[np.bool_]]]] = {}
    replaced = [np.empty(0, np.uint64)]
    for batch in batches:
        rows = batch.rows
        above = (rows.parent < 0) | trusted[np.maximum(rows.parent, 0)]
        mine = rows.omap_leaf >= 0
        trusted[batch.numbers] = above & mine
        levels.setdefault(batch.level, []).append((rows.low_key, above & ~mine))
        replaced.append(rows.node_id[above & ~mine])
    doubtful = []
    for parts in levels.values():
        low, wrong = (np.concatenate(column) for column in zip(*parts, strict=True))
        high = np.append(low[1:], np.uint64(NO_LIMIT))
        doubtful += list(zip(low[wrong].tolist(), high[wrong].tolist(), strict=True))
    return trusted, doubtful, np.concatenate(replaced)


def _is_map_whole(parts: VolumeParts) -> bool:
    """Return whether no part of a volume's object map is known to be missing."""
    state = parts.state
    errors = [item for item in state.log.findings if item.level == "error"]
    is_broken = any(item.structure.startswith(("omap tree", "volume object map")) for item in errors)
    # If an index node names an object that no map contains, either the node or the map is damaged.
    is_short = any(item.code == "node-missing" and item.structure.startswith("fs tree") for item in errors)
    has_mappings = bool((state.omap.leaf >= 0).any())
    return has_mappings and bool(state.omap_header.tree_oid) and not is_broken and not is_short


def _join_filled(leaves: Sequence[NodeRows]) -> NodeRows:
    """Return the leaves that have records."""
    found = NodeRows.join([rows_of("fs"), *leaves])
    return found.take(found.num_records > 0)


def _read_leaves(tree: OpenTree, places: NodeRows) -> NodeRows:
    """Read possible leaves; return those with sound leaf records."""
    places = places.take(tree.source.blocks.readable(places.paddr, tree.node_bytes))
    parts = []
    for start in range(0, len(places), BATCH_NODES):
        some = places.take(slice(start, start + BATCH_NODES))
        rows = read_batch(tree, some, 0, np.arange(len(some))).rows
        parts.append(replace(rows, low_key=rows.first_key))
    return _join_filled(parts)


def _fitting(leaves: NodeRows, gaps: list[tuple[int, int]], own: NodeRows) -> NodeRows:
    """Choose leaves that fill a gap or that the object map calls live: youngest first, without overlaps."""
    fits = (leaves.omap_leaf >= 0) & (leaves.first_key <= leaves.last_key)
    if gaps:
        low, high = (np.array(side, np.uint64) for side in zip(*sorted(gaps), strict=True))
        spot = np.searchsorted(low, leaves.first_key, side="right") - 1
        inside = (spot >= 0) & (leaves.last_key <= high[np.maximum(spot, 0)])
        fits |= inside & (leaves.first_key <= leaves.last_key)
    order = np.lexsort((own.last_key, own.first_key))
    taken = list(zip(own.first_key[order].tolist(), own.last_key[order].tolist(), strict=True))
    youngest = np.argsort(leaves.xid, kind="stable")[::-1].tolist()
    chosen = []
    for row in youngest:
        if not fits[row]:
            continue
        first, last = int(leaves.first_key[row]), int(leaves.last_key[row])
        at = bisect_left(taken, (first, last))
        # Ranges may touch: the records of one object can continue in the next leaf.
        is_taken = (at < len(taken) and taken[at][0] < last) or (at > 0 and taken[at - 1][1] > first)
        if not is_taken:
            taken.insert(at, (first, last))
            chosen.append(row)
    return leaves.take(np.array(sorted(chosen), np.int64))


def _tree_of(tree: OpenTree, index: list[ReadNodes], leaves: NodeRows, *, hashed_names: bool) -> RecordTree:
    """Build a tree from index nodes and leaves."""
    columns = [batch.rows for batch in index]
    first = sum(len(batch.rows) for batch in index)
    records = RecordReader(records_plan(hashed_names=hashed_names))
    for start in range(0, len(leaves), BATCH_NODES):
        places = leaves.take(slice(start, start + BATCH_NODES))
        batch = read_batch(tree, places, 0, np.arange(first, first + len(places)))
        first += len(places)
        columns.append(batch.rows)
        records.add(batch)
    return records.finish(join(tree.source.tree, columns))


def _report_rebuilt(log: FindingLog, nodes: NodeRows, is_inferred: NDArray[np.bool_], adopted: NodeRows) -> None:
    """Report the nodes that were restored to the tree, and which of them are inferred."""
    named = adopted.paddr[adopted.omap_leaf >= 0]
    if len(named):
        message = f"{len(named)} leaves to which no index node leads any more were found through the object map"
        log.at(f"{nodes.tree} tree", int(named[0])).add("tree-rebuilt", "warning", message)
    if not is_inferred.any():
        return
    leaves = np.flatnonzero(is_inferred & (nodes.level == 0) & (nodes.num_records > 0))
    ends = nodes.first_key_id[leaves].tolist(), nodes.last_key_id[leaves].tolist()
    ranges = ", ".join(f"{first} to {last}" for first, last in list(zip(*ends, strict=True))[:MAX_NAMED])
    more = ", ..." if len(leaves) > MAX_NAMED else ""
    what = f"; inferred are the records of objects {ranges}{more}" if ranges else "; they are index nodes"
    message = f"{is_inferred.sum()} of {len(nodes)} nodes were found by a sweep and put where they belong{what}"
    log.at(f"{nodes.tree} tree", int(nodes.paddr[is_inferred][0])).add("tree-rebuilt", "warning", message)
