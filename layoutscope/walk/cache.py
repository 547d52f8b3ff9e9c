"""From touches to the nodes that are read: the path to each leaf, and the host's cache.

A search for a leaf reads the index nodes from the root down. Before each index node, and before the leaf, it reads the
nodes that map its address, from the root of their tree. If leaves are chained, a listing that continues in the next
leaf touches no index node.

Nodes that the mount has read are cached from the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from layoutscope.access.trace import CODE, Touches, touches
from layoutscope.structs.arrays import distinct
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.driver import Model

    I32 = NDArray[np.int32]
    I64 = NDArray[np.int64]
    U8 = NDArray[np.uint8]

READ_ONCE: Final = Kernel("read_once", "ibbiinnBBIBL")

NodeCache: TypeAlias = "tuple[I32, I32, U8, U8]"
"""An unlimited cache of nodes and its contents, in the form that the kernels take.

For each node, what must be read before it (-1 for nothing): its parent, and the node that maps its address. Then the
nodes that were touched (by a search, and from a neighbour), and the nodes that were read.
"""


def empty_cache(model: Model, size: int) -> NodeCache:
    """Return an empty cache; node numbers run from 0 to ``size - 1``."""
    parent, mapper = (np.ascontiguousarray(each, np.int32) for each in (model.nodes.parent, model.nodes.mapper))
    return parent, mapper, np.zeros(2 * size, np.uint8), np.zeros(size, np.uint8)


def read_lacking(cache: NodeCache, needed: Touches, model: Model) -> tuple[Touches, NDArray[np.int64]]:
    """Read what a cache lacks, as `read_once` does."""
    size = len(cache[-1])
    node, cause, touch = np.empty(size, np.int32), np.empty(size, np.uint8), np.empty(size, np.int64)
    parent, mapper, seen, state = cache
    count = READ_ONCE(
        np.ascontiguousarray(needed.node, np.int32), along_chain(needed, model).view(np.uint8),
        np.ascontiguousarray(needed.cause), parent, mapper,
        int(CODE["index"]), int(CODE[model.driver.locator_cause]), seen, state, node, cause, touch,
    )  # fmt: skip
    origin = touch[:count]
    return Touches(node[:count], cause[:count], needed.directory_id[origin], needed.host_us[origin]), origin


def read_once(touches: Touches, model: Model, size: int) -> tuple[Touches, NDArray[np.int64]]:
    """Reduce touches to what an unlimited cache reads that starts empty."""
    return read_lacking(empty_cache(model, size), touches, model)


def along_chain(touches: Touches, model: Model) -> NDArray[np.bool_]:
    """Return which leaves are reached through the previous leaf instead of a search."""
    chained: NDArray[np.bool_] = (touches.cause == CODE["next"]) & model.driver.leaves_are_chained
    return chained


def read_limited(
    touches: Touches,
    model: Model,
    known: NDArray[np.int32],
    room: int,
    # sizes of pieces, which are numbered after the nodes and cached as units; None if there are no pieces
    piece_bytes: NDArray[np.int64] | None = None,
) -> tuple[Touches, NDArray[np.int64]]:
    """Reduce touches to what a cache of limited size reads.

    Every search touches its whole path again, so index nodes stay cached. The least recently used node goes first.
    If the host's cache keeps a share, that share of the resulting misses is spared. The result is as that of
    :func:`read_once`.
    """
    cache = empty_limited_cache(model, len(known), piece_bytes)
    found, place = read_lacking_limited(cache, touches, model, known, room)
    left = ~select_spared(found.node, cache[2], room, model.host.cache_keeps)
    return found[left], place[left]


LimitedCache: TypeAlias = "tuple[I32, I32, I64, I32, I32, U8, I64]"
"""A limited cache of nodes and its contents, in the form that the kernels take.

What must be read before each node, as in `NodeCache`, and each node's size. The node that was used after each node and
the one before it, in a ring whose last element joins its ends. Which nodes are cached. The touch at which to continue,
counted from the first known node, and the number of bytes held.
"""


def empty_limited_cache(model: Model, num_known: int, piece_bytes: I64 | None = None) -> LimitedCache:
    """Return an empty limited cache."""
    nodes, others = model.nodes, np.empty(0, np.int64) if piece_bytes is None else piece_bytes
    none = np.full(len(others), -1, np.int32)
    size = np.maximum(np.concatenate([nodes.size_bytes, others]), 1)
    parent, mapper = (np.concatenate([each, none]) for each in (nodes.parent, nodes.mapper))
    return parent, mapper, size, *_empty_ring(len(size), num_known)


def _empty_ring(num_nodes: int, num_known: int) -> tuple[I32, I32, U8, I64]:
    newer, older = np.full((2, num_nodes + 1), num_nodes, np.int32)
    return newer, older, np.zeros(num_nodes, np.uint8), np.array([-num_known, 0], np.int64)


def read_lacking_limited(
    cache: LimitedCache, touches: Touches, model: Model, known: I32, room: int
) -> tuple[Touches, I64]:
    """Read what a limited cache lacks; it holds the known nodes from the start."""
    node, place, how = misses(touches.node, along_chain(touches, model), *cache[:3], known, room, cache[3:])
    mapped = CODE[model.driver.locator_cause]
    cause = np.choose(how, [touches.cause[place], CODE["index"], mapped]).astype(np.uint8)
    return Touches(node, cause, touches.directory_id[place], touches.host_us[place]), place


def list_mount_cached_nodes(model: Model) -> NDArray[np.int32]:
    """Return the nodes that are cached once the volume is mounted, including those on the paths to other nodes."""
    searched, read = model.driver.mounted(model.layout.facts, model.nodes, model.entries)
    searched = searched[searched >= 0]
    ids = np.zeros(len(searched), np.uint64)
    ways, _ = read_once(touches(searched, "inode", ids), model, len(model.nodes))
    return distinct(np.concatenate([ways.node, read])).astype(np.int32)


_ROOM: Final = 1 << 16
"""Rows that the kernel returns per call."""

LRU_MISSES: Final = Kernel("lru_misses", "ibiilinIIBLILB")


def misses(
    touched: I32,  # nodes in which searches end; -1 is skipped
    alone: NDArray[np.bool_],
    # parent, mapper, size_bytes: what is read before each node (-1 for nothing), and its size
    parent: I32,
    mapper: I32,
    size_bytes: I64,
    known: I32,
    cache_bytes: int,
    ring: tuple[I32, I32, U8, I64] | None = None,  # contents of the cache; empty if None
) -> tuple[I32, I64, U8]:
    """Return each node that is read, the touch it belongs to, and how (0 the target, 1 an index node, 2 a map)."""
    newer, older, cached, state = ring or _empty_ring(len(parent), len(known))
    trees = touched, alone.view(np.uint8), parent, mapper, size_bytes, known
    nodes, places, hows = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0, np.uint8)]
    while state[0] < len(touched):
        node, place, how = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.int64), np.empty(_ROOM, np.uint8)
        count = LRU_MISSES(*trees, cache_bytes, newer, older, cached, state, node, place, how)
        nodes.append(node[:count])
        places.append(place[:count])
        hows.append(how[:count])
    return np.concatenate(nodes), np.concatenate(places), np.concatenate(hows)


GOLDEN: Final = 0.6180339887498949
"""Steps of this fraction of an interval fill it evenly."""


def choose_evenly(count: int, share: NDArray[np.float64] | float) -> NDArray[np.bool_]:
    """Choose a share of the elements, spread evenly and always the same."""
    chosen: NDArray[np.bool_] = (np.arange(count) * GOLDEN) % 1 < share
    return chosen


ROUNDS: Final = 64
"""Iterations in which the spared share and the reads of the other nodes converge."""


def select_spared(
    node: I32,
    size_bytes: I64,
    cache_bytes: int,
    keeps: float,  # factor on that chance: 0 for a cache that evicts the least recently used
) -> NDArray[np.bool_]:
    """Return which misses would be hits in a cache that evicts at random.

    A node is still cached with the chance that no read since its own last read has replaced it:
    ``exp(-bytes / cache_bytes)``. Spared reads are not made, and nodes read into an empty cache replace none.

    >>> twice = np.tile(np.arange(1000, dtype=np.int32), 2)
    >>> size = np.full(1000, 4096)
    >>> [int(select_spared(twice, size, 4096 * room, 1.0).sum()) for room in (100, 500, 950)]
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
    is_spared[at] = choose_evenly(len(at), chance[at])
    return is_spared
