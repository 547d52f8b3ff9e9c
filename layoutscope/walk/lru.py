"""A cache of limited size over searches of trees, least recently used first out: in the native core, or in Python.

What a cache that drops in no such order would still have of what this one lacks is a share by chance.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.native import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I32 = NDArray[np.int32]
    I64 = NDArray[np.int64]
    U8 = NDArray[np.uint8]

_TARGET, _INDEX, _MAP = 0, 1, 2
"""How a node is read: as what a search ends in, as an index node on the way, or to tell where another lies."""
_DEEPEST = 64
"""Longest way that is followed; longer ones are loops of a damaged volume."""
_ROOM: Final = 1 << 16
"""Rows that the kernel answers at a time."""

LRU_MISSES: Final = Kernel("lru_misses", "ibiilinIIBLILB")


class Ways(NamedTuple):
    """What is read before each node, and its size: arrays of shape (n_nodes,)."""

    parent: I32
    mapper: I32
    size_bytes: I64


def misses(
    touched: I32,  # nodes that searches end in; -1 is passed over
    alone: NDArray[np.bool_],
    ways: Ways,
    known: I32,
    cache_bytes: int,
) -> tuple[I32, I64, U8]:
    """Return what is read: node, the touch it belongs to, and how (0 the target, 1 an index node, 2 a map)."""
    num_nodes = len(ways.parent)
    ring = np.full((2, num_nodes + 1), num_nodes, np.int32)
    cached = np.zeros(num_nodes, np.uint8)
    state = np.array([-len(known), 0], np.int64)
    trees = touched, alone.view(np.uint8), *ways, known
    nodes, places, hows = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0, np.uint8)]
    while state[0] < len(touched):
        node, place, how = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.int64), np.empty(_ROOM, np.uint8)
        count = LRU_MISSES(*trees, cache_bytes, ring[0], ring[1], cached, state, node, place, how)
        if count is None:
            return plain_misses(touched, alone, ways, known, cache_bytes)
        nodes.append(node[:count])
        places.append(place[:count])
        hows.append(how[:count])
    return np.concatenate(nodes), np.concatenate(places), np.concatenate(hows)


GOLDEN: Final = 0.6180339887498949
"""Steps of this share of a whole fill it evenly."""


def evenly(count: int, share: NDArray[np.float64] | float) -> NDArray[np.bool_]:
    """Choose a share of many, spread over all of them and always the same."""
    chosen: NDArray[np.bool_] = (np.arange(count) * GOLDEN) % 1 < share
    return chosen


ROUNDS: Final = 64
"""In which the share that is spared and what is read for the rest settle on one another."""


def spared(
    node: I32,
    size_bytes: I64,
    cache_bytes: int,
    keeps: float,  # how much of that chance counts: 0 for a cache that drops the least recently used
) -> NDArray[np.bool_]:
    """Tell which misses a cache has none of that drops what it holds at random.

    A node is still there with the chance that nothing that was read since its own last read took its place:
    ``exp(-bytes / cache_bytes)``. What is spared is not read, and what fills an empty cache takes no place of another.

    >>> twice = np.tile(np.arange(1000, dtype=np.int32), 2)
    >>> size = np.full(1000, 4096)
    >>> [int(spared(twice, size, 4096 * room, 1.0).sum()) for room in (100, 500, 950)]
    [1, 230, 914]
    """
    order = np.argsort(node, kind="stable")
    again = np.flatnonzero(node[order[1:]] == node[order[:-1]]) + 1
    at = order[again]
    in_order = np.argsort(at)
    at, before = at[in_order], order[again - 1][in_order]
    is_spared = np.zeros(len(node), bool)
    if not keeps or not cache_bytes or not len(at):
        return is_spared
    chance = np.zeros(len(node))
    for _ in range(ROUNDS):
        dropped = np.maximum(np.cumsum(size_bytes[node] * (1 - chance)) - cache_bytes, 0)
        chance[at] = keeps * np.exp(-(dropped[at - 1] - dropped[before]) / cache_bytes)
    is_spared[at] = evenly(len(at), chance[at])
    return is_spared


def plain_misses(
    touched: I32, alone: NDArray[np.bool_], ways: Ways, known: I32, cache_bytes: int
) -> tuple[I32, I64, U8]:
    """Return what is read; the twin of ``native/source/lru.c``."""
    used: OrderedDict[int, None] = OrderedDict()  # what is cached, in the order of its last use
    held = 0
    read: list[tuple[int, int, int]] = []
    for place in range(-len(known), len(touched)):
        target = int(known[place] if place < 0 else touched[place])
        way = [(target, _TARGET)] if place < 0 else _way(target, bool(alone[place]), ways)
        for node, how in reversed(way if target >= 0 else []):
            if node not in used:
                held += int(ways.size_bytes[node])
                if place >= 0:
                    read.append((node, place, how))
            used[node] = None
            used.move_to_end(node)
            held = _shrink(used, held, cache_bytes, ways.size_bytes)
    table = np.array(read, np.int64).reshape(-1, 3)
    return table[:, 0].astype(np.int32), table[:, 1].copy(), table[:, 2].astype(np.uint8)


def _way(node: int, alone: bool, ways: Ways) -> list[tuple[int, int]]:
    """Return the way to a node and how each is read, last step first."""
    way: list[tuple[int, int]] = []
    how = _TARGET
    while node >= 0 and len(way) < _DEEPEST:
        way.append((node, how))
        mapped = int(ways.mapper[node])
        while mapped >= 0 and len(way) < _DEEPEST:
            way.append((mapped, _MAP))
            mapped = int(ways.parent[mapped])
        if alone:
            break
        node, how = int(ways.parent[node]), _INDEX
    return way


def _shrink(used: OrderedDict[int, None], held: int, cache_bytes: int, size_bytes: I64) -> int:
    """Drop what was not used for longest, but never the node in use; returns the bytes that are left."""
    while held > cache_bytes and len(used) > 1:
        oldest, _ = used.popitem(last=False)
        held -= int(size_bytes[oldest])
    return held
