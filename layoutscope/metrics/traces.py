"""What a walk makes the arm do: layout score, seek distances, head travel.

Input: an access trace and, for metrics of nodes, the layout that it walks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.metrics.definition import Definition, Metric, median_and_percentiles
from layoutscope.metrics.files import power_of_two_histogram
from layoutscope.metrics.space import edge_distance, live_nodes, node_edges
from layoutscope.structs.arrays import first_places, order_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import VolumeLayout

ENUMERATION_SCORE = Definition(
    "enumeration-layout-score",
    "Enumeration layout score",
    unit="share",
    denominator="nodes that the walk touches for the first time, but the first",
    text="Share of first-touched nodes that start where the last one ended: 1 is one sweep, 0 none does.",
    citation="after the dynamic layout score of Conway et al., FAST 2017: of metadata nodes, not blocks",
    needs="trace",
)
REQUEST_SCORE = Definition(
    "request-layout-score",
    "Requests in sequence",
    unit="share",
    denominator="reads of the walk but the first",
    text="Share of reads that start where the last one ended: a property of the system too, which may split nodes.",
    citation="after the dynamic layout score of Conway et al., FAST 2017: of requests, not blocks",
    needs="trace",
)
SEEK_END = Definition(
    "seek-distance-end",
    "Seek from the end",
    unit="bytes",
    denominator="reads but the first, median",
    text="Distance from the end of the last read to the start of this one, forward or backward.",
    citation="btt(1), seek distances with --seek-absolute",
    needs="trace",
)
SEEK_EDGE = Definition(
    "seek-distance-edge",
    "Seek from the nearest edge",
    unit="bytes",
    denominator="reads but the first, median",
    text="Distance from the nearest edge of the last read; 0 where the two touch or overlap.",
    citation="btt(1), seek distances by closeness",
    needs="trace",
)
TRAVEL = Definition(
    "head-travel",
    "Head travel",
    unit="bytes",
    denominator="the whole walk",
    text="Sum of the distances from the end of each read to the start of the next.",
    citation="this project",
    needs="trace",
)
STROKES = Definition(
    "head-travel-strokes",
    "Head travel in volume widths",
    unit="widths",
    denominator="bytes of the volume",
    text="Head travel in widths of the volume.",
    citation="this project",
    needs="trace",
)


def trace_metrics(trace: AccessTrace, layout: VolumeLayout) -> Iterator[Metric]:
    """Measure a walk over a layout."""
    yield Metric(ENUMERATION_SCORE, enumeration_layout_score(trace, layout), "walk")
    start, stop = trace.image_offset, trace.image_offset + trace.length_bytes
    yield Metric(REQUEST_SCORE, sequential_share(start, stop), "walk")
    from_end = np.abs(start[1:] - stop[:-1])
    yield _distances(SEEK_END, from_end)
    yield _distances(SEEK_EDGE, seek_from_edge(start, stop))
    travel = float(from_end.sum())
    yield Metric(TRAVEL, travel, "walk")
    # Volumes that share the space of a container have its size: any of them may reach over all of it.
    size = layout.facts.size_bytes
    yield Metric(STROKES, travel / size if size > 0 else None, "walk")


def _distances(definition: Definition, distance: NDArray[np.int64]) -> Metric:
    if not len(distance):
        return Metric(definition, None, "walk")
    bins = tuple((f"from {label}", count) for label, count in power_of_two_histogram(distance))
    middle, parts = median_and_percentiles(distance)
    return Metric(definition, middle, "walk", parts + bins)


def sequential_share(start: NDArray[np.int64], stop: NDArray[np.int64]) -> float | None:
    """Share of runs, but the first, that start where the last one stopped; None for fewer than two."""
    return float((start[1:] == stop[:-1]).mean()) if len(start) > 1 else None


def seek_from_edge(
    start: NDArray[np.int64],  # start, stop: reads in order, in bytes
    stop: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Distance of each read but the first from the nearest edge of the read before."""
    return edge_distance(start[:-1], stop[:-1], start[1:], stop[1:])


def enumeration_layout_score(trace: AccessTrace, layout: VolumeLayout) -> float | None:
    """Share of first-touched nodes that start where the last one ended; None for fewer than two nodes."""
    nodes = live_nodes(layout)
    nodes = nodes.take(order_of(nodes["image_offset"].data))
    start, stop = node_edges(layout, nodes)
    touched = first_touches(trace.image_offset, start, start + nodes["size_bytes"].data)
    return sequential_share(start[touched], stop[touched])


def first_touches(
    read_offset: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Nodes in the order in which reads touch them first."""
    if not len(start):
        return np.empty(0, np.int64)
    # A driver that reads blocks smaller than a node touches it with the first of them. What lies in no node is bitmaps,
    # superblocks and the data of files.
    node = np.searchsorted(start, read_offset, side="right") - 1
    inside = (node >= 0) & (read_offset < stop[np.maximum(node, 0)])
    visited = node[inside]
    return visited[first_places(visited, len(start))]
