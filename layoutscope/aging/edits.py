"""What a cycle does to a tree: records come and go in one merge, nodes split and empty, and are written.

Both Linux drivers have a leaf begin at its first record: they say so in the nodes above when that is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.aging.trees import NOWHERE, new_level, split_full, without_empty

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.trees import AgingTree, TreeLevel

    I64 = NDArray[np.int64]

MOST_BYTES: Final = 1 << 40


@dataclass(frozen=True)
class NodeTouches:
    """Nodes that change, once for each transaction; arrays of shape (n,): level, place in it, and when first."""

    level: I64
    node: I64
    turn: I64


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


def edited(tree: AgingTree, change: Edits, batch: I64) -> tuple[AgingTree, NodeTouches, I64]:
    """Edits the records of a tree, and its nodes with them.

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
    births = _births(tree, change, bound, gone)
    levels, touches = [before.rebound(bound)], [_touched(before, bound, (keys, turns), batch, births)]
    freed = [before.block[before.gone(bound)]]
    while len(levels[-1]) > 1:
        below = levels[-1].bound
        old = tree.levels[len(levels)] if len(levels) < len(tree.levels) else new_level()
        sizes = tree.index_sizes(below)
        bound = without_empty(split_full(old.bound, below, sizes, tree.index), below, sizes, tree.index)
        node, turn = touches[-1]
        touches.append(_touched(old, bound, (below[node], turn), batch))
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
    mine = np.isin(node, source[is_new])
    node, delta, turn, step = node[mine], delta[mine], turn[mine], step[mine]
    born = np.full(len(bound), NOWHERE)
    if not len(node):
        return born
    order = np.lexsort((step, turn, node))
    node, turn = node[order], turn[order]
    total = np.cumsum(delta[order])
    begins = np.flatnonzero(np.diff(node, prepend=-1))
    before = np.repeat(total[begins] - delta[order][begins], np.diff(begins, append=len(node)))
    load = total - before + tree.loads()[node]
    # One ascending array of what each node held at most, node by node.
    most = np.maximum.accumulate(load + node * MOST_BYTES)
    rows = np.flatnonzero(is_new)
    number = np.arange(len(rows)) - np.searchsorted(source[rows], source[rows])
    full = tree.leaf.capacity_bytes + number * int(tree.leaf.keep_share * tree.leaf.capacity_bytes)
    at = np.searchsorted(most, source[rows] * MOST_BYTES + full, side="right")
    last = np.searchsorted(node, source[rows], side="right") - 1
    born[rows] = turn[np.maximum(np.minimum(at, last), 0)]
    return born


def _touched(
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
    node, turn = np.concatenate([node, new, new - 1]), np.concatenate([turn, born, born])
    code = np.unique(node * len(batch) + turn)
    node, turn = code // len(batch), code % len(batch)
    is_first = np.ones(len(code), bool)
    is_first[1:] = (node[1:] != node[:-1]) | (batch[turn[1:]] != batch[turn[:-1]])
    return node[is_first], turn[is_first]
