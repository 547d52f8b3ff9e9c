"""Whole trees, read from the root down.

Apple File System Reference, B-Trees. A level's blocks are fetched in address order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.store.btree import (
    BATCH_NODES,
    NodeBatch,
    batch_columns,
    children_of,
    read_batch,
    read_shape,
    with_root_hash,
)
from layoutscope.filesystems.apfs.store.nodes import TreeNodes, join
from layoutscope.filesystems.apfs.store.omap import ObjectMap
from layoutscope.filesystems.apfs.store.places import Places, distinct, joined, locate
from layoutscope.filesystems.apfs.store.source import TreeSource, lead_type
from layoutscope.filesystems.apfs.store.tally import Tally
from layoutscope.findings import Finding, from_error
from layoutscope.image import Workspace
from layoutscope.ondisk.records import OMAP_KEY, OMAP_VAL
from layoutscope.tables.growing import GrowingColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.btree import NodeBatch
    from layoutscope.findings import Finding
    from layoutscope.ondisk.decoder import Decoder


def read_levels(source: TreeSource, findings: list[Finding], workspace: Workspace | None = None) -> Iterator[NodeBatch]:
    """Read a tree from the root down.

    Parameters
    ----------
    source : TreeSource
        The tree.
    findings : list of Finding
        Collects what is wrong; nodes that cannot be used are left out or yield no records.
    workspace : Workspace, optional
        Memory for the nodes' bytes, which are then valid until the next batch.

    Yields
    ------
    NodeBatch
        Level by level, each level in key order.
    """
    root = locate(source, np.array([source.root_oid], np.uint64), None, findings)
    if not len(root):
        return
    try:
        shape = read_shape(source, root)
    except FormatError as error:
        findings.append(from_error(error, code="tree-unreadable"))
        return
    places, first, level = with_root_hash(source, root, shape), 0, shape.level
    tally = Tally(num_findings=len(findings))
    while len(places):
        children: list[Places] = []
        for start in range(0, len(places), BATCH_NODES):
            some = places.take(slice(start, start + BATCH_NODES))
            batch = read_batch(source, some, first, level, shape, findings, workspace)
            batch = replace(batch, num_after=len(places) - start - len(some))
            first += len(batch.places)
            tally.add(source, batch, findings)
            yield batch
            if level:
                children.append(_children(source, batch, findings))
        if not level:
            tally.compare(source, shape, first, findings)
            return
        places = distinct(source, joined(children), findings)
        level -= 1


def _children(source: TreeSource, batch: NodeBatch, findings: list[Finding]) -> Places:
    """Locate the children of a batch of index nodes, in key order."""
    node, oids, low, hashes = children_of(source, batch)
    return locate(source, oids, (node + batch.first, low, hashes), findings)


def read_nodes(source: TreeSource, findings: list[Any]) -> tuple[TreeNodes, list[NodeBatch]]:
    """Read a whole tree and keep its leaves' batches; for trees that are small."""
    batches = list(read_levels(source, findings))
    nodes = join(source.tree, [batch_columns(source, batch) for batch in batches])
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


def read_omap(
    tree: str, blocks: Blocks, decoder: Decoder, tree_oid: int, max_xid: int, findings: list[Finding]
) -> ObjectMap:
    """Read an object map's tree.

    Parameters
    ----------
    tree : str
        ``container-omap`` or ``omap``.
    blocks : Blocks
        The container.
    decoder : Decoder
        Bulk or grammar.
    tree_oid : int
        Its root's address.
    max_xid : int
        Transaction of the state that is read.
    findings : list of Finding
        Collects what is wrong.
    """
    source = TreeSource(tree, blocks, decoder, tree_oid, None, *lead_type(tree), max_xid)
    parts, columns = [], {name: GrowingColumn(dtype) for name, dtype in _DTYPES.items()}
    for batch in read_levels(source, findings, Workspace()):
        parts.append(batch_columns(source, batch))
        for name, values in _mappings(decoder, batch).items() if not batch.level else ():
            columns[name].add(values, batch.to_come)
    return ObjectMap(join(tree, parts), **{name: column.values for name, column in columns.items()})


def _mappings(decoder: Decoder, batch: NodeBatch) -> dict[str, NDArray[Any]]:
    """Decode the mappings in one batch of leaves."""
    slots = batch.slots
    keys = decoder.columns(OMAP_KEY, batch.buffer, slots.key_start, (OMAP_KEY.oid, OMAP_KEY.xid))
    values = decoder.columns(OMAP_VAL, batch.buffer, slots.val_start, _VALUE_FIELDS)
    return {**keys, **values, "leaf": batch.node}
