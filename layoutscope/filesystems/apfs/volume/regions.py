"""Metadata of a volume that is no tree node: superblocks, key bag, and whatever else its object map names.

Apple File System Reference, Object Maps and Objects. Facts about a snapshot and seals are virtual objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import is_among
from layoutscope.errors import FormatError, UnsupportedError
from layoutscope.filesystems.apfs.container.keybag import container_keybag, volume_keybag_run
from layoutscope.filesystems.apfs.container.regions import Region, inside, type_name
from layoutscope.filesystems.apfs.store.verify import report_damaged
from layoutscope.filesystems.apfs.volume.trees import is_encrypted
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import OBJ_PHYS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.filesystems.apfs.volume.volume import Volume


def virtual_regions(volume: Volume, claimed: list[NodeRows]) -> list[Region]:
    """Make regions of the objects that are no nodes of a tree that was read, by the type in their header."""
    blocks, omap = volume.store.blocks, volume.omap
    known = np.concatenate([nodes.paddr for nodes in claimed])
    rows = np.flatnonzero(~omap.is_deleted & ~is_among(omap.paddr, known))
    rows = rows[blocks.readable(omap.paddr[rows], blocks.block_size)]
    if not len(rows):
        return []
    kinds = _types(volume.store, omap.paddr[rows])
    # What is encrypted or has no header bears neither a checksum to verify nor a type to name.
    is_plain = ~omap.is_encrypted[rows] & ~omap.is_noheader[rows]
    _report(volume, rows[is_plain], kinds[is_plain])
    hidden = omap.is_encrypted[rows].tolist()
    names = ["locked" if secret else type_name(kind) for kind, secret in zip(kinds.tolist(), hidden, strict=True)]
    columns = (omap.oid[rows], omap.xid[rows], omap.paddr[rows], omap.size_bytes[rows] // blocks.block_size)
    items = zip(names, *(column.tolist() for column in columns), strict=True)
    return [Region(name, f"object {oid}, xid {xid}", paddr, count) for name, oid, xid, paddr, count in items]


def _types(store: Store, paddrs: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Types that the headers of objects say."""
    size = store.blocks.block_size
    heads = store.blocks.read(paddrs, size).reshape(-1)
    starts = np.arange(len(paddrs), dtype=np.int64) * size
    return store.decoder.columns(OBJ_PHYS, heads, starts, (OBJ_PHYS.type,))["type"].astype(np.int64)


def _report(volume: Volume, rows: NDArray[np.int64], kinds: NDArray[np.int64]) -> None:
    """Find what is damaged, or of a type that is not known: what such an object holds is not read."""
    omap, store = volume.omap, volume.store
    is_single = omap.size_bytes[rows] == store.blocks.block_size
    names = [f"virtual object {oid}" for oid in omap.oid[rows].tolist()]
    is_damaged = np.zeros(len(rows), bool)
    single = np.flatnonzero(is_single)
    is_damaged[single] = report_damaged(store, omap.paddr[rows[single]], [names[row] for row in single.tolist()])
    known = [int(kind) for kind in grammar.ApfsObject.ObjectType]
    for row in np.flatnonzero(~is_damaged & ~np.isin(kinds, known)).tolist():
        log, kind = store.log.at(names[row], int(omap.paddr[rows[row]])), type_name(int(kinds[row]))
        log.add("record-invalid", "warning", "object of an unknown type; it was not read", found=kind)


def volume_regions(
    container: Container, states: list[Volume], claimed: list[NodeRows], others: list[Region]
) -> list[Region]:
    """List metadata of a volume and its snapshots outside their trees, each block once."""
    volume = states[0]
    regions = [*others, Region("object-map", "volume object map", volume.superblock.omap_oid)]
    for state in states:
        owner = "live" if state is volume else f"snapshot of xid {state.xid}"
        regions.append(Region("volume-superblock", owner, state.paddr))
    regions += virtual_regions(volume, claimed)
    regions += keybag_regions(container, volume) if is_encrypted(volume) else []
    first = {region.paddr: region for region in reversed(regions)}
    return inside(list(first.values()), volume.store)


def keybag_regions(container: Container, volume: Volume) -> list[Region]:
    """Where the key bag of an encrypted volume lies; the container's, which says so, needs no password."""
    try:
        run = volume_keybag_run(container_keybag(container), bytes(volume.superblock.vol_uuid))
    except FormatError as error:
        if not container.superblock.is_crypto_sw:
            message = f"the key bag was not located, whose own key the hardware may hold: {error.reason}"
            log = volume.log.at_byte("container key bag", error.image_offset)
            log.add("volume-hardware-locked", "info", message)
            return []
        volume.log.survive(error)
        return []
    except UnsupportedError as error:
        message = f"the key bag was not located: {error}"
        volume.log.at("volume key bag").add("volume-locked", "info", message)
        return []
    return [Region("volume-keybag", "container key bag", *run)] if run else []
