"""What the panels beside the address map show, as counts on grids of fixed size.

Distances between what belongs together: along the walk, along the keys, and from metadata to data; and when nodes were
written, for file systems that number their transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from layoutscope.report.map import encode
from layoutscope.units import MIB

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk

COLUMNS: Final = 240
ROWS: Final = 120

TREES: Final = 3
"""So many trees are drawn in key order."""


def density(x: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    """Count points on a grid.

    Returns
    -------
    dict
        ``x`` and ``y`` (lowest and highest value), ``columns``, ``rows``, and ``counts`` row by row from the lowest y.
    """
    x_range, y_range = _range(x), _range(y)
    counts = np.histogram2d(y, x, bins=(ROWS, COLUMNS), range=(y_range, x_range))[0]
    return {
        "x": x_range,
        "y": y_range,
        "columns": COLUMNS,
        "rows": ROWS,
        "counts": encode.array(counts.ravel().astype(np.int64)),
    }


def _range(values: NDArray[Any]) -> tuple[float, float]:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return low, high if high > low else low + 1.0


def distances(item: MapDisk) -> dict[str, Any]:
    """Return the histograms and the key-order picture of one disk."""
    return {
        "seek": _seeks(item),
        "key_order": _key_order(item),
        "to_data": _histogram(_to_data(item)),
    }


def _seeks(item: MapDisk) -> dict[str, Any] | None:
    """Distances from the end of one read to the start of the next, of the first walk."""
    if not item.walks:
        return None
    trace = item.walks[0].trace
    jump = trace.image_offset[1:] - (trace.image_offset[:-1] + trace.length_bytes[:-1])
    return _histogram(np.abs(jump))


def _histogram(values: NDArray[np.int64]) -> dict[str, Any]:
    """Counts by powers of two; what touches counts apart."""
    touching = int((values == 0).sum())
    apart = values[values > 0]
    power = np.floor(np.log2(apart)).astype(np.int64) if len(apart) else np.empty(0, np.int64)
    counts = np.bincount(power) if len(power) else np.empty(0, np.int64)
    first = int(power.min()) if len(power) else 0
    return {"touching": touching, "first_power": first, "counts": counts[first:].tolist(), "total": len(values)}


def _key_order(item: MapDisk) -> list[dict[str, Any]]:
    """Place on disk of each leaf over its place in key order, by tree, the largest trees first."""
    nodes = pl.concat([layout.nodes for layout in item.layouts], how="vertical_relaxed")
    known = pl.col("key_rank").is_not_null() & pl.col("image_offset").is_not_null()
    leaves = nodes.filter((pl.col("kind").cast(pl.String) == "leaf") & known)
    sizes = leaves.group_by(tree=pl.col("tree").cast(pl.String)).len().filter(pl.col("len") > 1)
    trees = sizes.sort("len", "tree", descending=[True, False]).head(TREES)["tree"].to_list()
    return [_tree_order(tree, leaves.filter(pl.col("tree").cast(pl.String) == tree), item) for tree in trees]


def _tree_order(tree: str, leaves: pl.DataFrame, item: MapDisk) -> dict[str, Any]:
    place = (leaves["image_offset"].to_numpy() - item.image_offset) / MIB
    picture = density(leaves["key_rank"].to_numpy(), place)
    return {"tree": tree, "total": leaves.height, "picture": picture}


def _to_data(item: MapDisk) -> NDArray[np.int64]:
    """Distance from the leaf with a file's inode to its first extent, in bytes."""
    found = []
    for layout in item.layouts:
        first = layout.extents.filter(pl.col("image_offset").is_not_null() & (pl.col("logical_offset") == 0)).select(
            "file_id", data="image_offset"
        )
        node = layout.nodes.select(inode_node_row="row", node="image_offset")
        joined = (
            layout.entries.select("file_id", "inode_node_row")
            .unique("file_id", keep="first", maintain_order=True)
            .join(first.unique("file_id", keep="first", maintain_order=True), on="file_id")
            .join(node, on="inode_node_row")
        )
        found.append((joined["data"] - joined["node"]).abs().drop_nulls().to_numpy())
    return np.concatenate(found) if found else np.empty(0, np.int64)


def written_when(item: MapDisk) -> dict[str, Any] | None:
    """Return the transactions of all nodes as a picture, and the states that can be read; None without transactions."""
    nodes = pl.concat([layout.nodes for layout in item.layouts], how="vertical_relaxed")
    dated = nodes.filter(pl.col("xid").is_not_null() & (pl.col("xid") > 0) & pl.col("image_offset").is_not_null())
    if dated["xid"].n_unique() < 2:
        return None
    place = (dated["image_offset"].to_numpy() - item.image_offset) / MIB
    return {
        "low": int(dated["xid"].min()),  # type: ignore[arg-type]
        "high": int(dated["xid"].max()),  # type: ignore[arg-type]
        "picture": density(place, dated["xid"].to_numpy().astype(float)),
        "states": [{"label": label, "xid": xid} for label, xid in item.states],
    }
