"""Trees put together: the table ``nodes``, with rows that other tables refer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from layoutscope.filesystems.apfs.store.verify import VALID_NAMES
from layoutscope.filesystems.apfs.volume.volume import UNKNOWN_LEVEL
from layoutscope.tables import NULL_ROW, build_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes

CONTENT_COLUMNS = ("num_records", "used_bytes", "free_bytes", "key_rank", "first_key_id", "last_key_id")
STATES = ("live", "snapshot", "stale")
KINDS = ("leaf", "index", "locked")


@dataclass(frozen=True, slots=True)
class PlacedTree:
    """A tree's nodes and the row of the first of them.

    Attributes
    ----------
    nodes : TreeNodes
        The nodes.
    rows : (n,) int64 array
        Row of each.
    omap_rows : (k,) int64 array
        Rows of the nodes of the object map that the tree's nodes refer to; empty if physical.
    """

    nodes: TreeNodes
    rows: NDArray[np.int64]
    omap_rows: NDArray[np.int64]

    @property
    def first_row(self) -> int:
        """Row of the root."""
        return int(self.rows[0]) if len(self.rows) else 0


def place(trees: list[tuple[TreeNodes, int]]) -> list[PlacedTree]:
    """Number the nodes of several trees through.

    Parameters
    ----------
    trees : list of (TreeNodes, int)
        Each tree and the position, in this list, of the object map that finds its nodes; -1 if physical.
    """
    starts = np.cumsum([0, *(len(nodes) for nodes, _ in trees)])
    rows = [np.arange(start, start + len(nodes)) for start, (nodes, _) in zip(starts, trees, strict=False)]
    none = np.empty(0, np.int64)
    return [
        PlacedTree(nodes, own, rows[omap] if omap >= 0 else none)
        for own, (nodes, omap) in zip(rows, trees, strict=True)
    ]


def nodes_table(
    trees: list[PlacedTree], blocks: Blocks, volume: int | None, states: list[NDArray[np.int64]]
) -> pl.DataFrame:
    """Make the table of nodes, in the order of their rows.

    Parameters
    ----------
    trees : list of PlacedTree
        Trees of this state, then what only others hold.
    blocks : Blocks
        For addresses.
    volume : int or None
        Number of the volume on the image.
    states : list of int64 arrays
        Of each tree, position in :data:`STATES` of each node.
    """
    state = np.concatenate([np.empty(0, np.int64), *states])
    trees = [tree for tree in trees if len(tree.nodes)]
    if not trees:
        return build_table("nodes", {})
    names = list(dict.fromkeys(tree.nodes.tree for tree in trees))
    codes = np.concatenate([np.full(len(tree.nodes), names.index(tree.nodes.tree)) for tree in trees])
    paddr = _all(trees, "paddr")
    level = _all(trees, "level")
    columns: dict[str, Any] = {
        "device": blocks.split(paddr)[0],
        "volume": volume,
        "tree": (codes, names),
        "node_id": _all(trees, "node_id"),
        "image_offset": blocks.image_offset(paddr),
        "size_bytes": _all(trees, "size_bytes"),
        "level": _known(level, level),
        "kind": (np.where(level == UNKNOWN_LEVEL, 2, np.minimum(level, 1)), KINDS),
        "xid": _all(trees, "xid"),
        **{name: _known(_all(trees, name), level) for name in CONTENT_COLUMNS},
        "parent_row": np.concatenate([_refer(tree.nodes.parent, tree.rows) for tree in trees]),
        "locator_row": np.concatenate([_refer(tree.nodes.omap_leaf, tree.omap_rows) for tree in trees]),
        "state": (state, STATES),
        "valid": (_all(trees, "valid"), VALID_NAMES),
    }
    return build_table("nodes", columns)


def _all(trees: list[PlacedTree], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(tree.nodes, name) for tree in trees])


def _known(values: NDArray[Any], level: NDArray[np.uint8]) -> pl.Series:
    """Values of nodes that could be read; null in locked ones."""
    return pl.Series(values).set(pl.Series(level == UNKNOWN_LEVEL), None)


def _refer(position: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Rows from positions; null where the position is negative."""
    if not len(rows):
        return np.full(len(position), NULL_ROW, np.uint32)
    return np.where(position < 0, NULL_ROW, rows[position]).astype(np.uint32)
