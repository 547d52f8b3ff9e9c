"""The same entries in a catalog of HFS+: where their records would lie, had a volume been filled with them.

TN1150, "Catalog File". A catalog's records are a function of its entries: a file or folder stands under its folder's
number and its name, a thread under its own number. What is no function of them was measured on volumes that Linux had
filled and aged (:data:`FILL`): how full leaves are, and that they lie in the order of their keys. Where a driver fills
a catalog file by file, its way of splitting nodes says both: a file or folder gets its thread first, then its own
record (Linux fs/hfsplus/catalog.c), and nodes take the first free number, so that they lie as they were split off.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.aging.growth import RecordWrites, SplitRule, grown_tree
from layoutscope.aging.volume import made_anew
from layoutscope.arrays.lookup import find
from layoutscope.filesystems.hfsplus.driver.writing import NODE_HEAD, POLICIES
from layoutscope.ondisk.records import CATALOG_FILE, CATALOG_FOLDER, CATALOG_KEY, CATALOG_THREAD
from layoutscope.tables import NULL_ROW, Table, Values, VolumeLayout, build_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, Mask

NODE_BYTES: Final = 8192
"""Node size of catalogs that newfs_hfs and mkfs.hfsplus make on volumes of 1 GiB or more."""

FILL: Final = 0.47
"""Share of leaves that records take: 0.50 and 0.52 on fresh volumes of 20,000 and 200,000 files, 0.42 and 0.44 on aged.

Who adds keys in their order leaves nodes half full: a full one is split in two, and nothing is added to the first.
"""

FANOUT: Final = 60
"""Children of an index node: keys with names of a usual length, in nodes that are half full, too."""

_HEAD_BYTES: Final = 24
_UNIT_BYTES: Final = 2
_OFFSET_BYTES: Final = 2
"""A record's entry in the table of offsets at the end of its node."""

_POINTER_BYTES: Final = 4
"""The number of a node, that an index record leads to."""

FIRST_NODE: Final = 1
"""The first number that a node gets: the header has 0."""

_DESCRIPTOR_BYTES: Final = 14

_KINDS: Final = ("header", "index", "leaf")


class KeyedRecords(NamedTuple):
    """Records of a catalog: the thread of each entry, then the record of each; arrays of twice as many items."""

    own: NDArray[np.uint64]  # numbers of the entries
    order: I64  # records in the order of their keys
    size: I64  # bytes that each takes in a leaf
    index_bytes: I64  # bytes that each takes in an index node, if a node begins with it


class PlacedLevel(NamedTuple):
    """Nodes of a level in key order: the place of each one's parent in the level above, and its number."""

    parent: I64
    number: I64


class FilledTree(NamedTuple):
    """Where records and nodes come to lie: the leaf of each record, and the levels from the leaves up."""

    leaf: I64
    levels: list[PlacedLevel]


def remade(
    layout: VolumeLayout,
    # fills nodes with the records; without it all are as full as measured ones, and lie in the order of their keys
    filled: Callable[[KeyedRecords], FilledTree] | None = None,
) -> VolumeLayout:
    """Lay the entries of a volume into a catalog that lies in one piece."""
    table = layout.columns("entries")
    table = table.take(_by_key(table, is_of_catalog=layout.facts.filesystem == "hfsplus"))
    is_folder = table["kind"].equals("directory")
    own, parent = table["file_id"].data, table["parent_id"].data
    leaf, levels = (filled or _filled_evenly)(_records(table, own, parent, is_folder))
    nodes, first_leaf = _nodes(levels, layout.facts.image_offset)
    thread_row, entry_row = ((part + first_leaf).astype(np.uint32) for part in np.split(leaf, 2))
    counts = np.bincount(np.maximum(find(own, parent), 0), minlength=len(own))
    rows = {
        "entry_node_row": entry_row,
        "inode_node_row": entry_row,
        "thread_node_row": thread_row,
        "listing_node_row": np.where(is_folder, thread_row, NULL_ROW),
        "valence": Values(counts.astype(np.uint32), is_folder),
    }
    return made_anew(layout, table, nodes, rows, ("hfsplus", "HFS+"))


def has_names(layout: VolumeLayout) -> bool:
    """Whether entries have their names, on which their order in a catalog depends: hashes are all of one length."""
    names = layout.columns("entries").texts("name")
    return names.known is None and bool((names.length != names.length[:1]).any())


def _by_key(table: Table, *, is_of_catalog: bool) -> I64:
    """Order of the entries in a catalog: by folder, then as they stand in that of HFS+, else by name without case.

    Of the latter, names that agree in their first bytes, and letters that ASCII has not, may change places: they do so
    within a leaf or beside it, and the number of leaves is the same.
    """
    if is_of_catalog:
        return np.lexsort((table["entry_rank"].signed(), table["parent_id"].data))
    heads = table.texts("name").heads(_HEAD_BYTES)
    heads[(heads >= ord("A")) & (heads <= ord("Z"))] += ord("a") - ord("A")
    # Eight letters as one number, the first of them the highest.
    words = heads.view(np.dtype(np.uint64).newbyteorder("big"))
    return np.lexsort((*words.T[::-1], table["parent_id"].data))


def _sizes(table: Table, is_folder: Mask) -> tuple[I64, I64]:
    """Bytes of each entry's thread, and of its own record: key, value, and its entry in the table of offsets."""
    names = table.texts("name").num_chars() * _UNIT_BYTES
    fixed = CATALOG_KEY.width + _OFFSET_BYTES
    records = np.where(is_folder, CATALOG_FOLDER.width, CATALOG_FILE.width)
    return fixed + CATALOG_THREAD.width + names, fixed + names + records


def _records(table: Table, own: NDArray[np.uint64], parent: NDArray[np.uint64], is_folder: Mask) -> KeyedRecords:
    """Return the records of entries that stand in the order of their keys."""
    number = np.concatenate([own, parent])
    # A thread has no name: of the records under one number it is the first.
    is_entry = np.repeat(np.array([0, 1], np.uint8), len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 2), is_entry, number))
    named = table.texts("name").num_chars() * _UNIT_BYTES
    short = CATALOG_KEY.width + _OFFSET_BYTES + _POINTER_BYTES
    index_bytes = short + np.concatenate([np.zeros_like(named), named])
    return KeyedRecords(own, order, np.concatenate(_sizes(table, is_folder)), index_bytes)


def _filled_evenly(records: KeyedRecords) -> FilledTree:
    """Fill leaves as full as measured ones, one after the other."""
    end = np.cumsum(records.size[records.order])
    leaf = np.empty(len(records.order), np.int64)
    leaf[records.order] = (end - 1) // int(NODE_BYTES * FILL)
    widths = [int(leaf.max(initial=0)) + 1]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // FANOUT))
    # Numbers go from the root down; the header has the first.
    ends = 1 + np.cumsum(widths[::-1])[::-1]
    levels = [
        PlacedLevel(np.arange(width) // FANOUT, end - width + np.arange(width))
        for width, end in zip(widths, ends, strict=True)
    ]
    return FilledTree(leaf, levels)


def _nodes(levels: list[PlacedLevel], image_offset: int) -> tuple[Table, int]:
    """Make header, index nodes from the root down, and leaves; returns the row of the first leaf, too."""
    widths = [len(level.number) for level in levels[::-1]]
    starts = 1 + np.cumsum([0, *widths])
    parents = [np.full(2, NULL_ROW, np.int64)]
    parents += [start + level.parent for start, level in zip(starts, levels[-2::-1], strict=False)]
    level = np.repeat(np.arange(len(widths))[::-1], widths)
    rank = np.concatenate([np.arange(width) for width in widths])
    number = np.concatenate([np.zeros(1, np.int64), *(each.number for each in levels[::-1])])
    known = np.arange(len(number)) > 0
    nodes: dict[str, Any] = {
        "device": 0,
        "volume": None,
        "tree": (np.zeros(len(number), np.int64), ("catalog",)),
        "node_id": number,
        "image_offset": image_offset + number * NODE_BYTES,
        "size_bytes": NODE_BYTES,
        "level": Values(np.concatenate([[0], level]), known),
        "kind": (np.concatenate([[0], np.where(level > 0, 1, 2)]), _KINDS),
        "num_records": None,
        "used_bytes": None,
        "free_bytes": None,
        "parent_row": np.concatenate(parents).astype(np.uint32),
        "key_rank": Values(np.concatenate([[0], rank]), known),
        "first_key_id": None,
        "last_key_id": None,
        "state": (np.zeros(len(number), np.int64), ("live",)),
        "valid": (np.zeros(len(number), np.int64), ("structure",)),
    }
    return build_table("nodes", nodes), int(starts[-2])


def linux_rule() -> SplitRule:
    """Return how Linux splits: fs/hfsplus/brec.c, hfs_bnode_split.

    Records stay until they reach the middle of the node, counted with its descriptor, less two bytes for each record
    that the node has and the descriptor again.
    """
    room = NODE_BYTES // 2 - 2 * _DESCRIPTOR_BYTES
    return SplitRule(NODE_BYTES - NODE_HEAD, stays_at_cut=False, room_bytes=room, less_per_record=_OFFSET_BYTES)


def macos_rule() -> SplitRule:
    """Return how macOS is taken to split: as much stays as its forecasts assume."""
    room = NODE_BYTES - NODE_HEAD
    return SplitRule(room, stays_at_cut=False, room_bytes=int(POLICIES["macos"].leaf_keep * room))


def filled_catalogs(layout: VolumeLayout, host: str) -> tuple[VolumeLayout, ...]:
    """Lay entries out as a driver does that makes them in the order of their numbers."""
    if not has_names(layout):
        return ()
    rules = (linux_rule(),) if host == "linux" else (macos_rule(), linux_rule())
    return tuple(remade(layout, partial(_filled, rule)) for rule in rules)


def _filled(rule: SplitRule, records: KeyedRecords) -> FilledTree:
    """Write thread and record of each entry, in the order of their numbers."""
    count = len(records.own)
    rank = np.empty(2 * count, np.int64)
    rank[records.order] = np.arange(2 * count)
    made = np.argsort(records.own, kind="stable")
    written = np.stack([made, made + count], axis=1).ravel()
    none = np.zeros(2 * count, np.int64)
    writes = RecordWrites(rank[written], records.size[written], none, np.arange(2 * count), none)
    levels = grown_tree(writes, (rule, rule), records.index_bytes[records.order])
    born = np.concatenate([level.born for level in levels])
    depth = np.repeat(np.arange(len(levels)), [len(level.born) for level in levels])
    number = np.empty(len(born), np.int64)
    number[np.lexsort((depth, born))] = FIRST_NODE + np.arange(len(born))
    numbers = np.split(number, np.cumsum([len(level.born) for level in levels])[:-1])
    above = [level.node for level in levels[1:]] + [np.zeros(1, np.int64)]
    placed = [PlacedLevel(parent, own) for parent, own in zip(above, numbers, strict=True)]
    return FilledTree(levels[0].node[rank], placed)
