"""Trees: how full, high and old they are, and metadata by tree: nodes by level, bytes, pieces, what lies together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.distance import percentiles
from layoutscope.metrics.pieces import clump_bytes, live_nodes, main_tree, merged_pieces, node_pieces
from layoutscope.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        pieces=len(merged_pieces(held, 0).start),
        clumped_share=float(clumps.max() / clumps.sum()) if len(clumps) else 0.0,
        records=int(nodes.filter(pl.col("kind") == "leaf")["num_records"].sum()),
    )


FILL = Definition(
    "leaf-fill",
    "Leaf fill",
    unit="share",
    denominator="room for records in the leaves",
    text="Share of the leaves' room that holds keys and values: about 0.69 after random insertions, 1 when packed.",
    citation="Yao, Acta Informatica 9, 1978 (ln 2)",
)
HEIGHT = Definition(
    "tree-height",
    "Height",
    unit="levels",
    denominator="the tree",
    text="Nodes from the root to a leaf: the reads of a search with nothing cached.",
    citation="Bayer & McCreight, Acta Informatica 1, 1972",
)
DENSITY = Definition(
    "nodes-per-1000-entries",
    "Nodes per 1,000 entries",
    unit="nodes",
    denominator="1,000 directory entries",
    text="How many nodes of the enumerated tree hold a thousand entries: the reads that an enumeration cannot avoid.",
    citation="this project",
)
AGE = Definition(
    "age-xid",
    "Age of nodes",
    unit="transactions",
    denominator="live nodes of the tree, median",
    text="Transactions since a node was written, counted from the volume's newest.",
    citation="Apple File System Reference (2020-06-22), obj_phys_t, o_xid",
)


def health_metrics(layout: VolumeLayout, tree: str) -> Iterator[Metric]:
    """Fill by level and height of one tree; density and age where they apply."""
    nodes = live_nodes(layout, tree)
    yield _fill(nodes, tree)
    levels = nodes["level"].drop_nulls().to_numpy()
    yield Metric(HEIGHT, float(levels.max() + 1) if len(levels) else None, tree)
    if tree == main_tree(layout):
        entries = layout.entries.height
        yield Metric(DENSITY, nodes.height * 1000 / entries if entries else None, tree)
    if nodes["xid"].null_count() < nodes.height:
        yield _age(nodes, tree, layout.facts.stamp)


def _fill(nodes: pl.DataFrame, tree: str) -> Metric:
    used, room = pl.col("used_bytes").sum(), (pl.col("used_bytes").cast(pl.Int64) + pl.col("free_bytes")).sum()
    by_level = nodes.drop_nulls("level").group_by("level").agg(fill=used / room).sort("level").drop_nans("fill")
    parts = tuple((f"level {level}", float(fill)) for level, fill in by_level.iter_rows())
    return Metric(FILL, dict(parts).get("level 0"), tree, parts)


def _age(nodes: pl.DataFrame, tree: str, stamp: int) -> Metric:
    age = np.maximum(stamp - nodes["xid"].drop_nulls().to_numpy().astype(np.int64), 0)
    return Metric(AGE, float(np.median(age)), tree, percentiles(age))
