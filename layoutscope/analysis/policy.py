"""What the leaves of a volume tell of the policy that laid them out: who wrote them when, and whether side by side.

A volume that was filled in the order of its keys has leaves side by side; one that aged in short transactions has few
leaves of each. Both decide what an enumeration costs, and no published measurement tells them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.order import ADJACENT, order_metrics
from layoutscope.metrics.pieces import own_nodes
from layoutscope.results.kit import LeafPolicy

if TYPE_CHECKING:
    from layoutscope.tables import VolumeLayout

TENTHS = np.linspace(0, 1, 11)


def leaf_policy(layout: VolumeLayout) -> LeafPolicy:
    """Sum up the leaves of the tree that enumerations walk."""
    tree = filesystem_of(layout).traits.main_tree
    # What snapshots alone hold was written for a state that is gone.
    nodes = own_nodes(layout, tree)
    leaves = nodes.take(nodes["kind"].equals("leaf"))
    adjacent = next(metric.value for metric in order_metrics(layout, tree) if metric.definition is ADJACENT)
    if not leaves["xid"].is_known.any():
        return LeafPolicy(len(leaves), adjacent)
    xids = leaves["xid"].present().astype(np.int64)
    _, each = np.unique(xids, return_counts=True)
    middle, high = np.quantile(each, [0.5, 0.9])
    deciles = np.quantile(xids, TENTHS, method="lower")
    return LeafPolicy(
        len(leaves),
        adjacent,
        transactions=len(each),
        leaves_per_transaction=(float(middle), float(high), float(each.max())),
        xid_deciles=tuple(int(xid) for xid in deciles),
    )
