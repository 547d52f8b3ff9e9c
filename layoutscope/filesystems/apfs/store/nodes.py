"""Nodes of one tree as rows, gathered from the batches that a walk of the tree yields."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import heads, lengths_of, ordinals
from layoutscope.frozen import frozen
from layoutscope.tables.schema import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


SOUND, DAMAGED, UNREAD, LOCKED = range(len(CONDITIONS))

UNKNOWN_LEVEL: Final = 255
"""Level of nodes of whose contents nothing is known; null in the tables."""


@frozen
class NodeRows:
    """Nodes of one tree, root first, then level by level in key order; one row a node."""

    tree: str  # name in the tables
    # node_id, xid, paddr: identifier, transaction and first block
    node_id: NDArray[np.uint64]
    xid: NDArray[np.uint64]
    paddr: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]  # size of each node
    level: NDArray[np.uint8]  # 0 at the leaf
    # num_records, used_bytes, free_bytes: fill
    num_records: NDArray[np.uint32]
    used_bytes: NDArray[np.uint32]
    free_bytes: NDArray[np.uint32]
    parent: NDArray[np.int64]  # position of the parent in these arrays, -1 at the root
    # position, among the nodes of the object map's tree, of the leaf that gives the address; -1 if physical
    omap_leaf: NDArray[np.int64]
    key_rank: NDArray[np.uint32]  # place in key order within the level
    low_key: NDArray[np.uint64]  # lower bound of its keys, as the parent has it (see `order_key`)
    # first_key_id, last_key_id: leading number of the first and last key
    first_key_id: NDArray[np.uint64]
    last_key_id: NDArray[np.uint64]
    valid: NDArray[np.uint8]  # position in `VALID_NAMES`
    condition: NDArray[np.uint8]  # position in `CONDITIONS`

    def __len__(self) -> int:
        return len(self.node_id)

    def take(self, chosen: NDArray[Any]) -> NodeRows:
        """Return some of the nodes, as they are."""
        return NodeRows(self.tree, *(getattr(self, name)[chosen] for name in _COLUMNS))

    @property
    def leaves(self) -> NDArray[np.int64]:
        """Positions of the leaves, in key order."""
        return np.flatnonzero(self.level == 0)


_COLUMNS = NodeRows.__match_args__[1:]
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
    "condition": np.uint8,
}
_POSITIONS = ("parent", "omap_leaf")


def rows_of(tree: str, known: Mapping[str, NDArray[Any]] | None = None) -> NodeRows:
    """Make rows of what is known of nodes: other positions are -1, other numbers 0."""
    known = known or {}
    count = len(next(iter(known.values()), ()))
    columns = {
        name: np.full(count, -1 if name in _POSITIONS else 0, _DTYPES.get(name, np.uint64))
        if name not in known
        else known[name].astype(_DTYPES.get(name, np.uint64), copy=False)
        for name in _COLUMNS
    }
    return NodeRows(tree, **columns)


def join(tree: str, parts: Sequence[NodeRows]) -> NodeRows:
    """Put the batches of a tree together and rank their nodes within each level."""
    if not parts:
        return rows_of(tree)
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    columns["key_rank"] = ordinals(lengths_of(heads(columns["level"]), len(columns["level"]))).astype(np.uint32)
    return NodeRows(tree, **columns)


def lost_of(nodes: NodeRows) -> list[NodeRows]:
    """Return the nodes of a tree of which no record can be used, without their places in the tree; none if all can."""
    wrong = np.flatnonzero((nodes.condition != SOUND) & (nodes.num_records == 0))
    return [replace(nodes.take(wrong), parent=np.full(len(wrong), -1, np.int64))] if len(wrong) else []


def without_others(nodes: NodeRows, chosen: NDArray[np.int64]) -> NodeRows:
    """Return some nodes of a tree; a parent that is not among them becomes unknown."""
    position = np.full(len(nodes) + 1, -1, np.int64)
    position[chosen] = np.arange(len(chosen))
    taken = nodes.take(chosen)
    return replace(taken, parent=position[taken.parent])
