"""Does the order on disk follow the order of keys: inversions, backward steps, rank distance, adjacency.

Input: the leaves of one tree in key order, as addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.lookup import order_of
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.pieces import node_edges, own_nodes
from layoutscope.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout

ADJACENT = Definition(
    "next-leaf-adjacent",
    "Next leaf is next on disk",
    unit="share",
    denominator="leaves that have a successor",
    text="Share of leaves whose successor in key order starts where they end: 1 is a packed tree, 0 none.",
    citation="static layout score (Smith & Seltzer, SIGMETRICS 1997), applied to the leaves of a tree",
)
BACKWARD = Definition(
    "backward-steps",
    "Backward steps",
    unit="share",
    denominator="leaves that have a successor",
    text="Share of leaves whose successor in key order lies at a lower address: 0 in order, 0.5 at random.",
    citation="this project",
)
INVERSIONS = Definition(
    "key-order-inversions",
    "Inversions",
    unit="share",
    denominator="pairs of leaves (at random 50 %)",
    text="Share of pairs of leaves that lie on disk against their key order: 0 in order, 0.5 at random, 1 reversed.",
    citation="Kendall, Biometrika 30, 1938: (1 - tau) / 2",
)
RANK_DISTANCE = Definition(
    "rank-distance",
    "Mean rank distance",
    unit="share",
    denominator="leaves, mean (at random 33 %)",
    text="Mean distance between a leaf's place in key order and its place on disk: 0 in order, 1/3 at random.",
    citation="Spearman's footrule, Diaconis & Graham, JRSS B 39(2), 1977",
)


def order_metrics(layout: VolumeLayout, tree: str) -> Iterator[Metric]:
    """Compare key order with disk order of one tree's leaves."""
    nodes = own_nodes(layout, tree)
    leaves = nodes.take(nodes["kind"].equals("leaf") & nodes["key_rank"].is_known)
    # The table has nodes by number or address. Leaves that no index leads to have no rank, and no order of keys.
    edges = node_edges(layout, leaves.take(order_of(leaves["key_rank"].data)))
    rank = disk_rank(edges.start)
    n = len(rank)
    pairs = n * (n - 1) / 2
    yield Metric(ADJACENT, _mean(edges.start[1:] == edges.stop[:-1]), tree)
    yield Metric(BACKWARD, _mean(edges.start[1:] < edges.start[:-1]), tree)
    yield Metric(INVERSIONS, inversions(rank) / pairs if pairs else None, tree)
    yield Metric(RANK_DISTANCE, float(np.abs(rank - np.arange(n)).mean() / n) if n else None, tree)


def _mean(values: NDArray[np.bool_]) -> float | None:
    return float(values.mean()) if len(values) else None


def disk_rank(image_offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each leaf in address order."""
    rank = np.empty(len(image_offset), np.int64)
    rank[order_of(image_offset)] = np.arange(len(image_offset))
    return rank


COUNT_INVERSIONS: Final = Kernel("count_inversions", "LL")


def inversions(permutation: NDArray[np.int64]) -> int:
    """Count the pairs that stand in falling order."""
    values = np.array(permutation, np.int64)
    count = COUNT_INVERSIONS(values, np.empty(len(values), np.int64))
    return plain_inversions(permutation) if count is None else count


def plain_inversions(permutation: NDArray[np.int64]) -> int:
    """Count them in passes over all; the twin of the kernel.

    One pass for each bit, from the highest: values that agree in the higher bits stand together in their original
    order, and each 0 is passed by the ones before it in its group. A group starts at the place of its smallest value,
    so that every pass is a prefix sum and a scatter: O(n log n) without a loop over elements.
    """
    values = np.asarray(permutation, np.int64)
    total = 0
    for bit in range(max(len(values) - 1, 0).bit_length() - 1, -1, -1):
        ones = (values >> bit) & 1
        group = (values >> (bit + 1)) << (bit + 1)
        before = np.cumsum(ones) - ones
        ones_before = before - before[group]
        total += int(ones_before[ones == 0].sum())
        zeros_before = np.arange(len(values)) - group - ones_before
        place = np.where(ones == 0, group + zeros_before, group + (1 << bit) + ones_before)
        scattered = np.empty_like(values)
        scattered[place] = values
        values = scattered
    return total
