"""One volume of a container: its superblock and its trees, read in whole arrays.

Apple File System Reference, Volumes. The file-system tree's nodes are virtual and found through the volume's object
map; the other trees are physical.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import read_object
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.store.nodes import TreeNodes, join
from layoutscope.filesystems.apfs.store.sharing import Pool, read_shared
from layoutscope.filesystems.apfs.store.source import Store, TreeSource
from layoutscope.filesystems.apfs.store.trees import Tree, read_record_tree
from layoutscope.filesystems.apfs.store.walk import read_nodes, read_omap
from layoutscope.filesystems.apfs.volume.sealed import Seal, read_seal
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import APFS_SUPERBLOCK

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container, NoMap
    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.filesystems.apfs.store.omap import ObjectMap, OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.grammar import ApfsContainer, ApfsVolume


@dataclass(frozen=True, slots=True)
class Volume:
    """An opened volume, before its file-system tree is read.

    Attributes
    ----------
    store : Store
        Where it is read; findings about this volume go there.
    number : int
        Its number on the image.
    superblock : ApfsVolume.ApfsSuperblock
        Of the state that is read.
    paddr : int
        Where that lies.
    xid : int
        Transaction of the state that is read.
    omap_header : ApfsContainer.OmapPhys
        Head of its object map.
    omap : ObjectMap
        All versions of all objects.
    view : OmapView
        Those of this state.
    omap_snapshots : TreeNodes
        Tree of the snapshots that the object map knows.
    seal : Seal or None
        Of a sealed volume.
    """

    store: Store
    number: int
    superblock: ApfsVolume.ApfsSuperblock
    paddr: int
    xid: int
    omap_header: ApfsContainer.OmapPhys | NoMap
    omap: ObjectMap
    view: OmapView
    omap_snapshots: TreeNodes
    seal: Seal | None = None

    @property
    def name(self) -> str:
        """Name as stored in the superblock."""
        return volume_name(self.superblock)

    @property
    def log(self) -> FindingLog:
        """Where findings about this volume go."""
        return self.store.log

    def at_superblock(self, field: str = "") -> FindingLog:
        """Bind the log to the superblock, or to a field of it."""
        plus = APFS_SUPERBLOCK.offset_of(field) if field else 0
        return self.log.at("volume superblock", self.paddr, plus=plus)


def volume_name(superblock: ApfsVolume.ApfsSuperblock) -> str:
    """Return the name that a volume superblock stores."""
    return bytes(superblock.volname).split(b"\0", 1)[0].decode(errors="replace")


def list_volumes(container: Container) -> list[tuple[int, int]]:
    """List slot and oid of every volume of a container."""
    # A slot without a volume is 0; such slots may lie between others.
    return [(slot, oid) for slot, oid in enumerate(container.superblock.fs_oid) if oid]


def open_volume(container: Container, store: Store, oid: int, number: int) -> Volume:
    """Open a volume's live state.

    Parameters
    ----------
    container : Container
        The container.
    store : Store
        Where the volume is read, with findings of its own.
    oid : int
        Virtual object of its superblock.
    number : int
        Its number on the image.

    Raises
    ------
    FormatError
        If the superblock or the object map cannot be used.
    """
    found = container.view.find(np.array([oid], np.uint64))
    if found.is_missing[0]:
        raise FormatError(
            "the object map does not know it", structure=f"volume superblock {oid}", image_offset=container.blocks.at(0)
        )
    paddr, blocks, xid = int(found.paddr[0]), store.blocks, container.xid
    superblock = read_object(blocks, grammar.ApfsVolume.ApfsSuperblock, paddr, "volume superblock", oid=oid)
    header = read_object(blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "volume object map")
    omap = read_omap(store, "omap", header.tree_oid, xid)
    view = omaps.view_at(omap, xid)
    seal = read_seal(store, view, superblock) if superblock.is_sealed else None
    listed = join("omap-snapshots", [])
    if header.snapshot_tree_oid:
        listed = read_nodes(TreeSource(store, "omap-snapshots", header.snapshot_tree_oid, xid))[0]
    return Volume(store, number, superblock, paddr, xid, header, omap, view, listed, seal)


def fs_source(store: Store, volume: Volume, cipher: Cipher | None) -> TreeSource:
    """Describe the file-system tree of a state of a volume.

    Parameters
    ----------
    store : Store
        Where it is read; findings go to its log, which need not be the volume's.
    volume : Volume
        The state, whose view of the object map finds the nodes.
    cipher : Cipher or None
        Decrypts encrypted nodes; None where there are none.

    Returns
    -------
    TreeSource
        The tree, of which nothing is read yet; in a sealed volume with the hash of its root.
    """
    seal = volume.seal
    return TreeSource(
        store,
        "fs",
        volume.superblock.root_tree_oid,
        volume.xid,
        view=volume.view,
        cipher=cipher,
        hash_type=seal.hash_type if seal else 0,
        root_hash=seal.root_hash if seal else b"",
    )


def read_fs_tree(volume: Volume, cipher: Cipher | None, pool: Pool | None = None) -> Tree:
    """Read the file-system tree of a state of a volume, with its records.

    Parameters
    ----------
    volume : Volume
        The state; its log is told what is wrong.
    cipher : Cipher or None
        Decrypts encrypted nodes; None where there are none.
    pool : Pool, optional
        Keeps the nodes for other states of the volume, which share many of them.

    Returns
    -------
    Tree
        Nodes, and records as columns by type.
    """
    hashed = bool(volume.superblock.has_hashed_names)
    return read_record_tree(fs_source(volume.store, volume, cipher), hashed_names=hashed, pool=pool)


def read_fs_nodes(volume: Volume, cipher: Cipher | None, pool: Pool) -> TreeNodes:
    """Read the nodes of the file-system tree of a state of a volume, but those that other states have shown.

    Parameters
    ----------
    volume : Volume
        The state; its log is told what is wrong, but not again what another state showed.
    cipher : Cipher or None
        Decrypts encrypted nodes; None where there are none.
    pool : Pool
        Nodes of other states; those that are new are put into it.

    Returns
    -------
    TreeNodes
        All nodes of this state, those from the pool too.
    """
    return read_shared(fs_source(volume.store, volume, cipher), pool)


def read_physical_tree(store: Store, tree: Literal["extentref", "snapmeta"], root_oid: int, max_xid: int) -> Tree:
    """Read an extent-reference or snapshot-metadata tree; none if the root's address is 0.

    Parameters
    ----------
    store : Store
        Where it is read.
    tree : {'extentref', 'snapmeta'}
        Which of them.
    root_oid : int
        Address of its root.
    max_xid : int
        No node of a sound tree is younger.
    """
    return read_record_tree(TreeSource(store, tree, root_oid, max_xid)) if root_oid else Tree(join(tree, []))


UNKNOWN_LEVEL: Final = 255
"""Level of nodes whose contents are not known; null in the tables."""


def locked_nodes(state: Volume) -> TreeNodes:
    """List the encrypted nodes of a state by identifier: addresses and sizes are known, nothing else.

    Parameters
    ----------
    state : Volume
        A state of a locked volume.
    """
    omap = state.omap
    row = state.view.row[omap.is_encrypted[state.view.row]]
    count = len(row)
    numbers, small = np.zeros(count, np.uint64), np.zeros(count, np.uint32)
    return TreeNodes(
        tree="fs",
        node_id=omap.oid[row],
        xid=omap.xid[row],
        paddr=omap.paddr[row],
        size_bytes=omap.size_bytes[row],
        level=np.full(count, UNKNOWN_LEVEL, np.uint8),
        num_records=small,
        used_bytes=small,
        free_bytes=small,
        parent=np.full(count, -1, np.int64),
        omap_leaf=omap.leaf[row],
        key_rank=small,
        low_key=numbers,
        first_key_id=numbers,
        last_key_id=numbers,
        valid=np.zeros(count, np.uint8),
    )
