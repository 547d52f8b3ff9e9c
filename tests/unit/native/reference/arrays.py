"""Reference implementations of the array kernels in numpy: the oracles of their tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.structs.arrays import order_of, runs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def plain_join(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join runs that ascend by their first blocks; the twin of the kernel."""
    ends = np.maximum.accumulate(first + count)
    is_head = np.ones(len(first), bool)
    is_head[1:] = first[1:] > ends[:-1]
    heads = np.flatnonzero(is_head)
    tails = np.append(heads[1:], len(first)) - 1
    return np.stack([first[heads], ends[tails] - first[heads]], axis=1)


def plain_combine(runs: NDArray[np.int64], other: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Sweep over the edges of sets, which may be out of order; the twin of the kernel."""
    edges = np.concatenate([runs[:, 0], runs.sum(axis=1), other[:, 0], other.sum(axis=1)])
    n, m = len(runs), len(other)
    steps = np.concatenate([np.full(n, 1), np.full(n, -1), np.full(m, 2), np.full(m, -2)])
    order = order_of(edges)
    edges, state = edges[order], np.cumsum(steps[order])
    if not len(edges):
        return np.empty((0, 2), np.int64)
    inside = state[:-1] == wanted
    return runs_of(edges[:-1][inside], np.diff(edges)[inside])
