"""From tables to segments: sorted stretches of disk, each of one class, with its colour.

Nodes come first, then regions, file extents and free space; what nobody names is left out here and drawn as "used,
owner unknown" by the page, never as empty.

Colours are those of Okabe and Ito (2008), which people with colour-vision deficiencies can tell apart; data and free
space are greys, so that the metadata stands out.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import dense_codes, first_places, match
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.frozen import frozen
from layoutscope.tables.schema import DATA_REGIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.traits import TreeTraits
    from layoutscope.tables import VolumeLayout
    from layoutscope.tables.columns import Values
    from layoutscope.tables.table import Table

METADATA: Final = "metadata"
DATA: Final = "data"
FREE: Final = "free"
UNKNOWN: Final = "unknown"


@frozen
class MapClass:
    """One class: its key in the tables, its name, its group, its colours on light and dark, its tree's role."""

    key: str
    label: str
    group: str
    light: str
    dark: str
    role: str = ""


REGION: Final = MapClass("region", "metadata outside trees", METADATA, "#FFA400", "#F0E442")
FILE_DATA: Final = MapClass("data", "file data", DATA, "#B9BDC4", "#555B66")
PENDING: Final = MapClass("pending-free", "freed, not yet reusable", DATA, "#D8C7A0", "#503F27")
UNCLAIMED: Final = MapClass("unclaimed", "used, owner unknown", UNKNOWN, "#7A5C3E", "#A98462")
FREE_SPACE: Final = MapClass("free", "free space", FREE, "#F4F4F2", "#1E2126")
UNREAD: Final = MapClass("unread", "not read", UNKNOWN, "#3B3B3B", "#8E8E8E")
DAMAGED: Final = MapClass("damaged", "damaged metadata block", METADATA, "#A00012", "#D74820")
LOCKED: Final = MapClass("locked", "locked metadata", METADATA, "#541176", "#7D51CA")
MOVED_HERE: Final = MapClass("moved-here", "metadata that moved here", METADATA, "#0072B2", "#4BA3E3")
CAME: Final = MapClass("came", "metadata that came", METADATA, "#FFA400", "#F0E442")
MOVED_AWAY: Final = MapClass("moved-away", "metadata that moved away", METADATA, "#541176", "#7D51CA")
WENT: Final = MapClass("went", "metadata that went", METADATA, "#A00012", "#D74820")
NEW_DATA: Final = MapClass("new-data", "file data, new here", METADATA, "#D25C00", "#DF9F7F")
OLD_DATA: Final = MapClass("old-data", "file data, gone from here", METADATA, "#D8C7A0", "#503F27")
STILL_THERE: Final = MapClass("stayed", "in use in both, unchanged in place", DATA, "#8A919C", "#7C8492")
NOT_TOLD: Final = MapClass("not-told", "unknown in one of the two", UNKNOWN, "#3B3B3B", "#FBFDFF")
FREE_NOW: Final = replace(FREE_SPACE, label="free in both, or freed")
BY_CONDITION: Final = {"damaged": DAMAGED, "unread": DAMAGED, "locked": LOCKED}
"""Classes of nodes by their condition; sound nodes have the class of their tree."""
CHANGES: Final = (MOVED_HERE, CAME, MOVED_AWAY, WENT, NEW_DATA, OLD_DATA)
"""Between two states of a disk; they show through whatever shares their cells."""
NOT_METADATA_REGIONS: Final = frozenset({"free", "pending-free", "unclaimed", "unread"})


def tree_class(traits: TreeTraits) -> MapClass:
    """Return the class of a B-tree, in the words and colours of its file system."""
    return MapClass(traits.name, traits.label, METADATA, traits.light, traits.dark, traits.role)


@frozen
class Segments:
    """Stretches of disk in address order; all arrays have shape (n,)."""

    # start, length: bytes from the start of the image
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    class_id: NDArray[np.uint8]  # index into `classes`
    # 1 + place of the node in the page's node arrays, or minus (1 + place of the file in `files`), or 0
    owner: NDArray[np.int64]
    classes: tuple[MapClass, ...]  # what the ids mean
    # layout and id of each file that has extents; volumes of a container give the same numbers to other files
    files: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 2), np.uint64))

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: NDArray[np.int64]) -> Segments:
        """Return chosen segments, in the order given."""
        columns = {name: getattr(self, name)[index] for name in ("start", "length", "class_id", "owner")}
        return replace(self, **columns)


class _Collector:
    """Columns of segments as they are found, with one code a class."""

    def __init__(self, known: tuple[MapClass, ...]) -> None:
        self.known = known
        self.codes = {item.key: number for number, item in enumerate(known)}
        self.columns: list[tuple[NDArray[Any], ...]] = []
        self.files = np.empty((0, 2), np.uint64)

    def add(self, start: Values, length: Values, code: NDArray[np.uint8] | int, owner: NDArray[np.int64] | int) -> None:
        """Add stretches; those without an address or length are left out."""
        held = start.is_known & length.is_known & (length.data > 0)
        columns = (start.data, length.data, code, owner)
        wide = [np.broadcast_to(np.asarray(column), len(held))[held] for column in columns]
        kinds = (np.int64, np.int64, np.uint8, np.int64)
        self.columns.append(tuple(column.astype(kind, copy=False) for column, kind in zip(wide, kinds, strict=True)))

    def segments(self) -> Segments:
        """Sort what was collected; the same stretch of the same class stands once."""
        start, length, code, owner = (np.concatenate(parts) for parts in zip(*self.columns, strict=True))
        order = np.lexsort((code, start))
        start, length, code, owner = start[order], length[order], code[order], owner[order]
        # Volumes of one container, and states of one volume, name the same nodes and the same free space.
        again = (np.diff(start) == 0) & (np.diff(length) == 0) & (np.diff(code.astype(np.int16)) == 0)
        first = np.concatenate([[True], ~again])[: len(start)]
        return Segments(start, length, code, owner, self.known, self.files).take(np.flatnonzero(first))


def from_layouts(layouts: list[VolumeLayout], device: int = 0) -> Segments:
    """Collect the segments of all layouts that share a disk; nodes are numbered through, layout by layout."""
    collector = _Collector(_known_classes(layouts))
    base = 0
    for number, layout in enumerate(layouts):
        _collect_nodes(layout, device, base, collector)
        _collect_regions(layout, device, collector)
        _collect_files(layout, device, number, collector)
        base += len(layout.columns("nodes"))
    return collector.segments()


def _known_classes(layouts: list[VolumeLayout]) -> tuple[MapClass, ...]:
    """Order classes: trees, other metadata, data, unknown, free, as the legend shows them."""
    trees = {
        tree: filesystem_of(layout).traits.tree(tree)
        for layout in layouts
        for tree in _words(layout.columns("nodes")["tree"])
    }
    kinds = {kind for layout in layouts for kind in _words(layout.columns("regions")["type"])}
    found = {word for layout in layouts for word in _words(layout.columns("nodes")["condition"])}
    optional = [item for item in (PENDING, UNREAD) if item.key in kinds]
    return (
        *(tree_class(trees[tree]) for tree in sorted(trees)),
        REGION,
        *dict.fromkeys(item for word, item in BY_CONDITION.items() if word in found),
        FILE_DATA,
        *optional,
        UNCLAIMED,
        FREE_SPACE,
    )


def _words(column: Values) -> list[str]:
    """Return the words that rows have; what is unknown has none."""
    return [word for word in column.numbered()[1] if word]


def verified_xids(nodes: Table) -> NDArray[Any]:
    """Return the transaction of each node; 0 where there is none, or where the node does not confirm it."""
    return np.where(nodes["condition"].equals("sound"), nodes["xid"].filled(0), 0)


def _collect_regions(layout: VolumeLayout, device: int, collector: _Collector) -> None:
    regions, free = _on(layout.columns("regions"), device), _on(layout.columns("free"), device)
    collector.add(regions["image_offset"], regions["length_bytes"], _region_codes(regions, collector), 0)
    collector.add(free["image_offset"], free["length_bytes"], collector.codes[FREE_SPACE.key], 0)


def _collect_files(layout: VolumeLayout, device: int, number: int, collector: _Collector) -> None:
    extents = _on(layout.columns("extents"), device)
    ids, place = _numbered_ids(extents["file_id"].filled(0))
    owner = -1 - len(collector.files) - place
    own = np.stack([np.full(len(ids), number, np.uint64), ids], axis=1)
    collector.files = np.concatenate([collector.files, own])
    collector.add(extents["image_offset"], extents["length_bytes"], collector.codes[FILE_DATA.key], owner)


def _collect_nodes(layout: VolumeLayout, device: int, base: int, collector: _Collector) -> None:
    nodes, pieces = layout.columns("nodes"), _on(layout.columns("node_fragments"), device)
    rows = nodes["row"].data
    whole = np.flatnonzero((nodes["device"].data == device) & ~np.isin(rows, pieces["node_row"].data))
    # Of a node whose pieces lie on several drives of a set, the row names the first piece's drive alone.
    of_piece, has_node = match(rows.astype(np.int64), pieces["node_row"].signed())
    codes = _codes(nodes["tree"], collector.codes, 0)
    for word, item in BY_CONDITION.items():
        if item.key in collector.codes:
            codes = np.where(nodes["condition"].equals(word), collector.codes[item.key], codes).astype(np.uint8)
    own = nodes.take(whole)
    collector.add(own["image_offset"], own["size_bytes"], codes[whole], base + 1 + whole)
    parts, of_part = pieces.take(has_node), of_piece[has_node]
    collector.add(parts["image_offset"], parts["length_bytes"], codes[of_part], base + 1 + of_part)


def _on(table: Table, device: int) -> Table:
    """Return what lies on a drive of a set."""
    here = table["device"].data == device
    return table if here.all() else table.take(here)


def _numbered_ids(ids: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct identifiers, ascending, and the place of each row's among them."""
    (codes,), bound = dense_codes(ids)
    is_there = np.zeros(bound, np.bool_)
    is_there[codes] = True
    return np.sort(ids[first_places(codes, bound)]), (np.cumsum(is_there) - 1)[codes]


def _region_codes(regions: Table, collector: _Collector) -> NDArray[np.uint8]:
    fixed = {key: collector.codes[key] for key in NOT_METADATA_REGIONS if key in collector.codes}
    fixed |= dict.fromkeys(DATA_REGIONS, collector.codes[FILE_DATA.key])
    return _codes(regions["type"], fixed, collector.codes[REGION.key])


def _codes(column: Values, codes: dict[str, int], default: int) -> NDArray[np.uint8]:
    """Translate words through their own small table, not value by value."""
    number, words = column.numbered()
    table = np.array([codes.get(word, default) for word in words], np.uint8)
    return table[number]


def merge_touching(segments: Segments) -> Segments:
    """Join neighbours of one class and owner that touch."""
    if not len(segments):
        return segments
    joined = (
        (segments.class_id[1:] == segments.class_id[:-1])
        & (segments.owner[1:] == segments.owner[:-1])
        & (segments.start[1:] == segments.start[:-1] + segments.length[:-1])
    )
    return _merge(segments, np.concatenate([[True], ~joined]))


def _merge(segments: Segments, is_first: NDArray[np.bool_]) -> Segments:
    """Join each run that begins where `is_first` holds."""
    first = np.flatnonzero(is_first)
    ends = np.maximum.reduceat(segments.start + segments.length, first)
    return replace(segments.take(first), length=ends - segments.start[first])
