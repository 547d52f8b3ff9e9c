"""B-trees as arrays: which records each node holds, where full nodes are cut, which go.

A level is the ascending array of its nodes' first keys; a node holds the keys from its own to the next. Records are
keys and sizes, never objects.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.structs.arrays import distinct, is_among
from layoutscope.structs.native import Kernel, RefusedError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    I64 = NDArray[np.int64]

KIND_SHIFT: Final = 24
ID_SHIFT: Final = 28
MAX_PLACES: Final = (1 << KIND_SHIFT) - 1

NAME: Final = 9
"""Type of the records that a directory lists."""

TEMPORARY_LETTERS: Final = 5
"""A replacement is written as ``.NAME.tmp`` first."""


def key_of(number: I64, kind: int, place: I64 | int = 0) -> I64:
    """Return keys of records of one type."""
    return (number << ID_SHIFT) + (kind << KIND_SHIFT) + np.minimum(place, MAX_PLACES)


def record_kind_of(key: I64) -> I64:
    """Return the types of records by their keys."""
    return (key >> KIND_SHIFT) & ((1 << (ID_SHIFT - KIND_SHIFT)) - 1)


NOWHERE: Final = -1
"""Block of a node that was not written yet, and id of one that has none."""
FIRST: Final = -(1 << 62)
"""First key of the first node of every level: it holds whatever comes before the others."""


@dataclass(frozen=True)
class NodeRule:
    """How the nodes of a level fill."""

    capacity_bytes: int  # room for records
    keep_share: float = 0.5  # share of it that stays, left of a split
    # neighbours that fit together into this share of it are merged; 0 where only empty nodes go
    merge_share: float = 0.0
    less_per_record: int = 0  # bytes by which what stays in it is less for each record of the full node
    by_count: bool = False  # whether the share is one of the records, not of the room
    balances: bool = False  # as of `SplitRule`

    def keep_bytes(self, load: I64, count: I64) -> I64:
        """Return the bytes that full nodes of such loads and counts of records keep in a split."""
        per_full = np.rint(count * self.less_per_record * self.capacity_bytes / np.maximum(load, 1))
        stays: I64 = np.maximum(self.keep_share * self.capacity_bytes - per_full, 1).astype(np.int64)
        return stays


@dataclass(frozen=True)
class TreeLevel:
    """Nodes of one level in key order; arrays of shape (n_nodes,)."""

    bound: I64  # first keys
    ident: I64  # object ids or node numbers, `NOWHERE` for new ones
    block: I64  # their places, `NOWHERE` for new ones
    xid: I64  # transaction that wrote them

    def __len__(self) -> int:
        return len(self.bound)

    def place_nodes(self, bound: I64) -> TreeLevel:
        """Return the level with other nodes; those of a first key that was there stay what they were."""
        old = np.minimum(np.searchsorted(self.bound, bound), len(self) - 1)
        same = self.bound[old] == bound
        kept = [np.where(same, values[old], NOWHERE) for values in (self.ident, self.block, self.xid)]
        return TreeLevel(bound, *kept)

    def node_of(self, key: I64) -> I64:
        """Return the nodes that hold keys, as places in the level."""
        place: I64 = np.maximum(np.searchsorted(self.bound, key, side="right") - 1, 0)
        return place

    def find_gone(self, bound: I64) -> NDArray[np.bool_]:
        """Mark the nodes that a changed level has no more."""
        missing: NDArray[np.bool_] = ~is_among(self.bound, bound)
        return missing


@dataclass(frozen=True)
class AgingTree:
    """A tree."""

    # key, size: records in key order, and the bytes that each takes
    key: I64
    size: I64
    levels: tuple[TreeLevel, ...]  # from the leaves up to the root
    # leaf, index: how nodes fill
    leaf: NodeRule
    index: NodeRule
    # index_bytes, short_index_bytes: what a record of an index node takes, and one whose key has no name
    index_bytes: int
    short_index_bytes: int = 0

    @property
    def newest(self) -> int:
        """The last transaction that wrote one of its nodes."""
        return max(int(level.xid.max(initial=0)) for level in self.levels)

    def move_begins(self, now: I64) -> AgingTree:
        """Return the tree with leaves that begin at other keys, and the nodes above that begin with them."""
        levels, was = list(self.levels), self.levels[0].bound
        for place, level in enumerate(levels):
            same = np.minimum(np.searchsorted(was, level.bound), len(was) - 1)
            levels[place] = replace(level, bound=np.where(was[same] == level.bound, now[same], level.bound))
        return replace(self, levels=tuple(levels))

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

    def places_of(self, touched: NodeTouches) -> I64:
        """Return touched nodes as places among all nodes, in the order of :meth:`join`."""
        return np.cumsum([0] + [len(level) for level in self.levels])[touched.level] + touched.node

    def list_new_nodes(self, touched: NodeTouches) -> I64:
        """List the nodes without a number, in the order in which they are written first."""
        node = self.places_of(touched)[np.argsort(touched.turn, kind="stable")]
        new = node[self.join("ident")[node] == NOWHERE]
        found: I64 = new[np.sort(np.unique(new, return_index=True)[1])]
        return found

    def select_records(self, key: I64, turn: I64) -> tuple[I64, I64]:
        """Return those of some keys that the tree has, each once, with their turns."""
        there = is_among(key, self.key)
        own, first = np.unique(key[there], return_index=True)
        return own, turn[there][first]

    def leaf_of(self, key: I64) -> I64:
        """Return the leaves that hold keys, as places in the lowest level."""
        return self.levels[0].node_of(key)

    def index_sizes(self, key: I64) -> I64:
        """Return what the records of nodes take in those above them, by their first keys."""
        named = record_kind_of(key) == NAME
        return np.where(named | (self.short_index_bytes == 0), self.index_bytes, self.short_index_bytes)

    def fill(self, number: int) -> tuple[I64, I64]:
        """Return the bytes and the records that each node of a level holds."""
        bound = self.levels[number].bound
        key, size = self.key, self.size
        if number:
            key = self.levels[number - 1].bound
            size = self.index_sizes(key)
        return loads(bound, key, size), np.diff(np.searchsorted(key, bound), append=len(key))


def loads(
    bound: I64,  # first keys of the nodes, ascending
    key: I64,
    size: I64,
) -> I64:
    """Return the bytes that each node holds."""
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    loaded: I64 = total[np.append(first[1:], len(key))] - total[first]
    return loaded


def split_full(
    bound: I64,  # first keys of the nodes, ascending
    key: I64,
    size: I64,
    rule: NodeRule,
) -> I64:
    """Split the nodes whose records no longer fit in two, and return the first keys of all nodes.

    A node that is filled at its end splits again and again, and leaves nodes that hold `keep_share` of their
    room; one that is filled all over splits once. Both are cuts of the records in key order.

    >>> split_full(np.array([0]), np.arange(10), np.full(10, 10), NodeRule(40)).tolist()
    [0, 2, 4, 6]
    """
    load = loads(bound, key, size)
    full = np.flatnonzero(load > rule.capacity_bytes)
    if not len(full):
        return bound
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    piece = rule.keep_bytes(load[full], np.diff(first, append=len(key))[full])
    cuts = np.ceil((load[full] - rule.capacity_bytes) / piece).astype(np.int64)
    node = np.repeat(full, cuts)
    number = np.arange(len(node)) - np.repeat(np.cumsum(cuts) - cuts, cuts) + 1
    if rule.by_count:
        fit = np.diff(first, append=len(key))[full] * rule.capacity_bytes // load[full]
        cut = first[node] + number * np.repeat(np.maximum(np.ceil(fit * rule.keep_share), 1).astype(np.int64), cuts)
    else:
        target = total[first[node]] + number * np.repeat(piece, cuts)
        cut = np.searchsorted(total, target)
        # Where the last record that stays need not go beyond the share, it is left out when that is nearer.
        cut -= (rule.less_per_record == 0) & (total[cut] - target > target - total[np.maximum(cut - 1, 0)])
    return distinct(np.concatenate([bound, key[np.minimum(cut, len(key) - 1)]]))


def drop_empty_nodes(
    bound: I64,  # first keys of the nodes, ascending
    key: I64,
    size: I64,
    rule: NodeRule,
) -> I64:
    """Drop nodes that hold nothing, and merge neighbours where the rule says so; the first node stays.

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
    """Return a level of one node that holds every key, and was not written yet."""
    nowhere = np.full(1, NOWHERE)
    return TreeLevel(np.full(1, FIRST), nowhere, nowhere, nowhere)


GROW_LEVEL: Final = Kernel("grow_level", "lllllnnnnLLIIIILLLLILLL")


class RecordWrites(NamedTuple):
    """What is written to a level of a tree, in the order of time; arrays of shape (n_writes,)."""

    record: I64  # place of the record in key order
    more: I64  # bytes by which its node holds more then: all of a new record, what an old one grows by, or none
    lost: I64  # bytes that it leaves unused in the node, until that is split
    when: I64  # when, on a clock that several trees share
    batch: I64  # in which transaction


class GrownLevel(NamedTuple):
    """A level of a tree, its nodes in key order."""

    node: I64  # place of each record
    born: I64  # when each node was split off
    seat: I64  # the same as its place among all nodes of the level
    # taken_by, taken_at: nodes that got a block, new ones and those that a transaction changes first, and when
    taken_by: I64
    taken_at: I64
    taken_in: I64  # in which transaction
    first: I64  # the record at which each node begins


@dataclass(frozen=True)
class SplitRule:
    """When nodes are split, and where."""

    capacity_bytes: int  # room for records
    stays_at_cut: bool  # whether a record that comes to the very cut stays, too
    # of a full node the records stay that fill this room, with the one that goes beyond it; without that one, if the
    # next record comes before it. If not given, half of the records stay, and the one in the middle.
    room_bytes: int | None = None
    less_per_record: int = 0  # bytes by which the room is less for each record that goes, as its offset does
    # whether the first records of a full node go to the node before it, until that holds as much; if they do not fit
    # there, to a new node in between. What leaves room in pieces, and what stays at a split, does not count then.
    balances: bool = False

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """Arguments of the kernel: capacity, bytes that stay, less per record, whether a record at the cut stays."""
        room = BALANCED if self.balances else HALF_OF_RECORDS if self.room_bytes is None else self.room_bytes
        return self.capacity_bytes, room, self.less_per_record, int(self.stays_at_cut)


HALF_OF_RECORDS, BALANCED = -1, -2
"""In place of the bytes that stay."""


def grow_level(writes: RecordWrites, rule: SplitRule) -> GrownLevel:
    """Write records to a level of a tree, one after the other, and split its nodes as its driver does.

    >>> at_end = RecordWrites(np.arange(8), np.full(8, 10), np.zeros(8, int), np.arange(8), np.zeros(8, int))
    >>> grow_level(at_end, SplitRule(40, stays_at_cut=True)).node.tolist()
    [0, 0, 1, 1, 2, 2, 2, 2]
    """
    num_records = int(writes.record.max(initial=-1)) + 1
    most, width = _room(writes, rule, num_records)
    # Each node holds a record: there is always room for so many nodes.
    found = _run_growth(writes, rule, most, width) or _run_growth(writes, rule, num_records + 2, width)
    if found is None:
        raise RefusedError("kernel grow_level: some records of a tree were never written, or have no size")
    return found


def _run_growth(writes: RecordWrites, rule: SplitRule, most: int, width: int) -> GrownLevel | None:
    """Grow a level by the kernel; None if it needs more nodes, or more records in one, than there is room for."""
    num_records = int(writes.record.max(initial=-1)) + 1
    size, node = np.empty((2, num_records), np.int64)
    held = np.empty(most * width, np.int32)
    count, first, order = np.empty((3, most), np.int32)
    load, lost, born, batch = np.empty((4, most), np.int64)
    num_takes = len(writes.record) + most
    by, (at, within) = np.empty(num_takes, np.int32), np.empty((2, num_takes), np.int64)
    num_taken = np.zeros(1, np.int64)
    nodes = held, count, first, order, load, lost, born, batch
    num_nodes = GROW_LEVEL.attempt(*writes, *rule.numbers, size, node, *nodes, by, at, within, num_taken)
    if num_nodes is None:
        return None
    taken = tuple(column[: num_taken[0]].astype(np.int64) for column in (by, at, within))
    return _order_level(node, (order[:num_nodes], first[:num_nodes], born[:num_nodes]), taken)


def _room(writes: RecordWrites, rule: SplitRule, num_records: int) -> tuple[int, int]:
    """Return for how many nodes the kernel gets room at first, and for how many records in each.

    Nodes are as good as never less than a quarter full.
    """
    size = np.zeros(num_records, np.int64)
    size[writes.record[::-1]] = writes.more[::-1]
    written = int(writes.more.sum() + writes.lost.sum())
    most = min(4 * written // max(rule.capacity_bytes, 1), num_records) + 2
    return most, max(rule.capacity_bytes // max(int(size.min(initial=rule.capacity_bytes)), 1), 1) + 1


def _order_level(node: I64, nodes: tuple[ArrayLike, ArrayLike, ArrayLike], taken: tuple[I64, ...]) -> GrownLevel:
    """Bring a level into key order, from the number of each node, where it begins, and when it was split off."""
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


@dataclass(frozen=True)
class NodeTouches:
    """Nodes that change, once for each transaction; arrays of shape (n,): level, place in it, and when first."""

    level: I64
    node: I64
    turn: I64

    def between(self, first: int, stop: int) -> NodeTouches:
        """Return what changes from one turn to another, by turns from the first of them on."""
        mine = (self.turn >= first) & (self.turn < stop)
        return NodeTouches(self.level[mine], self.node[mine], self.turn[mine] - first)


@dataclass(frozen=True)
class Edits:
    """What a cycle does to records; turns are the places of the operations in it."""

    # key, size, turn: records that are inserted
    key: I64
    size: I64
    turn: I64
    # gone_key, gone_turn: records that are deleted
    gone_key: I64
    gone_turn: I64
    # passing_key, passing_size, passing_turn: records that are inserted and deleted again, one at a time
    passing_key: I64
    passing_size: I64
    passing_turn: I64


def apply_edits(tree: AgingTree, change: Edits, batch: I64) -> tuple[AgingTree, NodeTouches, I64]:
    """Edits the records of a tree, and its nodes with them.

    The tree, the nodes that were written, and the blocks of those that are gone.
    """
    if tree.leaf.balances:
        return _apply_in_turn(tree, change)
    tree, moved_key, moved_turn = _move_begins(tree, change)
    gone = np.searchsorted(tree.key, np.sort(change.gone_key))
    key, size = np.delete(tree.key, gone), np.delete(tree.size, gone)
    order = np.argsort(change.key, kind="stable")
    place = np.searchsorted(key, change.key[order])
    key, size = np.insert(key, place, change.key[order]), np.insert(size, place, change.size[order])
    whole = tree.levels[0].bound
    # A name that passes meets what its leaf held before the cycle deleted anything, or what it holds at the end.
    for state in ((tree.key, tree.size), (key, size)):
        whole = split_full(whole, *_add_passing_records(tree, change, *state), tree.leaf)
    before = tree.levels[0]
    bound = drop_empty_nodes(whole, key, size, tree.leaf)
    keys = np.concatenate([change.key, change.gone_key, change.passing_key, moved_key])
    turns = np.concatenate([change.turn, change.gone_turn, change.passing_turn, moved_turn])
    births = _births(tree, change, bound, gone)
    levels, touches = [before.place_nodes(bound)], [_find_changed_nodes(before, bound, (keys, turns), batch, births)]
    freed = [before.block[before.find_gone(bound)]]
    while len(levels[-1]) > 1:
        below = levels[-1].bound
        if len(levels) == len(tree.levels):
            tree = replace(tree, levels=(*tree.levels, new_level()))
        old, sizes = tree.levels[len(levels)], tree.index_sizes(below)
        bound = drop_empty_nodes(split_full(old.bound, below, sizes, tree.index), below, sizes, tree.index)
        node, turn = touches[-1]
        touches.append(_find_changed_nodes(old, bound, (below[node], turn), batch))
        levels.append(old.place_nodes(bound))
        freed.append(old.block[old.find_gone(bound)])
    freed += [level.block for level in tree.levels[len(levels) :]]
    blocks = np.concatenate(freed)
    node, turn = (np.concatenate(each) for each in zip(*touches, strict=True))
    level = np.repeat(np.arange(len(touches)), [len(item[0]) for item in touches])
    made = replace(tree, key=key, size=size, levels=tuple(levels))
    return made, NodeTouches(level, node, turn), blocks[blocks != NOWHERE]


class BalancedNode:
    """A node of a level that is written record by record."""

    __slots__ = ("block", "ident", "keys", "load", "sizes", "turn", "xid")

    def __init__(self, keys: list[int], sizes: list[int], place: tuple[int, int, int], turn: int) -> None:
        self.keys, self.sizes, self.load = keys, sizes, sum(sizes)
        self.ident, self.block, self.xid = place
        self.turn = turn  # when it is changed first, `NOWHERE` before


class BalancedLevel:
    """A level as Apple's driver writes it: InsertNode, RotateLeft, SplitLeft, DeleteTree (BTreeTreeOps.c)."""

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
        # for the level above: when, the first key of a node before and after, `NOWHERE` where there is none
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
        """Delete a record, and its node with the last one; nothing is merged."""
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
        """Give the record of a node the key at which that begins now; its place stays."""
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
        """Find the node of a key that is written, and its place."""
        at = bisect_right(self.first, key) - 1
        self._touch(self.nodes[at], turn)
        return at, self.nodes[at]

    def _touch(self, node: BalancedNode, turn: int) -> None:
        if node.turn == NOWHERE:
            node.turn = turn

    def _begin(self, at: int, key: int, turn: int) -> None:
        """Have a node begin at another key."""
        self.moves.append((turn, self.first[at], key))
        self.first[at] = key

    def _spread(self, at: int, turn: int) -> None:
        """Make room in a node that holds too much: in the node before it, else in a new one there."""
        node = self.nodes[at]
        while node.load > self.capacity_bytes and len(node.keys) > 1:
            number, load = self._balance(self.nodes[at - 1].load, node) if at else (0, 0)
            if not at or node.load - load > self.capacity_bytes:
                number, load = self._balance(0, node)
                number, load = (number, load) if number else (1, node.sizes[0])
                self.nodes.insert(at, BalancedNode([], [], (NOWHERE,) * 3, turn))
                # The new node begins where the full one did, which gets a record of its own above.
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
        """Return how many records go to a node before that holds so much, until both hold as much, and their bytes."""
        number, load, size = 0, 0, 0
        while left + load < node.load - load:
            size = node.sizes[number]
            load += size
            number += 1
        if left + load > self.capacity_bytes:
            return number - 1, load - size
        return number, load

    def finish(self) -> tuple[TreeLevel, I64, I64, I64]:
        """Return the level, its keys and their sizes, and when each node is changed first, `NOWHERE` if it is not."""
        columns = [(node.ident, node.block, node.xid, node.turn) for node in self.nodes]
        ident, block, xid, turn = np.array(columns, np.int64).T
        key = np.array([key for node in self.nodes for key in node.keys], np.int64)
        size = np.array([size for node in self.nodes for size in node.sizes], np.int64)
        return TreeLevel(np.array(self.first, np.int64), ident, block, xid), key, size, turn


def _apply_in_turn(tree: AgingTree, change: Edits) -> tuple[AgingTree, NodeTouches, I64]:
    """Edit the records of a tree one after the other: how full nodes get depends on their order.

    A name that passes is inserted first and deleted last: a file is renamed while that is there (cat_rename in Apple's
    driver).
    """
    gone, none = np.zeros(len(change.gone_key), np.int64), np.zeros(len(change.passing_key), np.int64)
    steps = (
        (change.passing_key, change.passing_size, change.passing_turn),
        (change.gone_key, gone, change.gone_turn),
        (change.key, change.size, change.turn),
        (change.passing_key, none, change.passing_turn),
    )
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
    level_of = np.repeat(np.arange(len(turns)), [len(each) for each in turns])
    node, when = np.concatenate([np.arange(len(each)) for each in turns]), np.concatenate(turns)
    written = when != NOWHERE
    blocks = np.array([block for block in freed if block != NOWHERE], np.int64)
    made = replace(tree, key=key, size=size, levels=tuple(levels))
    return made, NodeTouches(level_of[written], node[written], when[written]), blocks


def _move_begins(tree: AgingTree, change: Edits) -> tuple[AgingTree, I64, I64]:
    """Have leaves begin at what is left when their first records are deleted, and all nodes above with them.

    The tree, the first keys that such leaves hold still, and when they became the first.

    A record that is deleted and inserted again, as that of a name whose file is replaced, comes back into the leaf
    before, where it was the first of its own.
    """
    bound = tree.levels[0].bound
    first = np.searchsorted(tree.key, bound)
    end = np.append(first[1:], len(tree.key))
    when = np.full(len(tree.key), NOWHERE)
    when[np.searchsorted(tree.key, change.gone_key)] = change.gone_turn
    back = is_among(tree.key, change.key)
    begins = np.flatnonzero((first < end) & (when[np.minimum(first, len(when) - 1)] >= 0)) if len(when) else first
    new, turns = bound.copy(), []
    for node in begins[begins > 0].tolist():
        at, latest = int(first[node]), -1
        # One that comes back while others are before it stays.
        while at < end[node] and when[at] >= 0 and not (back[at] and when[at] < latest):
            latest = max(latest, int(when[at]))
            at += 1
        if at < end[node]:
            new[node] = tree.key[at]
            turns.append((int(tree.key[at]), latest))
        elif node + 1 == len(bound) or tree.key[at - 1] + 1 < bound[node + 1]:
            # Nothing is left: what comes back finds the leaf before.
            new[node] = tree.key[at - 1] + 1
    moved = np.array(turns, np.int64).reshape(-1, 2)
    return tree.move_begins(new), moved[:, 0], moved[:, 1]


def _add_passing_records(tree: AgingTree, change: Edits, key: I64, size: I64) -> tuple[I64, I64]:
    """Return records with those that pass; of these no leaf holds more than one at a time."""
    _, first = np.unique(tree.leaf_of(change.passing_key), return_index=True)
    first = first[np.argsort(change.passing_key[first])]
    place = np.searchsorted(key, change.passing_key[first])
    return np.insert(key, place, change.passing_key[first]), np.insert(size, place, change.passing_size[first])


def _births(tree: AgingTree, change: Edits, bound: I64, gone: I64) -> I64:
    """Return the turn in which each leaf that is new was split off: when the one it comes from was full."""
    old = tree.levels[0]
    source = old.node_of(bound)
    is_new = old.bound[source] != bound
    parts = (
        (change.passing_key, change.passing_size, change.passing_turn),
        (np.sort(change.gone_key), -tree.size[gone], change.gone_turn[np.argsort(change.gone_key, kind="stable")]),
        (change.key, change.size, change.turn),
        (change.passing_key, -change.passing_size, change.passing_turn),
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
    # One ascending array of what each node held at most, node by node.
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
    """Find the nodes that change, once for each transaction, and when first.

    Those that hold changed keys, and new ones: when they were split off, as far as that is known, else when the first
    of their own keys comes, or the first of those of the node that they were split from.
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
        # Before a leaf was there, its keys were those of the leaf that it comes from.
        kept = np.searchsorted(bound, old.bound[old.node_of(bound)])
        node = np.where(turn < births[node], np.minimum(kept[node], node), node)
    # What a new node holds was taken from the one before it.
    node, turn = np.concatenate([node, new, np.maximum(new - 1, 0)]), np.concatenate([turn, born, born])
    code = distinct(node * len(batch) + turn)
    node, turn = code // len(batch), code % len(batch)
    is_first = np.ones(len(code), bool)
    is_first[1:] = (node[1:] != node[:-1]) | (batch[turn[1:]] != batch[turn[:-1]])
    return node[is_first], turn[is_first]
