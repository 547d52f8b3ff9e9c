"""One volume of a container: its superblock and its trees, read in whole arrays.

Apple File System Reference, Volumes. The file-system tree's nodes are virtual and found through the volume's object
map; the other trees are physical.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import read_object
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.store.nodes import TreeNodes, join
from layoutscope.filesystems.apfs.store.sharing import Pool, read_shared
from layoutscope.filesystems.apfs.store.source import TreeSource, lead_type
from layoutscope.filesystems.apfs.store.trees import Tree, read_record_tree
from layoutscope.filesystems.apfs.store.walk import read_nodes, read_omap
from layoutscope.filesystems.apfs.volume.sealed import Seal, read_seal
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.filesystems.apfs.store.omap import ObjectMap, OmapView
    from layoutscope.findings import Finding
    from layoutscope.ondisk.decoder import Decoder


@dataclass(frozen=True, slots=True)
class Volume:
    """An opened volume, before its file-system tree is read.

    Attributes
    ----------
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

    number: int
    superblock: Any
    paddr: int
    xid: int
    omap_header: Any
    omap: ObjectMap
    view: OmapView
    omap_snapshots: TreeNodes
    seal: Seal | None = None

    @property
    def name(self) -> str:
        """Name as stored in the superblock."""
        return volume_name(self.superblock)


def volume_name(superblock: Any) -> str:
    """Return the name that a volume superblock stores."""
    return bytes(superblock.volname).split(b"\0", 1)[0].decode(errors="replace")


def list_volumes(container: Container) -> list[tuple[int, int]]:
    """List slot and oid of every volume of a container."""
    return [(slot, oid) for slot, oid in enumerate(container.superblock.fs_oid) if oid]


def open_volume(container: Container, oid: int, number: int, findings: list[Finding]) -> Volume:
    """Open a volume's live state.

    Parameters
    ----------
    container : Container
        The container.
    oid : int
        Virtual object of its superblock.
    number : int
        Its number on the image.
    findings : list of Finding
        Collects what is wrong.

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
    paddr = int(found.paddr[0])
    superblock = read_object(container.blocks, grammar.ApfsVolume.ApfsSuperblock, paddr, "volume superblock", oid=oid)
    return open_state(container.blocks, container.decoder, superblock, paddr, number, container.xid, findings)


def open_state(
    blocks: Blocks, decoder: Decoder, superblock: Any, paddr: int, number: int, xid: int, findings: list[Finding]
) -> Volume:
    """Open the state that a superblock describes: its object map and, if sealed, its seal."""
    header = read_object(blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "volume object map")
    omap = read_omap("omap", blocks, decoder, header.tree_oid, xid, findings)
    view = omaps.view_at(omap, xid)
    seal = read_seal(blocks, view, superblock, findings) if superblock.is_sealed else None
    snapshots = read_physical_nodes(blocks, decoder, "omap-snapshots", header.snapshot_tree_oid, xid, findings)
    return Volume(number, superblock, paddr, xid, header, omap, view, snapshots, seal)


def read_physical_nodes(
    blocks: Blocks, decoder: Decoder, tree: str, root_oid: int, xid: int, findings: list[Finding]
) -> TreeNodes:
    """Read the nodes of a physical tree; none if the root's address is 0."""
    if not root_oid:
        return join(tree, [])
    return read_nodes(TreeSource(tree, blocks, decoder, root_oid, None, *lead_type(tree), xid), findings)[0]


def fs_source(blocks: Blocks, decoder: Decoder, volume: Volume, cipher: Cipher | None) -> TreeSource:
    """Describe the file-system tree of a state of a volume."""
    seal = volume.seal
    return TreeSource(
        "fs",
        blocks,
        decoder,
        volume.superblock.root_tree_oid,
        volume.view,
        *lead_type("fs"),
        volume.xid,
        cipher=cipher,
        hash_type=seal.hash_type if seal else 0,
        root_hash=seal.root_hash if seal else b"",
    )


def read_fs_tree(
    container: Container, volume: Volume, findings: list[Finding], cipher: Cipher | None, pool: Pool | None = None
) -> Tree:
    """Read the file-system tree of a state of a volume, with its records; a pool keeps its nodes for other states."""
    source = fs_source(container.blocks, container.decoder, volume, cipher)
    hashed = bool(volume.superblock.has_hashed_names)
    return read_record_tree(source, findings, hashed_names=hashed, pool=pool)


def read_fs_nodes(
    container: Container, volume: Volume, findings: list[Finding], cipher: Cipher | None, pool: Pool
) -> TreeNodes:
    """Read the nodes of the file-system tree of a state of a volume, but those that other states have shown."""
    return read_shared(fs_source(container.blocks, container.decoder, volume, cipher), pool, findings)


def read_physical_tree(
    blocks: Blocks, decoder: Decoder, tree: str, root_oid: int, xid: int, findings: list[Finding]
) -> Tree:
    """Read the extent-reference or the snapshot-metadata tree."""
    source = TreeSource(tree, blocks, decoder, root_oid, None, *lead_type(tree), xid)
    return read_record_tree(source, findings) if root_oid else Tree(join(tree, []))
