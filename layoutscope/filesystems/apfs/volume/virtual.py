"""Virtual objects that are no tree nodes: facts about a snapshot, a seal, whatever else an object map names.

Apple File System Reference, Object Maps and Objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import is_among
from layoutscope.filesystems.apfs.container.regions import Region, type_name
from layoutscope.filesystems.apfs.store.verify import report_damaged
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import OBJ_PHYS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.nodes import TreeNodes
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.filesystems.apfs.volume.volume import Volume


def virtual_regions(volume: Volume, claimed: list[TreeNodes]) -> list[Region]:
    """Make regions of the objects that are no nodes of a tree that was read, by the type in their header.

    Parameters
    ----------
    volume : Volume
        A volume, in its live state; its log is told of objects that are damaged or of an unknown type.
    claimed : list of TreeNodes
        Nodes of all virtual trees of all states.
    """
    blocks, omap = volume.store.blocks, volume.omap
    known = np.concatenate([nodes.paddr for nodes in claimed])
    rows = np.flatnonzero(~omap.is_deleted & ~is_among(omap.paddr, known))
    rows = rows[blocks.readable(omap.paddr[rows], blocks.block_size)]
    if not len(rows):
        return []
    kinds = _types(volume.store, omap.paddr[rows])
    is_plain = ~omap.is_encrypted[rows] & ~omap.is_noheader[rows]
    _report(volume.store, omap.paddr[rows[is_plain]], omap.size_bytes[rows[is_plain]], kinds[is_plain])
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


def _report(store: Store, paddrs: NDArray[np.uint64], sizes: NDArray[np.int64], kinds: NDArray[np.int64]) -> None:
    """Find what is damaged, or of a type that is not known: what such an object holds is not read."""
    report_damaged(store, paddrs[sizes == store.blocks.block_size], "virtual object")
    known = [int(kind) for kind in grammar.ApfsObject.ObjectType]
    for row in np.flatnonzero(~np.isin(kinds, known)).tolist():
        log, kind = store.log.at("virtual object", int(paddrs[row])), type_name(int(kinds[row]))
        log.add("record-invalid", "warning", "object of an unknown type; it was not read", found=kind)
