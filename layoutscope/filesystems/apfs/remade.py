"""The same entries in file-system and object-map trees of APFS: where they would lie, had a volume been filled anew.

Apple File System Reference, "File-System Objects" and "Object Maps". A volume gives numbers in the order in which files
are made, and its tree is sorted by number: the order of its keys is that of the filling. What is no function of the
entries was measured on a volume that Linux had filled with 20,000 files in one go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.aging.trees import NAME, NOWHERE, Grown, RecordWrites, SplitRule, grown_tree
from layoutscope.aging.volume import made_anew
from layoutscope.filesystems.apfs import writing as taken
from layoutscope.filesystems.apfs.writing import CHUNK_BLOCKS, NODE_HEAD, lies_apart
from layoutscope.structs.arrays import find
from layoutscope.tables import NULL_ROW, Table, VolumeLayout, build_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

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


MAX_STARTS: Final = 65_536
"""Calls that make a file or write a page, after which a transaction ends (``TRANSACTION_STARTS_MAX``)."""

KEY_AND_TABLE: Final = 8 + 8
"""What an inode takes besides its value: its key, and its entry in the table of contents."""

RULE: Final = SplitRule(NODE_BYTES - NODE_HEAD, stays_at_cut=True)


class _Way(NamedTuple):
    """How a volume is filled."""

    # whether room that is in pieces is put together before a node is split: 0.3.20 does, 0.3.0 does not
    joins_pieces: bool
    is_apart: bool  # whether nodes get blocks from the end of the disk, or among the data


class _Filling(NamedTuple):
    """What is written: to the tree, by a driver that leaves room in pieces, and blocks of data, behind which writes."""

    writes: RecordWrites
    index_bytes: I64
    inode: I64
    name: I64
    data_blocks: I64
    data_after: I64


class _Step(NamedTuple):
    """What is written of some entries: the record, how much longer it gets, and what that leaves unused."""

    who: I64  # of which entries
    # record, more, lost: as of `RecordWrites`
    record: I64
    more: I64
    lost: I64
    is_writing: bool = False  # whether the contents of the file follow
    is_late: bool = False  # whether it is written at the end of the transaction, the last entry first


def copies_by_linux(layout: VolumeLayout, *, joins_pieces: bool) -> tuple[VolumeLayout, ...]:
    """Lay entries out as a Linux driver does that makes them in the order of their numbers."""
    known = lies_apart(layout) if layout.facts.filesystem == "apfs" else None
    way = _Way(joins_pieces, bool(known))
    ways = [way, way._replace(joins_pieces=not joins_pieces)]
    if known is None:
        ways.append(way._replace(is_apart=True))
    table = in_name_order(layout)
    filling = _filling(table)
    num_blocks = layout.facts.size_bytes // NODE_BYTES
    trees = {joins: _grown(filling, joins_pieces=joins) for joins in (True, False)}
    filled = (_placed(trees[each.joins_pieces], filling, each, num_blocks) for each in ways)
    return tuple(laid_out(layout, table, each) for each in filled)


class _Trees(NamedTuple):
    """The tree and its object map, from the leaves up, and where the map knows the nodes of each level."""

    tree: list[Grown]
    maps: list[Grown]
    map_leaf: list[I64]


def _grown(filling: _Filling, *, joins_pieces: bool) -> _Trees:
    """Make the files one by one."""
    writes = filling.writes
    if joins_pieces:
        writes = writes._replace(lost=np.zeros_like(writes.lost))
    tree = grown_tree(writes, (RULE, RULE), filling.index_bytes)
    return _Trees(tree, *_mapped(tree))


def _placed(trees: _Trees, filling: _Filling, way: _Way, num_blocks: int) -> FilledTrees:
    """Say which blocks the nodes got."""
    tree, maps, map_leaf = trees
    blocks = _blocks([*tree, *maps], filling, way, num_blocks)
    return FilledTrees(
        tree[0].node[filling.inode],
        tree[0].node[filling.name],
        _levels(tree, blocks[: len(tree)]),
        _levels(maps, blocks[len(tree) :]),
        map_leaf,
    )


def _levels(levels: list[Grown], blocks: list[I64]) -> list[FilledLevel]:
    above = [level.node for level in levels[1:]] + [np.zeros(1, np.int64)]
    return [FilledLevel(parent, block) for parent, block in zip(above, blocks, strict=True)]


def _filling(table: Table) -> _Filling:
    """Say what is written, in the order of time."""
    own, letters = table["file_id"].data, table.texts("name").num_chars()
    first = find(own, own)
    # A file with several names has one inode, which the first of them brings in.
    is_own = first == np.arange(len(own))
    size = np.where(table["kind"].equals("file") & is_own, table["size_bytes"].filled(0).astype(np.int64), 0)
    need = -(-size // NODE_BYTES)
    rank, order = _ranks(own, table["parent_id"].data, is_own, size > 0)
    steps = _steps(rank, letters, size > 0)
    who = np.concatenate([step.who for step in steps])
    number = np.repeat(np.arange(len(steps)), [len(step.who) for step in steps])
    turn = np.empty(len(own), np.int64)
    turn[np.argsort(own, kind="stable")] = np.arange(len(own))
    batch = np.cumsum((1 + need)[np.argsort(turn)])[turn] // MAX_STARTS
    is_late = np.array([step.is_late for step in steps])[number]
    # The last transaction ends when everything is written out: by the system, the first inode first.
    is_backwards = is_late & (batch[who] < batch.max(initial=0))
    time = np.lexsort((number, np.where(is_backwards, -turn[who], turn[who]), is_late, batch[who]))
    record, more, lost = (
        np.concatenate([getattr(step, name) for step in steps])[time] for name in ("record", "more", "lost")
    )
    writing = np.flatnonzero(np.array([step.is_writing for step in steps])[number[time]])
    named = taken.entry_name_bytes(letters) - taken.NAME_VALUE_BYTES + taken.CHILD_BYTES
    index_bytes = np.concatenate([np.full(3 * len(own), taken.SHORT_INDEX_BYTES), named])
    inode, name = rank[0][first], rank[3]
    writes = RecordWrites(record, more, lost, np.arange(len(time)), batch[who][time])
    return _Filling(writes, index_bytes[order], inode, name, need[who[time][writing]], writing)


def _steps(rank: I64, letters: I64, has_data: NDArray[np.bool_]) -> tuple[_Step, ...]:
    """Return what is written of each entry, one after the other: at once, and at the end of the transaction."""
    inode, stream, extent, name = rank
    every, files = np.flatnonzero(inode >= 0), np.flatnonzero(has_data)
    plain = taken.inode_bytes(letters, np.zeros(len(letters), bool))
    grows = (taken.inode_bytes(letters, has_data) - plain)[files]
    left = plain[files] - KEY_AND_TABLE

    def new(who: I64, rank: I64, size: I64 | int, **how: bool) -> _Step:
        none = np.zeros(len(who), np.int64)
        return _Step(who, rank[who], none + size, none, **how)

    return (
        new(every, inode, plain[every]),
        new(np.arange(len(letters)), name, taken.entry_name_bytes(letters)),
        new(files, stream, taken.DATA_STREAM_BYTES, is_writing=True),
        new(files, extent, taken.EXTENT_BYTES, is_late=True),
        _Step(files, inode[files], grows, left, is_late=True),
    )


def _ranks(
    own: NDArray[np.uint64], parent: NDArray[np.uint64], is_own: NDArray[np.bool_], has_data: NDArray[np.bool_]
) -> tuple[I64, I64]:
    """Return the places of inodes, data streams, extents and names in key order, and the records in that order."""
    number = np.concatenate([own, own, own, parent])
    kind = np.repeat([taken.INODE, taken.DATA_STREAM, taken.FILE_EXTENT, NAME], len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 4), kind, number))
    there = np.concatenate([is_own, has_data, has_data, np.ones(len(own), bool)])
    order = order[there[order]]
    rank = np.full(len(number), NOWHERE)
    rank[order] = np.arange(len(order))
    return rank.reshape(4, -1), order


class _Taken(NamedTuple):
    """Nodes of several levels that get blocks, in the order of time: level, place in it, when, in which transaction."""

    level: I64
    node: I64
    when: I64
    batch: I64


def _all_taken(levels: list[Grown]) -> _Taken:
    level = np.repeat(np.arange(len(levels)), [len(each.taken_by) for each in levels])
    node, when, batch = (
        np.concatenate([getattr(each, name) for each in levels]) for name in ("taken_by", "taken_at", "taken_in")
    )
    order = np.lexsort((level, when))
    return _Taken(level[order], node[order], when[order], batch[order])


def _mapped(tree: list[Grown]) -> tuple[list[Grown], list[I64]]:
    """Number the nodes of the tree as they come, and fill its object map with all that get a block."""
    found = _all_taken(tree)
    starts = np.cumsum([0] + [len(level.born) for level in tree])
    node = starts[found.level] + found.node
    _, first, own = np.unique(node, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    more = np.zeros(len(node), np.int64)
    more[first] = taken.MAP_BYTES
    writes = RecordWrites(number[own], more, np.zeros_like(more), found.when, found.batch)
    maps = grown_tree(writes, (RULE, RULE), np.full(len(number), taken.MAP_INDEX_BYTES))
    return maps, np.split(maps[0].node[number], starts[1:-1])


def _blocks(levels: list[Grown], filling: _Filling, way: _Way, num_blocks: int) -> list[I64]:
    """Return where the nodes of all levels lie in the end: where they were written last."""
    found = _all_taken(levels)
    block = np.arange(len(found.when))
    if way.is_apart:
        # The last chunk first, and each from its beginning.
        block = (num_blocks // CHUNK_BLOCKS - 1 - block // CHUNK_BLOCKS) * CHUNK_BLOCKS + block % CHUNK_BLOCKS
    else:
        written = np.concatenate([[0], np.cumsum(filling.data_blocks)])
        block = block + written[np.searchsorted(filling.data_after, found.when)]
    block = np.clip(block, 0, num_blocks - 1)
    placed = [np.zeros(len(level.born), np.int64) for level in levels]
    for number, each in enumerate(placed):
        mine = found.level == number
        # Of several blocks the last one stays.
        each[found.node[mine]] = block[mine]
    return placed
