"""What the page tells of each node: its place, records, keys and age, how full it is, and what reading it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import owners, ranges
from layoutscope.report.map import encode
from layoutscope.report.map.segments import verified_xids
from layoutscope.tables.schema import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk, MapWalk
    from layoutscope.report.map.segments import Segments
    from layoutscope.tables.columns import Values
    from layoutscope.tables.table import Table

KINDS: Final = ("leaf", "index", "header", "map", "free", "locked", "unreadable")

NODE_BUDGET: Final = 250_000
"""Nodes whose records, keys and xid the page can tell."""

NOT_KNOWN: Final = 255
"""In place of a level, or of how full a node is in per cent."""

DIGITS: Final = 3
"""So many digits of a cost are kept: more are never told, and would not compress."""


def packed_nodes(nodes: Table, item: MapDisk, segments: Segments, classes: list[str]) -> dict[str, Any]:
    """Pack the nodes of all layouts, in the order in which the segments number them."""
    kept = nodes.take(slice(None, NODE_BUDGET))
    codes, trees = kept["tree"].numbered()
    # What has no place on this disk ends before it begins.
    is_here = nodes["device"].data == item.device
    place = np.where(is_here, nodes["image_offset"].signed(), -1)
    seconds = node_seconds(place, segments, item.walks, item.device)[: len(kept)]
    size, offset = kept["size_bytes"].data, place[: len(kept)]
    return {
        "trees": list(trees),
        "classes": [classes.index(tree) if tree in classes else -1 for tree in trees],
        "kinds": list(KINDS),
        "conditions": list(CONDITIONS),
        "tree": encode.array(codes),
        "kind": encode.array(_codes(kept["kind"], KINDS)),
        "condition": encode.array(_codes(kept["condition"], CONDITIONS)),
        "level": encode.array(kept["level"].filled(NOT_KNOWN)),
        "offset": encode.array(np.where(offset < 0, -1 - size, offset), delta=True),
        "size": encode.array(size),
        "records": encode.array(kept["num_records"].filled(0)),
        "xid": encode.array(verified_xids(kept)),
        "rank": encode.array(kept["key_rank"].signed()),
        "fill": encode.array(_fill(kept)),
        "cost": encode.array(_microseconds(seconds)),
        "id": identifiers(ids_of(kept["node_id"])),
        "first": identifiers(ids_of(kept["first_key_id"])),
        "last": identifiers(ids_of(kept["last_key_id"])),
        "total": len(nodes),
        **({name: encode.array(of[: len(kept)]) for name, of in _changes(item).items()} if item.num_earlier else {}),
    }


def _changes(item: MapDisk) -> dict[str, NDArray[Any]]:
    """Return what happened to each node between two states."""
    from layoutscope.report.map.difference import disk_changes

    return disk_changes(item)


def _codes(column: Values, known: Sequence[str]) -> NDArray[np.uint8]:
    """Return the place of each row's word among those that the page knows."""
    number, words = column.numbered()
    return np.array([known.index(word) for word in words], np.uint8)[number]


def _fill(nodes: Table) -> NDArray[np.uint8]:
    """Return how full nodes are, in per cent of what their records could take."""
    used, room = (nodes[name].filled(0).astype(np.float64) for name in ("used_bytes", "free_bytes"))
    known = nodes["used_bytes"].is_known & nodes["free_bytes"].is_known & (used + room > 0)
    return np.where(known, np.round(100 * used / np.maximum(used + room, 1)), NOT_KNOWN).astype(np.uint8)


def node_seconds(
    place: NDArray[np.int64],  # where each node begins, -1 where that is not known
    segments: Segments,
    walks: Sequence[MapWalk],
    device: int = 0,
) -> NDArray[np.float64]:
    """Charge each node with the service time of the reads that bring it in.

    Seconds; 0 of nodes that no read touches. A read of several nodes is charged to each by its bytes in the read.
    """
    seconds = np.zeros(len(place))
    if not walks:
        return seconds
    nodes = segments.take(np.flatnonzero(segments.owner > 0))
    for walk in walks:
        if (walk.order, walk.drive) == (walks[0].order, walks[0].drive):
            seconds += _charged(nodes, walk, device, len(place))
    # The tables of several volumes, or states, have the same node in a row each; the map has it once.
    first, same = np.unique(place, return_inverse=True)
    shared = np.zeros(len(first))
    np.maximum.at(shared, same, seconds)
    return np.where(place >= 0, shared[same], 0.0)


def _charged(nodes: Segments, walk: MapWalk, device: int, num_nodes: int) -> NDArray[np.float64]:
    begin, end = nodes.start, np.maximum.accumulate(nodes.start + nodes.length)
    on_this = walk.trace.device == device
    start = walk.trace.image_offset[on_this]
    stop = start + walk.trace.length_bytes[on_this]
    low = np.searchsorted(end, start, side="right")
    many = np.maximum(np.searchsorted(begin, stop, side="left") - low, 0)
    piece, read = ranges(low, many), owners(many)
    held = np.minimum(end[piece], stop[read]) - np.maximum(begin[piece], start[read])
    whole = np.bincount(read, held, minlength=len(start))
    share = walk.service_s[on_this][read] * held / whole[read]
    return np.bincount(nodes.owner[piece] - 1, share, minlength=num_nodes).astype(np.float64)


def _microseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to whole microseconds, of few digits; what costs anything is never 0."""
    micro = np.maximum(seconds * 1e6, (seconds > 0).astype(float))
    unit = 10.0 ** np.maximum(0, np.floor(np.log10(np.maximum(micro, 1))) - DIGITS + 1)
    rounded: NDArray[np.int64] = (np.round(micro / unit) * unit).astype(np.int64)
    return rounded


def identifiers(ids: NDArray[np.uint64]) -> dict[str, Any]:
    """Pack identifiers of 64 bits in two halves, which doubles cannot hold whole."""
    return {
        "low": encode.array(ids & np.uint64(0xFFFFFFFF), delta=True),
        "high": encode.array(ids >> np.uint64(32), delta=True),
    }


def ids_of(column: Values) -> NDArray[np.uint64]:
    """Return a column of identifiers as whole numbers, 0 where there is none."""
    return column.filled(0).astype(np.uint64)
