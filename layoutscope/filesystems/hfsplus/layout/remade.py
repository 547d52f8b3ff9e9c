"""The same entries in a catalog of HFS+: where their records would lie, had a volume been filled with them.

TN1150, "Catalog File". A catalog's records are a function of its entries: a file or folder stands under its folder's
number and its name, a thread under its own number. What is no function of them was measured on volumes that Linux had
filled and aged (:data:`FILL`): how full leaves are, and that they lie in the order of their keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.ondisk.records import CATALOG_FILE, CATALOG_FOLDER, CATALOG_KEY, CATALOG_THREAD
from layoutscope.tables import NULL_ROW, Table, Values, VolumeLayout, build_table, findings_table

if TYPE_CHECKING:
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

_KINDS: Final = ("header", "index", "leaf")


def remade(layout: VolumeLayout) -> VolumeLayout:
    """Lay the entries of a volume into a catalog that lies in one piece.

    Parameters
    ----------
    layout : VolumeLayout
        Of any file system. Links are taken for files of their own.

    Returns
    -------
    VolumeLayout
        With nodes and entries alone: enough for walks that read no data.
    """
    order, table = _by_key(layout.columns("entries")), layout.columns("entries")
    table = table.take(order)
    is_folder = table["kind"].equals("directory")
    own, parent = table["file_id"].data, table["parent_id"].data
    thread_leaf, entry_leaf, num_leaves = _leaves(own, parent, _sizes(table, is_folder))
    nodes, first_leaf = _nodes(num_leaves, layout.facts.image_offset)
    thread_row, entry_row = (rows + np.uint32(first_leaf) for rows in (thread_leaf, entry_leaf))
    counts = np.bincount(np.maximum(find(own, parent), 0), minlength=len(own))
    kept = {name: table[name] for name in ("parent_id", "file_id", "kind", "size_bytes", "flags")}
    entries = build_table(
        "entries",
        {
            **kept,
            "volume": layout.facts.volume,
            "name": table.texts("name"),
            "name_raw": table.texts("name_raw"),
            "link_count": 1,
            "create_time": None,
            "modify_time": None,
            "entry_rank": np.arange(len(own), dtype=np.uint32),
            "entry_node_row": entry_row,
            "inode_node_row": entry_row,
            "thread_node_row": thread_row,
            "listing_node_row": np.where(is_folder, thread_row, NULL_ROW),
            "valence": Values(counts.astype(np.uint32), is_folder),
        },
    )
    facts = replace(layout.facts, filesystem="hfsplus", variant="HFS+", trees=(), details={})
    none = {name: build_table(name, {}) for name in ("node_fragments", "regions", "extents", "free")}
    return VolumeLayout(facts=facts, nodes=nodes, entries=entries, findings=findings_table([]), **none)


def has_names(layout: VolumeLayout) -> bool:
    """Whether entries have their names, on which their order in a catalog depends: hashes are all of one length."""
    names = layout.columns("entries").texts("name")
    return names.known is None and len(np.unique(names.length)) > 1


def _by_key(table: Table) -> I64:
    """Order of the entries in a catalog: by folder, then by name without regard to case.

    Names that agree in their first bytes, and letters that ASCII has not, may change places: they do so within a leaf
    or beside it, and the number of leaves is the same.
    """
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


def _leaves(own: NDArray[np.uint64], parent: NDArray[np.uint64], sizes: tuple[I64, I64]) -> tuple[Any, Any, int]:
    """Place threads and entries in key order, and say in which leaf each comes to lie."""
    number = np.concatenate([own, parent])
    # A thread has no name: of the records under one number it is the first.
    is_entry = np.repeat(np.array([0, 1], np.uint8), len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 2), is_entry, number))
    end = np.cumsum(np.concatenate(sizes)[order])
    leaf = np.empty(len(order), np.uint32)
    leaf[order] = (end - 1) // int(NODE_BYTES * FILL)
    return leaf[: len(own)], leaf[len(own) :], int(leaf.max(initial=0)) + 1


def _nodes(num_leaves: int, image_offset: int) -> tuple[Table, int]:
    """Lay out header, index nodes from the root down, and leaves; returns the row of the first leaf, too."""
    levels = [num_leaves]
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // FANOUT))
    widths = levels[::-1]
    starts = 1 + np.cumsum([0, *widths])
    parents = [np.full(2, NULL_ROW, np.int64)]
    above = zip(starts, widths[1:], strict=False)
    parents += [start + np.arange(width) // FANOUT for start, width in above]
    level = np.repeat(np.arange(len(widths))[::-1], widths)
    rank = np.concatenate([np.arange(width) for width in widths])
    number = np.arange(1 + len(level))
    known = number > 0
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
