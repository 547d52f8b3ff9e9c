"""Trees: how full, high and old they are, and metadata by tree: nodes by level, bytes, pieces, what lies together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Displayed
from layoutscope.frozen import frozen
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.pieces import clump_bytes, main_tree, merged_pieces, node_pieces, own_nodes
from layoutscope.metrics.ranks import median_and_percentiles
from layoutscope.tables.schema import LIVE_STATES
from layoutscope.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.tables import Table, VolumeLayout

CLUMP_GAP_BYTES: Final = MIB
"""Gap inside the clumps of a tree's summary."""


@frozen
class TreeSummary(Displayed):
    """One tree of a volume."""

    tree: str  # its name
    nodes_by_level: tuple[int, ...]  # nodes at level 0 (leaves), 1, and so on
    other_nodes: int  # header and map nodes
    free_nodes: int  # nodes that the tree holds without using them
    snapshot_nodes: int  # those of the nodes in use that snapshots alone hold; metrics of the tree leave them out
    size_bytes: int  # bytes of the nodes in use
    pieces: int  # contiguous runs that these form on disk
    clumped_share: float  # share of them in the largest clump with gaps of at most 1 MiB
    records: int  # records in the leaves


def tree_summaries(layout: VolumeLayout) -> tuple[TreeSummary, ...]:
    """Summarise every tree of a layout, in the order in which the tables name them."""
    nodes = layout.columns("nodes")
    live = nodes.take(~nodes["state"].equals("stale"))
    return tuple(_summary(layout, name, live) for name in live["tree"].numbered()[1])


def _summary(layout: VolumeLayout, tree: str, live: Table) -> TreeSummary:
    nodes = live.take(live["tree"].equals(tree))
    held = node_pieces(layout, tree)
    clumps = clump_bytes(held, CLUMP_GAP_BYTES)
    by_level = np.bincount(nodes["level"].present()).tolist()
    free = int(nodes["kind"].equals("free").sum())
    leaves = nodes.take(nodes["kind"].equals("leaf"))
    return TreeSummary(
        tree=tree,
        nodes_by_level=tuple(by_level),
        other_nodes=len(nodes) - free - sum(by_level),
        free_nodes=free,
        snapshot_nodes=len(nodes) - int(nodes["state"].is_in(LIVE_STATES).sum()),
        size_bytes=int(held.length.sum()),
        pieces=len(merged_pieces(held, 0).start),
        clumped_share=float(clumps.max() / clumps.sum()) if len(clumps) else 0.0,
        records=int(leaves["num_records"].present().sum()),
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
    nodes = own_nodes(layout, tree)
    yield _fill(nodes, tree)
    levels = nodes["level"].present()
    yield Metric(HEIGHT, float(int(levels.max()) + 1) if len(levels) else None, tree)
    if tree == main_tree(layout):
        entries = len(layout.columns("entries"))
        yield Metric(DENSITY, len(nodes) * 1000 / entries if entries else None, tree)
    if nodes["xid"].is_known.any():
        yield _age(nodes, tree, layout.facts.stamp)


def _fill(nodes: Table, tree: str) -> Metric:
    nodes = nodes.take(nodes["level"].is_known)
    level, used = nodes["level"].data, nodes["used_bytes"].filled(0).astype(np.int64)
    known = nodes["used_bytes"].is_known & nodes["free_bytes"].is_known
    room = np.where(known, used + nodes["free_bytes"].data, 0)
    # Sums of whole bytes: doubles hold them exactly.
    sums = zip(np.bincount(level, used).tolist(), np.bincount(level, room).tolist(), strict=True)
    parts = tuple((f"level {number}", held / bytes_of) for number, (held, bytes_of) in enumerate(sums) if bytes_of)
    return Metric(FILL, dict(parts).get("level 0"), tree, parts)


def _age(nodes: Table, tree: str, stamp: int) -> Metric:
    # Transactions are the container's: what other volumes write ages the nodes of this one, too.
    # Damage makes numbers of 64 bits of them, which signed ones do not hold.
    now = np.uint64(stamp)
    age = now - np.minimum(nodes["xid"].present().astype(np.uint64), now)
    middle, parts = median_and_percentiles(age)
    return Metric(AGE, middle, tree, parts)
