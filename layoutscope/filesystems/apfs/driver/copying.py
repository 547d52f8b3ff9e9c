"""Trees of APFS that a driver fills file by file: its way of splitting nodes, and which blocks these get meanwhile.

linux-apfs-rw 0.3.0 and 0.3.20: ``node.c`` (apfs_node_split has half of the records go), ``dir.c`` (apfs_mkany: an
inode, then its name), ``inode.c`` (the data stream with the first block that is written), ``transaction.c`` (inodes are
written again at the end, the last one first: with their extents, and with the field for their data stream).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.aging.growth import Grown, RecordWrites, SplitRule, grown_tree
from layoutscope.aging.records import NAME
from layoutscope.aging.trees import NOWHERE
from layoutscope.arrays.lookup import find
from layoutscope.filesystems.apfs.driver import recordbytes as taken
from layoutscope.filesystems.apfs.driver.remade import NODE_BYTES, FilledLevel, FilledTrees, in_name_order, laid_out
from layoutscope.filesystems.apfs.driver.writing import CHUNK_BLOCKS
from layoutscope.filesystems.apfs.driver.written import NODE_HEAD, lies_apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout

    I64 = NDArray[np.int64]

MOST_STARTS: Final = 65_536
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
    batch = np.cumsum((1 + need)[np.argsort(turn)])[turn] // MOST_STARTS
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
