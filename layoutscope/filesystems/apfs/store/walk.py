"""Whole trees, read from the root down.

Apple File System Reference, B-Trees. A level's blocks are fetched in address order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from layoutscope.arrays.growing import GrowingColumn
from layoutscope.filesystems.apfs.store.btree import (
    BATCH_NODES,
    NodeBatch,
    batch_columns,
    children_of,
    read_batch,
    read_root,
)
from layoutscope.filesystems.apfs.store.nodes import TreeNodes, join
from layoutscope.filesystems.apfs.store.omap import ObjectMap
from layoutscope.filesystems.apfs.store.places import Places, distinct, joined, locate
from layoutscope.filesystems.apfs.store.source import Store, TreeSource
from layoutscope.filesystems.apfs.store.tally import Tally
from layoutscope.image import Workspace
from layoutscope.ondisk.records import OMAP_KEY, OMAP_VAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.btree import NodeBatch


def read_levels(source: TreeSource, workspace: Workspace | None = None) -> Iterator[NodeBatch]:
    """Read a tree from the root down; nodes that cannot be used are findings, and left out or yield no records.

    Parameters
    ----------
    source : TreeSource
        The tree.
    workspace : Workspace, optional
        Memory for the nodes' bytes, which are then valid until the next batch.

    Yields
    ------
    NodeBatch
        Level by level, each level in key order.
    """
    opened = read_root(source)
    if opened is None:
        return
    tree, places = opened
    tally, first = Tally(tree), 0
    for level in range(tree.shape.level, -1, -1):
        children: list[Places] = []
        for start in range(0, len(places), BATCH_NODES):
            some = places.take(slice(start, start + BATCH_NODES))
            batch = read_batch(tree, some, level, first, workspace)
            batch = replace(batch, num_after=len(places) - start - len(some))
            first += len(batch.places)
            tally.add(batch)
            yield batch
            if level:
                children.append(_children(batch))
        if not level:
            tally.compare(first)
            return
        places = distinct(source, joined(children))
        if not len(places):
            return


def _children(batch: NodeBatch) -> Places:
    """Locate the children of a batch of index nodes, in key order."""
    node, oids, low, hashes = children_of(batch)
    return locate(batch.tree.source, oids, (node + batch.first, low, hashes))


def read_nodes(source: TreeSource) -> tuple[TreeNodes, list[NodeBatch]]:
    """Read a whole tree and keep its leaves' batches; for trees that are small."""
    batches = list(read_levels(source))
    nodes = join(source.tree, [batch_columns(batch) for batch in batches])
    return nodes, [batch for batch in batches if batch.level == 0]


_VALUE_FIELDS = (OMAP_VAL.paddr, OMAP_VAL.size_bytes, OMAP_VAL.is_deleted, OMAP_VAL.is_encrypted, OMAP_VAL.is_noheader)


_DTYPES = {
    "oid": np.uint64,
    "xid": np.uint64,
    "paddr": np.uint64,
    "size_bytes": np.int64,
    "is_deleted": np.bool_,
    "is_encrypted": np.bool_,
    "is_noheader": np.bool_,
    "leaf": np.int64,
}


def read_omap(store: Store, tree: Literal["container-omap", "omap"], tree_oid: int, max_xid: int) -> ObjectMap:
    """Read an object map's tree.

    Parameters
    ----------
    store : Store
        The container.
    tree : {'container-omap', 'omap'}
        Whose it is.
    tree_oid : int
        Its root's address.
    max_xid : int
        Transaction of the state that is read.
    """
    parts, columns = [], {name: GrowingColumn(dtype) for name, dtype in _DTYPES.items()}
    for batch in read_levels(TreeSource(store, tree, tree_oid, max_xid), Workspace()):
        parts.append(batch_columns(batch))
        for name, values in _mappings(batch).items() if not batch.level else ():
            columns[name].add(values, batch.to_come)
    return ObjectMap(join(tree, parts), **{name: column.values for name, column in columns.items()})


def _mappings(batch: NodeBatch) -> dict[str, NDArray[Any]]:
    """Decode the mappings in one batch of leaves."""
    keys = batch.columns("key", OMAP_KEY, (OMAP_KEY.oid, OMAP_KEY.xid))
    values = batch.columns("val", OMAP_VAL, _VALUE_FIELDS)
    return {**keys, **values, "leaf": batch.node}
