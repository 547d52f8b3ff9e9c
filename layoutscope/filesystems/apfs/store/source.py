"""What is needed to read one tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.recordtypes import Column, RecordType


@dataclass(frozen=True, slots=True)
class TreeSource:
    """What is needed to read one tree.

    Attributes
    ----------
    tree : str
        Name in the tables.
    blocks : Blocks
        Where blocks are read.
    decoder : Decoder
        Bulk or grammar.
    root_oid : int
        Identifier of the root; its address where the tree is physical.
    view : OmapView or None
        Finds virtual nodes; None for a physical tree.
    key_type : RecordType
    key_field : Column
        Type of the keys' beginning and the field that leads the order.
    subtype : int
        Object type of the contents, as node headers say it.
    max_xid : int
        No node of a sound tree is younger.
    root_size_bytes : int, optional
        Size of the root where the object map does not say; the block size if left out.
    ephemerals : dict, optional
        Of an ephemeral tree: the block in which the checkpoint keeps each object.
    cipher : Cipher, optional
        Decrypts nodes whose object-map entry says that they are encrypted.
    hash_type : int, optional
        Of sealed volumes: nodes without header, children by their place after the root and verified by their hash.
    root_hash : bytes, optional
        Of sealed volumes, what the root's hash should be.
    """

    tree: str
    blocks: Blocks
    decoder: Decoder
    root_oid: int
    view: OmapView | None
    key_type: RecordType
    key_field: Column
    subtype: int
    max_xid: int
    root_size_bytes: int = 0
    ephemerals: Mapping[int, int] | None = None
    cipher: Cipher | None = None
    hash_type: int = 0
    root_hash: bytes = b""


def lead_type(tree: str) -> tuple[RecordType, Column, int]:
    """Key type, leading field and contents' object type of the trees of a volume or container."""
    kind = grammar.ApfsObject.ObjectType
    return {
        "container-omap": (OMAP_KEY, OMAP_KEY.oid, int(kind.omap)),
        "omap": (OMAP_KEY, OMAP_KEY.oid, int(kind.omap)),
        "omap-snapshots": (OMAP_SNAPSHOT_KEY, OMAP_SNAPSHOT_KEY.xid, int(kind.omap_snapshot)),
        "fs": (J_KEY, J_KEY.obj_id, int(kind.fstree)),
        "extentref": (J_KEY, J_KEY.obj_id, int(kind.blockreftree)),
        "snapmeta": (J_KEY, J_KEY.obj_id, int(kind.snapmetatree)),
        "fext": (FEXT_KEY, FEXT_KEY.private_id, int(kind.fext_tree)),
        "spaceman": (FREE_QUEUE_KEY, FREE_QUEUE_KEY.xid, int(kind.spaceman_free_queue)),
        "fusion-middle": (FUSION_MT_KEY, FUSION_MT_KEY.paddr, int(kind.fusion_middle_tree)),
        "checkpoint-area": (OMAP_SNAPSHOT_KEY, OMAP_SNAPSHOT_KEY.xid, int(kind.invalid)),
        "gbitmap": (GBITMAP_KEY, GBITMAP_KEY.index, int(kind.gbitmap_tree)),
        "evict-mapping": (EVICT_MAPPING_KEY, EVICT_MAPPING_KEY.paddr, int(kind.invalid)),
    }[tree]
