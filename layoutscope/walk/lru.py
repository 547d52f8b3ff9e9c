"""A cache of limited size over searches of trees. Compiled, and imported only where a limit is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I32 = NDArray[np.int32]
    I64 = NDArray[np.int64]
    U8 = NDArray[np.uint8]

_TARGET, _INDEX, _MAP = 0, 1, 2
"""How a node is read: as what a search ends in, as an index node on the way, or to tell where another lies."""
_DEEPEST = 64
"""Longest way that is followed; longer ones are loops of a damaged volume."""


def misses(
    touched: NDArray[np.int32],
    alone: NDArray[np.bool_],
    parent: NDArray[np.int32],
    mapper: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    known: NDArray[np.int32],
    cache_bytes: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]:
    """Return what is read: node, the touch it belongs to, and how (0 the target, 1 an index node, 2 a map).

    Parameters
    ----------
    touched : int32 array
        Nodes that searches end in; -1 is passed over.
    alone : bool array of the same shape
        Whether the node is reached from its neighbour, without a search.
    parent, mapper, size_bytes : arrays of shape (n_nodes,)
        What is read before each node, and its size.
    known : int32 array
        Nodes in the cache at the start.
    cache_bytes : int
        Size of the cache; the node that is being used always fits.
    """
    node, place, how = _run(touched, alone, parent, mapper, size_bytes, known, cache_bytes)
    return node, place, how


@njit(cache=True)
def _way(node: int, alone: bool, parent: I32, mapper: I32, stack_node: I32, stack_how: U8) -> int:  # pragma: no cover
    """Put the way to a node, last step first, into the stacks; returns its length."""
    n = 0
    current, how = node, _TARGET
    while current >= 0 and n < _DEEPEST:
        stack_node[n], stack_how[n] = current, how
        n += 1
        m = mapper[current]
        while m >= 0 and n < _DEEPEST:
            stack_node[n], stack_how[n] = m, _MAP
            n += 1
            m = parent[m]
        current, how = parent[current], _INDEX
        if alone:
            break
    return n


@njit(cache=True)
def _unlink(node: int, newer: I32, older: I32) -> None:  # pragma: no cover
    """Take a node out of the ring."""
    newer[older[node]], older[newer[node]] = newer[node], older[node]


@njit(cache=True)
def _link(node: int, newer: I32, older: I32) -> None:  # pragma: no cover
    """Put a node into the ring as the one used last; the ring's last element joins its ends."""
    end = len(newer) - 1
    last = older[end]
    newer[last], older[node] = node, last
    newer[node], older[end] = end, node


@njit(cache=True)
def _shrink(  # pragma: no cover
    held: int, cache_bytes: int, node: int, newer: I32, older: I32, cached: NDArray[np.bool_], size_bytes: I64
) -> int:
    """Drop what was not used for longest, but never the node in use; returns the bytes that are left."""
    end = len(newer) - 1
    while held > cache_bytes and newer[end] != node:
        victim = newer[end]
        _unlink(victim, newer, older)
        cached[victim] = False
        held -= size_bytes[victim]
    return held


@njit(cache=True)
def _run(  # one compiled loop
    touched: I32, alone: NDArray[np.bool_], parent: I32, mapper: I32, size_bytes: I64, known: I32, cache_bytes: int
) -> tuple[I32, I64, U8]:  # pragma: no cover
    newer = np.full(len(parent) + 1, len(parent), np.int32)
    older = np.full(len(parent) + 1, len(parent), np.int32)
    cached = np.zeros(len(parent), np.bool_)
    held = 0
    out_node, out_place, out_how = np.empty(1024, np.int32), np.empty(1024, np.int64), np.empty(1024, np.uint8)
    n_out = 0
    stack_node, stack_how = np.empty(_DEEPEST, np.int32), np.empty(_DEEPEST, np.uint8)
    for i in range(-len(known), len(touched)):
        target = known[i + len(known)] if i < 0 else touched[i]
        if target < 0:
            continue
        depth = 1
        stack_node[0], stack_how[0] = target, _TARGET
        if i >= 0:
            depth = _way(target, alone[i], parent, mapper, stack_node, stack_how)
        for step in range(depth - 1, -1, -1):
            node = stack_node[step]
            if cached[node]:
                _unlink(node, newer, older)
            else:
                cached[node] = True
                held += size_bytes[node]
                if i >= 0:
                    if n_out == len(out_node):
                        out_node = np.concatenate((out_node, np.empty(n_out, np.int32)))
                        out_place = np.concatenate((out_place, np.empty(n_out, np.int64)))
                        out_how = np.concatenate((out_how, np.empty(n_out, np.uint8)))
                    out_node[n_out], out_place[n_out], out_how[n_out] = node, i, stack_how[step]
                    n_out += 1
            _link(node, newer, older)
            held = _shrink(held, cache_bytes, node, newer, older, cached, size_bytes)
    return out_node[:n_out], out_place[:n_out], out_how[:n_out]
