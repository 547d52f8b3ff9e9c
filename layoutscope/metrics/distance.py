"""How far is it: from metadata to data, from parent to child, from an object map's leaf to what it maps.

Input: nodes, extents and entries. Distances are between nearest edges, in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from layoutscope.arrays.lookup import dense_codes, first_places
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.pieces import live_nodes, main_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout

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
    if is_mapped and layout.nodes["locator_row"].null_count() < layout.nodes.height:
        yield _metric(OMAP_TO_TARGET, tree, _between(layout, tree, "locator_row"))
    yield _metric(TO_DATA, "files", _to_data(layout))


def _metric(definition: Definition, subject: str, distance: NDArray[np.int64]) -> Metric:
    if not len(distance):
        return Metric(definition, None, subject)
    return Metric(definition, float(np.median(distance)), subject, percentiles(distance))


def percentiles(values: NDArray[np.int64]) -> tuple[tuple[str, float], ...]:
    """Percentiles with their labels; nothing for no values."""
    if not len(values):
        return ()
    found = np.percentile(values, PERCENTILES).tolist()
    return tuple((f"p{p}", float(value)) for p, value in zip(PERCENTILES, found, strict=True))


def _edges(layout: VolumeLayout, prefix: str) -> pl.DataFrame:
    start = pl.col("image_offset")
    return layout.nodes.select(
        "row", (start).alias(f"{prefix}_start"), (start + pl.col("size_bytes")).alias(f"{prefix}_stop")
    )


def _between(layout: VolumeLayout, tree: str, reference: str) -> NDArray[np.int64]:
    """Distance from each node of a tree to the node that a column refers to."""
    nodes = live_nodes(layout, tree).select(
        reference, start="image_offset", stop=pl.col("image_offset") + pl.col("size_bytes")
    )
    return _distances(nodes.join(_edges(layout, "other"), left_on=reference, right_on="row"))


def _to_data(layout: VolumeLayout) -> NDArray[np.int64]:
    """Distance from the inode's leaf to the first extent of each file; hard links count once."""
    found = layout.extents.filter(
        (pl.col("fork") == "data") & (pl.col("logical_offset") == 0) & pl.col("image_offset").is_not_null()
    ).select("file_id", "image_offset", "length_bytes")
    files = layout.entries.filter((pl.col("kind") == "file") & pl.col("inode_node_row").is_not_null())
    (of_extent, of_file), bound = dense_codes(found["file_id"].to_numpy(), files["file_id"].to_numpy())
    leaf = np.full(bound, -1, np.int64)
    leaf[of_file] = files["inode_node_row"].to_numpy()
    first = first_places(of_extent, bound)
    chosen = first[leaf[of_extent[first]] >= 0]
    start, length = (found[name].to_numpy()[chosen] for name in ("image_offset", "length_bytes"))
    place = _node_places(layout)[leaf[of_extent[chosen]]]
    node_start, node_size = (layout.nodes[name].to_numpy()[place] for name in ("image_offset", "size_bytes"))
    return edge_distance(start, start + length, node_start, node_start + node_size)


def _node_places(layout: VolumeLayout) -> NDArray[np.int64]:
    """Place of each row of the table of nodes, by its key."""
    rows = layout.nodes["row"].to_numpy()
    place = np.zeros(int(rows.max(initial=0)) + 1, np.int64)
    place[rows] = np.arange(len(rows))
    return place


def _distances(frame: pl.DataFrame) -> NDArray[np.int64]:
    columns = ("start", "stop", "other_start", "other_stop")
    known = frame.select(columns).drop_nulls()
    return edge_distance(*(known[name].to_numpy() for name in columns))
