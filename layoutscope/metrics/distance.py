"""How far is it: from metadata to data, from parent to child, from an object map's leaf to what it maps.

Input: nodes, extents and entries. Distances are between nearest edges, in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import dense_codes, distinct, find, first_places
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.pieces import live_nodes, main_tree
from layoutscope.tables import NULL_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout

PERCENTILES: Final = (10, 50, 90, 99)
"""Percentiles that distances are reported with."""

TO_DATA = Definition(
    "metadata-to-data",
    "Inode to data",
    unit="bytes",
    denominator="files with data, median",
    text="Distance from the leaf with a file's inode to its first extent.",
    citation="after McKusick et al., ACM TOCS 2(3), 1984: inodes near their data",
)
TO_CHILD = Definition(
    "parent-to-child",
    "Parent to child",
    unit="bytes",
    denominator="nodes with a parent, median",
    text="Distance from an index node to the node below it: the seek of each step of a cold search.",
    citation="this project",
)
OMAP_TO_TARGET = Definition(
    "omap-to-target",
    "Object map to target",
    unit="bytes",
    denominator="virtual nodes, median",
    text="Distance from the object-map leaf that gives a node's address to that node.",
    citation="this project",
)


def edge_distance(
    start: NDArray[np.int64], stop: NDArray[np.int64], other_start: NDArray[np.int64], other_stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Bytes between the nearest edges of two runs each; 0 where they touch or overlap.

    Parameters
    ----------
    start, stop, other_start, other_stop : (n,) int64 arrays
        In bytes from the start of the image.
    """
    apart: NDArray[np.int64] = np.maximum(np.maximum(other_start - stop, start - other_stop), 0)
    return apart


def distance_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Measure the three distances; the object map's only where there is one."""
    tree = main_tree(layout)
    yield _metric(TO_CHILD, tree, _between(layout, tree, "parent_row"))
    is_mapped = filesystem_of(layout).traits.maps_every_node
    if is_mapped and layout.columns("nodes")["locator_row"].is_known.any():
        yield _metric(OMAP_TO_TARGET, tree, _between(layout, tree, "locator_row"))
    yield _metric(TO_DATA, "files", _to_data(layout))


def _metric(definition: Definition, subject: str, distance: NDArray[np.int64]) -> Metric:
    if not len(distance):
        return Metric(definition, None, subject)
    ordered = _partly_sorted(distance)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return Metric(definition, float(middle.mean()), subject, _percentiles(ordered))


def percentiles(values: NDArray[np.integer[Any]]) -> tuple[tuple[str, float], ...]:
    """Percentiles with their labels; nothing for no values."""
    return _percentiles(_partly_sorted(values)) if len(values) else ()


def _ranks(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Ranks of the percentiles among so many values, and the places on which their values depend, with the median's."""
    rank = (count - 1) * (np.array(PERCENTILES) / 100)
    below = np.floor(rank).astype(np.int64)
    return rank, np.concatenate([below, np.minimum(below + 1, count - 1), [(count - 1) // 2, count // 2]])


def _partly_sorted(values: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return the values, of which those that percentiles and the median need stand where sorting would bring them."""
    return np.partition(values, distinct(_ranks(len(values))[1]))


def _percentiles(ordered: NDArray[np.integer[Any]]) -> tuple[tuple[str, float], ...]:
    # As ``np.percentile``, whose import of masked arrays would cost more than its work.
    rank, places = _ranks(len(ordered))
    below = places[: len(rank)]
    low, high, share = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)], rank - below
    found = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return tuple((f"p{p}", float(value)) for p, value in zip(PERCENTILES, found, strict=True))


def _between(layout: VolumeLayout, tree: str, reference: str) -> NDArray[np.int64]:
    """Distance from each node of a tree to the node that a column refers to."""
    nodes, others = live_nodes(layout, tree), layout.columns("nodes")
    nodes = nodes.take(nodes[reference].is_known)
    place = find(others["row"].data.astype(np.int64), nodes[reference].data.astype(np.int64))
    # A node that lies nowhere is at no distance.
    chosen = (place >= 0) & others["image_offset"].is_known[place]
    return edge_distance(*_edges(nodes.take(chosen)), *_edges(others.take(place[chosen])))


def _edges(nodes: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = nodes["image_offset"].data
    return start, start + nodes["size_bytes"].data


def _to_data(layout: VolumeLayout) -> NDArray[np.int64]:
    """Distance from the inode's leaf to the first extent of each file; hard links count once."""
    extents, entries, nodes = (layout.columns(name) for name in ("extents", "entries", "nodes"))
    is_first = extents["fork"].equals("data") & (extents["logical_offset"].data == 0) & extents["image_offset"].is_known
    rows, is_file = np.flatnonzero(is_first), entries["kind"].equals("file") & entries["inode_node_row"].is_known
    (of_extent, of_file), bound = dense_codes(extents["file_id"].data[rows], entries["file_id"].data[is_file])
    leaf_of = np.full(bound, NULL_ROW)
    leaf_of[of_file] = entries["inode_node_row"].data[is_file]
    # Each column goes as the next one is made of it: there are as many rows as files.
    del of_file, is_file, is_first
    first = first_places(of_extent, bound)
    rows, leaf = rows[first], leaf_of[of_extent[first]]
    del first, of_extent, leaf_of
    rows, leaf = rows[leaf != NULL_ROW], leaf[leaf != NULL_ROW]
    place = _node_places(nodes)[leaf]
    start, (node_start, node_stop) = extents["image_offset"].data[rows], _edges(nodes)
    apart: NDArray[np.int64] = start - node_stop[place]
    start += extents["length_bytes"].data[rows]
    np.maximum(apart, np.subtract(node_start[place], start, out=start), out=apart)
    np.maximum(apart, 0, out=apart)
    return apart


def _node_places(nodes: Table) -> NDArray[np.int64]:
    """Place of each row of the table of nodes, by its key."""
    rows = nodes["row"].data
    place = np.zeros(int(rows.max(initial=0)) + 1, np.int64)
    place[rows] = np.arange(len(rows))
    return place
