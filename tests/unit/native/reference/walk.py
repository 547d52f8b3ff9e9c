"""References for the kernels of both caches, in Python: the oracles of their tests."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.access.trace import CODE, Touches
from layoutscope.structs.arrays import first_places
from layoutscope.walk.cache import along_chain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.driver import Model
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


def plain_read_once(touches: Touches, model: Model, size: int) -> tuple[Touches, NDArray[np.int64]]:
    """Find what an unlimited cache reads that starts empty; the twin of ``structs/source/order.c``."""
    wanted = np.where(touches.node >= 0, touches.node + np.where(along_chain(touches, model), size, 0), 2 * size)
    place = first_places(wanted, 2 * size + 1)
    place = place[wanted[place] < 2 * size]
    reads, origin = _add_paths(touches[place], model, size)
    return reads, place[origin]


def _add_paths(touches: Touches, model: Model, size: int) -> tuple[Touches, NDArray[np.int64]]:
    """Insert before each node what must be read first; every node appears once."""
    parent = np.full(size, -1, np.int32)
    mapper = np.full(size, -1, np.int32)
    nodes = model.nodes
    parent[: len(nodes)], mapper[: len(nodes)] = nodes.parent, nodes.mapper
    origin = np.arange(len(touches))
    pending = np.ones(len(touches), bool)
    for _ in range(_DEEPEST):
        if not pending.any():
            break
        above = np.where(pending & ~along_chain(touches, model), parent[touches.node], -1)
        maps = np.where(pending, mapper[touches.node], -1)
        touches, source, pending = _insert_before(touches, above, maps, CODE[model.driver.locator_cause])
        origin = origin[source]
    return touches, origin


def _insert_before(
    touches: Touches,
    above: NDArray[np.int32],  # parent to read before each touch, -1 for none
    maps: NDArray[np.int32],  # mapper to read before each touch, -1 for none
    mapped: np.uint8,
) -> tuple[Touches, NDArray[np.int64], NDArray[np.bool_]]:
    """Insert parents and mappers before their nodes; also return the touch of each row, and which rows are new."""
    node = np.stack([above, maps, touches.node], axis=1).ravel()
    upward = np.where(touches.cause == mapped, mapped, CODE["index"])
    cause = np.stack([upward, np.full(len(touches), mapped), touches.cause], axis=1).ravel().astype(np.uint8)
    size = int(node.max(initial=0)) + 1
    place = first_places(np.where(node >= 0, node, size), size + 1)
    place = place[node[place] >= 0]
    source = place // 3
    result = Touches(node[place], cause[place], touches.directory_id[source], touches.host_us[source])
    return result, source, place % 3 < 2
