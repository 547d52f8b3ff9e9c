"""File extents of sealed volumes, which stand in a tree of their own.

Apple File System Reference, Sealed Volumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.filesystems.apfs.store.btree import batch_columns
from layoutscope.filesystems.apfs.store.fsrecords import RecordTables
from layoutscope.filesystems.apfs.store.nodes import join
from layoutscope.filesystems.apfs.store.source import TreeSource
from layoutscope.filesystems.apfs.store.trees import Tree
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.image import Workspace
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import FEXT_KEY, FEXT_VAL

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.store.btree import NodeBatch
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.volume import Volume


def read_fext_tree(volume: Volume) -> Tree:
    """Read the extents of a sealed volume's files; no nodes on any other volume."""
    superblock = volume.superblock
    if not superblock.is_sealed or not superblock.fext_tree_oid:
        return Tree(join("fext", []))
    is_physical = superblock.fext_tree_type & int(grammar.ApfsObject.ObjectFlag.physical)
    view = None if is_physical else volume.view
    source = TreeSource(volume.store, "fext", superblock.fext_tree_oid, volume.xid, view=view)
    parts, records = [], RecordTables()
    for batch in read_levels(source, Workspace()):
        parts.append(batch_columns(batch))
        if not batch.level:
            records.add({"file_extent": _extents(batch)}, len(batch.slots), len(batch.slots), batch.to_come)
    return Tree(join("fext", parts), records.finish())


def _extents(batch: NodeBatch) -> Columns:
    """Decode extents, named as those of other volumes are."""
    keys = batch.columns("key", FEXT_KEY, (FEXT_KEY.private_id, FEXT_KEY.logical_addr))
    values = batch.columns("val", FEXT_VAL, (FEXT_VAL.length_bytes, FEXT_VAL.paddr))
    return {
        "obj_id": keys["private_id"],
        "node": batch.node,
        "logical_addr": keys["logical_addr"],
        **values,
    }
