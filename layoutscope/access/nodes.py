"""The nodes of a layout as a walk sees them: what must be read before each, and the reads it takes.

Input: the table ``nodes``. A *node* here is a position in these arrays, not a
row of the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import order_of
from layoutscope.frozen import frozen
from layoutscope.tables.schema import LIVE_STATES
from layoutscope.tables.table import are_walked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.tables import Values, VolumeLayout

NO_NODE = np.int32(-1)


@frozen
class NodeTable:
    """Nodes of one layout; arrays of shape (n_nodes,) unless they say otherwise."""

    # node of each row of the table; -1 where there is none. The last element stands for null.
    of_row: NDArray[np.int32]
    parent: NDArray[np.int32]  # index node that points here, -1 at roots
    mapper: NDArray[np.int32]  # node that tells where this one lies, or -1
    tree: NDArray[np.uint8]  # index into `trees`
    # 0 at the leaf, -1 for header, map and free nodes, and for damaged and unread ones that no walk reads
    level: NDArray[np.int16]
    node_id: NDArray[np.int64]  # node number or oid
    key_rank: NDArray[np.int64]  # place in key order in its tree and level
    is_header: NDArray[np.bool_]  # header nodes
    is_own: NDArray[np.bool_]  # nodes of this view: neither held by snapshots alone nor stale
    device: NDArray[np.uint8]  # image of a Fusion set
    # image_offset, size_bytes: where the node starts and its size
    image_offset: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    trees: tuple[str, ...]  # names of the trees

    def __len__(self) -> int:
        return len(self.parent)

    def nodes_of(self, column: Values) -> NDArray[np.int32]:
        """Turn a column of rows into nodes; null and unknown rows become -1."""
        if column.known is not None and not column.known.any():
            return np.full(len(column), NO_NODE)
        found: NDArray[np.int32] = self.of_row.take(column.filled(len(self.of_row) - 1), mode="clip")
        return found

    def leaves(self, tree: int) -> NDArray[np.int64]:
        """Return the leaves of a tree as this view has it, by its code, in the order of their keys."""
        own = np.flatnonzero((self.tree == tree) & (self.level == 0) & self.is_own)
        return own[order_of(self.key_rank[own])]

    def tree_code(self, name: str) -> int:
        """Return the code of a tree, -1 where the layout has none of that name."""
        return self.trees.index(name) if name in self.trees else -1


def node_table(layout: VolumeLayout) -> NodeTable:
    """Read the table of nodes into arrays."""
    nodes = layout.columns("nodes")
    rows = nodes["row"].data
    of_row = np.full(int(rows.max(initial=0)) + 2, NO_NODE, np.int32)
    of_row[rows] = np.arange(len(rows), dtype=np.int32)
    of_row[-1] = NO_NODE
    codes, trees = nodes["tree"].numbered()
    walked = are_walked(nodes)
    table = NodeTable(
        of_row=of_row,
        parent=np.full(len(rows), NO_NODE),
        mapper=np.full(len(rows), NO_NODE),
        tree=codes.astype(np.uint8),
        level=np.where(walked, nodes["level"].signed(), -1).astype(np.int16),
        node_id=nodes["node_id"].signed(),
        key_rank=nodes["key_rank"].signed(),
        is_header=nodes["kind"].equals("header"),
        is_own=nodes["state"].is_in(LIVE_STATES),
        device=nodes["device"].filled(0),
        image_offset=nodes["image_offset"].signed(),
        size_bytes=nodes["size_bytes"].signed(),
        trees=trees,
    )
    return _with_relations(table, layout)


def _with_relations(table: NodeTable, layout: VolumeLayout) -> NodeTable:
    """Add what each node hangs on; relations that no sound tree has are left out."""
    # Damage may make a child of its own parent, or a map locate itself: walks follow both without end.
    nodes = layout.columns("nodes")
    parent = table.nodes_of(nodes["parent_row"])
    parent[~are_walked(nodes)] = NO_NODE
    parent[(parent >= 0) & (table.level[parent] <= table.level)] = NO_NODE
    mapper = table.nodes_of(nodes["locator_row"])
    mapper[(mapper >= 0) & (table.tree[mapper] == table.tree)] = NO_NODE
    return replace(table, parent=parent, mapper=mapper)
