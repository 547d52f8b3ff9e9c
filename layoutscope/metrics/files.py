"""Metrics of files, free space, trees and walks: layout score, fragments, order, fill and seek distances.

Input: extents, free and nodes; for walks an access trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Displayed, Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import DEFINITIONS, Metric, median_and_percentiles
from layoutscope.metrics.scatter import (
    clump_bytes,
    edge_distance,
    live_nodes,
    main_tree,
    make_distance_metric,
    merge_pieces,
    node_edges,
    node_pieces,
    select_own_nodes,
)
from layoutscope.structs.arrays import dense_codes, first_places, is_ascending, order_of
from layoutscope.structs.arrays import is_head as is_head_of
from layoutscope.structs.native import Kernel
from layoutscope.tables.schema import LIVE_STATES
from layoutscope.units import MIB, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import Table, VolumeLayout

LAYOUT_SCORE = DEFINITIONS["file-layout-score"]
FRAGMENTS = DEFINITIONS["fragments-per-file"]
FREE_EXTENTS = DEFINITIONS["free-extents"]
FREE_LARGEST = DEFINITIONS["free-largest-share"]


FIRST_USER_ID: Final = 16
"""Lower ids are reserved for the file system: TN1150, "Catalog Node IDs"; Apple's reference, MIN_USER_INO_NUM."""


def file_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Measure the static layout score and the fragments of all forks."""
    # The table may include special files, which have reserved ids.
    extents = layout.columns("extents")
    extents = extents.take(extents["file_id"].data >= FIRST_USER_ID)
    _, blocks, fragments = fork_fragments(extents, layout.facts.block_size_bytes)
    # A fork of one block has no pair of blocks, so it does not affect the score (Smith & Seltzer).
    pairs = int((blocks - 1).sum())
    breaks = int((fragments - 1).sum())
    yield Metric(LAYOUT_SCORE, 1 - breaks / pairs if pairs else None, "files")
    mean = float(fragments.mean()) if len(fragments) else None
    bounds = np.array([1, 2, 3, 5, 9, 17, 65])
    labels = ("1", "2", "3-4", "5-8", "9-16", "17-64", "65+")
    counts = np.add.reduceat(np.bincount(np.minimum(fragments, bounds[-1]), minlength=bounds[-1] + 1), bounds)
    parts = tuple((label, float(count)) for label, count in zip(labels, counts, strict=True) if count)
    yield Metric(FRAGMENTS, mean, "files", parts)


def fork_fragments(
    extents: Table, block_size_bytes: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the blocks and the contiguous pieces of each fork of a file, without holes."""
    stored = _sort_by_fork(extents.take(extents["image_offset"].is_known))
    start, length = stored["image_offset"].data, stored["length_bytes"].data
    is_head = is_head_of(stored["file_id"].data, stored["fork"].data)
    first, is_apart = np.flatnonzero(is_head), is_head
    is_apart[1:] |= start[1:] != start[:-1] + length[:-1]
    if not len(first):
        return stored["file_id"].data, length, length
    if len(first) == len(length):
        size_bytes, fragments = length.astype(np.int64, copy=False), np.ones(len(length), np.int64)
    else:
        size_bytes, fragments = (np.add.reduceat(values, first, dtype=np.int64) for values in (length, is_apart))
    return stored["file_id"].data[first], -(-size_bytes // block_size_bytes), fragments


def _sort_by_fork(extents: Table) -> Table:
    """Sort extents by fork and logical offset; they are sorted already unless the volume is damaged."""
    file_id, forks, logical = (extents[name].data for name in ("file_id", "fork", "logical_offset"))
    is_head = is_head_of(file_id, forks)
    if not (~is_head[1:] & (logical[1:] <= logical[:-1])).any():
        goes_on = file_id[1:] == file_id[:-1]
        # Sorted by file and fork, each fork is one run.
        if is_ascending(file_id) and not (goes_on & (forks[1:] < forks[:-1])).any():
            return extents
        (file_code,), bound = dense_codes(file_id[is_head])
        count = int(forks.max(initial=0)) + 1
        if len(first_places(file_code * count + forks[is_head], bound * count)) == len(file_code):
            return extents
    return extents.take(np.lexsort((logical, forks, file_id)))


def free_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Measure the number and the sizes of the free extents."""
    length = layout.columns("free")["length_bytes"].data
    elsewhere = filesystem_of(layout).traits.has_containers and layout.facts.volume is not None
    note = "free space belongs to the container" if elsewhere else ""
    yield Metric(
        FREE_EXTENTS,
        None if elsewhere else float(len(length)),
        "free space",
        power_of_two_histogram(length, length),
        note,
    )
    yield Metric(FREE_LARGEST, float(length.max() / length.sum()) if length.sum() else None, "free space")


def power_of_two_histogram(
    sizes: NDArray[np.int64],  # in bytes; those below 1 fall into the bin `0`
    weights: NDArray[np.int64] | None = None,
) -> tuple[tuple[str, float], ...]:
    """Sum weights by the power of two at or below each size; return the lower bound and sum of each non-empty bin."""
    # Doubles hold sizes up to 8 PiB exactly; only larger ones could be rounded up to the next power.
    place = np.zeros(len(sizes), np.int64)
    positive = sizes > 0
    place[positive] = np.frexp(sizes[positive].astype(np.float64))[1]
    counts, sums = np.bincount(place), np.bincount(place, weights)
    return tuple(
        ("0" if power == 0 else format_bytes(2.0 ** (power - 1)), float(sums[power]))
        for power in np.flatnonzero(counts).tolist()
    )


ADJACENT = DEFINITIONS["next-leaf-adjacent"]
BACKWARD = DEFINITIONS["backward-steps"]
INVERSIONS = DEFINITIONS["key-order-inversions"]
RANK_DISTANCE = DEFINITIONS["rank-distance"]


def order_metrics(layout: VolumeLayout, tree: str) -> Iterator[Metric]:
    """Compare key order with disk order of one tree's leaves."""
    nodes = select_own_nodes(layout, tree)
    leaves = nodes.take(nodes["kind"].equals("leaf") & nodes["key_rank"].is_known)
    # The table sorts nodes by number or address. Leaves without an index entry have no rank, and no key order.
    start, stop = node_edges(layout, leaves.take(order_of(leaves["key_rank"].data)))
    rank = rank_on_disk(start)
    n = len(rank)
    pairs = n * (n - 1) / 2
    yield Metric(ADJACENT, mean_or_none(start[1:] == stop[:-1]), tree)
    yield Metric(BACKWARD, mean_or_none(start[1:] < start[:-1]), tree)
    yield Metric(INVERSIONS, count_inversions(rank) / pairs if pairs else None, tree)
    yield Metric(RANK_DISTANCE, float(np.abs(rank - np.arange(n)).mean() / n) if n else None, tree)


def mean_or_none(values: NDArray[np.bool_]) -> float | None:
    """Return the share of marks; None without any place."""
    return float(values.mean()) if len(values) else None


def rank_on_disk(image_offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each leaf in address order."""
    rank = np.empty(len(image_offset), np.int64)
    rank[order_of(image_offset)] = np.arange(len(image_offset))
    return rank


COUNT_INVERSIONS: Final = Kernel("count_inversions", "LL")


def count_inversions(permutation: NDArray[np.int64]) -> int:
    """Count the pairs in descending order."""
    values = np.array(permutation, np.int64)
    return COUNT_INVERSIONS(values, np.empty(len(values), np.int64))


CLUMP_GAP_BYTES: Final = MIB
"""Largest gap within the clumps of a tree summary."""


class TreeSummary(Displayed, Struct, frozen=True):
    """Summary of one tree of a volume."""

    tree: str  # name of the B-tree
    nodes_by_level: tuple[int, ...]  # nodes at level 0 (leaves), 1, and so on
    other_nodes: int  # header and map nodes
    free_nodes: int  # allocated nodes that are not in use
    snapshot_nodes: int  # nodes in use by snapshots only, which metrics of the tree ignore
    size_bytes: int  # bytes of the nodes in use
    pieces: int  # contiguous runs of these nodes on disk
    clumped_share: float  # share of these nodes in the largest clump with gaps of at most 1 MiB
    records: int  # records in the leaves


def tree_summaries(layout: VolumeLayout) -> tuple[TreeSummary, ...]:
    """Summarise the trees of a layout, in the order of the tables."""
    every = layout.columns("nodes")
    live = every.take(~every["state"].equals("stale"))
    found = []
    for tree in live["tree"].numbered()[1]:
        nodes = live.take(live["tree"].equals(tree))
        pieces = node_pieces(layout, tree)
        clumps = clump_bytes(pieces, CLUMP_GAP_BYTES)
        by_level = np.bincount(nodes["level"].present()).tolist()
        free = int(nodes["kind"].equals("free").sum())
        summary = TreeSummary(
            tree=tree,
            nodes_by_level=tuple(by_level),
            other_nodes=len(nodes) - free - sum(by_level),
            free_nodes=free,
            snapshot_nodes=len(nodes) - int(nodes["state"].is_in(LIVE_STATES).sum()),
            size_bytes=int(pieces.length.sum()),
            pieces=len(merge_pieces(pieces, 0).start),
            clumped_share=float(clumps.max() / clumps.sum()) if len(clumps) else 0.0,
            records=int(nodes.take(nodes["kind"].equals("leaf"))["num_records"].present().sum()),
        )
        found.append(summary)
    return tuple(found)


FILL = DEFINITIONS["leaf-fill"]
HEIGHT = DEFINITIONS["tree-height"]
DENSITY = DEFINITIONS["nodes-per-1000-entries"]
AGE = DEFINITIONS["age-xid"]


def health_metrics(layout: VolumeLayout, tree: str) -> Iterator[Metric]:
    """Measure fill by level and height of one tree, and density and age if they apply."""
    nodes = select_own_nodes(layout, tree)
    yield _make_fill_metric(nodes, tree)
    levels = nodes["level"].present()
    yield Metric(HEIGHT, float(int(levels.max()) + 1) if len(levels) else None, tree)
    if tree == main_tree(layout):
        entries = len(layout.columns("entries"))
        yield Metric(DENSITY, len(nodes) * 1000 / entries if entries else None, tree)
    if nodes["xid"].is_known.any():
        # Transactions belong to the container, so writes of other volumes age the nodes of this one as well.
        # Damaged transaction numbers may exceed signed 64-bit integers.
        now = np.uint64(layout.facts.stamp)
        middle, parts = median_and_percentiles(now - np.minimum(nodes["xid"].present().astype(np.uint64), now))
        yield Metric(AGE, middle, tree, parts)


def _make_fill_metric(nodes: Table, tree: str) -> Metric:
    nodes = nodes.take(nodes["level"].is_known)
    level, used = nodes["level"].data, nodes["used_bytes"].filled(0).astype(np.int64)
    known = nodes["used_bytes"].is_known & nodes["free_bytes"].is_known
    room = np.where(known, used + nodes["free_bytes"].data, 0)
    # Doubles hold these sums of whole bytes exactly.
    sums = zip(np.bincount(level, used).tolist(), np.bincount(level, room).tolist(), strict=True)
    parts = tuple(
        (f"level {number}", used_sum / room_sum) for number, (used_sum, room_sum) in enumerate(sums) if room_sum
    )
    return Metric(FILL, dict(parts).get("level 0"), tree, parts)


ENUMERATION_SCORE = DEFINITIONS["enumeration-layout-score"]
REQUEST_SCORE = DEFINITIONS["request-layout-score"]
SEEK_END = DEFINITIONS["seek-distance-end"]
SEEK_EDGE = DEFINITIONS["seek-distance-edge"]
TRAVEL = DEFINITIONS["head-travel"]
STROKES = DEFINITIONS["head-travel-strokes"]


def trace_metrics(trace: AccessTrace, layout: VolumeLayout) -> Iterator[Metric]:
    """Measure a walk over a layout."""
    yield Metric(ENUMERATION_SCORE, enumeration_layout_score(trace, layout), "walk")
    start, stop = trace.image_offset, trace.image_offset + trace.length_bytes
    yield Metric(REQUEST_SCORE, mean_or_none(start[1:] == stop[:-1]), "walk")
    from_end = np.abs(start[1:] - stop[:-1])
    for definition, distance in (
        (SEEK_END, from_end),
        (SEEK_EDGE, edge_distance(start[:-1], stop[:-1], start[1:], stop[1:])),
    ):
        bins = tuple((f"from {label}", count) for label, count in power_of_two_histogram(distance))
        yield make_distance_metric(definition, "walk", distance, bins)
    travel = float(from_end.sum())
    yield Metric(TRAVEL, travel, "walk")
    # A volume that shares the space of a container has the size of the container, all of which it may use.
    size = layout.facts.size_bytes
    yield Metric(STROKES, travel / size if size > 0 else None, "walk")


def enumeration_layout_score(trace: AccessTrace, layout: VolumeLayout) -> float | None:
    """Compute the share of first-touched nodes that start where the previous one ends; None for fewer than two."""
    nodes = live_nodes(layout)
    nodes = nodes.take(order_of(nodes["image_offset"].data))
    start, stop = node_edges(layout, nodes)
    touched = first_touches(trace.image_offset, start, start + nodes["size_bytes"].data)
    return mean_or_none(start[touched][1:] == stop[touched][:-1])


def first_touches(
    read_offset: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """List the nodes in the order in which reads first touch them."""
    if not len(start):
        return np.empty(0, np.int64)
    # If a driver reads blocks smaller than a node, the first block touches the node. Bytes outside nodes are bitmaps,
    # superblocks and file data.
    node = np.searchsorted(start, read_offset, side="right") - 1
    inside = (node >= 0) & (read_offset < stop[np.maximum(node, 0)])
    visited = node[inside]
    return visited[first_places(visited, len(start))]
