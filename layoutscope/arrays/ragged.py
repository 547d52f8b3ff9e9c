"""Ragged rows: what loops over lists of different lengths would do, without the loops.

`counts` says how many items each of n owners has; the items of all owners lie end to end. Equal neighbours in an array
are such owners too: :func:`heads` tells where each of their runs begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64


def starts_of(counts: NDArray[np.integer[Any]]) -> I64:
    """Where the items of each owner start, shape (n,): the sum of all counts before.

    >>> starts_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2]
    """
    starts = np.cumsum(counts, dtype=np.int64)
    starts -= counts
    return starts


def owners(counts: NDArray[np.integer[Any]]) -> I64:
    """Whose each item is, shape (sum of counts,).

    >>> owners(np.array([2, 0, 3])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def ordinals(counts: NDArray[np.integer[Any]]) -> I64:
    """Which of its owner's items each item is, shape (sum of counts,).

    >>> ordinals(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    found = np.arange(int(counts.sum()), dtype=np.int64)
    found -= np.repeat(starts_of(counts), counts)
    return found


def ranges(starts: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> I64:
    """Concatenate ``arange(starts[i], starts[i] + counts[i])`` of all owners.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    found = np.arange(int(counts.sum()), dtype=np.int64)
    found += np.repeat(starts - starts_of(counts), counts)
    return found


def heads(*keys: NDArray[Any]) -> I64:
    """Rows where one of the keys, (n,) arrays, differs from the row before; the first row is one.

    >>> heads(np.array([7, 7, 4, 4, 4])).tolist()
    [0, 2]
    >>> heads(np.array([7, 7, 4, 4, 4]), np.array([1, 1, 1, 2, 2])).tolist()
    [0, 2, 3]
    """
    return np.flatnonzero(is_head(*keys))


def is_head(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows that :func:`heads` names, shape (n,)."""
    marked = np.ones(len(keys[0]), np.bool_)
    if len(marked):
        marked[1:] = keys[0][1:] != keys[0][:-1]
        for key in keys[1:]:
            marked[1:] |= key[1:] != key[:-1]
    return marked


def lengths_of(starts: I64, total: int) -> I64:
    """How long runs are that begin at ascending `starts` and fill `total` rows, shape (n,).

    >>> lengths_of(np.array([0, 2]), 5).tolist()
    [2, 3]
    """
    return np.diff(starts, append=total)


def interleave(parts: Sequence[I64]) -> list[I64]:
    """Tell where runs go that alternate: group 0 of every part in turn, then group 1 of every part.

    >>> [part.tolist() for part in interleave([np.array([1, 2]), np.array([2, 0])])]
    [[0, 3, 4], [1, 2]]
    """
    together = np.stack(parts, axis=1)
    # Row by row, the array of lengths has the runs in the order in which they stand merged.
    start = starts_of(together.ravel()).reshape(together.shape)
    return [ranges(start[:, i], together[:, i]) for i in range(len(parts))]
