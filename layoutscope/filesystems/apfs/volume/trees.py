"""The trees of a volume, read in whole arrays.

Apple File System Reference, Volumes and Sealed Volumes. The file-system tree's nodes are virtual, as a rule, and found
through the volume's object map; the other trees are physical. Files of sealed volumes have their extents in a tree of
their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from layoutscope.filesystems.apfs.store.fsrecords import RecordTree, read_record_tree
from layoutscope.filesystems.apfs.store.nodes import LOCKED, UNKNOWN_LEVEL, UNREAD, NodeRows, join, rows_of
from layoutscope.filesystems.apfs.store.source import Store, TreeSource
from layoutscope.filesystems.apfs.store.walk import Pool, read_shared
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.filesystems.apfs.volume.volume import Volume


def fs_source(
    store: Store,
    volume: Volume,
    cipher: Cipher | None,  # decrypts encrypted nodes; None where there are none
) -> TreeSource:
    """Describe the file-system tree of a state of a volume."""
    seal, superblock = volume.seal, volume.superblock
    # Apple's reference calls the root tree virtual "typically": its type says how its nodes are named.
    is_physical = superblock.root_tree_type & int(grammar.ApfsObject.ObjectFlag.physical)
    return TreeSource(
        store,
        "fs",
        superblock.root_tree_oid,
        volume.xid,
        view=None if is_physical else volume.view,
        cipher=cipher,
        hash_type=seal.hash_type if seal else 0,
        root_hash=seal.root_hash if seal else b"",
    )


def read_fs_tree(
    volume: Volume,
    cipher: Cipher | None,  # decrypts encrypted nodes; None where there are none
    pool: Pool | None = None,
) -> RecordTree:
    """Read the file-system tree of a state of a volume, with its records."""
    hashed = bool(volume.superblock.has_hashed_names)
    return read_record_tree(fs_source(volume.store, volume, cipher), hashed_names=hashed, pool=pool)


def read_fs_nodes(
    volume: Volume,
    cipher: Cipher | None,  # decrypts encrypted nodes; None where there are none
    pool: Pool,
) -> NodeRows:
    """Read the nodes of the file-system tree of a state of a volume, but those that other states have shown."""
    return read_shared(fs_source(volume.store, volume, cipher), pool)


def read_physical_tree(store: Store, tree: Literal["extentref", "snapmeta"], root_oid: int, max_xid: int) -> RecordTree:
    """Read an extent-reference or snapshot-metadata tree; none if the root's address is 0."""
    return read_record_tree(TreeSource(store, tree, root_oid, max_xid)) if root_oid else RecordTree(join(tree, []))


def locked_nodes(state: Volume) -> NodeRows:
    """List the encrypted nodes of a state by identifier: addresses and sizes are known, nothing else."""
    omap = state.omap
    row = state.view.row[omap.is_encrypted[state.view.row]]
    is_read = np.ones(len(row), np.bool_)
    for size in np.unique(omap.size_bytes[row]).tolist():
        same = omap.size_bytes[row] == size
        is_read[same] = state.store.blocks.readable(omap.paddr[row[same]], size)
    known: dict[str, NDArray[Any]] = {
        "node_id": omap.oid[row],
        "xid": omap.xid[row],
        "paddr": omap.paddr[row],
        "size_bytes": omap.size_bytes[row],
        "level": np.full(len(row), UNKNOWN_LEVEL, np.uint8),
        "omap_leaf": omap.leaf[row],
        "condition": np.where(is_read, LOCKED, UNREAD),
    }
    return rows_of("fs", known)


def read_fext_tree(volume: Volume) -> RecordTree:
    """Read the extents of a sealed volume's files; no nodes on any other volume."""
    superblock = volume.superblock
    if not superblock.fext_tree_oid:
        return RecordTree(join("fext", []))
    is_physical = superblock.fext_tree_type & int(grammar.ApfsObject.ObjectFlag.physical)
    view = None if is_physical else volume.view
    source = TreeSource(volume.store, "fext", superblock.fext_tree_oid, volume.xid, view=view)
    return read_record_tree(source)


def is_encrypted(volume: Volume) -> bool:
    """Tell whether the nodes of the file-system tree are encrypted."""
    # Each mapping says of its own object whether it is encrypted: while a volume is being encrypted some are, some not.
    found = volume.view.find(np.array([volume.superblock.root_tree_oid], np.uint64))
    return bool(found.is_encrypted[0] and not found.is_missing[0])
