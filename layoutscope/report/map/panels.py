"""What the panels beside the address map show.

As counts on grids of fixed size: distances between what belongs together (along the walk, along the keys, and from
metadata to data), and when nodes were written, for file systems that number their transactions. Of a walk where the
head is over time, and what it costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.analysis.story import drive_words
from layoutscope.arrays.lookup import dense_codes, find, first_places
from layoutscope.report.map import encode
from layoutscope.units import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.report.map.model import MapDisk, MapWalk
    from layoutscope.tables import VolumeLayout
    from layoutscope.tables.table import Table

COLUMNS: Final = 240

ROWS: Final = 120

TREES: Final = 3
"""So many trees are drawn in key order."""

POINTS: Final = 40_000
"""Reads that are drawn one by one; of a longer walk every n-th."""

BINS: Final = 300


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


def distances(item: MapDisk, nodes: Table) -> dict[str, Any]:
    """Return the histograms and the key-order picture of one disk, whose nodes are those of all its layouts."""
    return {
        "seek": _seeks(item),
        "key_order": _key_order(item, nodes),
        "to_data": _histogram(_to_data(item)),
    }


def _seeks(item: MapDisk) -> dict[str, Any] | None:
    """Distances from the end of one read to the start of the next, of the first walk."""
    if not item.walks:
        return None
    trace = item.walks[0].trace
    trace = trace[trace.device == item.device] if trace.device.any() else trace
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


def _key_order(item: MapDisk, nodes: Table) -> list[dict[str, Any]]:
    """Place on disk of each leaf over its place in key order, by tree, the largest trees first."""
    is_leaf = nodes["kind"].equals("leaf") & nodes["key_rank"].is_known & nodes["image_offset"].is_known
    leaves = nodes.take(is_leaf)
    tree, names = leaves["tree"].numbered()
    sizes = dict(zip(names, np.bincount(tree, minlength=len(names)).tolist(), strict=True))
    chosen = sorted((name for name in names if sizes[name] > 1), key=lambda name: (-sizes[name], name))[:TREES]
    return [_tree_order(name, leaves.take(tree == names.index(name)), item) for name in chosen]


def _tree_order(tree: str, leaves: Table, item: MapDisk) -> dict[str, Any]:
    place = (leaves["image_offset"].data - item.image_offset) / MIB
    return {"tree": tree, "total": len(leaves), "picture": density(leaves["key_rank"].data, place)}


def _to_data(item: MapDisk) -> NDArray[np.int64]:
    """Distance from the leaf with a file's inode to its first extent, in bytes."""
    return np.concatenate([np.empty(0, np.int64), *map(_to_first_extents, item.layouts)])


def _to_first_extents(layout: VolumeLayout) -> NDArray[np.int64]:
    """Of a volume; a file is where its first entry says that its inode is."""
    extents, entries, nodes = (layout.columns(name) for name in ("extents", "entries", "nodes"))
    starts = extents.take(extents["image_offset"].is_known & (extents["logical_offset"].data == 0))
    (of_extent, of_entry), bound = dense_codes(starts["file_id"].data, entries["file_id"].data)
    first, entry = first_places(of_extent, bound), first_places(of_entry, bound)
    start = np.full(bound, -1, np.int64)
    start[of_extent[first]] = starts["image_offset"].data[first]
    data = start[of_entry[entry]]
    node = find(nodes["row"].data.astype(np.int64), entries["inode_node_row"].take(entry).signed())
    place = np.append(nodes["image_offset"].signed(), -1)[node]
    chosen = (data >= 0) & (place >= 0)
    found: NDArray[np.int64] = np.abs(data[chosen] - place[chosen])
    return found


def written_when(item: MapDisk, nodes: Table) -> dict[str, Any] | None:
    """Return the transactions of all nodes as a picture, and the states that can be read; None without transactions."""
    dated = nodes.take((nodes["xid"].filled(0) > 0) & nodes["image_offset"].is_known)
    xid = dated["xid"].data
    if not len(xid) or xid.min() == xid.max():
        return None
    place = (dated["image_offset"].data - item.image_offset) / MIB
    return {
        "low": int(xid.min()),
        "high": int(xid.max()),
        "picture": density(place, xid.astype(float)),
        "states": [{"label": label, "xid": xid} for label, xid in item.states],
    }


TICKS_PER_SECOND: Final = 100_000
"""Of the times of reads: what is drawn is coarser by far."""


def first_of(trace: AccessTrace, walks: Sequence[MapWalk]) -> int:
    """Return which walk is the first that makes these very reads; others do so on other drives."""
    return next(place for place, walk in enumerate(walks) if walk.trace is trace)


def walk_panel(item: MapWalk, disk: MapDisk, first: int) -> dict[str, Any]:
    """Return where the head of one disk is over time, and its rates.

    Parameters
    ----------
    item : MapWalk
        The walk.
    disk : MapDisk
        The disk, of those of a set.
    first : int
        Place of the walk whose reads these are; they stand there once.
    """
    trace = item.trace
    end = np.cumsum(item.service_s + trace.think_us * 1e-6)
    begin = end - item.service_s
    if trace.device.any():
        own = trace.device == disk.device
        trace, begin = trace[own], begin[own]
    step = max(1, -(-len(trace) // POINTS))
    shown = slice(None, None, step)
    low = int(trace.image_offset.min(initial=disk.image_offset + disk.size_bytes))
    reads = {
        "offset": encode.array(trace.image_offset[shown], delta=True),
        "length": encode.array(trace.length_bytes[shown]),
        "tree": encode.array(trace.tree[shown]),
    }
    return {
        "label": drive_words(item.drive),
        "order": item.order,
        "reach": [low, max(low, int((trace.image_offset + trace.length_bytes).max(initial=0)))],
        "total_s": item.seconds,  # with what the host does behind the last read
        "reads": len(trace),
        "step": step,
        "trees": list(trace.trees),
        "ticks": TICKS_PER_SECOND,
        "time": encode.array(np.floor(begin[shown] * TICKS_PER_SECOND).astype(np.int64), delta=True),
        "reads_of": first,
        **(reads if disk.walks[first] is item else {}),
        "rates": _rates(begin, trace.image_offset, trace.length_bytes),
    }


def _rates(begin: NDArray[np.float64], offset: NDArray[np.int64], length: NDArray[np.int64]) -> dict[str, Any]:
    """Seeks and bytes per second in equal spans of time."""
    if not len(begin):
        return {"width": 0.0, "seeks": [], "bytes": []}
    edges = np.linspace(0.0, float(begin[-1]) or 1.0, BINS + 1)
    width = edges[1] - edges[0]
    moved = np.concatenate([[True], offset[1:] != offset[:-1] + length[:-1]])
    seeks = np.histogram(begin, edges, weights=moved.astype(np.float64))[0] / width
    moved_bytes = np.histogram(begin, edges, weights=length.astype(np.float64))[0] / width
    return {"width": float(width), "seeks": rounded(seeks, 3), "bytes": rounded(moved_bytes, 3)}


def rounded(values: NDArray[np.float64], digits: int = 6) -> list[float]:
    """Return numbers with as many digits as a page shows."""
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def costs(item: MapWalk) -> dict[str, Any]:
    """Return the causes of one prediction, in seconds."""
    return {
        "drive": drive_words(item.drive),
        "order": item.order,
        "causes": {name: float(value) for name, value in item.causes_s.items()},
        "bound_s": item.bound_s,
        "interval_s": item.interval_s,
    }
