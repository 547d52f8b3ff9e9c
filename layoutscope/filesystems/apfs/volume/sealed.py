"""Sealed volumes: the seal.

Apple File System Reference, Sealed Volumes. The nodes of the file-system tree have no header; each index entry holds
the hash of its child, the integrity metadata that of the root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import read_object
from layoutscope.filesystems.apfs.store.hashes import hash_size
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.store.omap import OmapView
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.ondisk.grammar import ApfsVolume


@dataclass(frozen=True, slots=True)
class Seal:
    """Integrity metadata of a sealed volume: type of hash and what the root's should be."""

    paddr: int
    hash_type: int
    root_hash: bytes
    is_broken: bool


def read_seal(store: Store, view: OmapView, superblock: ApfsVolume.ApfsSuperblock) -> Seal | None:
    """Read a sealed volume's integrity metadata; None if it cannot be used.

    Parameters
    ----------
    store : Store
        Where it is read; its log is told of a broken seal, or why there is none to verify.
    view : OmapView
        The volume's object map, which finds the metadata: they are a virtual object.
    superblock : ApfsVolume.ApfsSuperblock
        Of the volume.

    Returns
    -------
    Seal or None
        A broken one too; the tree is verified against it all the same.
    """
    oid, blocks, structure = superblock.integrity_meta_oid, store.blocks, "integrity metadata"
    found = view.find(np.array([oid], np.uint64))
    if found.is_missing[0]:
        message = "the object map does not know the integrity metadata; nodes are not verified"
        store.log.at(structure).add("seal-broken", "warning", message)
        return None
    paddr = int(found.paddr[0])
    try:
        meta = read_object(blocks, grammar.ApfsSealed.IntegrityMeta, paddr, structure, oid=oid)
        size = hash_size(int(meta.hash_type))
    except FormatError as error:
        store.log.survive(error)
        return None
    except ValueError:
        store.log.at(structure, paddr).add("structure-invalid", "error", "unknown type of hash")
        return None
    if meta.is_broken or meta.broken_xid:
        message = f"the seal was broken in transaction {meta.broken_xid}"
        store.log.at(structure, paddr).add("seal-broken", "warning", message)
    data = blocks.read_object(paddr)
    root_hash = data[meta.root_hash_start : meta.root_hash_start + size]
    return Seal(paddr, int(meta.hash_type), root_hash, bool(meta.is_broken or meta.broken_xid))
