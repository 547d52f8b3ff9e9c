"""What is needed to read a container, and one tree of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import (
    EVICT_MAPPING_KEY,
    FEXT_KEY,
    FREE_QUEUE_KEY,
    FUSION_MT_KEY,
    GBITMAP_KEY,
    J_KEY,
    OMAP_KEY,
    OMAP_SNAPSHOT_KEY,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.filesystems.apfs.store.omap import OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.recordtypes import Column, RecordType


@dataclass(frozen=True, slots=True)
class Store:
    """Where structures are read, how they are decoded, and where findings about them go.

    Attributes
    ----------
    blocks : Blocks
        Blocks of the container.
    decoder : Decoder
        Bulk or grammar.
    log : FindingLog
        Its addresses are those of blocks.
    """

    blocks: Blocks
    decoder: Decoder
    log: FindingLog

    @classmethod
    def over(cls, blocks: Blocks, decoder: Decoder, log: FindingLog) -> Store:
        """Let a log count in blocks.

        Parameters
        ----------
        blocks : Blocks
            Blocks of the container.
        decoder : Decoder
            Bulk or grammar.
        log : FindingLog
            Where findings go.

        Returns
        -------
        Store
            Its log writes into the same list, and takes block addresses of either device.
        """
        return cls(blocks, decoder, replace(log, locate=blocks.place))

    def apart(self) -> Store:
        """Return the same store with findings of its own: to collect those of one volume, or to drop them."""
        return replace(self, log=self.log.branch())


class TreeKind(NamedTuple):
    """Records of a tree: type of the keys' beginning, the field that leads the order, and the object type."""

    key_type: RecordType
    key_field: Column
    subtype: int


_TYPES = grammar.ApfsObject.ObjectType
KINDS: Final = {
    "container-omap": TreeKind(OMAP_KEY, OMAP_KEY.oid, int(_TYPES.omap)),
    "omap": TreeKind(OMAP_KEY, OMAP_KEY.oid, int(_TYPES.omap)),
    "omap-snapshots": TreeKind(OMAP_SNAPSHOT_KEY, OMAP_SNAPSHOT_KEY.xid, int(_TYPES.omap_snapshot)),
    "fs": TreeKind(J_KEY, J_KEY.obj_id, int(_TYPES.fstree)),
    "extentref": TreeKind(J_KEY, J_KEY.obj_id, int(_TYPES.blockreftree)),
    "snapmeta": TreeKind(J_KEY, J_KEY.obj_id, int(_TYPES.snapmetatree)),
    "fext": TreeKind(FEXT_KEY, FEXT_KEY.private_id, int(_TYPES.fext_tree)),
    "spaceman": TreeKind(FREE_QUEUE_KEY, FREE_QUEUE_KEY.xid, int(_TYPES.spaceman_free_queue)),
    "fusion-middle": TreeKind(FUSION_MT_KEY, FUSION_MT_KEY.paddr, int(_TYPES.fusion_middle_tree)),
    "checkpoint-area": TreeKind(OMAP_SNAPSHOT_KEY, OMAP_SNAPSHOT_KEY.xid, int(_TYPES.invalid)),
    "gbitmap": TreeKind(GBITMAP_KEY, GBITMAP_KEY.index, int(_TYPES.gbitmap_tree)),
    "evict-mapping": TreeKind(EVICT_MAPPING_KEY, EVICT_MAPPING_KEY.paddr, int(_TYPES.invalid)),
}
"""Trees of containers and volumes by their names in the tables."""


@dataclass(frozen=True, slots=True)
class TreeSource:
    """What is needed to read one tree.

    A tree is physical unless more is said: its nodes are named by their addresses.

    Attributes
    ----------
    store : Store
        Where it is read.
    tree : str
        Name in the tables, key of :data:`KINDS`.
    root_oid : int
        Identifier of the root; its address where the tree is physical.
    max_xid : int
        No node of a sound tree is younger.
    view : OmapView, optional
        Of a virtual tree: finds its nodes.
    ephemerals : dict, optional
        Of an ephemeral tree: the block in which the checkpoint keeps each object.
    root_size_bytes : int
        Size of the root where the object map does not say; the block size if 0.
    cipher : Cipher, optional
        Decrypts nodes whose object-map entry says that they are encrypted.
    hash_type : int
        Of sealed volumes: nodes without header, children by their place after the root and verified by their hash.
    root_hash : bytes
        Of sealed volumes, what the root's hash should be.
    """

    store: Store
    tree: str
    root_oid: int
    max_xid: int
    view: OmapView | None = None
    ephemerals: Mapping[int, int] | None = None
    root_size_bytes: int = 0
    cipher: Cipher | None = None
    hash_type: int = 0
    root_hash: bytes = b""

    @property
    def blocks(self) -> Blocks:
        """Where blocks are read."""
        return self.store.blocks

    @property
    def decoder(self) -> Decoder:
        """Bulk or grammar."""
        return self.store.decoder

    @property
    def kind(self) -> TreeKind:
        """What its records are."""
        return KINDS[self.tree]

    def apart(self) -> TreeSource:
        """Return the same tree with findings of its own."""
        return replace(self, store=self.store.apart())

    def at_root(self, paddr: int) -> FindingLog:
        """Bind the log to the root."""
        return self.store.log.at(f"{self.tree} tree, root", paddr)

    def at_node(self, node_id: int, paddr: int | None) -> FindingLog:
        """Bind the log to a node."""
        return self.store.log.at(f"{self.tree} tree, node {node_id}", paddr)
