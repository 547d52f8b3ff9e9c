"""Where metadata lies, as runs of bytes in address order, and whether it lies together: clumps, span, neighbours.

Input: the tables ``nodes``, ``node_fragments`` and ``regions``. A node in several pieces counts with each piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.arrays.lookup import find, is_ascending, order_of
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.ranks import median
from layoutscope.native import Kernel
from layoutscope.tables.schema import DATA_REGIONS, LIVE_STATES
from layoutscope.units import KIB, MIB, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout

NOT_METADATA: Final = ("unclaimed", "pending-free", *DATA_REGIONS)
"""Types of regions about which nobody can say that they hold metadata in use."""


class Pieces(NamedTuple):
    """Runs of bytes."""

    # start, stop: in bytes from the start of the image, `start < stop`
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    @property
    def length(self) -> NDArray[np.int64]:
        """Bytes of each piece, shape (n,)."""
        return self.stop - self.start


def main_tree(layout: VolumeLayout) -> str:
    """Name of the tree that an enumeration of this volume walks."""
    return filesystem_of(layout).traits.main_tree


def live_nodes(layout: VolumeLayout, tree: str | None = None) -> Table:
    """Nodes in use, by this view or by snapshots: neither free nor stale; of one tree, or of all."""
    nodes = layout.columns("nodes")
    chosen = ~nodes["kind"].equals("free") & ~nodes["state"].equals("stale") & nodes["image_offset"].is_known
    if tree is not None:
        chosen &= nodes["tree"].equals(tree)
    return nodes.take(chosen)


def own_nodes(layout: VolumeLayout, tree: str | None = None) -> Table:
    """Nodes in use that this view holds: without those of snapshots alone, which have places in other trees."""
    nodes = live_nodes(layout, tree)
    return nodes.take(nodes["state"].is_in(LIVE_STATES))


def node_density(
    layout: VolumeLayout,
    columns: int,
    # number and size in bytes of the one image of a set that is looked at; all nodes without it
    on_device: tuple[int, int] | None = None,
) -> NDArray[np.float64]:
    """Cut a volume into pieces of one size and sum up the bytes of the nodes that start in each, shape (columns,)."""
    facts, nodes = layout.facts, layout.columns("nodes")
    device, span = (0, facts.size_bytes) if on_device is None else on_device
    # The second image of a set is shown from its first byte: where the volume starts there, the layout does not say.
    start = facts.image_offset if device == 0 else 0
    at, size = nodes["image_offset"].signed() - start, nodes["size_bytes"].filled(0)
    inside = nodes["image_offset"].is_known & (at >= 0) & (at < max(span, 1))
    if on_device is not None:
        inside &= is_on(nodes, device)
    place = at[inside] * columns // max(span, 1)
    held: NDArray[np.float64] = np.bincount(place, size[inside], minlength=columns).astype(np.float64)
    return held


def node_pieces(layout: VolumeLayout, tree: str | None = None) -> Pieces:
    """Pieces of the nodes in use, in address order."""
    return placed_pieces(layout, live_nodes(layout, tree))


def placed_pieces(layout: VolumeLayout, nodes: Table) -> Pieces:
    """Pieces of some nodes, in address order."""
    fragments = layout.columns("node_fragments")
    if not len(fragments):
        return _sorted(nodes, "size_bytes")
    row, owner = nodes["row"].data, fragments["node_row"].data
    whole = _sorted(nodes.take(~np.isin(row, owner)), "size_bytes")
    return in_order(whole, _sorted(fragments.take(np.isin(owner, row)), "length_bytes"))


def metadata_pieces(layout: VolumeLayout, device: int | None = None) -> Pieces:
    """Pieces of all metadata, tree nodes and regions, in address order; on one image of a set, or on all."""
    nodes, regions = live_nodes(layout), layout.columns("regions")
    rest = regions.take(~regions["type"].is_in(NOT_METADATA))
    if device is not None:
        nodes, rest = (table.take(is_on(table, device)) for table in (nodes, rest))
    return in_order(placed_pieces(layout, nodes), _sorted(rest, "length_bytes"))


def is_on(table: Table, device: int) -> NDArray[np.bool_]:
    """Mark what lies on one image of a set: the same byte of another is another place."""
    return np.asarray(table["device"].filled(0) == device)


def _sorted(table: Table, size: str) -> Pieces:
    start = table["image_offset"].data
    return in_order(Pieces(start, start + table[size].data))


def in_order(*many: Pieces) -> Pieces:
    """Bring pieces into address order."""
    start, stop = (np.concatenate(columns) for columns in zip(*many, strict=True))
    if is_ascending(start):
        return Pieces(start, stop)
    order = order_of(start)
    return Pieces(start[order], stop[order])


JOIN_PIECES: Final = Kernel("join_pieces", "llnLL")


def merged_pieces(pieces: Pieces, gap_bytes: int) -> Pieces:
    """Join pieces whose gap is at most so many bytes into maximal runs."""
    start, stop = (np.ascontiguousarray(each) for each in pieces)
    joined = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    count = JOIN_PIECES(start, stop, gap_bytes, *joined)
    return plain_merged_pieces(pieces, gap_bytes) if count is None else Pieces(*(each[:count] for each in joined))


def plain_merged_pieces(pieces: Pieces, gap_bytes: int) -> Pieces:
    """Join pieces column by column; the twin of the kernel."""
    if not len(pieces.start):
        return pieces
    # Of pieces that overlap, as on damaged volumes, the one that starts last need not be the one that ends last.
    reach = np.maximum.accumulate(pieces.stop)
    first = np.concatenate([[True], pieces.start[1:] - reach[:-1] > gap_bytes])
    return Pieces(pieces.start[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(reach) - 1)])


class NodeEdges(NamedTuple):
    """First and last byte of nodes, whatever lies between their pieces."""

    # start, stop: where the first piece starts and the last one ends, in bytes from the start of the image
    start: NDArray[np.int64]
    stop: NDArray[np.int64]


def node_edges(layout: VolumeLayout, nodes: Table) -> NodeEdges:
    """Find where each of some nodes starts and ends, in the order of the table."""
    start, fragments = nodes["image_offset"].data, layout.columns("node_fragments")
    stop = start + nodes["size_bytes"].data
    if not len(fragments):
        return NodeEdges(start, stop)
    # The last piece of a node stands last among its pieces: the first one from behind.
    backwards = fragments.take(np.arange(len(fragments))[::-1])
    place = find(backwards["node_row"].data.astype(np.int64), nodes["row"].data.astype(np.int64))
    ends = (backwards["image_offset"].data + backwards["length_bytes"].data)[place]
    return NodeEdges(start, np.where(place >= 0, ends, stop))


GAPS_BYTES: Final = (0, 64 * KIB, MIB, 16 * MIB)
"""Largest gaps inside a clump, from touching to a short seek."""

_CLUMPING = "clusters of Moon, Jagadish, Faloutsos & Saltz, IEEE TKDE 13(1), 2001, with gaps allowed"

CLUMP_COUNT = Definition(
    "clump-count",
    "Clumps",
    unit="clumps",
    denominator="runs with gaps up to 1 MiB",
    text="Into how many clumps, maximal runs with gaps up to 0, 64 KiB, 1 MiB and 16 MiB, the metadata falls.",
    citation=_CLUMPING,
)
CLUMP_MEDIAN = Definition(
    "clump-median",
    "Median clump",
    unit="bytes",
    denominator="runs with gaps up to 1 MiB, median",
    text="Metadata bytes of the median clump; one node where every node lies alone.",
    citation=_CLUMPING,
)
CLUMP_LARGEST = Definition(
    "clump-largest-share",
    "Largest clump",
    unit="share",
    denominator="bytes of metadata",
    text="Share of the metadata in the largest clump: 1 is all of it together.",
    citation=_CLUMPING,
)
SPAN = Definition(
    "span-p1-p99",
    "Span, p1 to p99",
    unit="bytes",
    denominator="middle 98 % of the metadata's bytes",
    text="Width of the address range that holds the middle 98 % of the metadata.",
    citation="this project",
)
SPAN_SHARE = Definition(
    "span-share",
    "Span of the volume",
    unit="share",
    denominator="bytes of the volume",
    text="The span from p1 to p99 as a share of the volume: how much of a stroke the arm must cover.",
    citation="this project",
)
NEAREST = Definition(
    "nearest-neighbour-ratio",
    "Nearest neighbour",
    unit="ratio",
    denominator="mean gap of nodes placed at random",
    text="Mean gap to the nearest other node over its expectation at random: 0 touching, 1 random, up to 2 regular.",
    citation="Clark & Evans, Ecology 35(4), 1954, in one dimension",
)


def clump_metrics(pieces: Pieces, subject: str) -> Iterator[Metric]:
    """Count, median and largest share of clumps; the value at a gap of 1 MiB, the parts at every gap."""
    if not len(pieces.start):
        yield from (Metric(each, None, subject) for each in (CLUMP_COUNT, CLUMP_MEDIAN, CLUMP_LARGEST))
        return
    labels = [f"gap {format_bytes(gap)}" for gap in GAPS_BYTES]
    clumps = [clump_bytes(pieces, gap) for gap in GAPS_BYTES]
    for definition, measure in (
        (CLUMP_COUNT, len),
        (CLUMP_MEDIAN, median),
        (CLUMP_LARGEST, lambda held: held.max() / held.sum()),
    ):
        values = [float(measure(held)) for held in clumps]
        yield Metric(definition, values[GAPS_BYTES.index(MIB)], subject, tuple(zip(labels, values, strict=True)))


def clump_bytes(pieces: Pieces, gap_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Metadata bytes of each clump."""
    solid = merged_pieces(pieces, 0)
    first = np.searchsorted(solid.start, merged_pieces(solid, gap_bytes).start)
    return np.add.reduceat(solid.length, first) if len(first) else np.empty(0, np.int64)


def span_bytes(pieces: Pieces, low: float = 0.01, high: float = 0.99) -> float | None:
    """Width of the address range that holds the bytes between two quantiles; None without metadata."""
    solid = merged_pieces(pieces, 0)
    if not len(solid.start):
        return None
    held = np.cumsum(solid.length)
    wanted = np.array([low, high]) * held[-1]
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    places = solid.stop[at] - (held[at] - wanted)
    return float(places[1] - places[0])


def span_metrics(pieces: Pieces, volume_bytes: int, subject: str) -> Iterator[Metric]:
    """Span in bytes and as a share of the volume."""
    span = span_bytes(pieces)
    yield Metric(SPAN, span, subject)
    yield Metric(SPAN_SHARE, None if span is None else span / volume_bytes, subject)


def nearest_neighbour_ratio(pieces: Pieces, volume_bytes: int) -> float | None:
    """Mean gap to the nearest neighbour over its expectation at random.

    None for fewer than two objects, or where nothing is left to place them in.

    ``n`` objects leave ``L`` bytes of the volume. Placed at random they cut ``L`` into ``n + 1`` gaps; the smaller of
    two given gaps is ``L / 2(n + 1)`` on average, the one inner gap of an outermost object ``L / (n + 1)``. The mean
    over all objects is ``L (n + 2) / (2 n (n + 1))``.
    """
    n = len(pieces.start)
    left = volume_bytes - int(pieces.length.sum())
    if n < 2 or left <= 0:
        return None
    gaps = np.maximum(pieces.start[1:] - np.maximum.accumulate(pieces.stop)[:-1], 0)
    edge = [np.iinfo(np.int64).max]
    nearest = np.minimum(np.concatenate([edge, gaps]), np.concatenate([gaps, edge]))
    return float(nearest.mean() / (left * (n + 2) / (2 * n * (n + 1))))
