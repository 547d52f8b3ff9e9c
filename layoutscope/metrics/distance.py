"""How far is it: from metadata to data, from parent to child, from an object map's leaf to what it maps.

Input: nodes, extents and entries. Distances are between nearest edges, in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.arrays.lookup import FEW_CODES, MAX_SPARSENESS, dense_codes, find, first_places
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.pieces import main_tree, own_nodes
from layoutscope.metrics.ranks import median_and_percentiles
from layoutscope.native import Kernel
from layoutscope.tables import NULL_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout

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
    start: NDArray[np.int64],  # start, stop, other_start, other_stop: in bytes from the start of the image
    stop: NDArray[np.int64],
    other_start: NDArray[np.int64],
    other_stop: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Bytes between the nearest edges of two runs each; 0 where they touch or overlap."""
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
    middle, parts = median_and_percentiles(distance)
    return Metric(definition, middle, subject, parts)


def _between(layout: VolumeLayout, tree: str, reference: str) -> NDArray[np.int64]:
    """Distance from each node of a tree to the node that a column refers to."""
    nodes, others = own_nodes(layout, tree), layout.columns("nodes")
    nodes = nodes.take(nodes[reference].is_known)
    place = find(others["row"].data.astype(np.int64), nodes[reference].data.astype(np.int64))
    # A node that lies nowhere is at no distance.
    chosen = (place >= 0) & others["image_offset"].is_known[place]
    return edge_distance(*_edges(nodes.take(chosen)), *_edges(others.take(place[chosen])))


def _edges(nodes: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = nodes["image_offset"].data
    return start, start + nodes["size_bytes"].data


APART_FROM_INODES: Final = Kernel("apart_from_inodes", "lblllbiIillL")


def _to_data(layout: VolumeLayout) -> NDArray[np.int64]:
    """Distance from the inode's leaf to the first extent of each file; hard links count once."""
    extents, entries, nodes = (layout.columns(name) for name in ("extents", "entries", "nodes"))
    is_first = extents["fork"].equals("data") & (extents["logical_offset"].data == 0) & extents["image_offset"].is_known
    firsts = Firsts(
        extents["file_id"].data, is_first, extents["image_offset"].data, extents["length_bytes"].data,
        entries["file_id"].data, entries["kind"].equals("file") & entries["inode_node_row"].is_known,
        entries["inode_node_row"].data,
    )  # fmt: skip
    return apart_from_inodes(firsts, _node_places(nodes), *_edges(nodes))


class Firsts(NamedTuple):
    """Extents, of which some are the first of a file, and entries, of which some are files with an inode."""

    file_id: NDArray[np.uint64]  # the file of each extent
    is_first: NDArray[np.bool_]  # whether the extent is the first of the file's data
    # start, length_bytes: where they lie
    start: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    entry_file_id: NDArray[np.uint64]  # the file of each entry
    is_file: NDArray[np.bool_]  # whether it is a file of which the leaf is known
    leaf: NDArray[np.uint32]  # row of that leaf


def apart_from_inodes(
    firsts: Firsts, place: NDArray[np.int32], node_start: NDArray[np.int64], node_stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find how far the first extent of each file is from the leaf with its inode, in the order of the extents."""
    last = max((int(one.max()) for one in (firsts.file_id, firsts.entry_file_id) if len(one)), default=0)
    rows = len(firsts.file_id) + len(firsts.entry_file_id)
    if last < MAX_SPARSENESS * rows + FEW_CODES:
        apart = np.empty(min(len(firsts.file_id), len(firsts.entry_file_id)), np.int64)
        count = APART_FROM_INODES(
            *(_flat(one) for one in firsts), np.full(last + 1, -1, np.int32), place, _flat(node_start),
            _flat(node_stop), apart,
        )  # fmt: skip
        if count is not None:
            return apart[:count]
    return plain_apart(firsts, place, node_start, node_stop)


def _flat(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column as the kernel takes it."""
    kind = np.dtype(np.uint8) if column.dtype == np.bool_ else np.dtype(f"i{column.itemsize}")
    return np.ascontiguousarray(column).view(kind)


def plain_apart(
    firsts: Firsts, place: NDArray[np.int32], node_start: NDArray[np.int64], node_stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find it column by column; the twin of the kernel."""
    rows, is_file = np.flatnonzero(firsts.is_first), firsts.is_file
    (of_extent, of_file), bound = dense_codes(firsts.file_id[rows], firsts.entry_file_id[is_file])
    leaf_of = np.full(bound, NULL_ROW)
    leaf_of[of_file] = firsts.leaf[is_file]
    first = first_places(of_extent, bound)
    rows, leaf = rows[first], leaf_of[of_extent[first]]
    rows, leaf = rows[leaf != NULL_ROW], leaf[leaf != NULL_ROW]
    start, node = firsts.start[rows], place[leaf]
    return edge_distance(start, start + firsts.length_bytes[rows], node_start[node], node_stop[node])


def _node_places(nodes: Table) -> NDArray[np.int32]:
    """Place of each row of the table of nodes, by its key."""
    rows = nodes["row"].data
    place = np.zeros(int(rows.max(initial=0)) + 1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    return place
