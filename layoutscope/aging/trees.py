"""B-trees as arrays: which records each node holds, where full nodes are split, and which nodes are removed.

A level is the ascending array of its nodes' first keys. A node holds the keys from its own first key up to the next
node's. Records are keys and sizes, not objects.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.structs.arrays import I64, distinct, is_among, match, ordinals
from layoutscope.structs.native import Kernel, RefusedError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

KIND_SHIFT: Final = 24
ID_SHIFT: Final = 28
MAX_PLACES: Final = (1 << KIND_SHIFT) - 1

NAME: Final = 9
"""Type of the directory records that a listing reads."""

TEMPORARY_LETTERS: Final = 5
"""Extra letters of the name ``.NAME.tmp`` under which a replacement is first written."""


def key_of(number: I64, kind: int, place: I64 | int = 0) -> I64:
    """Return the keys of records of one type."""
    return (number << ID_SHIFT) + (kind << KIND_SHIFT) + np.minimum(place, MAX_PLACES)


NOWHERE: Final = -1
"""Block of a node that has not been written, and id of a node without one."""
FIRST: Final = -(1 << 62)
"""First key of the first node of every level, lower than all other keys."""


@dataclass(frozen=True)
class NodeRule:
    """How the nodes of a level fill."""

    capacity_bytes: int  # room for records
    keep_share: float = 0.5  # share of the capacity that stays left of a split
    # neighbours that fit together into this share of the capacity are merged; 0 if only empty nodes are removed
    merge_share: float = 0.0
    less_per_record: int = 0  # bytes per record of the full node subtracted from the part that stays
    by_count: bool = False  # whether the share is of the records instead of the capacity
    balances: bool = False  # as in a `SplitRule` with `BALANCED`


@dataclass(frozen=True)
class TreeLevel:
    """Nodes of one level in key order; arrays of shape (n_nodes,)."""

    bound: I64  # first keys
    ident: I64  # object ids or node numbers, `NOWHERE` for new ones
    block: I64  # block of each node, `NOWHERE` for new ones
    xid: I64  # transaction that wrote them

    def __len__(self) -> int:
        return len(self.bound)

    def place_nodes(self, bound: I64) -> TreeLevel:
        """Return the level with new first keys; nodes whose first key existed keep their id, block and transaction."""
        old, same = match(self.bound, bound)
        kept = [np.where(same, values[old], NOWHERE) for values in (self.ident, self.block, self.xid)]
        return TreeLevel(bound, *kept)

    def node_of(self, key: I64) -> I64:
        """Return the nodes that hold keys, as indexes into the level."""
        place: I64 = np.maximum(np.searchsorted(self.bound, key, side="right") - 1, 0)
        return place

    def freed_blocks(self, bound: I64) -> I64:
        """Return the blocks of the nodes that no longer exist in a changed level."""
        return np.asarray(self.block[~is_among(self.bound, bound)])


@dataclass(frozen=True)
class AgingTree:
    """A B-tree: its records, its levels and the rules of its nodes."""

    # key, size: records in key order, and the bytes that each takes
    key: I64
    size: I64
    levels: tuple[TreeLevel, ...]  # from the leaves up to the root
    # leaf, index: rules for leaves and for index nodes
    leaf: NodeRule
    index: NodeRule
    # index_bytes, short_index_bytes: bytes of an index record, and of one whose key has no name
    index_bytes: int
    short_index_bytes: int = 0

    @property
    def newest(self) -> int:
        """The last transaction that wrote one of its nodes."""
        return max(int(level.xid.max(initial=0)) for level in self.levels)

    def join(self, column: str) -> I64:
        """Return a column of all nodes, level by level from the leaves up."""
        joined: I64 = np.concatenate([getattr(level, column) for level in self.levels])
        return joined

    def with_nodes(self, **columns: I64) -> AgingTree:
        """Return the tree with other columns of all nodes, in the order of :meth:`join`."""
        ends = np.cumsum([len(level) for level in self.levels])[:-1]
        parts = {name: np.split(column, ends) for name, column in columns.items()}
        levels = [
            replace(level, **{name: part[number] for name, part in parts.items()})
            for number, level in enumerate(self.levels)
        ]
        return replace(self, levels=tuple(levels))

    def list_new_nodes(self, touched: NodeTouches) -> I64:
        """List the nodes without a number, in the order of their first writes."""
        node = touched.node[np.argsort(touched.turn, kind="stable")]
        new = node[self.join("ident")[node] == NOWHERE]
        found: I64 = new[np.sort(np.unique(new, return_index=True)[1])]
        return found

    def select_records(self, records: Records) -> Records:
        """Return the given records that are in the tree, each once."""
        there = np.flatnonzero(is_among(records.key, self.key))
        own, first = np.unique(records.key[there], return_index=True)
        return Records(own, records.size[there[first]], records.turn[there[first]])

    def leaf_of(self, key: I64) -> I64:
        """Return the leaves that hold keys, as indexes into the lowest level."""
        return self.levels[0].node_of(key)

    def index_sizes(self, key: I64) -> I64:
        """Return the bytes of the index records for nodes with the given first keys."""
        named = (key >> KIND_SHIFT) & ((1 << (ID_SHIFT - KIND_SHIFT)) - 1) == NAME
        return np.where(named | (self.short_index_bytes == 0), self.index_bytes, self.short_index_bytes)

    def fill(self, number: int) -> tuple[I64, I64]:
        """Return the bytes and the number of records in each node of a level."""
        bound = self.levels[number].bound
        key, size = self.key, self.size
        if number:
            key = self.levels[number - 1].bound
            size = self.index_sizes(key)
        return loads(bound, key, size), np.diff(np.searchsorted(key, bound), append=len(key))


def loads(bound: I64, key: I64, size: I64) -> I64:
    """Return the bytes that each node of a level holds, by the first keys of its nodes."""
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    loaded: I64 = total[np.append(first[1:], len(key))] - total[first]
    return loaded


def split_full(bound: I64, key: I64, size: I64, rule: NodeRule) -> I64:
    """Split the nodes that are too full, and return the first keys of all nodes.

    A node that is filled at its end splits repeatedly and leaves nodes that hold `keep_share` of their capacity. A
    node that is filled evenly splits once. Both are cuts of the records in key order.
    >>> split_full(np.array([0]), np.arange(10), np.full(10, 10), NodeRule(40)).tolist()
    [0, 2, 4, 6]
    """
    load = loads(bound, key, size)
    full = np.flatnonzero(load > rule.capacity_bytes)
    if not len(full):
        return bound
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    load, count = load[full], np.diff(first, append=len(key))[full]
    # The bytes that stay in a node; what is subtracted per record is for a node that is just full.
    less = np.rint(count * rule.less_per_record * rule.capacity_bytes / np.maximum(load, 1))
    piece = np.maximum(rule.keep_share * rule.capacity_bytes - less, 1).astype(np.int64)
    cuts = np.ceil((load - rule.capacity_bytes) / piece).astype(np.int64)
    node, number = np.repeat(full, cuts), ordinals(cuts) + 1
    if rule.by_count:
        fit = count * rule.capacity_bytes // load
        cut = first[node] + number * np.repeat(np.maximum(np.ceil(fit * rule.keep_share), 1).astype(np.int64), cuts)
    else:
        target = total[first[node]] + number * np.repeat(piece, cuts)
        cut = np.searchsorted(total, target)
        # The last record that stays need not exceed the share: it is moved if that is closer to the target.
        cut -= (rule.less_per_record == 0) & (total[cut] - target > target - total[np.maximum(cut - 1, 0)])
    return distinct(np.concatenate([bound, key[np.minimum(cut, len(key) - 1)]]))


def drop_empty_nodes(bound: I64, key: I64, size: I64, rule: NodeRule) -> I64:
    """Remove empty nodes, and merge neighbours if the rule says so; the first node always stays.

    >>> drop_empty_nodes(np.array([0, 4, 8]), np.array([1, 9]), np.array([5, 5]), NodeRule(40)).tolist()
    [0, 8]
    >>> drop_empty_nodes(np.array([0, 4, 8]), np.array([1, 5, 9]), np.full(3, 5), NodeRule(40, 0.5, 0.5)).tolist()
    [0, 8]
    """
    kept = loads(bound, key, size) > 0
    kept[0] = True
    bound = bound[kept]
    if rule.merge_share and len(bound) > 1:
        load = loads(bound, key, size)
        fits = load[:-1] + load[1:] <= rule.merge_share * rule.capacity_bytes
        begins = fits & ~np.concatenate([[False], fits[:-1]])
        since = np.arange(len(fits)) - np.maximum.accumulate(np.where(begins, np.arange(len(fits)), 0))
        bound = np.delete(bound, np.flatnonzero(fits & (since % 2 == 0)) + 1)
    return bound


def new_level() -> TreeLevel:
    """Return a level with a single unwritten node that holds every key."""
    nowhere = np.full(1, NOWHERE)
    return TreeLevel(np.full(1, FIRST), nowhere, nowhere, nowhere)


GROW_LEVEL: Final = Kernel("grow_level", "lllllnnnnLLIIIILLLLILLL")


class RecordWrites(NamedTuple):
    """Writes to one level of a tree, in time order; arrays of shape (n_writes,)."""

    record: I64  # index of the record in key order
    more: I64  # bytes added to its node: the whole size of a new record, the growth of an old one, or 0
    lost: I64  # bytes left unused in the node until it is split
    when: I64  # time on a clock shared by several trees
    batch: I64  # number of the transaction


class GrownLevel(NamedTuple):
    """A level of a tree with its nodes in key order."""

    node: I64  # node of each record, as an index
    born: I64  # time at which each node was split off
    seat: I64  # rank of each node among all nodes of the level in creation order
    # taken_by, taken_at: nodes that got a block (new nodes, and nodes at their first change in a transaction), and when
    taken_by: I64
    taken_at: I64
    taken_in: I64  # number of the transaction
    first: I64  # first record of each node


HALF_OF_RECORDS: Final = -1
"""Half of the records of a full node and the middle one stay."""
BALANCED: Final = -2
"""The first records of a full node move to the node before it until both hold the same amount; if they do not fit
there, to a new node in between. `RecordWrites.lost` is ignored."""


class SplitRule(NamedTuple):
    """When nodes are split, and where they are cut; the kernel takes the fields in this order."""

    capacity_bytes: int  # room for records
    # capacity that the remaining records of a full node fill, including the record that exceeds it; that record is
    # excluded if the next one comes before it. Or `HALF_OF_RECORDS` or `BALANCED`.
    room_bytes: int = HALF_OF_RECORDS
    less_per_record: int = 0  # bytes per moved record subtracted from this capacity, for its offset
    stays_at_cut: bool = False  # whether a record exactly at the cut stays


def grow_level(writes: RecordWrites, rule: SplitRule) -> GrownLevel:
    """Write records to a level of a tree sequentially, and split its nodes as its driver does.

    >>> at_end = RecordWrites(np.arange(8), np.full(8, 10), np.zeros(8, int), np.arange(8), np.zeros(8, int))
    >>> grow_level(at_end, SplitRule(40, stays_at_cut=True)).node.tolist()
    [0, 0, 1, 1, 2, 2, 2, 2]
    """
    num_records = int(writes.record.max(initial=-1)) + 1
    size = np.zeros(num_records, np.int64)
    size[writes.record[::-1]] = writes.more[::-1]
    # The numbers of nodes, and of records per node, for which the kernel gets room at first: nodes are almost never
    # less than a quarter full.
    written = int(writes.more.sum() + writes.lost.sum())
    most = min(4 * written // max(rule.capacity_bytes, 1), num_records) + 2
    width = max(rule.capacity_bytes // max(int(size.min(initial=rule.capacity_bytes)), 1), 1) + 1
    # Each node holds a record, so this many nodes always suffice.
    found = _run_growth(writes, rule, num_records, most, width)
    found = found or _run_growth(writes, rule, num_records, num_records + 2, width)
    if found is None:
        raise RefusedError("kernel grow_level: some records of a tree were never written, or have no size")
    return found


def _run_growth(writes: RecordWrites, rule: SplitRule, num_records: int, most: int, width: int) -> GrownLevel | None:
    """Grow a level in the kernel; return None if nodes, or records per node, exceed the allocated room."""
    size, node = np.empty((2, num_records), np.int64)
    held = np.empty(most * width, np.int32)
    count, first, order = np.empty((3, most), np.int32)
    load, lost, born, batch = np.empty((4, most), np.int64)
    num_takes = len(writes.record) + most
    by, (at, within) = np.empty(num_takes, np.int32), np.empty((2, num_takes), np.int64)
    num_taken = np.zeros(1, np.int64)
    nodes = held, count, first, order, load, lost, born, batch
    num_nodes = GROW_LEVEL.attempt(*writes, *rule, size, node, *nodes, by, at, within, num_taken)
    if num_nodes is None:
        return None
    taken = tuple(column[: num_taken[0]].astype(np.int64) for column in (by, at, within))
    return _order_level(node, (order[:num_nodes], first[:num_nodes], born[:num_nodes]), taken)


def _order_level(node: I64, nodes: tuple[ArrayLike, ArrayLike, ArrayLike], taken: tuple[I64, ...]) -> GrownLevel:
    """Sort a level into key order, given each record's node number and each node's first record and split time."""
    order, first, born = (np.asarray(column, np.int64) for column in nodes)
    by, at, batch = taken
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return GrownLevel(node, born[order], order, place[by], at, batch, np.maximum(first, 0))


def grow_tree(writes: RecordWrites, rules: tuple[SplitRule, SplitRule], index_bytes: I64) -> list[GrownLevel]:
    """Write records to a tree, and return its levels from the leaves up to the root."""
    leaf, index = rules
    levels = [grow_level(writes, leaf)]
    while len(levels[-1].born) > 1:
        below = levels[-1]
        index_bytes = index_bytes[below.first]
        order = np.argsort(below.seat)
        batch = np.zeros(len(order), np.int64)
        batch[below.taken_by[::-1]] = below.taken_in[::-1]
        none = np.zeros(len(order), np.int64)
        levels.append(grow_level(RecordWrites(order, index_bytes[order], none, below.born[order], batch[order]), index))
    return levels


MAX_BYTES: Final = 1 << 40


class NodeTouches(NamedTuple):
    """Nodes that change, once per transaction; arrays of shape (n,)."""

    node: I64  # indexes in the order of :meth:`AgingTree.join`
    turn: I64  # turns of the first changes

    def between(self, first: int, stop: int) -> NodeTouches:
        """Return the changes between two turns, with turns relative to the first of them."""
        mine = (self.turn >= first) & (self.turn < stop)
        return NodeTouches(self.node[mine], self.turn[mine] - first)


class Records(NamedTuple):
    """Records that are inserted or deleted; arrays of shape (n,)."""

    key: I64
    size: I64  # 0 for a record that is deleted
    turn: I64  # index of an operation in the cycle


class Edits(NamedTuple):
    """Changes of a cycle to records."""

    inserted: Records
    deleted: Records
    passing: Records  # records that are inserted and deleted again, one at a time


def apply_edits(tree: AgingTree, change: Edits, batch: I64) -> tuple[AgingTree, NodeTouches, I64]:
    """Apply edits to the records of a tree, and update its nodes.

    Return the tree, the written nodes, and the blocks of removed nodes.
    """
    if tree.leaf.balances:
        return _apply_in_turn(tree, change)
    inserted, deleted, passing = change
    tree, moved_key, moved_turn = _move_begins(tree, inserted.key, deleted)
    gone = np.searchsorted(tree.key, np.sort(deleted.key))
    key, size = np.delete(tree.key, gone), np.delete(tree.size, gone)
    order = np.argsort(inserted.key, kind="stable")
    place = np.searchsorted(key, inserted.key[order])
    key, size = np.insert(key, place, inserted.key[order]), np.insert(size, place, inserted.size[order])
    whole = tree.levels[0].bound
    # A temporary name is inserted before the cycle deletes from its leaf, or at the end: both states are tried.
    for state in ((tree.key, tree.size), (key, size)):
        whole = split_full(whole, *_add_passing_records(tree, passing, *state), tree.leaf)
    before = tree.levels[0]
    bound = drop_empty_nodes(whole, key, size, tree.leaf)
    keys = np.concatenate([inserted.key, deleted.key, passing.key, moved_key])
    turns = np.concatenate([inserted.turn, deleted.turn, passing.turn, moved_turn])
    births = _births(tree, change, bound, gone)
    levels, touches = [before.place_nodes(bound)], [_find_changed_nodes(before, bound, (keys, turns), batch, births)]
    freed = [before.freed_blocks(bound)]
    while len(levels[-1]) > 1:
        below = levels[-1].bound
        if len(levels) == len(tree.levels):
            tree = replace(tree, levels=(*tree.levels, new_level()))
        old, sizes = tree.levels[len(levels)], tree.index_sizes(below)
        bound = drop_empty_nodes(split_full(old.bound, below, sizes, tree.index), below, sizes, tree.index)
        node, turn = touches[-1]
        touches.append(_find_changed_nodes(old, bound, (below[node], turn), batch))
        levels.append(old.place_nodes(bound))
        freed.append(old.freed_blocks(bound))
    freed += [level.block for level in tree.levels[len(levels) :]]
    blocks = np.concatenate(freed)
    starts = np.cumsum([0] + [len(level) for level in levels[:-1]])
    node = np.concatenate([start + node for start, (node, _) in zip(starts, touches, strict=True)])
    turn = np.concatenate([turn for _, turn in touches])
    return replace(tree, key=key, size=size, levels=tuple(levels)), NodeTouches(node, turn), blocks[blocks != NOWHERE]


class BalancedNode:
    """A node of a level that is written record by record."""

    __slots__ = ("block", "ident", "keys", "load", "sizes", "turn", "xid")

    def __init__(self, keys: list[int], sizes: list[int], place: tuple[int, int, int], turn: int) -> None:
        self.keys, self.sizes, self.load = keys, sizes, sum(sizes)
        self.ident, self.block, self.xid = place
        self.turn = turn  # turn of its first change, `NOWHERE` before that


class BalancedLevel:
    """A level as written by Apple's driver: InsertNode, RotateLeft, SplitLeft, DeleteTree (BTreeTreeOps.c)."""

    def __init__(self, level: TreeLevel, key: I64, size: I64, capacity_bytes: int) -> None:
        edges = np.append(np.searchsorted(key, level.bound), len(key)).tolist()
        keys, sizes, pairs = key.tolist(), size.tolist(), pairwise(edges)
        places = zip(level.ident.tolist(), level.block.tolist(), level.xid.tolist(), strict=True)
        self.first: list[int] = level.bound.tolist()
        self.nodes = [
            BalancedNode(keys[start:stop], sizes[start:stop], place, NOWHERE)
            for (start, stop), place in zip(pairs, places, strict=True)
        ]
        self.capacity_bytes = capacity_bytes
        self.freed: list[int] = []
        # for the level above: turn, and first key of a node before and after; `NOWHERE` if there is none
        self.moves: list[tuple[int, int, int]] = []

    def insert(self, key: int, size: int, turn: int) -> None:
        """Insert a record."""
        at, node = self._find(key, turn)
        place = bisect_left(node.keys, key)
        node.keys.insert(place, key)
        node.sizes.insert(place, size)
        node.load += size
        if node.load > self.capacity_bytes:
            self._spread(at, turn)

    def delete(self, key: int, turn: int) -> None:
        """Delete a record, and its node if it was the last one; nodes are not merged."""
        at, node = self._find(key, turn)
        place = bisect_left(node.keys, key)
        del node.keys[place]
        node.load -= node.sizes.pop(place)
        if at and not node.keys:
            self.moves.append((turn, self.first.pop(at), NOWHERE))
            self.freed.append(self.nodes.pop(at).block)
        elif at and not place:
            self._begin(at, node.keys[0], turn)

    def rename(self, old: int, new: int, size: int, turn: int) -> None:
        """Change the key of an index record to its child's new first key; its position stays."""
        at, node = self._find(old, turn)
        place = bisect_left(node.keys, old)
        node.keys[place] = new
        node.load += size - node.sizes[place]
        node.sizes[place] = size
        if at and not place:
            self._begin(at, new, turn)
        if node.load > self.capacity_bytes:
            self._spread(at, turn)

    def _find(self, key: int, turn: int) -> tuple[int, BalancedNode]:
        """Find the node that holds a key, and its index, and mark it as written."""
        at = bisect_right(self.first, key) - 1
        self._touch(self.nodes[at], turn)
        return at, self.nodes[at]

    def _touch(self, node: BalancedNode, turn: int) -> None:
        if node.turn == NOWHERE:
            node.turn = turn

    def _begin(self, at: int, key: int, turn: int) -> None:
        """Change the first key of a node."""
        self.moves.append((turn, self.first[at], key))
        self.first[at] = key

    def _spread(self, at: int, turn: int) -> None:
        """Move records out of a node that is too full: to the node before it, else to a new node in between."""
        node = self.nodes[at]
        while node.load > self.capacity_bytes and len(node.keys) > 1:
            number, load = self._balance(self.nodes[at - 1].load, node) if at else (0, 0)
            if not at or node.load - load > self.capacity_bytes:
                number, load = self._balance(0, node)
                number, load = (number, load) if number else (1, node.sizes[0])
                self.nodes.insert(at, BalancedNode([], [], (NOWHERE,) * 3, turn))
                # The new node takes over the first key of the full one, which gets a new record in the level above.
                self.first.insert(at, self.first[at])
                at += 1
                self.moves.append((turn, NOWHERE, node.keys[number]))
                self.first[at] = node.keys[number]
            elif number:
                self._begin(at, node.keys[number], turn)
            left = self.nodes[at - 1]
            self._touch(left, turn)
            left.keys += node.keys[:number]
            left.sizes += node.sizes[:number]
            left.load += load
            del node.keys[:number], node.sizes[:number]
            node.load -= load

    def _balance(self, left: int, node: BalancedNode) -> tuple[int, int]:
        """Return how many records and bytes move to the previous node, which holds `left` bytes, to balance both."""
        number, load, size = 0, 0, 0
        while left + load < node.load - load:
            size = node.sizes[number]
            load += size
            number += 1
        if left + load > self.capacity_bytes:
            return number - 1, load - size
        return number, load

    def finish(self) -> tuple[TreeLevel, I64, I64, I64]:
        """Return the level, its keys, their sizes, and the turn of each node's first change, `NOWHERE` if none."""
        columns = [(node.ident, node.block, node.xid, node.turn) for node in self.nodes]
        ident, block, xid, turn = np.array(columns, np.int64).T
        key = np.array([key for node in self.nodes for key in node.keys], np.int64)
        size = np.array([size for node in self.nodes for size in node.sizes], np.int64)
        return TreeLevel(np.array(self.first, np.int64), ident, block, xid), key, size, turn


def _apply_in_turn(tree: AgingTree, change: Edits) -> tuple[AgingTree, NodeTouches, I64]:
    """Apply edits to the records of a tree sequentially, because the fill of nodes depends on their order.

    A temporary name is inserted first and deleted last: a file is renamed while it exists (cat_rename in Apple's
    driver).
    """
    inserted, deleted, passing = change
    # A record of no bytes is deleted.
    steps = (passing, deleted, inserted, passing._replace(size=np.zeros_like(passing.size)))
    key, size, turn = (np.concatenate(each) for each in zip(*steps, strict=True))
    order = np.argsort(turn, kind="stable")
    lowest = BalancedLevel(tree.levels[0], tree.key, tree.size, tree.leaf.capacity_bytes)
    for each, more, when in zip(*(column[order].tolist() for column in (key, size, turn)), strict=True):
        if more:
            lowest.insert(each, more, when)
        else:
            lowest.delete(each, when)
    level, key, size, turn = lowest.finish()
    levels, below, turns, freed = [level], lowest, [turn], list(lowest.freed)
    bound = tree.levels[0].bound
    while len(levels[-1]) > 1:
        old = tree.levels[len(levels)] if len(levels) < len(tree.levels) else new_level()
        above = BalancedLevel(old, bound, tree.index_sizes(bound), tree.index.capacity_bytes)
        begins = np.array([now for _, _, now in below.moves], np.int64)
        for (when, was, now), more in zip(below.moves, tree.index_sizes(begins).tolist(), strict=True):
            if now == NOWHERE:
                above.delete(was, when)
            elif was == NOWHERE:
                above.insert(now, more, when)
            else:
                above.rename(was, now, more, when)
        bound, below = old.bound, above
        level, _, _, turn = above.finish()
        levels.append(level)
        turns.append(turn)
        freed += above.freed
    freed += [block for level in tree.levels[len(levels) :] for block in level.block.tolist()]
    when = np.concatenate(turns)
    written = np.flatnonzero(when != NOWHERE)
    blocks = np.array([block for block in freed if block != NOWHERE], np.int64)
    return replace(tree, key=key, size=size, levels=tuple(levels)), NodeTouches(written, when[written]), blocks


def _move_begins(tree: AgingTree, inserted_key: I64, deleted: Records) -> tuple[AgingTree, I64, I64]:
    """Move the first keys of leaves whose first records are deleted, and of all nodes above them.

    Return the tree, the new first keys, and the turns in which they became the first.

    A record that is deleted and inserted again, such as the name of a replaced file, moves into the previous leaf if
    it was the first of its own.
    """
    bound = tree.levels[0].bound
    first = np.searchsorted(tree.key, bound)
    end = np.append(first[1:], len(tree.key))
    when = np.full(len(tree.key), NOWHERE)
    when[np.searchsorted(tree.key, deleted.key)] = deleted.turn
    back = is_among(tree.key, inserted_key)
    begins = np.flatnonzero((first < end) & (when[np.minimum(first, len(when) - 1)] >= 0)) if len(when) else first
    new, turns = bound.copy(), []
    for node in begins[begins > 0].tolist():
        at, latest = int(first[node]), -1
        # A record that returns while others precede it stays.
        while at < end[node] and when[at] >= 0 and not (back[at] and when[at] < latest):
            latest = max(latest, int(when[at]))
            at += 1
        if at < end[node]:
            new[node] = tree.key[at]
            turns.append((int(tree.key[at]), latest))
        elif node + 1 == len(bound) or tree.key[at - 1] + 1 < bound[node + 1]:
            # The leaf is empty: a returning record goes into the previous leaf.
            new[node] = tree.key[at - 1] + 1
    levels = []
    for level in tree.levels:
        # Nodes above that begin with a moved key begin with its new value, too.
        leaf, begins_leaf = match(bound, level.bound)
        levels.append(replace(level, bound=np.where(begins_leaf, new[leaf], level.bound)))
    moved = np.array(turns, np.int64).reshape(-1, 2)
    return replace(tree, levels=tuple(levels)), moved[:, 0], moved[:, 1]


def _add_passing_records(tree: AgingTree, passing: Records, key: I64, size: I64) -> tuple[I64, I64]:
    """Return the records plus the temporary ones, of which a leaf never holds more than one at a time."""
    _, first = np.unique(tree.leaf_of(passing.key), return_index=True)
    first = first[np.argsort(passing.key[first])]
    place = np.searchsorted(key, passing.key[first])
    return np.insert(key, place, passing.key[first]), np.insert(size, place, passing.size[first])


def _births(tree: AgingTree, change: Edits, bound: I64, gone: I64) -> I64:
    """Return the turn in which each new leaf was split off: when the leaf it came from became full."""
    old = tree.levels[0]
    source = old.node_of(bound)
    is_new = old.bound[source] != bound
    inserted, deleted, passing = change
    parts = (
        passing,
        (np.sort(deleted.key), -tree.size[gone], deleted.turn[np.argsort(deleted.key, kind="stable")]),
        inserted,
        (passing.key, -passing.size, passing.turn),
    )
    key, delta, turn = (np.concatenate(each) for each in zip(*parts, strict=True))
    step = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    node = old.node_of(key)
    mine = is_among(node, source[is_new])
    node, delta, turn, step = node[mine], delta[mine], turn[mine], step[mine]
    born = np.full(len(bound), NOWHERE)
    if not len(node):
        return born
    order = np.lexsort((step, turn, node))
    node, turn = node[order], turn[order]
    total = np.cumsum(delta[order])
    begins = np.flatnonzero(np.diff(node, prepend=-1))
    before = np.repeat(total[begins] - delta[order][begins], np.diff(begins, append=len(node)))
    load = total - before + tree.fill(0)[0][node]
    # One ascending array of the peak load of each node, node by node.
    most = np.maximum.accumulate(load + node * MAX_BYTES)
    rows = np.flatnonzero(is_new)
    number = np.arange(len(rows)) - np.searchsorted(source[rows], source[rows])
    full = tree.leaf.capacity_bytes + number * int(tree.leaf.keep_share * tree.leaf.capacity_bytes)
    at = np.searchsorted(most, source[rows] * MAX_BYTES + full, side="right")
    last = np.searchsorted(node, source[rows], side="right") - 1
    born[rows] = turn[np.maximum(np.minimum(at, last), 0)]
    return born


def _find_changed_nodes(
    old: TreeLevel, bound: I64, change: tuple[I64, I64], batch: I64, births: I64 | None = None
) -> tuple[I64, I64]:
    """Find the nodes that change, once per transaction, and the turn of each first change.

    These are nodes with changed keys, and new nodes. A new node changes when it was split off, if known, else at the
    first change of its own keys, or of the keys of the node it was split from.
    """
    key, turn = change
    node = np.searchsorted(bound, key, side="right") - 1
    new = np.flatnonzero(old.bound[old.node_of(bound)] != bound)
    if births is None:
        first = np.full(len(bound), len(batch))
        np.minimum.at(first, node, turn)
        source = np.full(len(old), len(batch))
        np.minimum.at(source, old.node_of(key), turn)
        split_at = np.minimum(source[old.node_of(bound[new])], len(batch) - 1)
        born = np.where(first[new] < len(batch), first[new], split_at)
    else:
        born = np.maximum(births[new], 0)
        # Before a leaf existed, its keys belonged to the leaf it was split from.
        kept = np.searchsorted(bound, old.bound[old.node_of(bound)])
        node = np.where(turn < births[node], np.minimum(kept[node], node), node)
    # The records of a new node were moved from the node before it.
    node, turn = np.concatenate([node, new, np.maximum(new - 1, 0)]), np.concatenate([turn, born, born])
    code = distinct(node * len(batch) + turn)
    node, turn = code // len(batch), code % len(batch)
    is_first = np.ones(len(code), bool)
    is_first[1:] = (node[1:] != node[:-1]) | (batch[turn[1:]] != batch[turn[:-1]])
    return node[is_first], turn[is_first]
