"""Arithmetic on runs of array positions: what loops over directories would do, without the loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def run_positions(start: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate ``arange(start[i], start[i] + count[i])`` of all runs.

    Examples
    --------
    >>> run_positions(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    shift = start - starts_of(count)
    return np.arange(int(count.sum()), dtype=np.int64) + np.repeat(shift, count)


def starts_of(count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exclusive cumulative sum: where each run starts when all are laid end to end."""
    return np.cumsum(count, dtype=np.int64) - count


def interleave(parts: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Tell where runs go that alternate: group 0 of every part in turn, then group 1 of every part.

    Parameters
    ----------
    parts : list of (n_groups,) int64 arrays
        Length of the run of each group, part by part.

    Returns
    -------
    list of int64 arrays
        For each part, the place of each of its elements in the merged sequence.

    Examples
    --------
    >>> [part.tolist() for part in interleave([np.array([1, 2]), np.array([2, 0])])]
    [[0, 3, 4], [1, 2]]
    """
    together = np.stack(parts, axis=1)
    start = starts_of(together.ravel()).reshape(together.shape)
    return [run_positions(start[:, i], together[:, i]) for i in range(len(parts))]


def first_places(sequence: NDArray[np.integer], size: int) -> NDArray[np.int64]:
    """Places where a value in ``0 … size - 1`` stands for the first time, in ascending order.

    Examples
    --------
    >>> first_places(np.array([3, 1, 3, 0, 1]), 4).tolist()
    [0, 1, 3]
    """
    first = np.full(size, -1, np.int64)
    first[sequence[::-1]] = np.arange(len(sequence) - 1, -1, -1, dtype=np.int64)
    is_first = np.zeros(len(sequence), bool)
    is_first[first[first >= 0]] = True
    return np.flatnonzero(is_first)
