"""Volumes opened from what is left of them: the youngest superblock, and an object map that is found or mended.

Apple File System Reference, Object Maps. Where a map or a superblock is lost, each object's youngest copy takes its
place. That is inferred: a younger copy may be lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import match
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import NoMap
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.store.nodes import join
from layoutscope.filesystems.apfs.store.omap import ObjectMap
from layoutscope.filesystems.apfs.store.sweep import KINDS
from layoutscope.filesystems.apfs.store.verify import read_object
from layoutscope.filesystems.apfs.store.walk import read_omap
from layoutscope.filesystems.apfs.volume.volume import Volume, read_seal
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.recovery.search import Evidence
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.filesystems.apfs.store.sweep import Swept
    from layoutscope.ondisk.grammar import ApfsContainer, ApfsVolume


def reopen_volume(container: Container, store: Store, oid: int, number: int, evidence: Evidence) -> Volume:
    """Open a volume whose superblock or object map is lost, from the youngest copies of its objects."""
    blocks, swept = container.blocks, evidence.copies()
    # What a transaction wrote that was never committed is younger than the checkpoint, and no part of any state.
    copies = swept.take((swept.kind == int(KINDS.fs)) & (swept.oid == np.uint64(oid))).newest(container.xid)
    if not len(copies):
        # Its place was told already, if anything names one; what is left nowhere has none.
        raise FormatError(_none_left(evidence), structure=f"volume superblock {oid}", image_offset=None)
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


def _none_left(evidence: Evidence) -> str:
    """Say what the loss of a volume's superblock means, and where a copy of it was looked for."""
    lost = "the volume's files and directories are missing from the tables"
    if evidence.is_complete:
        return f"no copy of it is left anywhere in the container: {lost}"
    return f"no copy of it was found where it was looked for: {lost}; --sweep looks at every block"


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
    columns = [name for name in ObjectMap.__match_args__ if name != "nodes"]
    joint = {name: np.concatenate([getattr(omap, name)[rows] for omap, rows in parts]) for name in columns}
    order = np.lexsort((joint["xid"], joint["oid"]))
    omap = ObjectMap(known.nodes, **{name: values[order] for name, values in joint.items()})
    return replace(volume, omap=omap, view=omaps.view_at(omap, volume.xid))
