"""Small helpers over arrays that every part of the reader shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

U8: TypeAlias = NDArray[np.uint8]
I64: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = dict[str, NDArray[Any]]


def ragged(starts: I64, counts: I64) -> I64:
    """Concatenate the ranges ``starts[i], starts[i] + 1, … `` of ``counts[i]`` numbers each.

    Parameters
    ----------
    starts, counts : (n,) int64 arrays

    Returns
    -------
    (sum of counts,) int64 array
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers: I64 = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return numbers


def owners(counts: I64) -> I64:
    """Return, for each item, which of the owners with so many items each it belongs to."""
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def concatenate(parts: Sequence[Columns], empty: Columns) -> Columns:
    """Join batches of equal columns; `empty` says what no batch at all looks like."""
    if not parts:
        return empty
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def find_sorted(haystack: I64, needles: I64) -> I64:
    """Position of each needle in ascending numbers, -1 where it is missing; the first one where it repeats."""
    if not len(haystack):
        return np.full(len(needles), -1, np.int64)
    places = np.searchsorted(haystack, needles)
    found = haystack[np.minimum(places, len(haystack) - 1)] == needles
    return np.where(found, places, -1)


def find(haystack: I64, needles: I64) -> I64:
    """Position of each needle in numbers of any order, -1 where it is missing; the first one where it repeats."""
    if len(haystack) < 2 or bool((haystack[1:] >= haystack[:-1]).all()):
        return find_sorted(haystack, needles)
    order = np.argsort(haystack, kind="stable")
    places = find_sorted(haystack[order], needles)
    return np.where(places >= 0, order[places], -1)


def distinct(values: I64) -> I64:
    """Return the distinct values, ascending.

    Like ``np.unique``, whose import of masked arrays would cost more than its work.
    """
    ordered = np.sort(values)
    return ordered[heads(ordered)]


def heads(values: NDArray[Any]) -> I64:
    """Places where a value differs from the one before, the first place included."""
    if not len(values):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


LARGEST = 2**63 - 1


def signed(values: NDArray[Any]) -> I64:
    """Turn 64-bit sizes into signed ones; impossible ones become the largest."""
    if values.dtype != np.uint64:
        return values.astype(np.int64)
    clipped: I64 = np.minimum(values, np.uint64(LARGEST)).astype(np.int64)
    return clipped
