"""One volume of a container: its superblock, its object map and, where it is sealed, its seal.

Apple File System Reference, Volumes and Sealed Volumes. The nodes of a sealed volume's file-system tree have no header;
each index entry holds the hash of its child, the integrity metadata that of the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.store.nodes import NodeRows, join
from layoutscope.filesystems.apfs.store.source import Store, TreeSource
from layoutscope.filesystems.apfs.store.verify import hash_size, read_object, read_virtual
from layoutscope.filesystems.apfs.store.walk import read_nodes, read_omap
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import APFS_SUPERBLOCK

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container, NoMap
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.store.omap import ObjectMap, OmapView
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.grammar import ApfsContainer, ApfsVolume


@frozen
class Volume:
    """An opened volume, before its file-system tree is read."""

    store: Store  # where it is read; findings about this volume go there
    number: int  # its number on the image
    superblock: ApfsVolume.ApfsSuperblock  # of the state that is read
    paddr: int  # where that lies
    xid: int  # transaction of the state that is read
    omap_header: ApfsContainer.OmapPhys | NoMap  # head of its object map
    omap: ObjectMap  # all versions of all objects
    view: OmapView  # those of this state
    omap_snapshots: NodeRows  # tree of the snapshots that the object map knows
    seal: Seal | None = None  # of a sealed volume

    @property
    def name(self) -> str:
        """Name as stored in the superblock."""
        return stored_name(self.superblock)

    @property
    def log(self) -> FindingLog:
        """Where findings about this volume go."""
        return self.store.log

    def at_superblock(self, field: str = "") -> FindingLog:
        """Bind the log to the superblock, or to a field of it."""
        plus = APFS_SUPERBLOCK.offset_of(field) if field else 0
        return self.log.at("volume superblock", self.paddr, plus=plus)


def stored_name(superblock: ApfsVolume.ApfsSuperblock) -> str:
    """Return the name that a volume superblock stores."""
    # 256 bytes of UTF-8, of which those behind the first zero mean nothing.
    return bytes(superblock.volname).split(b"\0", 1)[0].decode(errors="replace")


def list_volumes(container: Container) -> list[tuple[int, int]]:
    """List slot and oid of every volume of a container."""
    # A slot without a volume is 0; such slots may lie between others.
    return [(slot, oid) for slot, oid in enumerate(container.superblock.fs_oid) if oid]


def open_volume(container: Container, store: Store, oid: int, number: int) -> Volume:
    """Open a volume's live state."""
    blocks, xid = store.blocks, container.xid
    superblock, paddr = read_virtual(
        blocks, grammar.ApfsVolume.ApfsSuperblock, container.view, oid, "volume superblock"
    )
    header = read_object(blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "volume object map")
    omap = read_omap(store, "omap", header.tree_oid, xid)
    view = omaps.view_at(omap, xid)
    # Only a sealed volume has integrity metadata, without which hashes of nodes cannot be verified.
    seal = read_seal(store, view, superblock)
    listed = join("omap-snapshots", [])
    if header.snapshot_tree_oid:
        listed = read_nodes(TreeSource(store, "omap-snapshots", header.snapshot_tree_oid, xid))[0]
    return Volume(store, number, superblock, paddr, xid, header, omap, view, listed, seal)


def program(entry: grammar.ApfsVolume.ModifiedBy) -> str:
    """Return a program's name from the history of a volume."""
    return bytes(entry.id).split(b"\0", 1)[0].decode(errors="replace")


@frozen
class Seal:
    """Integrity metadata of a sealed volume: type of hash and what the root's should be."""

    paddr: int
    hash_type: int
    root_hash: bytes
    is_broken: bool


def read_seal(
    store: Store,  # where it is read; its log is told of a broken seal, or why there is none to verify
    view: OmapView,
    superblock: ApfsVolume.ApfsSuperblock,
    of_state: str = "",
) -> Seal | None:
    """Read the integrity metadata of a state of a volume; None if it is not sealed, or they cannot be used.

    Each state is sealed or not by itself: a system volume's snapshots are, while the live state need not be.
    """
    if not superblock.is_sealed:
        return None
    oid, blocks = superblock.integrity_meta_oid, store.blocks
    structure = f"integrity metadata of {of_state}" if of_state else "integrity metadata"
    if view.find(np.array([oid], np.uint64)).is_missing[0]:
        message = "the object map does not know the integrity metadata; nodes are not verified"
        store.log.at(structure).add("seal-broken", "warning", message)
        return None
    try:
        meta, paddr = read_virtual(blocks, grammar.ApfsSealed.IntegrityMeta, view, oid, structure)
    except FormatError as error:
        store.log.survive(error)
        return None
    try:
        size = hash_size(int(meta.hash_type))
    except ValueError:
        store.log.at(structure, paddr).add("structure-invalid", "error", "unknown type of hash")
        return None
    if meta.is_broken or meta.broken_xid:
        message = f"the seal was broken in transaction {meta.broken_xid}"
        store.log.at(structure, paddr).add("seal-broken", "warning", message)
    data = blocks.read_object(paddr)
    root_hash = data[meta.ofs_root_hash : meta.ofs_root_hash + size]
    return Seal(paddr, int(meta.hash_type), root_hash, bool(meta.is_broken or meta.broken_xid))
