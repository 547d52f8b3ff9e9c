"""Numbers of files as places in small arrays: grouping and joining a million rows without hashing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SPARSENESS: Final = 8
"""Up to so many times as many numbers as rows, an array over all of them is smaller than a hash table."""


def dense_codes(*ids: NDArray[Any]) -> tuple[list[NDArray[np.int64]], int]:
    """Turn identifiers into numbers below a bound that is small.

    Parameters
    ----------
    *ids : uint64 arrays
        Identifiers; equal ones get equal numbers in all arrays.

    Returns
    -------
    list of int64 arrays
        In the shapes of `ids`.
    int
        The bound.
    """
    rows = sum(len(one) for one in ids)
    last = max((int(one.max()) for one in ids if len(one)), default=0)
    if last < MAX_SPARSENESS * rows + 1024:
        return [one.astype(np.int64) for one in ids], last + 1
    known, codes = np.unique(np.concatenate(ids), return_inverse=True)
    parts = np.split(codes.reshape(-1).astype(np.int64), np.cumsum([len(one) for one in ids])[:-1])
    return list(parts), len(known)


def first_of_each(codes: NDArray[np.int64], bound: int) -> NDArray[np.bool_]:
    """Mark the first row of each code, shape (n,)."""
    place = np.full(bound, -1, np.int64)
    backwards = np.arange(len(codes))[::-1]
    place[codes[backwards]] = backwards
    marked: NDArray[np.bool_] = place[codes] == np.arange(len(codes))
    return marked


def run_heads(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Rows where one of the keys differs from the row before, and the first."""
    is_head = np.ones(len(keys[0]), bool)
    is_head[1:] = False
    for key in keys:
        is_head[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(is_head)
