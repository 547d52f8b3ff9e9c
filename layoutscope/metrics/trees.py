"""Metadata by tree: nodes by level, bytes, pieces, and how much of it lies together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from layoutscope.metrics.clumps import clump_bytes
from layoutscope.metrics.pieces import merged, node_pieces
from layoutscope.units import MIB

if TYPE_CHECKING:
    from layoutscope.tables import VolumeLayout

CLUMP_GAP_BYTES: Final = MIB
"""Gap inside the clumps of a tree's summary."""


@dataclass(frozen=True, slots=True)
class TreeSummary:
    """One tree of a volume.

    Attributes
    ----------
    tree : str
        Its name.
    nodes_by_level : tuple of int
        Nodes at level 0 (leaves), 1, and so on.
    other_nodes : int
        Header and map nodes.
    free_nodes : int
        Nodes that the tree holds without using them.
    size_bytes : int
        Bytes of the nodes in use.
    pieces : int
        Contiguous runs that these form on disk.
    clumped_share : float
        Share of them in the largest clump with gaps of at most 1 MiB.
    records : int
        Records in the leaves.
    """

    tree: str
    nodes_by_level: tuple[int, ...]
    other_nodes: int
    free_nodes: int
    size_bytes: int
    pieces: int
    clumped_share: float
    records: int


def tree_summaries(layout: VolumeLayout) -> tuple[TreeSummary, ...]:
    """Summarise every tree of a layout, in the order in which the tables name them."""
    live = layout.nodes.filter(pl.col("state") != "stale")
    return tuple(_summary(layout, str(name), live) for name in live["tree"].unique(maintain_order=True))


def _summary(layout: VolumeLayout, tree: str, live: pl.DataFrame) -> TreeSummary:
    nodes = live.filter(pl.col("tree") == tree)
    held = node_pieces(layout, tree)
    clumps = clump_bytes(held, CLUMP_GAP_BYTES)
    counts = dict(nodes.drop_nulls("level").group_by("level").len().iter_rows())
    free = nodes.filter(pl.col("kind") == "free").height
    return TreeSummary(
        tree=tree,
        nodes_by_level=tuple(counts.get(level, 0) for level in range(max(counts, default=-1) + 1)),
        other_nodes=nodes.height - free - sum(counts.values()),
        free_nodes=free,
        size_bytes=int(held.length.sum()),
        pieces=len(merged(held, 0).start),
        clumped_share=float(clumps.max() / clumps.sum()) if len(clumps) else 0.0,
        records=int(nodes.filter(pl.col("kind") == "leaf")["num_records"].sum()),
    )
