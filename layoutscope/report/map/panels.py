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
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.report.map import encode
from layoutscope.report.map.nodes import NODE_BUDGET
from layoutscope.report.map.segments import verified_xids
from layoutscope.tables.schema import LIVE_STATES
from layoutscope.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
READS_A_BIN: Final = 10
"""Spans of time that rates are told of: so many at most, with so many reads each on average."""


def density(x: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    """Count points on a grid."""
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


TOUCHING: Final = 0
"""The bin of what touches; the one of the first power of two is the next."""

NO_BIN: Final = 255


def distances(item: MapDisk) -> dict[str, Any]:
    """Return the histograms and the key-order pictures of one disk.

    Each histogram says of what it counts in which bin it is: of the reads that the page draws, and of files, with the
    page's node that holds each one's inode.
    """
    return {
        "seek": _seeks(item),
        "key_order": _key_orders(item),
        "to_data": _to_data(item),
    }


def _seeks(item: MapDisk) -> dict[str, Any] | None:
    """Distances from the end of one read to the start of the next, of the first walk."""
    if not item.walks:
        return None
    trace = own_reads(item.walks[0].trace, item.device)
    jump = np.abs(trace.image_offset[1:] - (trace.image_offset[:-1] + trace.length_bytes[:-1]))
    found, bins = _histogram(jump)
    drawn = np.concatenate([[NO_BIN], bins])[: len(trace)][:: drawn_step(len(trace))]
    return {**found, "reads": encode.array(drawn.astype(np.uint8))}


def own_reads(trace: AccessTrace, device: int) -> AccessTrace:
    """Return the reads of one device of a set; all where there is one."""
    return trace[trace.device == device] if trace.device.any() or device else trace


def drawn_step(reads: int) -> int:
    """Every how many of so many reads is drawn."""
    return max(1, -(-reads // POINTS))


def _histogram(values: NDArray[np.int64]) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Return counts by powers of two, where what touches counts apart, and the bin of each value."""
    apart = values > 0
    power = np.zeros(len(values), np.int64)
    power[apart] = np.floor(np.log2(values[apart])).astype(np.int64)
    first = int(power[apart].min()) if apart.any() else 0
    bins = np.where(apart, power - first + 1, TOUCHING)
    counts = np.bincount(bins, minlength=1)
    told = {
        "touching": int(counts[TOUCHING]),
        "first_power": first,
        "counts": counts[TOUCHING + 1 :].tolist(),
        "total": len(values),
    }
    return told, bins


def _key_orders(item: MapDisk) -> list[dict[str, Any]]:
    """Place on disk of each leaf over its place in key order, by volume and tree, the largest first."""
    if item.num_earlier:  # orders of two states at once would say nothing
        return []
    layouts = enumerate(item.layouts)
    found = [[{"volume": place, **one} for one in _orders(layout, item)] for place, layout in layouts]
    return [one for own in sorted(found, key=lambda own: -sum(one["total"] for one in own)) for one in own]


def _orders(layout: VolumeLayout, item: MapDisk) -> Iterator[dict[str, Any]]:
    nodes, traits = layout.columns("nodes"), filesystem_of(layout).traits
    is_here = nodes["image_offset"].is_known & (nodes["device"].data == item.device)
    is_leaf = nodes["kind"].equals("leaf") & nodes["key_rank"].is_known & is_here
    # Ranks of what snapshots alone hold are of other trees.
    leaves = nodes.take(is_leaf & nodes["state"].is_in(LIVE_STATES))
    tree, names = leaves["tree"].numbered()
    sizes = np.bincount(tree, minlength=len(names)).tolist()
    ordered = [number for number, name in enumerate(names) if sizes[number] > 1 and not traits.tree(name).holds_several]
    for number in sorted(ordered, key=lambda number: (-sizes[number], names[number]))[:TREES]:
        own = leaves.take(tree == number)
        place = (own["image_offset"].data - item.image_offset) / MIB
        yield {"tree": names[number], "total": len(own), "picture": density(own["key_rank"].data, place)}


def _to_data(item: MapDisk) -> dict[str, Any]:
    """Distance from the leaf with a file's inode to its first extent, in bytes, by the place of the leaf."""
    base = np.cumsum([0, *(len(layout.columns("nodes")) for layout in item.layouts)])
    parts = [_to_first_extents(layout, item.device) for layout in item.layouts]
    found = np.concatenate([np.empty(0, np.int64), *(distance for distance, _ in parts)])
    node = np.concatenate(
        [np.empty(0, np.int64), *(first + place for first, (_, place) in zip(base, parts, strict=False))]
    )
    told, bins = _histogram(found)
    order = np.argsort(node, kind="stable")
    order = order[: np.searchsorted(node[order], NODE_BUDGET)]
    return {**told, "node": encode.array(node[order], delta=True), "bin": encode.array(bins[order].astype(np.uint8))}


def _to_first_extents(layout: VolumeLayout, device: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return distances within a volume, and the nodes they begin at; a file is where its first entry says.

    Of a set, an inode on one device and its data on another have no distance.
    """
    extents, entries, nodes = (layout.columns(name) for name in ("extents", "entries", "nodes"))
    is_here = extents["device"].data == device
    starts = extents.take(extents["image_offset"].is_known & (extents["logical_offset"].data == 0) & is_here)
    (of_extent, of_entry), bound = dense_codes(starts["file_id"].data, entries["file_id"].data)
    first, entry = first_places(of_extent, bound), first_places(of_entry, bound)
    start = np.full(bound, -1, np.int64)
    start[of_extent[first]] = starts["image_offset"].data[first]
    data = start[of_entry[entry]]
    node = find(nodes["row"].data.astype(np.int64), entries["inode_node_row"].take(entry).signed())
    places = np.where(nodes["device"].data == device, nodes["image_offset"].signed(), -1)
    place = np.append(places, -1)[node]
    chosen = (data >= 0) & (place >= 0)
    found: NDArray[np.int64] = np.abs(data[chosen] - place[chosen])
    return found, node[chosen].astype(np.int64)


def written_when(item: MapDisk, nodes: Table) -> dict[str, Any] | None:
    """Return the transactions of all nodes as a picture, and the states that can be read; None without transactions."""
    dated = nodes.take((verified_xids(nodes) > 0) & nodes["image_offset"].is_known)
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
    """Return where the head of one disk is over time, and its rates."""
    trace = item.trace
    end = np.cumsum(item.service_s + trace.think_us * 1e-6)
    begin = end - item.service_s
    if trace.device.any() or disk.device:
        begin = begin[trace.device == disk.device]
    trace = own_reads(trace, disk.device)
    step = drawn_step(len(trace))
    shown = slice(None, None, step)
    reads = {
        "offset": encode.array(trace.image_offset[shown], delta=True),
        "length": encode.array(trace.length_bytes[shown]),
        "tree": encode.array(trace.tree[shown]),
    }
    return {
        "label": walk_words(item),
        "name": item.name,
        "drive": drive_words(item.drive),
        "order": item.order,
        "reach": _reach(trace),
        "total_s": item.seconds,  # with what the host does behind the last read
        "reads": len(trace),
        "step": step,
        "trees": list(trace.trees),
        "ticks": TICKS_PER_SECOND,
        "time": encode.array(np.floor(begin[shown] * TICKS_PER_SECOND).astype(np.int64), delta=True),
        "reads_of": first,
        **(reads if disk.walks[first] is item else {}),
        "rates": _rates(item.seconds, begin, trace),
    }


def walk_words(item: MapWalk) -> str:
    """Name a walk by its drive, and by its volume where its disk has several."""
    return f"{item.name}, {drive_words(item.drive)}" if item.name else drive_words(item.drive)


def _reach(trace: AccessTrace) -> tuple[int, int] | None:
    """Return the first and the last byte that are read; None where nothing is."""
    if not len(trace):
        return None
    return int(trace.image_offset.min()), int((trace.image_offset + trace.length_bytes).max())


def _rates(seconds: float, begin: NDArray[np.float64], trace: AccessTrace) -> dict[str, Any]:
    """Seeks and bytes per second in equal spans of time."""
    if not len(begin):
        return {"width": 0.0, "seeks": [], "bytes": []}
    # A span of a read or two would tell of them as if thousands a second went on like that.
    spans = max(1, min(BINS, len(begin) // READS_A_BIN))
    edges = np.linspace(0.0, seconds or 1.0, spans + 1)
    width = edges[1] - edges[0]
    offset, length = trace.image_offset, trace.length_bytes
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
        "drive": walk_words(item),
        "order": item.order,
        "causes": {name: float(value) for name, value in item.causes_s.items()},
        "best_s": item.best_s,
        "best": item.best,
        "interval_s": item.interval_s,
    }
