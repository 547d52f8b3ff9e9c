"""B-trees as arrays: which records each node holds, what insertions split, what deletions empty.

A level is the ascending array of its nodes' first keys; a node holds the keys from its own to the next. Records are
keys and sizes, never objects, and a cycle's insertions are one merge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.aging.records import NAME, record_kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

NOWHERE: Final = -1
"""Block of a node that was not written yet, and id of one that has none."""
NO_NODES: Final = np.empty(0, np.int64)
FIRST: Final = -(1 << 62)
"""First key of the first node of every level: it holds whatever comes before the others."""


@dataclass(frozen=True)
class NodeRule:
    """How the nodes of a level fill.

    Attributes
    ----------
    capacity_bytes : int
        Room for records.
    keep_share : float
        Share of it that stays behind, left of a split.
    merge_share : float
        Neighbours that fit together into this share of it are merged; 0 where only empty nodes go.
    less_per_record : int
        Bytes by which what stays behind is less for each record of the full node.
    """

    capacity_bytes: int
    keep_share: float = 0.5
    merge_share: float = 0.0
    less_per_record: int = 0

    def kept(self, load: I64, count: I64) -> I64:
        """Return the bytes that full nodes of such loads and counts of records keep in a split."""
        per_full = np.rint(count * self.less_per_record * self.capacity_bytes / np.maximum(load, 1))
        stays: I64 = np.maximum(self.keep_share * self.capacity_bytes - per_full, 1).astype(np.int64)
        return stays


@dataclass(frozen=True)
class TreeLevel:
    """Nodes of one level in key order; arrays of shape (n_nodes,).

    Attributes
    ----------
    bound : int64 array
        First keys.
    ident : int64 array
        Object ids or node numbers, :data:`NOWHERE` for new ones.
    block : int64 array
        Where they lie, :data:`NOWHERE` for new ones.
    xid : int64 array
        Transaction that wrote them.
    """

    bound: I64
    ident: I64
    block: I64
    xid: I64

    def __len__(self) -> int:
        return len(self.bound)

    def rebound(self, bound: I64) -> TreeLevel:
        """Return the level with other nodes; those of a first key that was there stay what they were."""
        old = np.minimum(np.searchsorted(self.bound, bound), len(self) - 1)
        same = self.bound[old] == bound
        kept = [np.where(same, values[old], NOWHERE) for values in (self.ident, self.block, self.xid)]
        return TreeLevel(bound, *kept)

    def gone(self, bound: I64) -> NDArray[np.bool_]:
        """Mark the nodes that a changed level has no more."""
        missing: NDArray[np.bool_] = ~np.isin(self.bound, bound, assume_unique=True)
        return missing


@dataclass(frozen=True)
class NodeTouches:
    """Nodes that change, once for each transaction; arrays of shape (n,): level, place in it, and when first."""

    level: I64
    node: I64
    turn: I64


@dataclass(frozen=True)
class Edits:
    """What a cycle does to records; turns are the places of the operations in it.

    Attributes
    ----------
    key, size, turn : int64 arrays
        Records that are inserted.
    gone_key, gone_turn : int64 arrays
        Records that are deleted.
    passing_key, passing_size, passing_turn : int64 arrays
        Records that are inserted and deleted again, one at a time.
    """

    key: I64
    size: I64
    turn: I64
    gone_key: I64
    gone_turn: I64
    passing_key: I64
    passing_size: I64
    passing_turn: I64


@dataclass(frozen=True)
class AgingTree:
    """A tree.

    Attributes
    ----------
    key, size : int64 arrays
        Records in key order, and the bytes that each takes.
    levels : tuple of TreeLevel
        From the leaves up to the root.
    leaf, index : NodeRule
        How nodes fill.
    index_bytes, short_index_bytes : int
        What a record of an index node takes, and one whose key has no name.
    """

    key: I64
    size: I64
    levels: tuple[TreeLevel, ...]
    leaf: NodeRule
    index: NodeRule
    index_bytes: int
    short_index_bytes: int = 0

    @property
    def newest(self) -> int:
        """The last transaction that wrote one of its nodes."""
        return max(int(level.xid.max(initial=0)) for level in self.levels)

    def leaf_of(self, key: I64) -> I64:
        """Return the leaves that hold keys, as places in the lowest level."""
        return _node_of(self.levels[0].bound, key)

    def index_sizes(self, key: I64) -> I64:
        """Return what the records of nodes take in those above them, by their first keys."""
        named = record_kind_of(key) == NAME
        return np.where(named | (self.short_index_bytes == 0), self.index_bytes, self.short_index_bytes)

    def loads(self) -> I64:
        """Return the bytes that each leaf holds."""
        return loads(self.levels[0].bound, self.key, self.size)

    def counts(self) -> I64:
        """Return how many records each leaf holds."""
        return np.diff(np.searchsorted(self.key, self.levels[0].bound), append=len(self.key))


def loads(bound: I64, key: I64, size: I64) -> I64:
    """Return the bytes that each node holds.

    Parameters
    ----------
    bound : (n_nodes,) int64 array
        First keys of the nodes, ascending.
    key, size : (n_records,) int64 arrays
        Records in key order.
    """
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    loaded: I64 = total[np.append(first[1:], len(key))] - total[first]
    return loaded


def split_full(bound: I64, key: I64, size: I64, rule: NodeRule) -> I64:
    """Split the nodes whose records no longer fit, and return the first keys of all nodes.

    A node that is filled at its end splits again and again, and leaves nodes behind that hold `keep_share` of their
    room; one that is filled all over splits once. Both are cuts of the records in key order.

    Parameters
    ----------
    bound : (n_nodes,) int64 array
        First keys of the nodes, ascending.
    key, size : (n_records,) int64 arrays
        Records in key order.
    rule : NodeRule
        When and where nodes split.

    Examples
    --------
    >>> split_full(np.array([0]), np.arange(10), np.full(10, 10), NodeRule(40)).tolist()
    [0, 2, 4, 6]
    """
    load = loads(bound, key, size)
    full = np.flatnonzero(load > rule.capacity_bytes)
    if not len(full):
        return bound
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    piece = rule.kept(load[full], np.diff(first, append=len(key))[full])
    cuts = np.ceil((load[full] - rule.capacity_bytes) / piece).astype(np.int64)
    node = np.repeat(full, cuts)
    number = np.arange(len(node)) - np.repeat(np.cumsum(cuts) - cuts, cuts) + 1
    cut = np.searchsorted(total, total[first[node]] + number * np.repeat(piece, cuts))
    return np.union1d(bound, key[np.minimum(cut, len(key) - 1)])


def without_empty(bound: I64, key: I64, size: I64, rule: NodeRule) -> I64:
    """Drop nodes that hold nothing, and merge neighbours where the rule says so; the first node stays.

    Parameters
    ----------
    bound : (n_nodes,) int64 array
        First keys of the nodes, ascending.
    key, size : (n_records,) int64 arrays
        Records in key order.
    rule : NodeRule
        Which neighbours are merged.

    Examples
    --------
    >>> without_empty(np.array([0, 4, 8]), np.array([1, 9]), np.array([5, 5]), NodeRule(40)).tolist()
    [0, 8]
    >>> without_empty(np.array([0, 4, 8]), np.array([1, 5, 9]), np.full(3, 5), NodeRule(40, 0.5, 0.5)).tolist()
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


def edited(tree: AgingTree, change: Edits, batch: I64) -> tuple[AgingTree, NodeTouches, I64]:
    """Edits the records of a tree, and its nodes with them.

    Parameters
    ----------
    tree : AgingTree
        As it was.
    change : Edits
        What is done.
    batch : (n_turns,) int64 array
        Transaction of each turn.

    Returns
    -------
    AgingTree, NodeTouches, int64 array
        The tree, the nodes that were written, and the blocks of those that are gone.
    """
    tree, moved = _with_later_begins(tree, change)
    gone = np.searchsorted(tree.key, np.sort(change.gone_key))
    key, size = np.delete(tree.key, gone), np.delete(tree.size, gone)
    order = np.argsort(change.key, kind="stable")
    place = np.searchsorted(key, change.key[order])
    key, size = np.insert(key, place, change.key[order]), np.insert(size, place, change.size[order])
    before = tree.levels[0]
    whole = before.bound
    # A name that passes meets what its leaf held before the cycle deleted anything, or what it holds at the end.
    for state in ((tree.key, tree.size), (key, size)):
        whole = split_full(whole, *_with_passing(tree, change, *state), tree.leaf)
    bound = without_empty(whole, key, size, tree.leaf)
    keys = np.concatenate([change.key, change.gone_key, change.passing_key, moved.key])
    turns = np.concatenate([change.turn, change.gone_turn, change.passing_turn, moved.turn])
    levels, touches = [before.rebound(bound)], [_touched(before, bound, keys, turns, batch)]
    freed = [before.block[before.gone(bound)]]
    while len(levels[-1]) > 1:
        below = levels[-1].bound
        old = tree.levels[len(levels)] if len(levels) < len(tree.levels) else new_level()
        sizes = tree.index_sizes(below)
        bound = without_empty(split_full(old.bound, below, sizes, tree.index), below, sizes, tree.index)
        node, turn = touches[-1]
        touches.append(_touched(old, bound, below[node], turn, batch))
        levels.append(old.rebound(bound))
        freed.append(old.block[old.gone(bound)])
    freed += [level.block for level in tree.levels[len(levels) :]]
    blocks = np.concatenate(freed)
    node, turn = (np.concatenate(each) for each in zip(*touches, strict=True))
    level = np.repeat(np.arange(len(touches)), [len(item[0]) for item in touches])
    made = replace(tree, key=key, size=size, levels=tuple(levels))
    return made, NodeTouches(level, node, turn), blocks[blocks != NOWHERE]


class _Moved(NamedTuple):
    """Nodes that lost their first record: keys that they hold still, and when."""

    key: I64
    turn: I64


def _with_later_begins(tree: AgingTree, change: Edits) -> tuple[AgingTree, _Moved]:
    """Have leaves begin at what is left when their first records are deleted, and all nodes above with them.

    A record that is deleted and inserted again, as that of a name whose file is replaced, comes back into the leaf
    before, where it was the first of its own.
    """
    bound = tree.levels[0].bound
    first = np.searchsorted(tree.key, bound)
    end = np.append(first[1:], len(tree.key))
    when = np.full(len(tree.key), NOWHERE)
    when[np.searchsorted(tree.key, change.gone_key)] = change.gone_turn
    back = np.isin(tree.key, change.key)
    begins = np.flatnonzero((first < end) & (when[np.minimum(first, len(when) - 1)] >= 0)) if len(when) else NO_NODES
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
    levels, was, now = [], bound, new
    for level in tree.levels:
        place = np.minimum(np.searchsorted(was, level.bound), len(was) - 1)
        levels.append(replace(level, bound=np.where(was[place] == level.bound, now[place], level.bound)))
    return replace(tree, levels=tuple(levels)), _Moved(moved[:, 0], moved[:, 1])


def _with_passing(tree: AgingTree, change: Edits, key: I64, size: I64) -> tuple[I64, I64]:
    """Return records with those that pass; of these no leaf holds more than one at a time."""
    _, first = np.unique(tree.leaf_of(change.passing_key), return_index=True)
    first = first[np.argsort(change.passing_key[first])]
    place = np.searchsorted(key, change.passing_key[first])
    return np.insert(key, place, change.passing_key[first]), np.insert(size, place, change.passing_size[first])


def new_level() -> TreeLevel:
    """Return a level of one node that holds every key, and was not written yet."""
    nowhere = np.full(1, NOWHERE)
    return TreeLevel(np.full(1, FIRST), nowhere, nowhere, nowhere)


def _touched(old: TreeLevel, bound: I64, key: I64, turn: I64, batch: I64) -> tuple[I64, I64]:
    """Find the nodes that change, once for each transaction, and when first.

    Those that hold changed keys, and new ones: when the first of their own keys comes, or the first of those of the
    node that they were split from.
    """
    node = _node_of(bound, key)
    first = np.full(len(bound), len(batch))
    np.minimum.at(first, node, turn)
    source = np.full(len(old), len(batch))
    np.minimum.at(source, _node_of(old.bound, key), turn)
    new = np.flatnonzero(old.bound[_node_of(old.bound, bound)] != bound)
    split_at = np.minimum(source[_node_of(old.bound, bound[new])], len(batch) - 1)
    born = np.where(first[new] < len(batch), first[new], split_at)
    # What a new node holds was taken from the one before it.
    node, turn = np.concatenate([node, new, new - 1]), np.concatenate([turn, born, born])
    code = np.unique(node * len(batch) + turn)
    node, turn = code // len(batch), code % len(batch)
    is_first = np.ones(len(code), bool)
    is_first[1:] = (node[1:] != node[:-1]) | (batch[turn[1:]] != batch[turn[:-1]])
    return node[is_first], turn[is_first]


def _node_of(bound: I64, key: I64) -> I64:
    """Return the node that holds each key."""
    place: I64 = np.searchsorted(bound, key, side="right") - 1
    return place
