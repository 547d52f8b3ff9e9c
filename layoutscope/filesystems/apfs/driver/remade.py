"""The same entries in file-system and object-map trees of APFS: where they would lie, had a volume been filled anew.

Apple File System Reference, "File-System Objects" and "Object Maps". A volume gives numbers in the order in which files
are made, and its tree is sorted by number: the order of its keys is that of the filling. What is no function of the
entries was measured on a volume that Linux had filled with 20,000 files in one go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.aging.volume import made_anew
from layoutscope.arrays.lookup import find
from layoutscope.tables import NULL_ROW, Table, VolumeLayout, build_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64

NODE_BYTES: Final = 4096

LEAF_BYTES: Final = 2541
"""What records and their entries in the table of contents take of a leaf: 6,083,136 bytes in 2,394 leaves, fresh."""

NAME_BYTES: Final = 46
"""A directory record besides its name: key, value, the name's end, its entry in the table of contents."""

OWN_BYTES: Final = 208
"""What else an entry has: its inode, its data stream, its extents."""

FANOUT: Final = 73
MAP_FANOUT: Final = 56
"""Children of an index node, and nodes that a leaf of the object map knows; measured on the same volume."""

_TREES: Final = ("omap", "fs")


class FilledLevel(NamedTuple):
    """Nodes of a level in key order."""

    parent: I64  # place of each one's parent in the level above
    block: I64  # where they lie, in blocks from the start of the volume


class FilledTrees(NamedTuple):
    """Where records and nodes come to lie."""

    # inode_leaf, name_leaf: leaves of each entry's records
    inode_leaf: I64
    name_leaf: I64
    # tree, maps: the tree and its object map, from the leaves up
    tree: list[FilledLevel]
    maps: list[FilledLevel]
    map_leaf: list[I64]  # for each level of the tree the leaves of the object map that lead to its nodes


def remade(layout: VolumeLayout) -> VolumeLayout:
    """Put the entries of a volume into trees as full as measured ones, with contiguous nodes in key order."""
    table = in_name_order(layout)
    return laid_out(layout, table, _filled_evenly(table))


def in_name_order(layout: VolumeLayout) -> Table:
    """Return the entries of a volume in the order of their names' keys."""
    table = layout.columns("entries")
    return table.take(np.lexsort((_listed(layout, table), table["parent_id"].data)))


def laid_out(layout: VolumeLayout, table: Table, trees: FilledTrees) -> VolumeLayout:
    """Lay the entries of a volume into trees that were filled with them."""
    own, parent = table["file_id"].data, table["parent_id"].data
    nodes, first_leaf = _nodes(trees, layout.facts.image_offset)
    inode_row, name_row = ((leaf + first_leaf).astype(np.uint32) for leaf in (trees.inode_leaf, trees.name_leaf))
    is_folder = table["kind"].equals("directory")
    has_data = table["kind"].equals("file") & (table["size_bytes"].filled(0) > 0)
    rows = {
        "entry_node_row": name_row,
        "inode_node_row": inode_row,
        "dstream_node_row": np.where(has_data, inode_row, NULL_ROW),
        "listing_node_row": np.where(is_folder, _last_names(own, parent, name_row, inode_row), NULL_ROW),
        # A directory's names stand behind its inode: who lists backwards comes to that in the end.
        "listing_end_node_row": np.where(is_folder, inode_row, NULL_ROW),
    }
    return made_anew(layout, table, nodes, rows, ("apfs", "APFS"))


def _listed(layout: VolumeLayout, table: Table) -> I64:
    """Order of names within their directories: as APFS has it, by hash, or one that means as little."""
    rank: I64 = table["entry_rank"].signed()
    if layout.facts.filesystem == "apfs":
        return rank
    # Knuth's multiplicative hash (The Art of Computer Programming 3, 6.4): it scatters what was sorted by name.
    return rank * 2_654_435_761 % 2**32


def _leaves(own: NDArray[np.uint64], parent: NDArray[np.uint64], name_chars: I64) -> tuple[I64, I64, int]:
    """Place inodes and names in key order, and say in which leaf each comes to lie."""
    # A file with several names has one inode, which the first of them brings in.
    first = find(own, own) == np.arange(len(own))
    number = np.concatenate([own, parent])
    is_name = np.repeat(np.array([0, 1], np.uint8), len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 2), is_name, number))
    end = np.cumsum(np.concatenate([OWN_BYTES * first, NAME_BYTES + name_chars])[order])
    leaf = np.empty(len(order), np.int64)
    leaf[order] = np.maximum(end - 1, 0) // LEAF_BYTES
    return leaf[: len(own)][find(own, own)], leaf[len(own) :], int(leaf.max(initial=0)) + 1


def _last_names(
    own: NDArray[np.uint64], parent: NDArray[np.uint64], name_row: NDArray[np.uint32], inode_row: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Leaf with the last name in each directory, that of its inode where it has none."""
    place = np.searchsorted(parent, own, side="right") - 1
    has_names = (place >= 0) & (parent[np.maximum(place, 0)] == own)
    return np.where(has_names, name_row[np.maximum(place, 0)], inode_row)


def _filled_evenly(table: Table) -> FilledTrees:
    """Fill nodes as full as measured ones, one after the other."""
    own, parent = table["file_id"].data, table["parent_id"].data
    inode_leaf, name_leaf, num_leaves = _leaves(own, parent, table.texts("name").num_chars())
    widths = _widths(num_leaves)
    map_widths = _widths(-(-sum(widths) // MAP_FANOUT))
    # Numbers of nodes are given as they are made, level by level here: a map's leaf knows so many in a row.
    before = np.cumsum(widths[::-1])[::-1] - widths
    map_leaf = [(start + np.arange(width)) // MAP_FANOUT for start, width in zip(before, widths, strict=True)]
    tree, maps = _even_levels(widths, sum(map_widths)), _even_levels(map_widths, 0)
    return FilledTrees(inode_leaf, name_leaf, tree, maps, map_leaf)


def _widths(num_leaves: int) -> list[int]:
    """Count the nodes of each level, from the leaves up to the root."""
    widths = [num_leaves]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // FANOUT))
    return widths


def _even_levels(widths: list[int], first_block: int) -> list[FilledLevel]:
    """Lay out one tree from its root down."""
    ends = first_block + np.cumsum(widths[::-1])[::-1]
    pairs = zip(widths, ends, strict=True)
    return [FilledLevel(np.arange(width) // FANOUT, end - width + np.arange(width)) for width, end in pairs]


def _joined(levels: list[FilledLevel], first_row: int) -> tuple[I64, I64, I64, I64]:
    """Join the levels of a tree, the root first: level, place in its level, row of the parent, and block."""
    widths = [len(each.block) for each in levels[::-1]]
    starts = first_row + np.cumsum([0, *widths])
    parent = [start + each.parent for start, each in zip(starts, levels[-2::-1], strict=False)]
    return (
        np.repeat(np.arange(len(widths))[::-1], widths),
        np.concatenate([np.arange(width) for width in widths]),
        np.concatenate([np.full(1, -1), *parent]),
        np.concatenate([each.block for each in levels[::-1]]),
    )


def _nodes(trees: FilledTrees, image_offset: int) -> tuple[Table, int]:
    """Make the object map, then the index nodes and the leaves of the tree; the row of the first leaf, too."""
    maps = _joined(trees.maps, 0)
    num_maps = len(maps[0])
    level, rank, parent, block = (
        np.concatenate(both) for both in zip(maps, _joined(trees.tree, num_maps), strict=True)
    )
    number, is_map = np.arange(len(level)), np.arange(len(level)) < num_maps
    first_map_leaf = num_maps - len(trees.maps[0].block)
    locator = np.concatenate([np.full(num_maps, NULL_ROW), first_map_leaf + np.concatenate(trees.map_leaf[::-1])])
    every = np.zeros(len(number), np.int64)
    nodes: dict[str, Any] = {
        "device": 0,
        "volume": None,
        "tree": (np.where(is_map, 0, 1), _TREES),
        "node_id": number,
        "image_offset": image_offset + block * NODE_BYTES,
        "size_bytes": NODE_BYTES,
        "level": level,
        "kind": (np.where(level > 0, 0, 1), ("index", "leaf")),
        "num_records": None,
        "used_bytes": LEAF_BYTES,
        "free_bytes": None,
        "parent_row": np.where(parent < 0, NULL_ROW, parent).astype(np.uint32),
        "locator_row": locator.astype(np.uint32),
        "key_rank": rank,
        "first_key_id": None,
        "last_key_id": None,
        "state": (every, ("live",)),
        "valid": (every, ("structure",)),
    }
    return build_table("nodes", nodes), len(number) - len(trees.tree[0].block)
