"""What each cell of a disk holds, exactly, at the finest cells that a page can carry.

Every byte of the range is of one class. A class is kept as runs of cells that hold equally many of its bytes, so that a
terabyte of free space is one run, and the cells of a wider level are sums of two narrower ones: no share is estimated
at any zoom. The page adds the wider levels itself.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.structs.arrays import dense_codes, first_places, intersect, match, runs_of, subtract, total, union
from layoutscope.tables import Values, layout_findings
from layoutscope.tables.schema import DATA_REGIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.traits import TreeTraits
    from layoutscope.findings import Finding
    from layoutscope.tables import VolumeLayout
    from layoutscope.tables.columns import Table

    Runs = NDArray[np.int64]
    Cells = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    """Runs of equal cells that hold any of a class: first cell, number of cells, units of the class in each."""

METADATA: Final = "metadata"
DATA: Final = "data"
FREE: Final = "free"
UNKNOWN: Final = "unknown"


class MapClass(Struct, frozen=True):
    """One class: its key in the tables, its name, its group, and the role that gives its color; none for free space."""

    key: str
    label: str
    group: str
    role: str = ""


REGION: Final = MapClass("region", "metadata outside trees", METADATA, "other")
FILE_DATA: Final = MapClass("data", "file data", DATA, "data")
PENDING: Final = MapClass("pending-free", "freed, not yet reusable", DATA, "data")
UNCLAIMED: Final = MapClass("unclaimed", "used, owner unknown", UNKNOWN, "unknown")
FREE_SPACE: Final = MapClass("free", "free space", FREE)
UNREAD: Final = MapClass("unread", "not read", UNKNOWN, "unknown")
DAMAGED: Final = MapClass("damaged", "damaged metadata block", METADATA, "damaged")
LOCKED: Final = MapClass("locked", "locked metadata", METADATA, "unknown")
MOVED_HERE: Final = MapClass("moved-here", "metadata that moved here", METADATA, "main")
CAME: Final = MapClass("came", "metadata that came", METADATA, "main")
MOVED_AWAY: Final = MapClass("moved-away", "metadata that moved away", METADATA, "other")
WENT: Final = MapClass("went", "metadata that went", METADATA, "other")
NEW_DATA: Final = MapClass("new-data", "file data, new here", METADATA, "moved")
OLD_DATA: Final = MapClass("old-data", "file data, gone from here", METADATA, "moved")
STILL_THERE: Final = MapClass("stayed", "in use in both, unchanged in place", DATA, "data")
NOT_TOLD: Final = MapClass("not-told", "unknown in one of the two", UNKNOWN, "unknown")
FREE_NOW: Final = replace(FREE_SPACE, label="free in both, or freed")
BY_CONDITION: Final = {"damaged": DAMAGED, "unread": DAMAGED, "locked": LOCKED}
"""Classes of nodes by their condition; sound nodes have the class of their tree."""
DAMAGE: Final = frozenset({"checksum-mismatch", "structure-invalid", "truncated", "node-invalid", "keys-unordered"})
"""Codes of findings about a block that does not hold what it should."""
CHANGES: Final = (MOVED_HERE, CAME, MOVED_AWAY, WENT, NEW_DATA, OLD_DATA)
"""Between two states of a disk; they show through whatever shares their cells."""
NOT_METADATA_REGIONS: Final = frozenset({"free", "pending-free", "unclaimed", "unread"})


def tree_class(traits: TreeTraits) -> MapClass:
    """Return the class of a B-tree, in the words of its file system."""
    return MapClass(traits.name, traits.label, METADATA, "main" if traits.role == "main" else "other")


class Segments(Struct, frozen=True):
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


def _stretches(
    start: Values, length: Values, code: NDArray[np.uint8] | int, owner: NDArray[np.int64] | int
) -> tuple[NDArray[Any], ...]:
    """Return the columns of stretches; those without an address or length are left out."""
    held = start.is_known & length.is_known & (length.data > 0)
    columns, kinds = (start.data, length.data, code, owner), (np.int64, np.int64, np.uint8, np.int64)
    wide = [np.broadcast_to(np.asarray(column), len(held))[held] for column in columns]
    return tuple(column.astype(kind, copy=False) for column, kind in zip(wide, kinds, strict=True))


def from_layouts(layouts: list[VolumeLayout], device: int = 0) -> Segments:
    """Collect the segments of all layouts that share a disk; nodes are numbered through, layout by layout."""
    known = _known_classes(layouts)
    codes, base = {item.key: number for number, item in enumerate(known)}, 0
    found: list[tuple[NDArray[Any], ...]] = []
    files = np.empty((0, 2), np.uint64)
    region_codes = {key: codes[key] for key in NOT_METADATA_REGIONS if key in codes}
    region_codes |= dict.fromkeys(DATA_REGIONS, codes[FILE_DATA.key])
    for number, layout in enumerate(layouts):
        found += _node_stretches(layout, device, base, codes)
        base += len(layout.columns("nodes"))
        places = [item.image_offset for item in damage_without_node(layout) if item.device == device]
        if places:
            start, length = np.array(places, np.int64), np.full(len(places), layout.facts.block_size_bytes, np.int64)
            found.append(_stretches(Values(start, None), Values(length, None), codes[DAMAGED.key], 0))
        regions, free, extents = (_on(layout.columns(name), device) for name in ("regions", "free", "extents"))
        kinds = _codes(regions["type"], region_codes, codes[REGION.key])
        found.append(_stretches(regions["image_offset"], regions["length_bytes"], kinds, 0))
        found.append(_stretches(free["image_offset"], free["length_bytes"], codes[FREE_SPACE.key], 0))
        ids = extents["file_id"].filled(0)
        (id_codes,), bound = dense_codes(ids)
        is_there = np.zeros(bound, np.bool_)
        is_there[id_codes] = True
        owner = -len(files) - np.cumsum(is_there)[id_codes]
        distinct = np.sort(ids[first_places(id_codes, bound)])
        own = np.stack([np.full(len(distinct), number, np.uint64), distinct], axis=1)
        files = np.concatenate([files, own])
        found.append(_stretches(extents["image_offset"], extents["length_bytes"], codes[FILE_DATA.key], owner))
    start, length, code, owner = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((code, start))
    start, length, code, owner = start[order], length[order], code[order], owner[order]
    # Volumes of one container, and states of one volume, name the same nodes and the same free space.
    again = (np.diff(start) == 0) & (np.diff(length) == 0) & (np.diff(code.astype(np.int16)) == 0)
    first = np.concatenate([[True], ~again])[: len(start)]
    return Segments(start, length, code, owner, known, files).take(np.flatnonzero(first))


def _known_classes(layouts: list[VolumeLayout]) -> tuple[MapClass, ...]:
    """Order classes: trees, other metadata, data, unknown, free, as the legend shows them."""
    trees = {
        tree: filesystem_of(layout).traits.tree(tree)
        for layout in layouts
        for tree in _words(layout.columns("nodes")["tree"])
    }
    kinds = {kind for layout in layouts for kind in _words(layout.columns("regions")["type"])}
    found = {word for layout in layouts for word in _words(layout.columns("nodes")["condition"])}
    found |= {"damaged" for layout in layouts if damage_without_node(layout)}
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


def _node_stretches(
    layout: VolumeLayout, device: int, base: int, known: dict[str, int]
) -> Iterator[tuple[NDArray[Any], ...]]:
    nodes, pieces = layout.columns("nodes"), _on(layout.columns("node_fragments"), device)
    rows = nodes["row"].data
    whole = np.flatnonzero((nodes["device"].data == device) & ~np.isin(rows, pieces["node_row"].data))
    # If the pieces of a node are on several drives of a set, the row names only the first piece's drive.
    of_piece, has_node = match(rows.astype(np.int64), pieces["node_row"].signed())
    codes = _codes(nodes["tree"], known, 0)
    for word, item in BY_CONDITION.items():
        if item.key in known:
            codes = np.where(nodes["condition"].equals(word), known[item.key], codes).astype(np.uint8)
    own = nodes.take(whole)
    yield _stretches(own["image_offset"], own["size_bytes"], codes[whole], base + 1 + whole)
    parts, of_part = pieces.take(has_node), of_piece[has_node]
    yield _stretches(parts["image_offset"], parts["length_bytes"], codes[of_part], base + 1 + of_part)


def damage_without_node(layout: VolumeLayout) -> list[Finding]:
    """Return findings of damage at addresses where no node is known: what they say is all that is known of a block."""
    nodes = layout.columns("nodes")
    found = [item for item in layout_findings(layout) if item.code in DAMAGE and item.image_offset is not None]
    places = np.array([item.image_offset for item in found], np.int64)
    has_node = np.isin(places, nodes["image_offset"].signed()[nodes["image_offset"].is_known])
    return [item for item, is_known in zip(found, has_node.tolist(), strict=True) if not is_known]


def _on(table: Table, device: int) -> Table:
    """Return the content of one drive of a set."""
    here = table["device"].data == device
    return table if here.all() else table.take(here)


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
    first = np.flatnonzero(np.concatenate([[True], ~joined]))
    ends = np.maximum.reduceat(segments.start + segments.length, first)
    return replace(segments.take(first), length=ends - segments.start[first])


RUN_BUDGET: Final = 600_000
"""Runs that a page carries for one disk; past it the finest cells are wider than a block."""

USED_SHARE: Final = 0.998
"""Share of the used bytes that the first view shows; copies of headers at the far end of a disk are left out."""

_BAD: Final = frozenset({DAMAGED.key, LOCKED.key})


class Share(Struct, frozen=True):
    """One class on a disk: (n, 2) first bytes, from the start of the range, and lengths; disjoint and ascending."""

    item: MapClass
    runs: Runs

    @property
    def size_bytes(self) -> int:
        """How much of the disk is of this class, in bytes."""
        return total(self.runs)


def partition(
    segments: Segments,
    image_offset: int,  # image_offset, size_bytes: the range, in bytes of the image
    size_bytes: int,
    block_bytes: int,  # allocation block of the file system, in bytes
) -> tuple[Share, ...]:
    """Give each byte of a range to one class.

    What is claimed twice belongs to the first claim: damaged and locked nodes, then the classes in the order
    of the legend, so that a node counts as its tree's and not as data of the file that holds the tree.
    """
    left = np.array([[0, size_bytes]], np.int64)
    runs: dict[str, Runs] = {}
    for code in sorted(range(len(segments.classes)), key=lambda code: segments.classes[code].key not in _BAD):
        own = segments.class_id == code
        claimed = runs_of(segments.start[own] - image_offset, segments.length[own])
        runs[segments.classes[code].key] = intersect(claimed, left)
        left = subtract(left, claimed)
    # A block that holds a header or its copy, of 512 bytes, holds nothing else: its rest is metadata, too.
    metadata = union([runs[item.key] for item in segments.classes if item.group == METADATA])
    first, end = metadata[:, 0] // block_bytes, -(-metadata.sum(axis=1) // block_bytes)
    begun = runs_of(first * block_bytes, (end - first) * block_bytes)
    runs[REGION.key] = union([runs[REGION.key], intersect(left, begun)])
    runs[UNCLAIMED.key] = union([runs[UNCLAIMED.key], subtract(left, begun)])
    return tuple(Share(item, runs[item.key]) for item in segments.classes)


def pyramid(
    shares: Sequence[Share],
    block_bytes: int,  # width of the narrowest cells, in bytes
    budget: int = RUN_BUDGET,
) -> tuple[int, int, tuple[Cells, ...]]:
    """Count what the cells hold, in the narrowest ones for which the budget is enough.

    Returns the unit in bytes, the width of a cell in bytes (a power of two of blocks), and the cells by class in the
    order of the shares.
    """
    unit = _unit(shares, block_bytes)
    kept = [share.runs // unit if share.item.group != FREE else np.empty((0, 2), np.int64) for share in shares]
    width = block_bytes // unit
    cells = tuple(_cells(runs, width) for runs in kept)
    while sum(len(first) for first, _, _ in cells) > budget:
        width *= 2
        cells = tuple(_cells(runs, width) for runs in kept)
    return unit, width * unit, cells


def _unit(shares: Sequence[Share], block_bytes: int) -> int:
    """Return the largest power of two that divides the block and every edge."""
    # What all have in common is the lowest bit that is set in any of them.
    bits = block_bytes
    for share in shares:
        bits |= int(np.bitwise_or.reduce(share.runs, axis=None)) if len(share.runs) else 0
    return bits & -bits


def _cells(runs: Runs, width: int) -> Cells:
    """Count the units of disjoint runs in cells of a width: full cells as runs, the ends of runs one by one."""
    start, end = runs[:, 0], runs.sum(axis=1)
    first, last = -(-start // width), end // width
    within = first > last  # begins and ends in the same cell, and fills it nowhere
    head, tail = (start % width > 0) & ~within, (end % width > 0) & ~within
    cell = np.concatenate([start[within] // width, start[head] // width, last[tail]])
    held = np.concatenate([(end - start)[within], width - start[head] % width, end[tail] % width])
    full = (last > first) & ~within
    # Several ends of runs may be in one cell.
    order = np.argsort(cell, kind="stable")
    cell, held = cell[order], held[order]
    heads = np.flatnonzero(np.diff(cell, prepend=-1))
    held = np.add.reduceat(held, heads) if len(heads) else held
    return _joined(cell[heads], held, first[full], (last - first)[full], width)


def _joined(
    cell: NDArray[np.int64], held: NDArray[np.int64], first: NDArray[np.int64], count: NDArray[np.int64], width: int
) -> Cells:
    """Put single cells and full runs together; neighbours that hold equally much are one run."""
    starts = np.concatenate([cell, first])
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    counts = np.concatenate([np.ones_like(cell), count])[order]
    values = np.concatenate([held, np.full(len(first), width)])[order]
    fresh = (starts[1:] != (starts + counts)[:-1]) | (values[1:] != values[:-1])
    heads = np.flatnonzero(np.concatenate([np.ones(min(1, len(starts)), bool), fresh]))
    return (starts[heads], np.add.reduceat(counts, heads) if len(heads) else counts, values[heads])


def held_by(
    shares: Sequence[Share],
    edges: NDArray[np.int64],  # ascending bytes from the start of the range
) -> NDArray[np.int64]:
    """Count the bytes of each class between edges."""
    counts = []
    for share in shares:
        runs = share.runs
        sums = np.concatenate([[0], np.cumsum(runs[:, 1])])
        place = np.searchsorted(runs[:, 0], edges, side="right")
        past = np.maximum(0, runs[place - 1].sum(axis=1) - edges) if len(runs) else 0
        counts.append(np.diff(sums[place] - np.where(place > 0, past, 0)))
    return np.stack(counts)


def used_span(shares: Sequence[Share]) -> int:
    """Return how many bytes from the start of the range hold nearly all that is in use."""
    runs = union([share.runs for share in shares if share.item.group != FREE])
    if not len(runs):
        return 0
    held = np.cumsum(runs[:, 1])
    last = int(np.searchsorted(held, held[-1] * USED_SHARE))
    return int(runs[last].sum())


NUMBERS: Final = (("u1", np.uint8), ("u2", np.uint16), ("u4", np.uint32), ("i4", np.int32))
"""Types of packed whole numbers; wider ones are doubles, exact up to 2**53, which no address on a disk reaches."""


def array(values: NDArray[Any], *, delta: bool = False) -> dict[str, Any]:
    """Pack whole numbers: narrowed, optionally as differences, deflated."""
    numbers = np.asarray(values).astype(np.int64)
    if delta and len(numbers):
        numbers = np.diff(numbers, prepend=0)
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    fitting = (item for item in NUMBERS if np.iinfo(item[1]).min <= low and high <= np.iinfo(item[1]).max)
    name, kind = next(fitting, ("f8", np.float64))
    narrowed = numbers.astype(kind)
    # Bytes of one significance together: they compress better.
    planes = narrowed.view(np.uint8).reshape(len(narrowed), narrowed.itemsize).T
    data = packed_bytes(np.ascontiguousarray(planes).tobytes())
    return {"type": name, "n": len(narrowed), "delta": delta, "data": data}


ALPHABET: Final = "".join(map(chr, range(ord("!"), ord("}")))).translate(dict.fromkeys(map(ord, "\"&'<>\\`")))
"""Digits that mean nothing in HTML, in JSON and in the strings of scripts."""

_DIGITS: Final = np.frombuffer(ALPHABET.encode(), np.uint8)
_POWERS: Final = 85 ** np.arange(4, -1, -1, dtype=np.uint64)


def characters(data: bytes) -> str:
    """Write bytes as digits of base 85, four as five, where base 64 would take five and a third.

    The first digit says how many zeros the last four were filled up with. The twin is in ``web/src/unpack.ts``.
    """
    filled = -len(data) % 4
    words = np.frombuffer(data + bytes(filled), np.dtype(np.uint32).newbyteorder(">")).astype(np.uint64)
    digits = (words[:, None] // _POWERS % np.uint64(len(ALPHABET))).astype(np.uint8)
    return _DIGITS[np.append(np.uint8(filled), digits)].tobytes().decode("ascii")


def packed_bytes(data: bytes) -> str:
    """Compress bytes for the page."""
    return characters(zlib.compress(data, 6))


def packed_text(value: str) -> str:
    """Compress a text for the page."""
    return packed_bytes(value.encode("utf-8", "replace"))


def packed_json(value: Any) -> str:
    """Compress what is many small things; arrays keep six decimals."""
    plain = json.dumps(
        value, separators=(",", ":"), sort_keys=True, allow_nan=False, default=lambda array: np.round(array, 6).tolist()
    )
    return packed_text(plain)


def script_json(value: dict[str, Any]) -> str:
    """JSON that cannot end its script element, whatever names it holds."""
    raw = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return raw.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
