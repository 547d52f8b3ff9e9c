"""Nodes of one tree as columns, gathered from the batches that a walk of the tree yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.filesystems.apfs.store.places import object_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.btree import NodeBatch, TreeSource


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """Nodes of one tree, root first, then level by level in key order; one row a node.

    Attributes
    ----------
    tree : str
        Name in the tables.
    node_id, xid, paddr : (n,) uint64 arrays
        Identifier, transaction and first block.
    size_bytes : (n,) int64 array
        Size of each node.
    level : (n,) uint8 array
        0 at the leaf.
    num_records, used_bytes, free_bytes : (n,) uint32 arrays
        Fill.
    parent : (n,) int64 array
        Position of the parent in these arrays, -1 at the root.
    omap_leaf : (n,) int64 array
        Position, among the nodes of the object map's tree, of the leaf that gives the address; -1 if physical.
    key_rank : (n,) uint32 array
        Place in key order within the level.
    low_key : (n,) uint64 array
        Lower bound of its keys, as the parent has it (see :func:`layoutscope.filesystems.apfs.store.places.order_key`).
    first_key_id, last_key_id : (n,) uint64 arrays
        Leading number of the first and last key.
    valid : (n,) uint8 array
        Position in :data:`layoutscope.filesystems.apfs.store.verify.VALID_NAMES`.
    """

    tree: str
    node_id: NDArray[np.uint64]
    xid: NDArray[np.uint64]
    paddr: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]
    level: NDArray[np.uint8]
    num_records: NDArray[np.uint32]
    used_bytes: NDArray[np.uint32]
    free_bytes: NDArray[np.uint32]
    parent: NDArray[np.int64]
    omap_leaf: NDArray[np.int64]
    key_rank: NDArray[np.uint32]
    low_key: NDArray[np.uint64]
    first_key_id: NDArray[np.uint64]
    last_key_id: NDArray[np.uint64]
    valid: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.node_id)

    @property
    def leaves(self) -> NDArray[np.int64]:
        """Positions of the leaves, in key order."""
        return np.flatnonzero(self.level == 0)


_COLUMNS = TreeNodes.__slots__[1:]
_DTYPES = {
    "size_bytes": np.int64,
    "level": np.uint8,
    "num_records": np.uint32,
    "used_bytes": np.uint32,
    "free_bytes": np.uint32,
    "parent": np.int64,
    "omap_leaf": np.int64,
    "key_rank": np.uint32,
    "valid": np.uint8,
}


def batch_columns(source: TreeSource, batch: NodeBatch) -> dict[str, NDArray[Any]]:
    """Turn one batch into columns; ``key_rank`` follows in :func:`join`."""
    places, head, count = batch.places, batch.head, len(batch.places)
    bounds = np.searchsorted(batch.slots.node, np.arange(count + 1))
    first_key, last_key = _end_keys(source, batch, bounds)
    lengths = np.append(0, np.cumsum(batch.slots.key_len + batch.slots.val_len, dtype=np.int64))
    has_header = head["hdr.xid"] != 0
    return {
        "node_id": places.node_id,
        "xid": np.where(has_header, head["hdr.xid"], places.xid),
        "paddr": places.paddr,
        "size_bytes": np.full(count, batch.size_bytes, np.int64),
        "level": np.full(count, batch.level, np.uint8),
        "num_records": np.where(batch.check.is_sound, head["num_keys"], 0).astype(np.uint32),
        "used_bytes": np.diff(lengths[bounds]).astype(np.uint32),
        "free_bytes": _free_bytes(head).astype(np.uint32),
        "parent": places.parent,
        "omap_leaf": places.omap_leaf,
        "low_key": places.low_key,
        "first_key_id": first_key,
        "last_key_id": last_key,
        "valid": batch.check.valid,
    }


def _free_bytes(head: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    names = ("free_space.len", "key_free_list.len", "val_free_list.len")
    total = sum(head[name].astype(np.int64) for name in names)
    return np.asarray(total, np.int64)


def _end_keys(
    source: TreeSource, batch: NodeBatch, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Leading number of the first and the last key of each node, 0 in empty ones; `bounds` are of its records."""
    first, stop = bounds[:-1], bounds[1:]
    filled = np.flatnonzero(stop > first)
    out = np.zeros((2, len(first)), np.uint64)
    out[0, filled], out[1, filled] = batch.keys[first[filled]], batch.keys[stop[filled] - 1]
    if source.key_field == "obj_id":
        out = object_of(out)
    return out[0], out[1]


def join(tree: str, parts: list[dict[str, NDArray[Any]]]) -> TreeNodes:
    """Put the batches of a tree together."""
    if not parts:
        return TreeNodes(tree, *(np.empty(0, _DTYPES.get(name, np.uint64)) for name in _COLUMNS))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns["key_rank"] = _ranks(columns["level"])
    return TreeNodes(tree, **columns)


def _ranks(level: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Count within runs of one level."""
    starts = np.flatnonzero(np.diff(level.astype(np.int16), prepend=-1) != 0)
    counts = np.diff(starts, append=len(level))
    return (np.arange(len(level)) - np.repeat(starts, counts)).astype(np.uint32)


def read_nodes(source: TreeSource, findings: list[Any]) -> tuple[TreeNodes, list[NodeBatch]]:
    """Read a whole tree and keep its leaves' batches; for trees that are small."""
    from layoutscope.filesystems.apfs.store.btree import read_levels

    batches = list(read_levels(source, findings))
    nodes = join(source.tree, [batch_columns(source, batch) for batch in batches])
    return nodes, [batch for batch in batches if batch.level == 0]
