"""Opening a container none of whose checkpoints can be used, from what a sweep of the whole disk found.

Apple File System Reference, Container (Mounting). The newest superblock that is left takes the checkpoint's place. If
its object map cannot be read, or a volume is younger, volumes are known by the youngest copies of their superblocks; if
there is none, the container's facts are made up from the disk's size. All of that is inferred.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container import checkpoint as checkpoints
from layoutscope.filesystems.apfs.container.checkpoint import DescriptorArea, ring_paddrs
from layoutscope.filesystems.apfs.container.container import MIN_BLOCK_BYTES, Container, NoMap, find_superblock
from layoutscope.filesystems.apfs.container.spaceman import device_blocks, read_space
from layoutscope.filesystems.apfs.container.younger import find_younger
from layoutscope.filesystems.apfs.recovery.reopening import map_of
from layoutscope.filesystems.apfs.recovery.search import SEARCHED_BYTES, tell_search, used_blocks
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.store.blocks import Blocks
from layoutscope.filesystems.apfs.store.nodes import lost_of
from layoutscope.filesystems.apfs.store.source import Store
from layoutscope.filesystems.apfs.store.sweep import KINDS, Swept, sweep
from layoutscope.filesystems.apfs.store.verify import read_object
from layoutscope.filesystems.apfs.store.walk import read_omap
from layoutscope.findings import FindingLog
from layoutscope.image.source import Window
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import NX_SUPERBLOCK

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.checkpoint import Checkpoint
    from layoutscope.filesystems.apfs.container.container import Halves
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.ondisk.grammar import ApfsContainer

SUPERBLOCK: Final = NX_SUPERBLOCK


def salvage_container(halves: Halves, decoder: Decoder, log: FindingLog, error: FormatError) -> tuple[Container, Swept]:
    """Sweep a container and open what is left of it."""
    store = Store.over(_blocks(halves), decoder, log)
    swept = sweep(store.blocks, decoder)
    volumes = _volumes_in(swept)
    if not len(volumes):
        raise error
    shift = _misplaced_blocks(swept)
    if shift:
        (source, start), second = halves
        return salvage_container(((source, start + shift * store.blocks.block_size), second), decoder, log, error)
    log.at_error(error).add("checkpoint-invalid", "error", error.reason)
    if shift is None:
        message = (
            "addresses are uncertain: where the container starts is inferred, and no object lies at its own number"
        )
        store.log.at("container", 0).add("start-uncertain", "error", message)
    left = _superblocks(store.blocks, swept)
    paddr, superblock = left[0] if left else (0, _stand_in(store.blocks, volumes))
    newest = int(volumes.xid.max())
    opened = _with_map(store, paddr, superblock) if int(superblock.hdr.xid) >= newest else None
    if opened is not None:
        _report(store.log, paddr, f"the state of transaction {opened.xid} is read, whose object map is left")
        return opened, swept
    xid = max(int(superblock.hdr.xid), newest)
    _report(store.log, paddr, "volumes are read from the youngest copies of their superblocks")
    state = replace(_state_of(store, paddr, superblock), xid=xid)
    return _container(store, state, omaps.view_at(map_of(volumes.newest(xid)), xid), NoMap()), swept


def reopen_container(
    halves: Halves,
    decoder: Decoder,
    log: FindingLog,
    *,
    after_xid: int = 0,  # transaction of the state that can be opened otherwise; 0 if there is none
    xid: int | None = None,
) -> Container | None:
    """Open a state of a container of which nothing but the object map is lost, without being asked to search.

    The youngest copies of volume superblocks in use take the map's place.

    None if no later superblock is left, or not the one that was asked for, if the checkpoint does not tell which blocks
    are in use, if these are more than are searched unasked, or if a volume is not found.
    """
    apart = log.branch()
    store = Store.over(_blocks(halves), decoder, apart)
    with suppress(FormatError):
        first = find_superblock(*halves[0], FindingLog())
        paddrs, _ = ring_paddrs(
            store.apart(), first.xp_desc_base, first.num_desc_blocks, is_tree=bool(first.desc_is_tree)
        )
        area = checkpoints.read_descriptor_area(store.blocks, decoder, paddrs)
        left = checkpoints.superblocks(store.apart(), area)
        for paddr, superblock in [item for item in left if xid in (None, item[1].hdr.xid)][:1]:
            if superblock.hdr.xid <= after_xid:
                return None
            state, _ = checkpoints.open_checkpoint(store, area, paddr, superblock)
            used = used_blocks(store.blocks, device_blocks(store, state), read_space(store.apart(), state), [])
            if intervals.total(used) * store.blocks.block_size > SEARCHED_BYTES:
                return None
            oids = [oid for oid in superblock.fs_oid if oid]
            volumes = _volumes_in(sweep(store.blocks, decoder, used)).newest(state.xid)
            volumes = volumes.take(np.isin(volumes.oid, np.array(oids, np.uint64)))
            if not len(volumes) or len(volumes) < len(oids):
                return None
            told = tell_search(used, store.blocks.block_size)
            # What ended the usual way of opening stays damage.
            apart.findings[:0] = [item for item in log.findings if item.level == "error"]
            _report(store.log, paddr, f"{told}; volumes are read from the youngest copies of their superblocks")
            opened = _container(store, state, omaps.view_at(map_of(volumes), state.xid), NoMap())
            if xid is not None:
                return opened
            return replace(opened, younger=find_younger(area, state.xid, int(first.hdr.xid)))
    return None


def _misplaced_blocks(swept: Swept) -> int | None:
    """Say by how many blocks the container starts behind the place from which it was swept; None if nothing tells.

    Heads of object maps are physical objects: their numbers are their addresses.
    """
    heads = swept.take(swept.kind == int(KINDS.omap))
    if not len(heads):
        # Other physical objects are known as such by the same coincidence alone.
        return 0 if (swept.oid == swept.paddr).any() else None
    if (heads.oid == heads.paddr).any():
        return 0
    distances, counts = np.unique(heads.paddr.astype(np.int64) - heads.oid.astype(np.int64), return_counts=True)
    is_behind = (distances > 0) & (counts > 1)
    return int(distances[is_behind][counts[is_behind].argmax()]) if is_behind.any() else None


def _volumes_in(swept: Swept) -> Swept:
    """Return the superblocks of volumes."""
    # Copies that snapshots keep are physical objects: their numbers are their addresses. Volumes are virtual ones.
    return swept.take((swept.kind == int(KINDS.fs)) & (swept.oid != swept.paddr))


def _state_of(store: Store, paddr: int, superblock: ApfsContainer.NxSuperblock) -> Checkpoint:
    """Return the checkpoint of a superblock, with what is sound of its maps and ephemeral objects."""
    area, _ = _area(store, superblock)
    return checkpoints.open_checkpoint(store, area, paddr, superblock)[0]


def _blocks(halves: Halves) -> Blocks:
    """Address blocks of the size that a superblock gives, or of the usual one, up to the end of each image."""
    size, claimed = MIN_BLOCK_BYTES, 0
    with suppress(FormatError):
        found = find_superblock(*halves[0], FindingLog())
        size, claimed = int(found.len_block), int(found.num_blocks)
    given = [half for half in halves if half is not None]
    windows = tuple(Window(source, start, source.size_bytes - start) for source, start in given)
    return Blocks(windows, tuple(start for _, start in given), size, num_claimed=claimed)


def _superblocks(blocks: Blocks, swept: Swept) -> list[tuple[int, ApfsContainer.NxSuperblock]]:
    """Parse the container superblocks that are left, newest first; copies in a block 0 come after the others."""
    found = swept.take(swept.kind == int(KINDS.nx_superblock))
    # The second device of a Fusion set has a copy in its own block 0, in which the mark of that device is set.
    number = found.paddr % np.uint64(blocks.tier2_mark)
    parsed = []
    for row in np.lexsort((number, found.xid))[::-1].tolist():
        paddr = int(found.paddr[row])
        try:
            superblock = read_object(
                blocks, grammar.ApfsContainer.NxSuperblock, paddr, "container superblock", oid=int(found.oid[row])
            )
        except FormatError:
            continue
        if superblock.len_block == blocks.block_size:
            parsed.append((paddr, superblock))
    return parsed


def _with_map(store: Store, paddr: int, superblock: ApfsContainer.NxSuperblock) -> Container | None:
    """Open the state of a superblock if its object map can be read and knows a volume."""
    xid, cls = int(superblock.hdr.xid), grammar.ApfsContainer.OmapPhys
    try:
        header = read_object(store.blocks, cls, superblock.omap_oid, "container object map")
        omap = read_omap(store.apart(), "container-omap", header.tree_oid, xid)
    except FormatError:
        return None
    view = omaps.view_at(omap, xid)
    oids = np.array([oid for oid in superblock.fs_oid if oid], np.uint64)
    if not len(oids) or view.find(oids).is_missing.all():
        return None
    return _container(store, _state_of(store, paddr, superblock), view, header)


def _container(
    store: Store, state: Checkpoint, view: omaps.OmapView, header: ApfsContainer.OmapPhys | NoMap
) -> Container:
    if isinstance(header, NoMap):
        store.lost.extend(_lost_map(store, state))
    area, trees = _area(store, state.superblock)
    sizes = device_blocks(store, state)
    return Container(store, area, state, view.omap, view, header, np.empty(0, np.uint64), trees, sizes)


def _lost_map(store: Store, state: Checkpoint) -> list[NodeRows]:
    """List the nodes because of which the object map of a state cannot be used, as far as its head leads to them."""
    apart, superblock = store.apart(), state.superblock
    try:
        name, cls = "container object map", grammar.ApfsContainer.OmapPhys
        header = read_object(store.blocks, cls, superblock.omap_oid, name)
        found = read_omap(apart, "container-omap", header.tree_oid, state.xid)
    except FormatError:
        # That the head is damaged is what led here, and a finding already.
        return []
    return [*apart.lost, *lost_of(found.nodes)]


def _area(store: Store, superblock: ApfsContainer.NxSuperblock) -> tuple[DescriptorArea, list[NodeRows]]:
    """Read the descriptor area as far as it is there."""
    base, count = superblock.xp_desc_base, superblock.num_desc_blocks
    try:
        paddrs, trees = ring_paddrs(store.apart(), base, count, is_tree=bool(superblock.desc_is_tree))
    except FormatError:
        paddrs, trees = np.empty(0, np.uint64), []
    return checkpoints.read_descriptor_area(store.blocks, store.decoder, paddrs), trees


def _stand_in(blocks: Blocks, volumes: Swept) -> ApfsContainer.NxSuperblock:
    """Make up the superblock of a container that has lost all of its own: its size, and the volumes that were found."""
    source = blocks.sources[0]
    size = source.size_bytes if source is not None else 0
    (limit,) = SUPERBLOCK.fs_oid.counts
    oids = np.unique(volumes.oid)[:limit].tolist()
    flags = grammar.ApfsContainer.ContainerFlag.crypto_sw
    values = {
        "magic": int(grammar.ApfsContainer.ContainerMagic.nx_superblock),
        "len_block": blocks.block_size,
        "num_blocks": size // blocks.block_size,
        "max_file_systems": len(oids),
        "fs_oid": oids,
        # Whether keys are bound to the hardware is unknown; they are lost with the superblock either way.
        "flags": int(flags),
        "next_xid": int(volumes.xid.max()) + 1,
        "next_oid": int(volumes.oid.max()) + 1,
    }
    data = SUPERBLOCK.blank(values)
    return grammar.parse(
        grammar.ApfsContainer.NxSuperblock, data, structure="container superblock", image_offset=blocks.at(0)
    )


def _report(log: FindingLog, paddr: int, message: str) -> None:
    text = f"the container is inferred from what a sweep found: {message}"
    log.at("container superblock", paddr).add("tree-rebuilt", "warning", text)
