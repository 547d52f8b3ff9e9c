"""A tree of file-system records that was read: its nodes and its records by type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from layoutscope.filesystems.apfs.store import fsrecords
from layoutscope.filesystems.apfs.store.btree import batch_columns
from layoutscope.filesystems.apfs.store.fsrecords import RecordTables
from layoutscope.filesystems.apfs.store.nodes import TreeNodes, join
from layoutscope.filesystems.apfs.store.sharing import index_records
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.image import Workspace

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.store.sharing import Pool
    from layoutscope.filesystems.apfs.store.source import TreeSource


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes and decoded records."""

    nodes: TreeNodes
    records: RecordTables = field(default_factory=RecordTables)


def read_record_tree(source: TreeSource, *, hashed_names: bool = False, pool: Pool | None = None) -> Tree:
    """Read a tree of file-system records, batch by batch: nothing but columns is kept.

    Parameters
    ----------
    source : TreeSource
        The tree.
    hashed_names : bool
        Whether directory keys carry a hash of the name.
    pool : Pool, optional
        Keeps what other states of the volume share with this one.
    """
    parts, children, records = [], [], RecordTables()
    for batch in read_levels(source, Workspace()):
        parts.append(batch_columns(batch))
        if batch.level:
            children += [index_records(batch, batch.first)] if pool is not None else []
            continue
        found, num_decoded = fsrecords.decode_batch(batch, hashed_names=hashed_names)
        records.add(found, len(batch.slots), num_decoded, batch.to_come)
    if pool is not None:
        pool.add(parts, children)
    return Tree(join(source.tree, parts), records.finish())
