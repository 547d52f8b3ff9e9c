"""Scatter of the metadata: clumps, spans and distances; and the use of all blocks, each byte counted once.

Input: nodes, regions, extents and free. If two tables claim the same byte, metadata wins over data, and data over free.

HFS+ metadata is close together because of Apple's metadata zone. At each mount, the kernel reserves the front of a
journaled volume of 10 GiB or more for the volume bitmap, the journal, the extents-overflow file, eleven clumps of the
attributes and of the catalog file, and the hot files. The zone is rounded up to the range of one block of the bitmap.
Other files are placed after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.display import Displayed, Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import DEFINITIONS, Definition, Metric, median_and_percentiles
from layoutscope.structs.arrays import dense_codes, find, is_ascending, order_of
from layoutscope.structs.native import Kernel
from layoutscope.tables.schema import DATA_REGIONS, LIVE_STATES
from layoutscope.units import GIB, KIB, MIB, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout


NOT_METADATA: Final = ("unclaimed", "pending-free", *DATA_REGIONS)
"""Types of regions that are not known to hold metadata in use."""


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
    """Return the name of the tree that an enumeration of this volume walks."""
    return filesystem_of(layout).traits.main_tree


def live_nodes(layout: VolumeLayout, tree: str | None = None) -> Table:
    """Select the nodes in use by this view or by snapshots, neither free nor stale; of one tree, or of all."""
    nodes = layout.columns("nodes")
    chosen = ~nodes["kind"].equals("free") & ~nodes["state"].equals("stale") & nodes["image_offset"].is_known
    if tree is not None:
        chosen &= nodes["tree"].equals(tree)
    return nodes.take(chosen)


def select_own_nodes(layout: VolumeLayout, tree: str | None = None) -> Table:
    """Select the nodes in use by this view, without those of snapshots only, which belong to other trees."""
    nodes = live_nodes(layout, tree)
    return nodes.take(nodes["state"].is_in(LIVE_STATES))


def node_density(
    layout: VolumeLayout,
    columns: int,
    # number and size in bytes of one image of a set; None for all nodes
    on_device: tuple[int, int] | None = None,
) -> tuple[NDArray[np.float64], int, int]:
    """Sum the bytes of the nodes in equal parts of a stretch, shape (columns,), and return the ends of the stretch.

    The stretch is the whole volume, or only the range of the nodes if that is less than half of it. Its ends are in
    bytes from the start of the volume.
    """
    facts, nodes = layout.facts, layout.columns("nodes")
    device, span = (0, facts.size_bytes) if on_device is None else on_device
    # The second image of a set is shown from its first byte: the layout does not record where the volume starts there.
    start = facts.image_offset if device == 0 else 0
    at, size = nodes["image_offset"].signed() - start, nodes["size_bytes"].filled(0)
    inside = nodes["image_offset"].is_known & (at >= 0) & (at < max(span, 1))
    if on_device is not None:
        inside &= is_on_device(nodes, device)
    at, size = at[inside], size[inside]
    low, high = 0, max(span, 1)
    if len(at) and 2 * (int((at + size).max()) - int(at.min())) < span:
        low, high = int(at.min()), int((at + size).max())
    place = (at - low) * columns // (high - low)
    density: NDArray[np.float64] = np.bincount(place, size, minlength=columns).astype(np.float64)
    return density, low, high


def node_pieces(layout: VolumeLayout, tree: str | None = None) -> Pieces:
    """List the pieces of the nodes in use, in address order."""
    return locate_pieces(layout, live_nodes(layout, tree))


def locate_pieces(layout: VolumeLayout, nodes: Table) -> Pieces:
    """List the pieces of some nodes, in address order."""
    whole, fragments = split_nodes(layout, nodes)
    if not len(fragments):
        return _read_pieces(whole, "size_bytes")
    return sort_pieces(_read_pieces(whole, "size_bytes"), _read_pieces(fragments, "length_bytes"))


def split_nodes(layout: VolumeLayout, nodes: Table) -> tuple[Table, Table]:
    """Separate nodes in one piece from others, of which the rows of `node_fragments` are returned."""
    fragments = layout.columns("node_fragments")
    if not len(fragments):
        return nodes, fragments
    row, owner = nodes["row"].data, fragments["node_row"].data
    return nodes.take(~np.isin(row, owner)), fragments.take(np.isin(owner, row))


def metadata_pieces(layout: VolumeLayout, device: int | None = None) -> Pieces:
    """List the pieces of all metadata, nodes and regions, in address order; on one image of a set, or on all."""
    nodes, regions = live_nodes(layout), layout.columns("regions")
    rest = regions.take(~regions["type"].is_in(NOT_METADATA))
    if device is not None:
        nodes, rest = (table.take(is_on_device(table, device)) for table in (nodes, rest))
    return sort_pieces(locate_pieces(layout, nodes), _read_pieces(rest, "length_bytes"))


def is_on_device(table: Table, device: int) -> NDArray[np.bool_]:
    """Mark the rows on one image of a set."""
    return np.asarray(table["device"].filled(0) == device)


def _read_pieces(table: Table, size: str) -> Pieces:
    start = table["image_offset"].data
    return sort_pieces(Pieces(start, start + table[size].data))


def sort_pieces(*many: Pieces) -> Pieces:
    """Sort pieces by address."""
    start, stop = (np.concatenate(columns) for columns in zip(*many, strict=True))
    if is_ascending(start):
        return Pieces(start, stop)
    order = order_of(start)
    return Pieces(start[order], stop[order])


JOIN_PIECES: Final = Kernel("join_pieces", "llnLL")


def merge_pieces(pieces: Pieces, gap_bytes: int) -> Pieces:
    """Join pieces with gaps of at most `gap_bytes` into maximal runs."""
    start, stop = (np.ascontiguousarray(each) for each in pieces)
    joined = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    count = JOIN_PIECES(start, stop, gap_bytes, *joined)
    return Pieces(*(each[:count] for each in joined))


def node_edges(layout: VolumeLayout, nodes: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts and ends of some nodes, in the order of the table; other data may be between their pieces."""
    start, fragments = nodes["image_offset"].data, layout.columns("node_fragments")
    stop = start + nodes["size_bytes"].data
    if not len(fragments):
        return start, stop
    # The last piece of a node is the last row of its pieces, which a reversed table has first.
    backwards = fragments.take(np.arange(len(fragments))[::-1])
    place = find(backwards["node_row"].data.astype(np.int64), nodes["row"].data.astype(np.int64))
    ends = (backwards["image_offset"].data + backwards["length_bytes"].data)[place]
    return start, np.where(place >= 0, ends, stop)


GAPS_BYTES: Final = (0, 64 * KIB, MIB, 16 * MIB)
"""Largest gaps within a clump, from none to a short seek."""

CLUMP_COUNT = DEFINITIONS["clump-count"]
CLUMP_MEDIAN = DEFINITIONS["clump-median"]
CLUMP_LARGEST = DEFINITIONS["clump-largest-share"]
SPAN = DEFINITIONS["span-p1-p99"]
SPAN_SHARE = DEFINITIONS["span-share"]
NEAREST = DEFINITIONS["nearest-neighbour-ratio"]


def clump_metrics(pieces: Pieces, subject: str) -> Iterator[Metric]:
    """Measure the count, median and largest share of clumps: the value at a gap of 1 MiB, the parts at all gaps."""
    if not len(pieces.start):
        yield from (Metric(each, None, subject) for each in (CLUMP_COUNT, CLUMP_MEDIAN, CLUMP_LARGEST))
        return
    labels = [f"gap {format_bytes(gap)}" for gap in GAPS_BYTES]
    clumps = [clump_bytes(pieces, gap) for gap in GAPS_BYTES]
    for definition, measure in (
        (CLUMP_COUNT, len),
        (CLUMP_MEDIAN, lambda sizes: median_and_percentiles(sizes)[0]),
        (CLUMP_LARGEST, lambda sizes: sizes.max() / sizes.sum()),
    ):
        values = [float(measure(sizes)) for sizes in clumps]
        yield Metric(definition, values[GAPS_BYTES.index(MIB)], subject, tuple(zip(labels, values, strict=True)))


def clump_bytes(pieces: Pieces, gap_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sum the metadata bytes of each clump."""
    solid = merge_pieces(pieces, 0)
    first = np.searchsorted(solid.start, merge_pieces(solid, gap_bytes).start)
    return np.add.reduceat(solid.length, first) if len(first) else np.empty(0, np.int64)


def span_bytes(pieces: Pieces, low: float = 0.01, high: float = 0.99) -> float | None:
    """Return the width of the address range of the bytes between two quantiles; None without metadata."""
    solid = merge_pieces(pieces, 0)
    if not len(solid.start):
        return None
    cumulated = np.cumsum(solid.length)
    targets = np.array([low, high]) * cumulated[-1]
    index = np.minimum(np.searchsorted(cumulated, targets), len(cumulated) - 1)
    places = solid.stop[index] - (cumulated[index] - targets)
    return float(places[1] - places[0])


def span_metrics(pieces: Pieces, volume_bytes: int, subject: str) -> Iterator[Metric]:
    """Measure the span in bytes and as a share of the volume."""
    span = span_bytes(pieces)
    yield Metric(SPAN, span, subject)
    yield Metric(SPAN_SHARE, None if span is None else span / volume_bytes, subject)


def nearest_neighbour_ratio(pieces: Pieces, volume_bytes: int) -> float | None:
    """Divide the mean gap to the nearest neighbour by its expectation at random.

    None for fewer than two objects, or if they fill the volume.

    ``n`` objects leave ``L`` bytes of the volume free. Placed at random, they cut ``L`` into ``n + 1`` gaps. The
    smaller of two given gaps is ``L / 2(n + 1)`` on average, the one inner gap of an outermost object ``L / (n + 1)``.
    The mean over all objects is ``L (n + 2) / (2 n (n + 1))``.
    """
    n = len(pieces.start)
    free_bytes = volume_bytes - int(pieces.length.sum())
    if n < 2 or free_bytes <= 0:
        return None
    gaps = np.maximum(pieces.start[1:] - np.maximum.accumulate(pieces.stop)[:-1], 0)
    edge = [np.iinfo(np.int64).max]
    nearest = np.minimum(np.concatenate([edge, gaps]), np.concatenate([gaps, edge]))
    return float(nearest.mean() / (free_bytes * (n + 2) / (2 * n * (n + 1))))


USES: Final = ("metadata", "data", "free", "pending-free", "unclaimed")
"""Uses in the order of precedence for a byte that is claimed twice."""

PLACED: Final = ("nodes", "regions", "extents", "free")
"""Tables whose rows have addresses."""


class SpaceUse(Displayed, Struct, frozen=True):
    """Bytes by use."""

    use: str  # one of `USES`, or `unaccounted` for bytes in no table
    size_bytes: int  # each byte of the volume counts once


def space_use(layouts: Sequence[VolumeLayout]) -> tuple[SpaceUse, ...]:
    """Sum the bytes of a volume, or of a container with its volumes, by use."""
    used_bytes = dict.fromkeys(USES, 0)
    devices = [layout.columns(name)["device"].filled(0) for layout in layouts for name in PLACED]
    for device in range(max((int(column.max(initial=0)) for column in devices), default=0) + 1):
        claimed = Pieces(np.empty(0, np.int64), np.empty(0, np.int64))
        for use, pieces in zip(USES, _list_pieces_by_use(layouts, device), strict=True):
            merged = merge_pieces(sort_pieces(claimed, pieces), 0)
            used_bytes[use] += int(merged.length.sum() - claimed.length.sum())
            claimed = merged
    used_bytes["unaccounted"] = max(layouts[0].facts.size_bytes - sum(used_bytes.values()), 0)
    return tuple(SpaceUse(use, size_bytes) for use, size_bytes in used_bytes.items() if size_bytes)


def _list_pieces_by_use(layouts: Sequence[VolumeLayout], device: int) -> Iterator[Pieces]:
    """List the runs of bytes on one device by the use that a table gives them, without holes."""

    def list_runs(tables: Iterable[Table]) -> list[Pieces]:
        parts = (table.take(table["image_offset"].is_known & is_on_device(table, device)) for table in tables)
        starts = ((part["image_offset"].data, part["length_bytes"].data) for part in parts)
        return [Pieces(start, start + length) for start, length in starts]

    yield sort_pieces(*(metadata_pieces(layout, device) for layout in layouts))
    # Most files are contiguous.
    files = [merge_pieces(sort_pieces(each), 0) for each in list_runs(layout.columns("extents") for layout in layouts)]
    yield sort_pieces(*files, *list_runs(_select_kinds(layout, DATA_REGIONS) for layout in layouts))
    yield sort_pieces(*list_runs(layout.columns("free") for layout in layouts))
    for kind in ("pending-free", "unclaimed"):
        yield sort_pieces(*list_runs(_select_kinds(layout, (kind,)) for layout in layouts))


def _select_kinds(layout: VolumeLayout, kinds: tuple[str, ...]) -> Table:
    regions = layout.columns("regions")
    return regions.take(regions["type"].is_in(kinds))


SMALLEST_VOLUME_BYTES: Final = 10 * GIB
HOT_FILES_BYTES: Final = (10 * MIB, 512 * MIB)
CLUMPS_RESERVED: Final = 11
# Boot blocks and volume header: 1,024 and 512 bytes.
HEADER_BYTES: Final = 1536

ZONE_SHARE = DEFINITIONS["metadata-zone-share"]


def zone_metric(layout: VolumeLayout) -> Metric:
    """Measure the share of metadata in the zone; no value if macOS keeps no zone."""
    zone, note = zone_bytes(layout)
    if zone is None:
        return Metric(ZONE_SHARE, None, note=note)
    pieces = metadata_pieces(layout)
    total, start = pieces.length.sum(), layout.facts.image_offset
    inside = int(np.maximum(np.minimum(pieces.stop, start + zone) - np.maximum(pieces.start, start), 0).sum())
    return Metric(ZONE_SHARE, inside / total if total else None, parts=(("zone bytes", float(zone)),))


def zone_bytes(layout: VolumeLayout) -> tuple[int | None, str]:
    """Compute the size of the metadata zone like the kernel, or return None and the reason.

    Quota files, which no header declares, are ignored. The kernel's unit of bitmap reads is taken as one allocation
    block, so the zone is a multiple of 8 x block size x block size: 128 MiB at 4 KiB.
    """
    facts, nodes = layout.facts, layout.columns("nodes")
    journal, bitmap = (
        int(_select_kinds(layout, (kind,))["length_bytes"].data.sum()) for kind in ("journal", "allocation-file")
    )
    if facts.size_bytes < SMALLEST_VOLUME_BYTES:
        return None, "macOS keeps no metadata zone on volumes under 10 GiB"
    if not journal:
        return None, "macOS keeps no metadata zone on volumes without journal"
    clumps = [facts.details.get(f"{tree} clump bytes") for tree in ("catalog", "attributes")]
    if clumps[0] is None:
        return None, "the catalog's clump size is unknown"
    block = facts.block_size_bytes
    reserved = CLUMPS_RESERVED * sum(int(clump or 0) for clump in clumps)
    # 5 MiB per GiB of the volume, within bounds.
    hot = min(max(facts.size_bytes // 1024 * 5, HOT_FILES_BYTES[0]), HOT_FILES_BYTES[1])
    overflow = int(nodes["size_bytes"].data[nodes["tree"].equals("extents-overflow")].sum())
    header = -(-HEADER_BYTES // block) * block
    unit = 8 * block * block
    return -(-(header + bitmap + block + journal + overflow + reserved + hot) // unit) * unit, ""


TO_DATA = DEFINITIONS["metadata-to-data"]
TO_CHILD = DEFINITIONS["parent-to-child"]
OMAP_TO_TARGET = DEFINITIONS["omap-to-target"]


def edge_distance(
    start: NDArray[np.int64],  # start, stop, other_start, other_stop: in bytes from the start of the image
    stop: NDArray[np.int64],
    other_start: NDArray[np.int64],
    other_stop: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Compute the bytes between the nearest edges of pairs of runs; 0 if they touch or overlap."""
    apart: NDArray[np.int64] = np.maximum(np.maximum(other_start - stop, start - other_stop), 0)
    return apart


def distance_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Measure the three distances; that of the object map only if there is one."""
    tree = main_tree(layout)
    yield make_distance_metric(TO_CHILD, tree, _distances_to_reference(layout, tree, "parent_row"))
    has_object_map = filesystem_of(layout).traits.maps_every_node
    if has_object_map and layout.columns("nodes")["locator_row"].is_known.any():
        yield make_distance_metric(OMAP_TO_TARGET, tree, _distances_to_reference(layout, tree, "locator_row"))
    yield make_distance_metric(TO_DATA, "files", _distances_to_data(layout))


def make_distance_metric(
    definition: Definition, subject: str, distance: NDArray[np.int64], bins: tuple[tuple[str, float], ...] = ()
) -> Metric:
    """Measure the median and the percentiles of distances, with further parts."""
    if not len(distance):
        return Metric(definition, None, subject)
    middle, parts = median_and_percentiles(distance)
    return Metric(definition, middle, subject, parts + bins)


def _distances_to_reference(layout: VolumeLayout, tree: str, reference: str) -> NDArray[np.int64]:
    """Compute the distance from each node of a tree to the node that a column refers to."""
    nodes, others = select_own_nodes(layout, tree), layout.columns("nodes")
    nodes = nodes.take(nodes[reference].is_known)
    place = find(others["row"].data.astype(np.int64), nodes[reference].data.astype(np.int64))
    # A node without an address has no distance.
    chosen = (place >= 0) & others["image_offset"].is_known[place]
    return edge_distance(*_get_edges(nodes.take(chosen)), *_get_edges(others.take(place[chosen])))


def _get_edges(nodes: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = nodes["image_offset"].data
    return start, start + nodes["size_bytes"].data


APART_FROM_INODES: Final = Kernel("apart_from_inodes", "lblllbiIillL")


def _distances_to_data(layout: VolumeLayout) -> NDArray[np.int64]:
    """Compute the distance from the inode's leaf to the first extent of each file; hard links count once."""
    extents, entries, nodes = (layout.columns(name) for name in ("extents", "entries", "nodes"))
    is_first = extents["fork"].equals("data") & (extents["logical_offset"].data == 0) & extents["image_offset"].is_known
    # The position of each row of the table of nodes, by its key.
    rows = nodes["row"].data
    place = np.zeros(int(rows.max(initial=0)) + 1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    has_inode = entries["kind"].equals("file") & entries["inode_node_row"].is_known
    return apart_from_inodes(
        (extents["file_id"].data, is_first, extents["image_offset"].data, extents["length_bytes"].data),
        (entries["file_id"].data, has_inode, entries["inode_node_row"].data),
        place,
        *_get_edges(nodes),
    )


def apart_from_inodes(
    # per extent: the file, whether it is the first of the file's data, its start, and its length
    extents: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]],
    # per entry: the file, whether it is a file with a known leaf, and the row of that leaf
    entries: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.uint32]],
    place: NDArray[np.int32],
    node_start: NDArray[np.int64],
    node_stop: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Compute the distance of each file's first extent from the leaf of its inode, in the order of the extents."""
    (of_extent, of_entry), bound = dense_codes(extents[0], entries[0])
    columns = of_extent, *extents[1:], of_entry, *entries[1:]
    apart = np.empty(min(len(of_extent), len(of_entry)), np.int64)
    count = APART_FROM_INODES(
        *map(_to_kernel_column, columns),
        np.full(bound, -1, np.int32),
        place,
        _to_kernel_column(node_start),
        _to_kernel_column(node_stop),
        apart,
    )
    return apart[:count]


def _to_kernel_column(column: NDArray[Any]) -> NDArray[Any]:
    """Convert a column to the type that the kernel takes."""
    kind = np.dtype(np.uint8) if column.dtype == np.bool_ else np.dtype(f"i{column.itemsize}")
    return np.ascontiguousarray(column).view(kind)
