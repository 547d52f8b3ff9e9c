"""Reference for the kernel of a limited cache, in Python: the oracle of its tests."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.walk.cache import I32, I64, U8

_TARGET, _INDEX, _MAP = 0, 1, 2
"""How a node is read: as the target of a search, as an index node on the way, or to locate another node."""
_DEEPEST = 64
"""Longest path that is followed; longer ones are loops of a damaged volume."""


class Ways(NamedTuple):
    """Nodes that are read before each node, and its size: arrays of shape (n_nodes,)."""

    parent: I32
    mapper: I32
    size_bytes: I64


def plain_misses(
    touched: I32, alone: NDArray[np.bool_], ways: Ways, known: I32, cache_bytes: int
) -> tuple[I32, I64, U8]:
    """Return the reads; the twin of ``structs/source/lru.c``."""
    used: OrderedDict[int, None] = OrderedDict()  # cached nodes, in order of last use
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
    """Return the path to a node and how each node is read, last step first."""
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
    """Drop the least recently used nodes, but never the node in use; return the remaining bytes."""
    while held > cache_bytes and len(used) > 1:
        oldest, _ = used.popitem(last=False)
        held -= int(size_bytes[oldest])
    return held
