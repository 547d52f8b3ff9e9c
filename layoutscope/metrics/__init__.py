"""Fragmentation, locality, distance and free space: named numbers with their definition, unit and source.

Input: a :class:`~layoutscope.tables.VolumeLayout` and, for some metrics, an access trace. Nothing here reads an image.
This module determines the metrics of a layout and their order in reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import DEFINITIONS, Definition, Metric
from layoutscope.metrics.files import (
    TreeSummary,
    file_metrics,
    free_metrics,
    health_metrics,
    order_metrics,
    trace_metrics,
    tree_summaries,
)
from layoutscope.metrics.history import creation_metrics, writing_metrics
from layoutscope.metrics.scatter import (
    NEAREST,
    clump_metrics,
    distance_metrics,
    locate_pieces,
    main_tree,
    metadata_pieces,
    nearest_neighbour_ratio,
    select_own_nodes,
    span_metrics,
    zone_metric,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import VolumeLayout

__all__ = [
    "DEFINITIONS",
    "Definition",
    "Metric",
    "TreeSummary",
    "measure",
    "measure_trace",
    "tree_summaries",
]


def measure(layout: VolumeLayout) -> tuple[Metric, ...]:
    """Compute all metrics that need only the tables."""
    return tuple(_metrics(layout))


def measure_trace(trace: AccessTrace, layout: VolumeLayout) -> tuple[Metric, ...]:
    """Compute all metrics of a walk."""
    return tuple(trace_metrics(trace, layout))


def _metrics(layout: VolumeLayout) -> Iterator[Metric]:
    yield from _locality(layout)
    for tree in _list_measured_trees(layout):
        yield from order_metrics(layout, tree)
        yield from health_metrics(layout, tree)
    yield from writing_metrics(layout)
    yield from distance_metrics(layout)
    yield from file_metrics(layout)
    yield from creation_metrics(layout)
    yield from free_metrics(layout)


def _locality(layout: VolumeLayout) -> Iterator[Metric]:
    pieces, volume_bytes, main = metadata_pieces(layout), layout.facts.size_bytes, main_tree(layout)
    yield from clump_metrics(pieces, "metadata")
    yield from span_metrics(pieces, volume_bytes, "metadata")
    own = locate_pieces(layout, select_own_nodes(layout, main))
    yield Metric(NEAREST, nearest_neighbour_ratio(own, volume_bytes), main)
    if filesystem_of(layout).traits.has_metadata_zone:
        yield zone_metric(layout)


def _list_measured_trees(layout: VolumeLayout) -> list[str]:
    """List the trees with at least two nodes at level 0, the enumerated one first."""
    nodes, main = select_own_nodes(layout), main_tree(layout)
    tree = nodes.take(nodes["level"].filled(1) == 0)["tree"]
    shared = [each.name for each in filesystem_of(layout).traits.trees if each.holds_several]
    counts = {name: int(tree.equals(name).sum()) for name in tree.numbered()[1] if name not in shared}
    names = [name for name, count in counts.items() if count > 1]
    return sorted(names, key=lambda name: (name != main, -counts[name]))
