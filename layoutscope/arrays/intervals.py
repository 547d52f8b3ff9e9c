"""Sets of blocks as sorted runs: (n, 2) int64 arrays of first block and length, disjoint and not touching.

Bitmaps of allocated blocks become runs here, too, many bitmaps at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.arrays.lookup import order_of
from layoutscope.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8

JOIN_RUNS: Final = Kernel("join_runs", "llL")
COMBINE_RUNS: Final = Kernel("combine_runs", "llnL")

ALL_SET: Final = 255
WORD_BYTES: Final = 8


def runs_of(start: NDArray[Any], length: NDArray[Any]) -> NDArray[np.int64]:
    """Make a set from runs in any order, which may overlap.

    >>> runs_of(np.array([5, 0, 6]), np.array([2, 3, 4])).tolist()
    [[0, 3], [5, 5]]
    """
    first, count = np.asarray(start, np.int64), np.asarray(length, np.int64)
    if (count <= 0).any():
        first, count = first[count > 0], count[count > 0]
    if not len(first):
        return np.empty((0, 2), np.int64)
    if (first[1:] < first[:-1]).any():
        order = order_of(first)
        first, count = first[order], count[order]
    runs = np.empty((len(first), 2), np.int64)
    found = JOIN_RUNS(np.ascontiguousarray(first), np.ascontiguousarray(count), runs)
    return plain_join(first, count) if found is None else _cut_off(runs, found)


def plain_join(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join runs that ascend by their first blocks; the twin of the kernel."""
    ends = np.maximum.accumulate(first + count)
    is_head = np.ones(len(first), bool)
    is_head[1:] = first[1:] > ends[:-1]
    heads = np.flatnonzero(is_head)
    tails = np.append(heads[1:], len(first)) - 1
    return np.stack([first[heads], ends[tails] - first[heads]], axis=1)


def _cut_off(runs: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the first runs; a copy where they would hold much memory that nobody uses."""
    return runs[:count] if 2 * count > len(runs) else runs[:count].copy()


def union(sets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Blocks that are in any of the sets."""
    distinct: list[NDArray[np.int64]] = []
    for runs in sets:
        if len(runs) and not any(np.array_equal(runs, other) for other in distinct):
            distinct.append(runs)
    if len(distinct) == 1 and is_set(distinct[0]):
        return distinct[0]
    table = np.concatenate([np.empty((0, 2), np.int64), *distinct])
    return runs_of(table[:, 0], table[:, 1])


def is_set(runs: NDArray[np.int64]) -> bool:
    """Tell whether runs are sorted, not empty, disjoint and apart, as a set's are."""
    return bool((runs[:, 1] > 0).all() and (runs[1:, 0] > runs[:-1].sum(axis=1)).all())


def total(runs: NDArray[np.int64]) -> int:
    """Return how many blocks a set holds."""
    return int(runs[:, 1].sum())


def subtract(runs: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """Blocks that are in the first set and not in the second.

    >>> subtract(np.array([[0, 10]]), np.array([[2, 3], [9, 4]])).tolist()
    [[0, 2], [5, 4]]
    """
    return _combine(runs, taken, 1) if len(taken) else runs


def intersect(runs: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Blocks that are in both sets.

    >>> intersect(np.array([[0, 10]]), np.array([[2, 3], [9, 4]])).tolist()
    [[2, 3], [9, 1]]
    """
    if len(runs) and len(other) == 1 and other[0, 0] <= runs[0, 0] and runs[-1].sum() <= other[0].sum():
        return runs
    return _combine(runs, other, 3)


def _combine(runs: NDArray[np.int64], other: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Keep the stretches whose membership (1 first, 2 second, 3 both) is the wanted one."""
    found = np.empty((len(runs) + len(other), 2), np.int64)
    count = COMBINE_RUNS(np.ascontiguousarray(runs), np.ascontiguousarray(other), wanted, found)
    return plain_combine(runs, other, wanted) if count is None else _cut_off(found, count)


def plain_combine(runs: NDArray[np.int64], other: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Sweep over all edges, of sets that need not be in order; the twin of the kernel."""
    edges = np.concatenate([runs[:, 0], runs.sum(axis=1), other[:, 0], other.sum(axis=1)])
    n, m = len(runs), len(other)
    steps = np.concatenate([np.full(n, 1), np.full(n, -1), np.full(m, 2), np.full(m, -2)])
    order = order_of(edges)
    edges, state = edges[order], np.cumsum(steps[order])
    if not len(edges):
        return np.empty((0, 2), np.int64)
    inside = state[:-1] == wanted
    return runs_of(edges[:-1][inside], np.diff(edges)[inside])


def clear_runs(bitmaps: U8, num_bits: I64, bit_order: Literal["big", "little"]) -> tuple[I64, I64, I64]:
    """Find runs of clear bits.

    >>> runs = clear_runs(np.array([[0b11110011, 0b01111111]], np.uint8), np.array([16]), "little")
    >>> [part.tolist() for part in runs]
    [[0, 0], [2, 15], [2, 1]]
    """
    # Formats differ in which bit of a byte is the first block: in TN1150 the highest, in Apple's reference the lowest.
    rows, width = bitmaps.shape
    # At least one set byte behind each row, so that every run has two edges within its row.
    num_words = width // WORD_BYTES + 1
    padded = np.full((rows, num_words * WORD_BYTES), ALL_SET, np.uint8)
    padded[:, :width] = bitmaps
    row, column, edges = _edges(padded.reshape(rows, num_words, WORD_BYTES), bit_order)
    word, bit = np.nonzero(np.unpackbits(edges, axis=1, bitorder=bit_order))
    place = column[word] * 8 * WORD_BYTES + bit
    owner, first, stop = row[word][::2], place[::2], place[1::2]
    stop = np.minimum(stop, num_bits[owner])
    keep = stop > first
    return owner[keep], first[keep], (stop - first)[keep]


def _edges(bitmaps: U8, bit_order: Literal["big", "little"]) -> tuple[I64, I64, U8]:
    """Rows and columns of words that hold bits other than the bit before, and their bytes with just these bits set.

    Most of a bitmap is all zeros or all ones: words that are so, and equal to the word before, have no edges. What lies
    before a row counts as set.
    """
    words = bitmaps.view(np.uint64)[..., 0]
    is_mixed = (words != 0) & (words != ~np.uint64(0))
    is_mixed[:, 0] |= words[:, 0] == 0
    is_mixed[:, 1:] |= words[:, 1:] != words[:, :-1]
    row, column = np.nonzero(is_mixed)
    found = bitmaps[row, column]
    before = np.empty_like(found)
    before[:, 1:] = found[:, :-1]
    before[:, 0] = np.where(column > 0, bitmaps[row, column - 1, -1], ALL_SET)
    one, seven = np.uint8(1), np.uint8(7)
    shifted = (found << one) | (before >> seven) if bit_order == "little" else (found >> one) | (before << seven)
    return row, column, found ^ shifted
